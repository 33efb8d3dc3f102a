"""Nested containers of values, flattened and built again, as PyTorch's ``torch.utils._pytree``.

Containers are tuples, named tuples, lists, dicts, `OrderedDict`, `defaultdict` and `deque`, and the
classes that a program registers with `register_pytree_node`; everything else is a leaf. PyTorch's
name has an underscore, and yet other packages register their classes of results there, so that the
names are PyTorch's. Classes of containers are in `_pytree_nodes.py`, structures in
`_pytree_spec.py`.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from types import UnionType
from typing import Any

from tapegrad.utils._pytree_nodes import (
    BUILTIN_TYPES,
    STANDARD_DICT_TYPES,
    SUPPORTED_NODES,
    Context,
    FlattenFn,
    FlattenWithKeysFn,
    GetAttrKey,
    MappingKey,
    NodeDef,
    SequenceKey,
    UnflattenFn,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    key_get,
    keystr,
    register_dataclass,
    register_pytree_node,
)
from tapegrad.utils._pytree_nodes import deregister_pytree_node as _deregister_pytree_node
from tapegrad.utils._pytree_nodes import dict_flatten as _dict_flatten
from tapegrad.utils._pytree_nodes import dict_flatten_with_keys as _dict_flatten_with_keys
from tapegrad.utils._pytree_nodes import dict_unflatten as _dict_unflatten
from tapegrad.utils._pytree_nodes import get_node_type as _get_node_type
from tapegrad.utils._pytree_nodes import old_register_pytree_node as _register_pytree_node
from tapegrad.utils._pytree_nodes import sequence_flatten as _list_flatten
from tapegrad.utils._pytree_spec import (
    LEAF,
    LeafSpec,
    TreeSpec,
    treespec_dict,
    treespec_leaf,
    treespec_pprint,
    treespec_tuple,
)

__all__ = [
    "BUILTIN_TYPES",
    "STANDARD_DICT_TYPES",
    "SUPPORTED_NODES",
    "Context",
    "FlattenFn",
    "FlattenWithKeysFn",
    "GetAttrKey",
    "KeyPath",
    "LeafSpec",
    "MappingKey",
    "NodeDef",
    "PyTree",
    "PyTreeSpec",
    "SequenceKey",
    "TreeSpec",
    "UnflattenFn",
    "_broadcast_to_and_flatten",
    "_deregister_pytree_node",
    "_dict_flatten",
    "_dict_flatten_with_keys",
    "_dict_unflatten",
    "_get_node_type",
    "_list_flatten",
    "_register_pytree_node",
    "arg_tree_leaves",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "map_only",
    "register_dataclass",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_dict",
    "treespec_leaf",
    "treespec_pprint",
    "treespec_tuple",
]

PyTree = Any
PyTreeSpec = TreeSpec
KeyPath = tuple[Any, ...]
IsLeaf = Callable[[Any], bool] | None


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Return whether a value is a leaf: no container, or one that `is_leaf` is true of."""
    if is_leaf is not None and is_leaf(tree):
        return True
    return _get_node_type(tree) not in SUPPORTED_NODES


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of a nested container, and its structure.

    Args:
        tree: the container.
        is_leaf: is true of containers that are not to be opened.
    """
    leaves: list[Any] = []
    spec = _flatten(tree, is_leaf, leaves)
    return leaves, spec


def _flatten(tree: PyTree, is_leaf: IsLeaf, leaves: list[Any]) -> TreeSpec:
    kind = type(tree)
    if issubclass(kind, tuple) and kind is not tuple:
        kind = _get_node_type(tree)
    node = SUPPORTED_NODES.get(kind)
    if (is_leaf is not None and is_leaf(tree)) or node is None:
        leaves.append(tree)
        return LEAF
    children, context = node.flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(child, is_leaf, leaves) for child in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """Build a nested container from its leaves."""
    if not isinstance(treespec, TreeSpec):
        if not isinstance(leaves, TreeSpec):
            raise TypeError(
                "Expected `treespec` to be an instance of PyTreeSpec but got item of type "
                f"{type(treespec)}."
            )
        leaves, treespec = treespec, leaves
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """Yield the leaves of a nested container."""
    node = SUPPORTED_NODES.get(_get_node_type(tree))
    if (is_leaf is not None and is_leaf(tree)) or node is None:
        yield tree
        return
    for child in node.flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves of a nested container."""
    return tree_flatten(tree, is_leaf)[0]


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """Return the leaves of arguments."""
    return [leaf for tree in (*args, *kwargs.values()) for leaf in tree_leaves(tree)]


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """Return the structure of a nested container."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Apply a function to every leaf.

    Args:
        func: takes a leaf, and what each of `rests` has in its place.
        tree: the container, whose structure the result has.
        rests: containers that begin like `tree`.
        is_leaf: is true of containers that are not to be opened.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *map(spec.flatten_up_to, rests)))


def tree_map_(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Call a function with every leaf, and return the container as it was."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for _ in map(func, leaves, *map(spec.flatten_up_to, rests)):
        pass
    return tree


# ---- leaves of some types


def _test_of(types: Any) -> Callable[[Any], bool]:
    if isinstance(types, type | tuple | UnionType):
        return lambda leaf: isinstance(leaf, types)
    if callable(types):
        return types  # type: ignore[no-any-return]
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Any]:
    """Return a decorator: the function is for leaves of some types; others stay what they are."""
    wanted = _test_of(type_or_types_or_pred)

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @wraps(func)
        def wrapped(leaf: Any) -> Any:
            return func(leaf) if wanted(leaf) else leaf

        return wrapped

    return decorate


def tree_map_only(
    type_or_types_or_pred: Any,
    /,
    func: Callable[[Any], Any],
    tree: PyTree,
    is_leaf: IsLeaf = None,
) -> PyTree:
    """Apply a function to the leaves of a type, of types, or that a test is true of."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any,
    /,
    func: Callable[[Any], Any],
    tree: PyTree,
    is_leaf: IsLeaf = None,
) -> PyTree:
    """Call a function with such leaves, and return the container as it was."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Return whether a test is true of all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Return whether a test is true of a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Return whether a test is true of all leaves of some types."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Return whether a test is true of a leaf of some types."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


# ---- paths


def tree_flatten_with_path(
    tree: PyTree, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Return pairs of the path to a leaf and the leaf, and the structure.

    A path is a tuple of keys, which `keystr` writes and `key_get` follows.
    """
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Return pairs of the path to a leaf and the leaf."""
    return list(_with_paths((), tree, is_leaf))


def _with_paths(path: KeyPath, tree: PyTree, is_leaf: IsLeaf) -> Iterator[tuple[KeyPath, Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    node = SUPPORTED_NODES[_get_node_type(tree)]
    if node.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {node.type}. Please pass a "
            "flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _with_paths((*path, key), child, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Apply a function to the path of every leaf, the leaf, and what `rests` have there."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [path for path, _ in pairs], [leaf for _, leaf in pairs]
    return spec.unflatten(map(func, paths, leaves, *map(spec.flatten_up_to, rests)))


# ---- prefixes


def _broadcast_to_and_flatten(
    tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    """Spread a tree that may stop early over the leaves of a structure; None if it does not fit."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    try:
        children = treespec.children_of(tree)
    except ValueError:
        return None
    spread: list[Any] = []
    for child, part in zip(children, treespec.children(), strict=True):
        found = _broadcast_to_and_flatten(child, part, is_leaf)
        if found is None:
            return None
        spread += found
    return spread
