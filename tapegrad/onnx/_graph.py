"""The graph that is being written: nodes, initializers, sizes that are computed when it runs."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from tapegrad.onnx import _proto
from tapegrad.onnx._sizes import Size, Sizes

__all__ = ["Graph", "Initializer", "Node", "Value"]

END = 2**63 - 1  # of a slice that goes to the end
_SMALL = 1 << 16  # bytes of a constant that is cast at once


class Value(NamedTuple):
    """A tensor of the graph, by name."""

    name: str
    dtype: str


class Node(NamedTuple):
    """A node of the graph; an input that is left out is an empty name."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


class Initializer(NamedTuple):
    """A tensor that the file holds; `content` makes its bytes."""

    dtype: str
    shape: tuple[int, ...]
    content: bytes


class Graph:
    """Nodes in the order in which they run. Equal nodes are one, and constants, too."""

    def __init__(self, runs: int, opset: int) -> None:
        self.runs = runs
        self.opset = opset
        self.nodes: list[Node] = []
        self.initializers: dict[str, Initializer] = {}
        self.producers: dict[str, Node] = {}
        self.casts: dict[str, Value] = {}  # what was cast, by the name of the result
        self.reshapes: dict[str, tuple[Value, Sizes]] = {}  # what was reshaped, and its sizes
        self._known: dict[Any, tuple[Value, ...]] = {}
        self._constants: dict[Any, Value] = {}
        self._dims: dict[Size, tuple[Value, int]] = {}  # a value and its axis, by size
        self._symbols: list[Size] = []  # the sizes of dynamic axes
        self._names: set[str] = set()
        self._own: set[str] = set()  # initializers that are the model's
        self._outputs: set[str] = set()
        self._renamed: dict[str, str] = {}

    def name(self, wanted: str) -> str:
        """Return a name that nobody has, taken from now on."""
        wanted = re.sub(r"[^\w./:#-]", "_", wanted) or "value"
        free, number = wanted, 0
        while free in self._names:
            number += 1
            free = f"{wanted}_{number}"
        self._names.add(free)
        return free

    # ---- nodes

    def nodes_of(
        self, op: str, inputs: Sequence[Value | None], dtypes: Sequence[str], **attributes: Any
    ) -> tuple[Value, ...]:
        """Add a node with several outputs."""
        names = tuple("" if each is None else each.name for each in inputs)
        key = (op, names, tuple(dtypes), repr(sorted(attributes.items())))
        known = self._known.get(key)
        if known is None or op.startswith("Random") or op == "Bernoulli":
            known = tuple(Value(self.name(op.lower()), dtype) for dtype in dtypes)
            made = Node(op, names, tuple(each.name for each in known), attributes)
            self.nodes.append(made)
            self.producers.update(dict.fromkeys(made.outputs, made))
            self._known[key] = known
        return known

    def add(self, op: str, *inputs: Value | None, dtype: str = "", **attributes: Any) -> Value:
        """Add a node. Its result is of the first input's dtype, unless told otherwise."""
        if not dtype:
            dtype = next(each.dtype for each in inputs if each is not None)
        return self.nodes_of(op, inputs, [dtype], **attributes)[0]

    def cast(self, x: Value, dtype: str) -> Value:
        """Return a value in a dtype."""
        if x.dtype == dtype:
            return x
        known = self.initializers.get(x.name)
        is_small = known is not None and len(known.content) <= _SMALL and x.name not in self._own
        if known is not None and is_small and "bfloat16" not in (dtype, x.dtype):
            array = np.frombuffer(known.content, x.dtype).reshape(known.shape)
            return self.constant(array.astype(dtype), dtype)
        result = self.add("Cast", x, dtype=dtype, to=_proto.DTYPES[dtype])
        self.casts[result.name] = x
        return result

    # ---- tensors of the file

    def constant(self, array: Any, dtype: str = "int64") -> Value:
        """Return a tensor of the file that has no name of its own."""
        array = np.asarray(array, dtype=dtype)
        return self.raw_constant(array.shape, dtype, _proto.little_endian(array))

    def raw_constant(self, shape: Sequence[int], dtype: str, content: bytes) -> Value:
        """Return a tensor of the file by its bytes."""
        key = (dtype, tuple(shape), content)
        if key not in self._constants:
            value = Value(self.name("constant"), dtype)
            self.initializers[value.name] = Initializer(dtype, tuple(shape), content)
            self._constants[key] = value
        return self._constants[key]

    def initializer(self, name: str, shape: Sequence[int], dtype: str, content: bytes) -> Value:
        """Add a tensor of the model."""
        value = Value(self.name(name), dtype)
        self.initializers[value.name] = Initializer(dtype, tuple(shape), content)
        self._own.add(value.name)
        return value

    def number(self, number: Any, dtype: str) -> Value:
        """Return a number as a tensor without dimensions."""
        if dtype == "bfloat16":
            return self.cast(self.constant(number, "float32"), dtype)
        if isinstance(number, int) and "int" in dtype:  # as integers wrap
            return self.constant(np.array(number % 2**64, "uint64").astype(dtype), dtype)
        return self.constant(number, dtype)

    # ---- sizes

    def size_of(self, number: int) -> Size:
        """Return a size that is the same in all runs."""
        return Size((number,) * self.runs)

    def note_sizes(self, x: Value, sizes: Sizes, is_input: bool = False) -> None:
        """Remember that a size that changes is found in a tensor."""
        for axis, size in enumerate(sizes):
            if size.constant is None:
                self._dims.setdefault(size, (x, axis))
                if is_input and size not in self._symbols:
                    self._symbols.append(size)

    def size(self, size: Size) -> Value | None:
        """Return a size as a tensor of one element, or None if it cannot be told."""
        known = size.constant
        if known is not None:
            return self.constant([known])
        if size in self._dims:
            x, axis = self._dims[size]
            return self.add("Shape", x, dtype="int64", start=axis, end=axis + 1)
        for count in (1, 2, 3):
            for chosen in combinations(self._symbols, count):
                found = self._multiple(size, chosen)
                if found is not None:
                    return found
        return None

    def _multiple(self, size: Size, symbols: Sequence[Size]) -> Value | None:
        """Return a size that is a product of others, times a number, plus a number."""
        whole = self.size_of(1)
        for each in symbols:
            whole = whole * each
        pairs = list(zip(whole.runs, size.runs, strict=True))
        (x0, y0), (x1, y1) = pairs[0], next(pair for pair in pairs if pair[0] != pairs[0][0])
        factor, rest = divmod(y1 - y0, x1 - x0)
        offset = y0 - factor * x0
        if rest or any(factor * x + offset != y for x, y in pairs):
            return None
        result = self._dim(symbols[0])
        for each in symbols[1:]:
            result = self.add("Mul", result, self._dim(each))
        if factor != 1:
            result = self.add("Mul", result, self.constant([factor]))
        return self.add("Add", result, self.constant([offset])) if offset else result

    def _dim(self, size: Size) -> Value:
        x, axis = self._dims[size]
        return self.add("Shape", x, dtype="int64", start=axis, end=axis + 1)

    def shape(self, sizes: Sizes) -> Value | None:
        """Return sizes as one tensor, or None if one of them cannot be told."""
        if all(each.constant is not None for each in sizes):
            return self.constant([each.constant for each in sizes])
        parts = [self.size(each) for each in sizes]
        if any(each is None for each in parts):
            return None
        return self.add("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]

    # ---- the file

    def output(self, value: Value, name: str) -> Value:
        """Return a value under the name of an output. No node may be added afterwards."""
        named = Value(self.name(name), value.dtype)
        if value.name in self.producers and value.name not in self._outputs:
            self.nodes = [_renamed(each, value.name, named.name) for each in self.nodes]
            self._renamed[value.name] = named.name
        else:
            source = self._renamed.get(value.name, value.name)
            self.nodes.append(Node("Identity", (source,), (named.name,), {}))
        self._outputs.add(value.name)
        return named

    def used(self, outputs: Iterable[str]) -> tuple[list[Node], dict[str, Initializer]]:
        """Return the nodes and initializers that outputs need."""
        needed = set(outputs)
        nodes = []
        for each in reversed(self.nodes):
            if needed.intersection(each.outputs):
                nodes.append(each)
                needed.update(each.inputs)
        kept = {name: each for name, each in self.initializers.items() if name in needed}
        return nodes[::-1], kept


def _renamed(node: Node, name: str, other: str) -> Node:
    if name not in (*node.inputs, *node.outputs):
        return node
    inputs, outputs = (
        tuple(other if each == name else each for each in names)
        for names in (node.inputs, node.outputs)
    )
    return node._replace(inputs=inputs, outputs=outputs)


def messages(nodes: Iterable[Node]) -> list[bytes]:
    """Return nodes as they are written."""
    numbers: dict[str, int] = {}
    result = []
    for each in nodes:
        number = numbers[each.op] = numbers.get(each.op, -1) + 1
        name = f"{each.op}_{number}"
        result.append(_proto.node(each.op, each.inputs, each.outputs, name, each.attributes))
    return result


def text(nodes: Iterable[Node], initializers: Mapping[str, Initializer]) -> str:
    """Return a graph as a listing."""
    lines = [f"{name}: {each.dtype}{list(each.shape)}" for name, each in initializers.items()]
    for each in nodes:
        extra = [f"{key}={value}" for key, value in each.attributes.items()]
        arguments = ", ".join([*(name or "-" for name in each.inputs), *extra])
        lines.append(f"{', '.join(each.outputs)} = {each.op}({arguments})")
    return "\n".join(lines)
