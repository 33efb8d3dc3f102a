"""Where in a model an error came from: the path of the module, its class, its sizes, what it got.

A call of a module passes its error through `locate`. The innermost module says what it is and what
it was given; each one around it puts the name of its part before, so that what a user reads is the
path from the module that was called. Nothing is done, or kept, while there is no error.
"""

from collections.abc import Mapping
from typing import Any

from tapegrad._C import Tensor

__all__ = ["LOCATED", "locate"]

# Of exactly these classes: others, such as OutOfMemoryError, are for programs to tell apart.
LOCATED = (RuntimeError, ValueError, IndexError, TypeError)


class _Place:
    """What an error carries while it passes through modules."""

    def __init__(self, error: Exception, module: Any, text: str) -> None:
        self.message = error.args[0]
        self.module = module
        self.path = ""
        self.text = text
        self.written = self.message


def locate(error: Exception, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Write into an error's message in which module it happened."""
    if type(error) not in LOCATED or len(error.args) != 1 or not isinstance(error.args[0], str):
        return
    place = getattr(error, "_tapegrad_place", None)
    if place is None or place.written != error.args[0]:
        got = ", ".join([*map(_shape, args), *(f"{k}={_shape(v)}" for k, v in kwargs.items())])
        place = _Place(error, module, f"{_declared(module)} got {got or 'no arguments'}")
        error._tapegrad_place = place  # type: ignore[attr-defined]
    elif place.module is not module:
        between = _path_of(place.module, module)
        if between is None:  # called, but no part of this one
            return
        place.path = f"{between}.{place.path}" if place.path else between
        place.module = module
    where = f"{place.path}: " if place.path else ""
    place.written = f"{place.message}\n  in {where}{place.text}"
    error.args = (place.written,)


def _path_of(part: Any, module: Any) -> str | None:
    return next((name for name, each in module.named_modules() if each is part), None)


def _declared(module: Any) -> str:
    """Return a module with its sizes, as repr() has them, but not with its parts."""
    extra = " ".join(module.extra_repr().split())
    return f"{module._get_name()}({extra})" if extra or not module._modules else module._get_name()


def _shape(value: Any) -> str:
    """Return what is to be said of an argument: shapes, and dtypes other than float32."""
    if isinstance(value, Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{list(value.shape)}{'' if dtype == 'float32' else f' {dtype}'}"
    if isinstance(value, (tuple, list)) and value and len(value) < 9:
        inside = ", ".join(map(_shape, value))
        return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    kind = type(value)
    own = kind.__module__ in ("builtins", "__main__")
    return kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"
