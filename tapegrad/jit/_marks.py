"""Marks that programs put on functions and types for PyTorch's compiler, and what asks for them."""

import types
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

__all__ = [
    "Error",
    "Final",
    "Future",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "fuser",
    "ignore",
    "interface",
    "is_scripting",
    "isinstance",
    "onednn_fusion_enabled",
    "optimized_execution",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "unused",
    "wait",
]

_isinstance = isinstance


class Error(RuntimeError):
    """What scripted code raises in PyTorch; here functions raise their own errors."""


def is_scripting() -> bool:
    """Return False: functions run as the Python that they are."""
    return False


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a function that PyTorch's compiler is to leave as Python; it stays what it is.

    Args:
        drop: the function, or whether a call of it in a saved program is to be an error.
        kwargs: not used.
    """
    if callable(drop):
        return drop
    if not _isinstance(drop, bool):
        raise RuntimeError(
            f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}"
        )
    return lambda function: function


def unused(fn: Any) -> Any:
    """Mark a function that scripted code does not call; it stays what it is."""
    return fn


def export(fn: Any) -> Any:
    """Mark a method that is to be compiled with its module; it stays what it is."""
    return fn


def interface(obj: Any) -> Any:
    """Mark a class as an interface; it stays what it is."""
    return obj


def script_method(fn: Any) -> Any:
    """Mark a method of a `ScriptModule`; it stays what it is."""
    return fn


def script_if_tracing(fn: Any) -> Any:
    """Mark a function that is scripted while another is traced; it stays what it is."""
    return fn


def _overload(fn: Any) -> Any:
    """Mark a signature of a function; the definition that follows replaces it."""
    return fn


_overload_method = _overload
_script_if_tracing = script_if_tracing


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the value: its type matters to PyTorch's compiler only."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Return whether an object is of a type, also of one such as ``List[Tensor]``.

    Args:
        obj: the object.
        target_type: a type, a generic one, or a tuple of them.

    Example:
        >>> import typing
        >>> torch.jit.isinstance([torch.ones(1)], typing.List[torch.Tensor])
        True
        >>> torch.jit.isinstance([1], typing.List[torch.Tensor])
        False
    """
    if _isinstance(target_type, tuple):
        return any(isinstance(obj, each) for each in target_type)
    origin, inner = typing.get_origin(target_type), typing.get_args(target_type)
    if origin in (typing.Union, types.UnionType):
        return any(isinstance(obj, each) for each in inner)
    if target_type is None or target_type is type(None):
        return obj is None
    if target_type is Any:
        return True
    if origin is None:
        if target_type in (list, tuple, dict, typing.List, typing.Tuple, typing.Dict):  # noqa: UP006
            raise RuntimeError(
                f"Attempted to use {target_type} without a contained type. Please add a contained "
                "type, e.g. List[int]"
            )
        return _isinstance(obj, target_type)
    if not _isinstance(obj, origin):
        return False
    if origin is list:
        return all(isinstance(each, inner[0]) for each in obj)
    if origin is dict:
        return all(isinstance(k, inner[0]) and isinstance(v, inner[1]) for k, v in obj.items())
    if origin is tuple:
        if len(inner) == 2 and inner[1] is Ellipsis:
            return all(isinstance(each, inner[0]) for each in obj)
        return len(obj) == len(inner) and all(map(isinstance, obj, inner))
    return True


# ---- calls that PyTorch runs beside others


class Future:
    """The result of `fork`, which is there at once."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def wait(self) -> Any:
        """Return the result."""
        return self._value

    def value(self) -> Any:
        """Return the result."""
        return self._value

    def done(self) -> bool:
        """Return True."""
        return True

    def then(self, callback: Callable[["Future"], Any]) -> "Future":
        """Return the result of a function of this."""
        return Future(callback(self))


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Call a function, at once; the library's own threads share its work.

    Args:
        func: the function.
        args, kwargs: its arguments.
    """
    return Future(func(*args, **kwargs))


def wait(future: Future) -> Any:
    """Return the result of a `fork`."""
    return future.wait()


_fork, _wait = fork, wait


# ---- settings of PyTorch's compiler


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Do nothing: programs run as they were recorded."""
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """Do nothing but check the name: `compile` joins what it can by itself.

    Args:
        name: "fuser0" to "fuser3".
    """
    if name not in ("fuser0", "fuser1", "fuser2", "fuser3"):
        raise Exception(f"unrecognized fuser option (name: {name})")
    yield


class strict_fusion:
    """A block whose calls PyTorch joins; here it is just a block."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *args: Any) -> None:
        return None


def set_fusion_strategy(strategy: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Do nothing but check the strategy, and return an empty one."""
    for kind, _ in strategy:
        if kind not in ("STATIC", "DYNAMIC"):
            raise RuntimeError(f"FusionBehavior only supported 'STATIC' or 'DYNAMIC', got: {kind}")
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Do nothing: there is no such fusion."""


def onednn_fusion_enabled() -> bool:
    """Return False."""
    return False


def _unwrap_optional(x: Any) -> Any:
    assert x is not None, "Unwrapping null optional"
    return x
