"""What functions written in Python do with arguments that native ones give a second look.

See Note [A refused call gets a second look]: NumPy's names of arguments, and objects of other
classes that compute by themselves. A native function looks when it refuses a call; one in Python
would have begun to compute by then, so that it looks before.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from tapegrad import _C

__all__ = ["looks_again"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OWN_NAMES = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "a": "input",
    "x1": "input",
    "x2": "other",
}
# Classes of arguments that need no look.
_PLAIN = frozenset((_C.Tensor, int, float, bool, complex, str, type(None), _C.dtype))


def looks_again(function: _Function, name: str | None = None) -> _Function:
    """Have a function ask the classes of its arguments, and take NumPy's names for them.

    Args:
        function: the function.
        name: what it calls itself, if not by its own name; PyTorch's are ``linalg_eigh``.
    """
    from inspect import signature

    known = frozenset(signature(function).parameters)
    renames = {
        numpy: own for numpy, own in _OWN_NAMES.items() if own in known and numpy not in known
    }

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for arg in args:
            if type(arg) not in _PLAIN and _objects_in(arg):
                return _ask(call, args, kwargs)
        if kwargs:
            for arg in kwargs.values():
                if type(arg) not in _PLAIN and _objects_in(arg):
                    return _ask(call, args, kwargs)
            if not known.issuperset(kwargs):
                kwargs = {renames.get(key, key): value for key, value in kwargs.items()}
        return function(*args, **kwargs)

    if name is not None:
        call.__name__ = name
    return call  # type: ignore[return-value]


def _objects_in(arg: Any) -> list[Any]:
    """Return the objects that compute by themselves: an argument, or items of a list or tuple."""
    if type(arg) in (list, tuple):
        return [each for each in arg if _C._computes_itself(each)]
    return [arg] if _C._computes_itself(arg) else []


def _ask(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from tapegrad.overrides import handle_torch_function

    objects = [each for arg in (*args, *kwargs.values()) for each in _objects_in(arg)]
    return handle_torch_function(function, objects, *args, **kwargs)
