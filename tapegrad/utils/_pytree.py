"""Nested containers of values: tuples, named tuples, lists and dicts, flattened and built again."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Structure", "tree_flatten", "tree_map", "tree_unflatten"]


class Structure(NamedTuple):
    """The shape of a nested container. A leaf has no kind."""

    kind: Any
    keys: Any
    children: tuple["Structure", ...]

    @property
    def num_leaves(self) -> int:
        if self.kind is None:
            return 1
        return sum(child.num_leaves for child in self.children)


LEAF = Structure(None, None, ())


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _open(value: Any) -> tuple[Any, Any, list[Any]] | None:
    """Return (kind, keys, children) of a container, or None for a leaf."""
    if _is_namedtuple(value):
        return type(value), None, list(value)
    if type(value) in (tuple, list):
        return type(value), None, list(value)
    if type(value) in (dict, OrderedDict, defaultdict):
        return type(value), list(value), list(value.values())
    return None


def tree_flatten(tree: Any) -> tuple[list[Any], Structure]:
    """Return the leaves of a nested container, and its structure."""
    opened = _open(tree)
    if opened is None:
        return [tree], LEAF
    kind, keys, children = opened
    leaves: list[Any] = []
    structures = []
    for child in children:
        found, structure = tree_flatten(child)
        leaves += found
        structures.append(structure)
    return leaves, Structure(kind, keys, tuple(structures))


def tree_unflatten(leaves: list[Any], structure: Structure) -> Any:
    """Build a nested container from its leaves."""
    remaining = iter(leaves)

    def build(part: Structure) -> Any:
        if part.kind is None:
            return next(remaining)
        children = [build(child) for child in part.children]
        if part.keys is not None:
            items = zip(part.keys, children, strict=True)
            return dict(items) if part.kind is defaultdict else part.kind(items)
        if part.kind in (tuple, list):
            return part.kind(children)
        return part.kind(*children)

    return build(structure)


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to every leaf."""
    leaves, structure = tree_flatten(tree)
    return tree_unflatten([function(leaf) for leaf in leaves], structure)


def broadcast_prefix(prefix: Any, structure: Structure) -> list[Any] | None:
    """Spread a tree that may stop early over the leaves of a structure; None if it does not fit."""
    if structure.kind is None:
        return None if _open(prefix) is not None else [prefix]
    opened = _open(prefix)
    if opened is None:
        return [prefix] * structure.num_leaves
    kind, keys, children = opened
    if (
        kind is not structure.kind
        or keys != structure.keys
        or len(children) != len(structure.children)
    ):
        return None
    spread: list[Any] = []
    for child, part in zip(children, structure.children, strict=True):
        found = broadcast_prefix(child, part)
        if found is None:
            return None
        spread += found
    return spread
