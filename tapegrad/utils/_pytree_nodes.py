"""Which classes are containers, how each is opened and built, and what its children are called.

A row of `SUPPORTED_NODES` is a class; `register_pytree_node` adds one. All classes of named tuples
share one row, as in PyTorch.
"""

import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tapegrad import _C

__all__ = [
    "BUILTIN_TYPES",
    "STANDARD_DICT_TYPES",
    "SUPPORTED_NODES",
    "GetAttrKey",
    "MappingKey",
    "NodeDef",
    "SequenceKey",
    "get_node_type",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
]

Context = Any
FlattenFn = Callable[[Any], tuple[Any, Context]]
UnflattenFn = Callable[[Iterable[Any], Context], Any]
FlattenWithKeysFn = Callable[[Any], tuple[list[tuple[Any, Any]], Context]]


# ---- what children are called


class _Key:
    """A key with one field, the slot of its class."""

    __slots__: tuple[str, ...] = ()

    def __init__(self, value: Any) -> None:
        setattr(self, self.__slots__[0], value)

    def _value(self) -> Any:
        return getattr(self, self.__slots__[0])

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and bool(self._value() == other._value())

    def __hash__(self) -> int:
        return hash((self._value(),))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__slots__[0]}={self._value()!r})"


class SequenceKey(_Key):
    """The place of an item in a list, a tuple or a deque."""

    __slots__ = ("idx",)
    idx: int

    def __init__(self, idx: int) -> None:
        super().__init__(idx)

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Sequence[Any]) -> Any:
        """Return the item."""
        return sequence[self.idx]


class MappingKey(_Key):
    """The key of an item of a dict."""

    __slots__ = ("key",)
    key: Any

    def __init__(self, key: Any) -> None:
        super().__init__(key)

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Mapping[Any, Any]) -> Any:
        """Return the item."""
        return mapping[self.key]


class GetAttrKey(_Key):
    """The name of an attribute."""

    __slots__ = ("name",)
    name: str

    def __init__(self, name: str) -> None:
        super().__init__(name)

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """Return the attribute."""
        return getattr(obj, self.name)


def keystr(kp: Iterable[Any]) -> str:
    """Return a path of keys as Python writes it, such as ``['a'][0].b``."""
    return "".join(str(key) for key in kp)


def key_get(obj: Any, kp: Iterable[Any]) -> Any:
    """Return what a path of keys leads to."""
    for key in kp:
        obj = key.get(obj)
    return obj


# ---- named tuples


def _class_of(obj: Any) -> type:
    return obj if isinstance(obj, type) else type(obj)


def is_namedtuple_class(cls: type) -> bool:
    """Return whether a class is one of named tuples."""
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(getattr(cls, "_fields", None), tuple)
        and all(type(field) is str for field in cls._fields)  # type: ignore[attr-defined]
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple(obj: object | type) -> bool:
    """Return whether an object is a named tuple, or a class of them."""
    return is_namedtuple_class(_class_of(obj))


def is_namedtuple_instance(obj: object) -> bool:
    """Return whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_structseq_class(cls: type) -> bool:
    """Return whether a class is one of named tuples that are written in C, as that of times is."""
    counts = ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(isinstance(getattr(cls, name, None), int) for name in counts)
    )


def is_structseq(obj: object | type) -> bool:
    """Return whether an object is such a tuple, or a class of them."""
    return is_structseq_class(_class_of(obj))


def is_structseq_instance(obj: object) -> bool:
    """Return whether an object is such a tuple."""
    return is_structseq_class(type(obj))


def get_node_type(tree: Any) -> Any:
    """Return the class of a value, or `namedtuple` for all named tuples."""
    kind = type(tree)
    if kind is not tuple and issubclass(kind, tuple) and is_namedtuple_class(kind):
        return namedtuple
    return kind


# ---- the rows


class NodeDef(NamedTuple):
    """How containers of a class are taken apart and built."""

    type: Any
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: FlattenWithKeysFn | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}


def register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Context], Any] | None = None,
    from_dumpable_context: Callable[[Any], Context] | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Make a class one of containers.

    Args:
        cls: the class; its subclasses are leaves until they are registered too.
        flatten_fn: takes an object, returns its children and what else is needed to build it.
        unflatten_fn: takes children and that, returns an object.
        serialized_type_name: not used, nor are the two that follow: structures are not written.
        to_dumpable_context: see there.
        from_dumpable_context: see there.
        flatten_with_keys_fn: as `flatten_fn`, with pairs of a key and a child.

    Example:
        >>> from tapegrad.utils import _pytree
        >>> class Pair:
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
        >>> _pytree.register_pytree_node(
        ...     Pair, lambda p: ([p.a, p.b], None), lambda children, context: Pair(*children))
        >>> _pytree.tree_leaves([Pair(1, (2, 3)), 4])
        [1, 2, 3, 4]
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or "
            "registered."
        )
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


def old_register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    to_str_fn: Any = None,
    maybe_from_str_fn: Any = None,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Context], Any] | None = None,
    from_dumpable_context: Callable[[Any], Context] | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Make a class one of containers, under the name that this once had; again, with a warning."""
    warnings.warn(
        "`torch.utils._pytree._register_pytree_node` is deprecated. Please use "
        "`torch.utils._pytree.register_pytree_node` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if SUPPORTED_NODES.pop(cls, None) is not None:
        warnings.warn(
            f"{cls} is already registered as pytree node. Overwriting the previous registration.",
            stacklevel=2,
        )
    register_pytree_node(
        cls,
        flatten_fn,
        unflatten_fn,
        to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )


def deregister_pytree_node(cls: type[Any]) -> None:
    """Make a class one of leaves again."""
    del SUPPORTED_NODES[cls]


def register_dataclass(
    cls: type[Any],
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Make a dataclass one of containers: its children are its fields that are not None.

    Args:
        cls: a dataclass, or another class that is built from `field_names`.
        field_names: the fields; by default all that are arguments of the class.
        drop_field_names: arguments that are left out of `field_names`.
        serialized_type_name: not used.
    """
    names = _field_names(cls, field_names, drop_field_names or [])

    def flatten(obj: Any) -> tuple[list[Any], Context]:
        values = {name: getattr(obj, name) for name in names}
        given = {name: value for name, value in values.items() if value is not None}
        return list(given.values()), [list(given), [name for name in names if name not in given]]

    def unflatten(values: Iterable[Any], context: Context) -> Any:
        given, absent = context
        return cls(**dict(zip(given, values, strict=True)), **dict.fromkeys(absent))

    def flatten_with_keys(obj: Any) -> tuple[list[tuple[Any, Any]], Context]:
        values, (given, _) = flatten(obj)
        return [(GetAttrKey(k), value) for k, value in zip(given, values, strict=True)], given

    register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys)


def _field_names(cls: type[Any], given: list[str] | None, dropped: list[str]) -> list[str]:
    from dataclasses import fields, is_dataclass  # whose import takes 4 ms

    if not is_dataclass(cls):
        if given is None:
            raise ValueError(
                "field_names must be specified with a list of all fields used to initialize "
                f"{cls}, as it is not a dataclass."
            )
        return given
    arguments = [field.name for field in fields(cls) if field.init]
    if given is None:
        return arguments
    expected = set(arguments) - set(dropped)
    if expected == set(given):
        return given
    text = "field_names does not include all dataclass fields.\n"
    if missing := expected - set(given):
        text += (
            f"Missing fields in `field_names`: {missing}. If you want to include these fields in "
            "the pytree, please add them to `field_names`, otherwise please add them to "
            "`drop_field_names`.\n"
        )
    if unexpected := set(given) - expected:
        text += (
            f"Unexpected fields in `field_names`: {unexpected}. Please remove these fields, or "
            "add them to `drop_field_names`.\n"
        )
    raise ValueError(text)


# ---- the containers of Python


def sequence_flatten(d: Any) -> tuple[list[Any], Context]:
    """Return the items of a list or a tuple."""
    return list(d), None


def dict_flatten(d: Any) -> tuple[list[Any], Context]:
    """Return the values of a dict, and its keys."""
    return list(d.values()), list(d)


def dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    """Return the dict of these keys and values."""
    return dict(zip(context, values, strict=True))


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Context]:
    return list(d), type(d)


def _defaultdict_flatten(d: Any) -> tuple[list[Any], Context]:
    return list(d.values()), [d.default_factory, list(d)]


def _deque_flatten(d: Any) -> tuple[list[Any], Context]:
    return list(d), d.maxlen


def _numbered(d: Any) -> list[tuple[Any, Any]]:
    return [(SequenceKey(i), value) for i, value in enumerate(d)]


def _keyed(d: Any) -> list[tuple[Any, Any]]:
    return [(MappingKey(key), value) for key, value in d.items()]


def _named(d: Any) -> list[tuple[Any, Any]]:
    return [(GetAttrKey(name), value) for name, value in zip(d._fields, d, strict=True)]


def _row(
    kind: Any,
    flatten: FlattenFn,
    unflatten: UnflattenFn,
    named: Callable[[Any], list[tuple[Any, Any]]],
) -> NodeDef:
    def flatten_with_keys(d: Any) -> tuple[list[tuple[Any, Any]], Context]:
        return named(d), flatten(d)[1]

    return NodeDef(kind, flatten, unflatten, flatten_with_keys)


def dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], Context]:
    """Return pairs of a key and a value of a dict, and its keys."""
    return _keyed(d), list(d)


_ROWS = (
    _row(tuple, sequence_flatten, lambda values, _: tuple(values), _numbered),
    _row(list, sequence_flatten, lambda values, _: list(values), _numbered),
    _row(dict, dict_flatten, dict_unflatten, _keyed),
    _row(namedtuple, _namedtuple_flatten, lambda values, cls: cls(*values), _named),
    _row(
        OrderedDict,
        dict_flatten,
        lambda values, keys: OrderedDict(zip(keys, values, strict=True)),
        _keyed,
    ),
    _row(
        defaultdict,
        _defaultdict_flatten,
        lambda values, context: defaultdict(context[0], dict_unflatten(values, context[1])),
        _keyed,
    ),
    _row(deque, _deque_flatten, lambda values, maxlen: deque(values, maxlen=maxlen), _numbered),
)
SUPPORTED_NODES.update({row.type: row for row in _ROWS})
STANDARD_DICT_TYPES = frozenset((dict, OrderedDict, defaultdict))
BUILTIN_TYPES = frozenset(SUPPORTED_NODES)


def _result_row(kind: Any) -> NodeDef:
    return _row(kind, sequence_flatten, lambda values, _: kind(list(values)), _numbered)


# What ops return, such as torch.return_types.max.
SUPPORTED_NODES.update({kind: _result_row(kind) for kind in vars(_C._return_types).values()})  # type: ignore[attr-defined]
