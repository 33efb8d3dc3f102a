"""From calls to nodes: what an emitter sees of a call, and the table of emitters by op.

An emitter is a function of a `CallContext`. It reads operands as values of the graph, adds nodes
and writes results. It never sees memory: `_memory` tells views and partial writes as nodes.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.onnx._capture import Call, Operand, Varying
from tapegrad.onnx._graph import Graph, Value
from tapegrad.onnx._memory import CannotSay, Memory, expanded, reshaped, transposed
from tapegrad.onnx._paths import Place
from tapegrad.onnx._sizes import Size, Sizes

__all__ = ["EMITTERS", "CallContext", "emits"]

Emitter = Callable[["CallContext"], None]
EMITTERS: dict[str, Emitter] = {}


def emits(*ops: str) -> Callable[[Emitter], Emitter]:
    """Mark the emitter of ops."""

    def mark(function: Emitter) -> Emitter:
        EMITTERS.update(dict.fromkeys(ops, function))
        return function

    return mark


class CallContext:
    """A call that is being told as nodes."""

    def __init__(
        self,
        graph: Graph,
        call: Call,
        memories: Sequence[Memory],
        is_wanted: Callable[[int], bool],
    ) -> None:
        self.graph = graph
        self.call = call
        self._memories = memories
        self._is_wanted = is_wanted

    # ---- attributes

    def __getitem__(self, name: str) -> Any:
        return self.call.attributes[name]

    def number(self, name: str) -> Any:
        """Return an attribute that must be the same in all runs."""
        value = self.call.attributes[name]
        if isinstance(value, Size | Varying):
            raise CannotSay(f"its {name} depends on the sizes of dynamic axes: {_runs(value)}")
        return value

    def rows(self, name: str) -> list[Any]:
        """Return an attribute as it was in each run."""
        value = self.call.attributes[name]
        return list(value.runs) if isinstance(value, Varying) else [value] * self.graph.runs

    # ---- operands

    @property
    def count(self) -> int:
        """How many inputs there are."""
        return len(self.call.inputs)

    def place(self, i: int) -> Place:
        """Return where an input lies; it must be no number."""
        return self.call.inputs[i].place

    def sizes(self, i: int) -> tuple[Size, ...]:
        """Return the sizes of an input."""
        return self.call.inputs[i].place.sizes if self.is_tensor(i) else ()

    def is_tensor(self, i: int) -> bool:
        """Return whether an input is a tensor and no number."""
        return isinstance(self.call.inputs[i], Operand)

    def out_place(self, i: int = 0) -> Place:
        """Return where an output lies."""
        return self.call.outputs[i].place

    def read(self, i: int, dtype: str = "") -> Value:
        """Return an input, in a dtype."""
        operand = self.call.inputs[i]
        if isinstance(operand, Operand):
            value = self._memories[operand.memory].read(operand.place)
            return self.graph.cast(value, dtype or value.dtype)
        return self.literal(operand, dtype)

    def literal(self, number: Any, dtype: str) -> Value:
        """Return a number of an expression."""
        if isinstance(number, Varying):
            raise CannotSay(
                f"a number in it depends on the sizes of dynamic axes: {_runs(number)}; compute it "
                "with tensors, or make these axes static"
            )
        if not isinstance(number, Size):
            return self.graph.number(number, dtype)
        value = self.graph.size(number)
        if value is None:
            raise CannotSay(f"the number {number} cannot be told by the sizes of dynamic axes")
        return self.graph.cast(self.graph.add("Squeeze", value), dtype)

    def read_unexpanded(self, i: int, dtype: str = "", skip_last: int = 0) -> Value:
        """Return an input without its repeated axes, which ONNX repeats by itself."""
        operand = self.call.inputs[i]
        if not isinstance(operand, Operand):
            return self.read(i, dtype)
        place, one = operand.place, self.graph.size_of(1)
        last = len(place.sizes) - skip_last
        sizes = tuple(
            one if stride == 0 and axis < last else size
            for axis, (size, stride) in enumerate(zip(place.sizes, place.strides, strict=True))
        )
        value = self._memories[operand.memory].read(place._replace(sizes=sizes))
        return self.graph.cast(value, dtype or value.dtype)

    def read_output(self, i: int = 0) -> Value:
        """Return what lies where an output is written to."""
        operand = self.call.outputs[i]
        return self._memories[operand.memory].read(operand.place)

    def wants(self, i: int) -> bool:
        """Return whether anybody reads an output."""
        return i < len(self.call.outputs) and self._is_wanted(self.call.outputs[i].memory)

    def write(self, value: Value, i: int = 0, sizes: Sizes | None = None) -> None:
        """Write an output: a value of its sizes, or of others that have as many elements."""
        operand = self.call.outputs[i]
        if sizes is not None:
            value = self.reshape(value, sizes, operand.place.sizes)
        value = self.graph.cast(value, operand.place.dtype)
        self.graph.note_sizes(value, operand.place.sizes)
        self._memories[operand.memory].write(operand.place, value)

    # ---- nodes

    def add(self, op: str, *inputs: Value | None, dtype: Any = "", **attributes: Any) -> Value:
        """Add a node."""
        return self.graph.add(op, *inputs, dtype=dtype, **attributes)

    def cast(self, x: Value, dtype: str) -> Value:
        return self.graph.cast(x, dtype)

    def ints(self, *numbers: int) -> Value:
        """Return numbers as a tensor of one dimension."""
        return self.graph.constant(list(numbers))

    def scalar(self, number: Any, like: Value) -> Value:
        """Return a number of a value's dtype."""
        return self.graph.number(number, like.dtype)

    def reshape(self, x: Value, sizes: Sizes, wanted: Sizes) -> Value:
        return reshaped(self.graph, x, sizes, wanted)

    def expand(self, x: Value, sizes: Sizes, wanted: Sizes) -> Value:
        return expanded(self.graph, x, sizes, wanted)

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        return transposed(self.graph, x, order)

    def range(self, size: Size) -> Value:
        """Return the numbers from zero to a size, without it, in int64."""
        known = size.constant
        if known is not None:
            return self.graph.constant(range(known))
        value = self.graph.size(size)
        if value is None:
            raise CannotSay(f"the size {size} cannot be told by those of the dynamic axes")
        end = self.graph.add("Squeeze", value)
        return self.add("Range", self.graph.constant(0), end, self.graph.constant(1))

    def spread(self, x: Value, sizes: Sizes) -> Value:
        """Return a value of fewer axes repeated along those before, and along axes of size one."""
        shape = self.graph.shape(sizes)
        if shape is None:
            raise CannotSay(f"sizes {list(sizes)} cannot be told by those of the dynamic axes")
        return self.add("Expand", x, shape)

    def filled(self, number: Any, dtype: str, sizes: Sizes) -> Value:
        """Return a tensor of one number."""
        value = self.graph.number(number, dtype)
        if not sizes:
            return value
        one = self.graph.size_of(1)
        value = self.graph.add("Reshape", value, self.graph.constant([1] * len(sizes)))
        return self.expand(value, [one] * len(sizes), sizes)


def _runs(value: Size | Varying) -> str:
    return ", ".join(map(str, value.runs))
