"""The structure of a nested container, without its leaves."""

import warnings
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tapegrad.utils._pytree_nodes import (
    BUILTIN_TYPES,
    STANDARD_DICT_TYPES,
    SUPPORTED_NODES,
    get_node_type,
)

__all__ = [
    "LEAF",
    "LeafSpec",
    "TreeSpec",
    "treespec_dict",
    "treespec_leaf",
    "treespec_pprint",
    "treespec_tuple",
]


class TreeSpec:
    """The structure of a nested container.

    Attributes:
        type: the class of the container, `namedtuple` for all named tuples, None for a leaf.
        context: what else is needed to build one: the keys of a dict, the class of a named tuple.
        num_leaves: how many leaves it has.
        num_nodes: how many containers and leaves.
        num_children: how many there are in the outermost container.
    """

    __slots__ = ("_children", "_num_leaves", "context", "type")

    def __init__(self, type: Any, context: Any, children_specs: list["TreeSpec"]) -> None:
        self.type = type
        self.context = context
        self._children = children_specs
        self._num_leaves = -1  # is counted when it is asked for

    @property
    def num_leaves(self) -> int:
        if self._num_leaves < 0:
            self._num_leaves = sum([child.num_leaves for child in self._children])
        return self._num_leaves

    @property
    def num_nodes(self) -> int:
        return 1 + sum([child.num_nodes for child in self._children])

    @property
    def num_children(self) -> int:
        return len(self._children)

    @property
    def keys(self) -> list[Any] | None:
        """The keys of a dict, or None for what is not one."""
        if self.type is defaultdict:
            return self.context[1]  # type: ignore[no-any-return]
        return self.context if self.type in STANDARD_DICT_TYPES else None

    @property
    def children_specs(self) -> list["TreeSpec"]:
        warnings.warn(
            "`treespec.children_specs` is deprecated. Use `treespec.child(index)` to access a "
            "single child, or `treespec.children()` to get all children.",
            FutureWarning,
            stacklevel=2,
        )
        return self._children

    def is_leaf(self) -> bool:
        """Return whether this is the structure of a leaf."""
        return self.type is None

    def children(self) -> list["TreeSpec"]:
        """Return the structures in the outermost container."""
        return list(self._children)

    def child(self, index: int) -> "TreeSpec":
        """Return one of them."""
        return self._children[index]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Build a container of this structure."""
        if not isinstance(leaves, list | tuple):
            leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec "
                f"refers to a pytree that holds {self.num_leaves} items ({self})."
            )
        return leaves[0] if self.type is None else self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        children = [
            next(leaves) if child.type is None else child._build(leaves) for child in self._children
        ]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return what stands in a tree where this structure has its leaves."""
        found: list[Any] = []
        self._flatten_up_to(tree, found)
        return found

    def _flatten_up_to(self, tree: Any, found: list[Any]) -> None:
        if self.is_leaf():
            found.append(tree)
            return
        for child, spec in zip(self.children_of(tree), self._children, strict=True):
            spec._flatten_up_to(child, found)

    def children_of(self, tree: Any) -> Any:
        """Return the children of a container that has to fit this structure."""
        kind = get_node_type(tree)
        both_dicts = self.type in STANDARD_DICT_TYPES and kind in STANDARD_DICT_TYPES
        if kind != self.type and not both_dicts:
            word = "Node type" if self.type in BUILTIN_TYPES else "Type"
            raise ValueError(f"{word} mismatch; expected {self.type!r}, but got {kind!r}.")
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(children) != self.num_children:
            raise ValueError(
                f"Node arity mismatch; expected {self.num_children}, but got {len(children)}."
            )
        if both_dicts:
            assert self.keys is not None
            if missing := set(self.keys).difference(tree):
                raise ValueError(
                    f"Node keys mismatch; missing key(s): {missing}; extra key(s): "
                    f"{set(tree).difference(self.keys)}."
                )
            return [tree[key] for key in self.keys]
        if self.type not in BUILTIN_TYPES and context != self.context:
            raise ValueError(f"Node context mismatch for custom node type {self.type!r}.")
        if kind is not deque and context != self.context:
            raise ValueError(
                f"Node context mismatch for node type {self.type!r}; expected {self.context!r}, "
                f"but got {context!r}."
            )
        return children

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return bool(
            self.type is other.type
            and self.context == other.context
            and self._children == other._children
        )

    def __hash__(self) -> int:
        context: Any = None
        if self.keys is not None:
            context = tuple(self.keys)
        elif self.type in BUILTIN_TYPES:
            context = self.context
        return hash((self.type, context, tuple(self._children)))

    def __repr__(self) -> str:
        return self._text(0)

    def _text(self, indent: int) -> str:
        if self.type is None:
            return "*"
        between = ",\n" + " " * (indent + 2)
        children = between.join(child._text(indent + 2) for child in self._children)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{children}])"


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        warnings.warn(
            "`isinstance(treespec, LeafSpec)` is deprecated, use "
            "`isinstance(treespec, TreeSpec) and treespec.is_leaf()` instead.",
            FutureWarning,
            stacklevel=2,
        )
        _make_leaf(self)

    def __reduce__(self) -> Any:
        return treespec_leaf, ()


def _make_leaf(spec: TreeSpec) -> None:
    TreeSpec.__init__(spec, None, None, [])
    spec._num_leaves = 1


LEAF: TreeSpec = LeafSpec.__new__(LeafSpec)
_make_leaf(LEAF)


def treespec_leaf() -> TreeSpec:
    """Return the structure of a leaf."""
    return LEAF


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """Return the structure of a tuple of some structures."""
    children = list(iterable)
    if any(not isinstance(child, TreeSpec) for child in children):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children!r}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (),
    /,
    **kwargs: TreeSpec,
) -> TreeSpec:
    """Return the structure of a dict of some structures."""
    children = dict(mapping, **kwargs)
    if any(not isinstance(child, TreeSpec) for child in children.values()):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {children!r}.")
    return TreeSpec(dict, list(children), list(children.values()))


class _Asterisk:
    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """Return a structure as Python writes the container, with stars for leaves."""
    return repr(treespec.unflatten([_Asterisk()] * treespec.num_leaves))
