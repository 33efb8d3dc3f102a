"""Results that are no plain containers: named tuples, sizes, ordered dicts and dataclasses.

A trace gives back a new object each time, with the parts that it computed, and runs no code of the
class for it: `__new__`, `__init__` and `__post_init__` did what they do when the call was captured,
and what they read is followed as the function itself is.
"""

from collections import OrderedDict
from typing import Any

from tapegrad._types import Size

__all__ = ["Maker", "maker_of"]


class Maker:
    """Makes objects like one that a function returned.

    Args:
        kind: the class.
        keys: of a dict; its values are the first parts.
        names: of the attributes; their values are the parts after these.
    """

    def __init__(self, kind: type, keys: tuple[Any, ...] = (), names: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.keys = keys
        self.names = names

    def __repr__(self) -> str:
        return f"<maker of {self.kind} {id(self.kind)}, {self.keys!r}, {self.names!r}>"

    def __call__(self, *parts: Any) -> Any:
        if issubclass(self.kind, tuple):
            is_named = hasattr(self.kind, "_fields")
            return tuple.__new__(self.kind, parts) if is_named else self.kind(parts)
        made: Any
        if issubclass(self.kind, OrderedDict):
            made = OrderedDict.__new__(self.kind)
            for key, value in zip(self.keys, parts, strict=False):
                OrderedDict.__setitem__(made, key, value)
        else:
            made = object.__new__(self.kind)
        if self.names:
            made.__dict__.update(zip(self.names, parts[len(self.keys) :], strict=True))
        return made

    def parts_of(self, value: Any) -> list[Any]:
        """Return the parts of an object of this kind."""
        if issubclass(self.kind, tuple):
            return list(value)
        items = [OrderedDict.__getitem__(value, key) for key in self.keys]
        return items + [vars(value)[name] for name in self.names]


def maker_of(value: Any) -> Maker | None:
    """Return what makes objects like this one, or None if that is not known."""
    kind = type(value)
    if isinstance(value, tuple):
        is_sequence = hasattr(kind, "n_fields") or kind is Size
        is_known = hasattr(kind, "_fields") or is_sequence
        return Maker(kind) if is_known and kind.__dictoffset__ == 0 else None
    if kind is OrderedDict:
        return Maker(kind, tuple(value))
    fields = getattr(kind, "__dataclass_fields__", None)
    if fields is None or hasattr(kind, "__del__") or any(_slots(each) for each in kind.__mro__):
        return None
    names = tuple(getattr(value, "__dict__", ()))
    if not set(names) <= set(fields):
        return None
    if isinstance(value, OrderedDict):
        is_plain = kind.__new__ is OrderedDict.__new__
        return Maker(kind, tuple(OrderedDict.keys(value)), names) if is_plain else None
    return Maker(kind, (), names) if kind.__new__ is object.__new__ else None


def _slots(kind: type) -> Any:
    return vars(kind).get("__slots__")
