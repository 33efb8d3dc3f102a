"""Lists and dicts of a node's arguments: to be replaced by others, not to be changed in place."""

from collections.abc import Callable, Iterable
from typing import Any

from tapegrad.utils._pytree import register_pytree_node

__all__ = ["immutable_dict", "immutable_list"]

_LIST_CHANGES = (
    *("append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"),
    *("__delitem__", "__iadd__", "__imul__", "__setitem__"),
)
_DICT_CHANGES = (
    *("clear", "pop", "popitem", "setdefault", "update"),
    *("__delitem__", "__ior__", "__setitem__"),
)


def _refuse(name: str) -> Callable[..., Any]:
    def change(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"'{type(self).__name__}' object does not support mutation. If you are attempting to "
            "modify the kwargs or args of a torch.fx.Node object, instead create a new copy of it "
            "and assign the copy to the node: node.args = new_args"
        )

    change.__name__ = name
    return change


class immutable_list(list):  # type: ignore[type-arg]
    """A list that refuses to be changed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return immutable_list, (tuple(self),)


class immutable_dict(dict):  # type: ignore[type-arg]
    """A dict that refuses to be changed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return immutable_dict, (tuple(self.items()),)


for _name in _LIST_CHANGES:
    setattr(immutable_list, _name, _refuse(_name))
for _name in _DICT_CHANGES:
    setattr(immutable_dict, _name, _refuse(_name))


def _flatten_dict(value: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(value.values()), list(value)


def _make_dict(values: Iterable[Any], keys: Any) -> immutable_dict:
    return immutable_dict(zip(keys, values, strict=True))


register_pytree_node(
    immutable_list, lambda value: (list(value), None), lambda values, _: immutable_list(values)
)
register_pytree_node(immutable_dict, _flatten_dict, _make_dict)
