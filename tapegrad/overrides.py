"""Objects of other classes that compute by themselves: `__torch_function__`.

A function that is called with such an object instead of a tensor calls the ``__torch_function__``
of its class with the function, the classes and the arguments, and returns what that returns.
Subclasses of `Tensor` are tensors here: functions compute with them as with others.
"""

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = [
    "TorchFunctionMode",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "wrap_torch_function",
]

has_torch_function_unary = _C._computes_itself


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether an argument is of a class that computes by itself.

    Args:
        relevant_args: the arguments that may be tensors.

    Example:
        >>> torch.overrides.has_torch_function((torch.ones(2), 3.0))
        False
    """
    return any(map(_C._computes_itself, relevant_args))


def has_torch_function_variadic(*args: Any) -> bool:
    """Return whether one of the arguments is of a class that computes by itself."""
    return any(map(_C._computes_itself, args))


def is_tensor_like(inp: Any) -> bool:
    """Return whether an object is a tensor or of a class that computes by itself.

    Args:
        inp: the object.

    Example:
        >>> torch.overrides.is_tensor_like(torch.ones(2)), torch.overrides.is_tensor_like([1.0])
        (True, False)
    """
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Compute a function by the classes of its arguments.

    Args:
        public_api: the function.
        relevant_args: the arguments that may be tensors. Each class among them is asked once,
            subclasses before the classes that they come from, others in the order of arguments.
        *args, **kwargs: what the function is called with.

    Raises:
        TypeError: if all classes return `NotImplemented`.
    """
    asked: list[Any] = []
    for arg in filter(_C._computes_itself, relevant_args):
        if not any(type(arg) is type(other) for other in asked):
            place = (i for i, other in enumerate(asked) if issubclass(type(arg), type(other)))
            asked.insert(next(place, len(asked)), arg)
    types = tuple(map(type, asked))
    for arg in asked:
        result = arg.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = getattr(public_api, "__name__", repr(public_api))
    raise TypeError(
        f"no implementation found for '{name}' on types that implement __torch_function__: "
        f"{list(types)}"
    )


def wrap_torch_function(
    dispatcher: Callable[..., Iterable[Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Have a function of one's own ask the classes of its arguments first.

    Args:
        dispatcher: takes the arguments and returns those that may be tensors.

    Example:
        >>> @torch.overrides.wrap_torch_function(lambda x: (x,))
        ... def twice(x):
        ...     return 2 * x
        >>> twice(torch.tensor(3.0))
        tensor(6.)
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        from functools import wraps

        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


class TorchFunctionMode:
    """A base class of modes that see every function: to be subclassed, refused where one begins."""

    def __enter__(self) -> NoReturn:
        raise NotImplementedError(
            f"{type(self).__name__}: modes that see every function are not supported; "
            "tapegrad.tape.record and tapegrad.profiler tell which ops run"
        )

    def __exit__(self, *error: object) -> None:
        """Do nothing: no mode ever begins."""
