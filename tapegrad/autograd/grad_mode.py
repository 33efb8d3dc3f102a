"""Switches for recording: whether an operation leaves an entry on the tape.

The switch itself is one thread-local flag in the native core; each class here sets it for the
length of a `with` block, of a function call, or of each step of a generator.
"""

import functools
from collections.abc import Callable, Generator
from typing import Any, TypeVar, cast, overload

from tapegrad import _C

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

_Mode = TypeVar("_Mode")
_Function = TypeVar("_Function", bound=Callable[..., Any])


class _GradMode:
    """A context manager that doubles as a decorator.

    A decorated function enters a fresh copy on every call, so that recursion and threads never
    share the saved state of one instance.
    """

    _previous: bool

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *exception: object) -> None:
        _C.set_grad_enabled(self._previous)

    def _copy(self) -> "_GradMode":
        return type(self)()

    def __call__(self, function: _Function) -> _Function:
        import inspect  # Slow to load, and many programs decorate nothing.

        copy = self._copy
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
                return _step_under(copy, function(*args, **kwargs))

            return cast(_Function, generate)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with copy():
                return function(*args, **kwargs)

        return cast(_Function, call)


def _step_under(
    mode: Callable[[], _GradMode], generator: Generator[Any, Any, Any]
) -> Generator[Any, Any, Any]:
    """Run a generator so that the mode holds inside its body and not while it is suspended."""
    try:
        with mode():
            item = next(generator)
        while True:
            try:
                sent = yield item
            except GeneratorExit:
                with mode():
                    generator.close()
                raise
            except BaseException as error:
                with mode():
                    item = generator.throw(error)
            else:
                with mode():
                    item = generator.send(sent)
    except StopIteration as stop:
        return stop.value


class _FixedGradMode(_GradMode):
    """A mode without arguments, which therefore also decorates without parentheses."""

    _enabled: bool

    @overload
    def __new__(cls: type[_Mode]) -> _Mode: ...

    @overload
    def __new__(cls, orig_func: _Function) -> _Function: ...  # type: ignore[misc]

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        if orig_func is None:
            return super().__new__(cls)
        if not callable(orig_func):
            raise TypeError(
                f"{cls.__name__}: expected no argument or a function to decorate, "
                f"got {type(orig_func).__name__}"
            )
        return cls()(orig_func)

    def __enter__(self) -> None:
        self._previous = _C.is_grad_enabled()
        _C.set_grad_enabled(self._enabled)


class no_grad(_FixedGradMode):
    """Stop recording: results do not require grad, whatever their inputs say.

    Use it as a context manager or as a decorator, with or without parentheses. It affects the
    calling thread only.

    Example:
        >>> x = torch.tensor([1.0], requires_grad=True)
        >>> with torch.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
        >>> @torch.no_grad()
        ... def double(x):
        ...     return x * 2
        >>> double(x).requires_grad
        False
    """

    _enabled = False


class enable_grad(_FixedGradMode):
    """Record again inside a `no_grad` or a ``set_grad_enabled(False)`` block.

    Example:
        >>> x = torch.tensor([1.0], requires_grad=True)
        >>> with torch.no_grad():
        ...     with torch.enable_grad():
        ...         y = x * 2
        >>> y.requires_grad
        True
    """

    _enabled = True


class set_grad_enabled(_GradMode):
    """Switch recording on or off: at once as a plain call, for a block, or for a function.

    Args:
        mode: True records, False does not.

    Example:
        >>> x = torch.tensor([1.0], requires_grad=True)
        >>> with torch.set_grad_enabled(False):
        ...     y = x * 2
        >>> y.requires_grad
        False
        >>> _ = torch.set_grad_enabled(False)
        >>> (x * 2).requires_grad
        False
        >>> _ = torch.set_grad_enabled(True)
    """

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled: expected a bool, got {type(mode).__name__}")
        self._previous = _C.is_grad_enabled()
        self.mode = mode
        _C.set_grad_enabled(mode)

    def __enter__(self) -> None:
        _C.set_grad_enabled(self.mode)

    def _copy(self) -> "set_grad_enabled":
        return type(self)(self.mode)

    def __call__(self, function: _Function) -> _Function:
        # As a decorator it must not leave behind the switch that its construction made.
        _C.set_grad_enabled(self._previous)
        return super().__call__(function)


class inference_mode(_GradMode):
    """Run without recording, in code whose results never meet the tape again.

    Tensors made inside cannot be saved for backward or written in place outside; use a
    ``.clone()`` of them there.

    Args:
        mode: True enters inference mode; False leaves it for the length of the block, with
            recording on.

    Example:
        >>> x = torch.tensor([1.0], requires_grad=True)
        >>> @torch.inference_mode()
        ... def predict(x):
        ...     return x * 2
        >>> predict(x).requires_grad
        False
    """

    @overload
    def __new__(cls: type[_Mode], mode: bool = True) -> _Mode: ...

    @overload
    def __new__(cls, mode: _Function) -> _Function: ...  # type: ignore[misc]

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return super().__new__(cls)
        if not callable(mode):
            raise TypeError(
                "inference_mode: expected a bool or a function to decorate, "
                f"got {type(mode).__name__}"
            )
        return cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        self._previous = _C.is_grad_enabled()
        self._previous_inference = _C._set_inference(self.mode)
        _C.set_grad_enabled(not self.mode)

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        _C._set_inference(self._previous_inference)

    def _copy(self) -> "inference_mode":
        return type(self)(self.mode)


def is_inference_mode_enabled() -> bool:
    """Return whether the calling thread is inside an `inference_mode` block.

    Returns:
        True inside the block, False outside.

    Example:
        >>> with torch.inference_mode():
        ...     torch.is_inference_mode_enabled()
        True
    """
    return _C._is_inference()


_multithreading = True


class set_multithreading_enabled(_GradMode):
    """Keep whether a backward may use a thread for each device; in a block, or from the call on.

    A backward runs on the thread that asked for it, whatever the choice, so that nothing follows
    from it.

    Args:
        mode: whether it may.

    Example:
        >>> with torch.autograd.set_multithreading_enabled(False):
        ...     (torch.ones(1, requires_grad=True) * 2).backward()
    """

    def __init__(self, mode: bool) -> None:
        global _multithreading
        self.prev, _multithreading = _multithreading, mode
        self.mode = mode

    def __enter__(self) -> None: ...

    def __exit__(self, *exception: object) -> None:
        global _multithreading
        _multithreading = self.prev

    def clone(self) -> "set_multithreading_enabled":
        """Return another one of the same mode."""
        return type(self)(self.mode)

    _copy = clone
