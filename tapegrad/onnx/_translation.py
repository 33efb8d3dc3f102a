"""From a recording to a graph: inputs, parameters, calls in order, outputs."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.nn.modules.module import Module
from tapegrad.onnx import _emit_basic, _emit_index, _emit_nn, _emit_pool, _emit_reduce  # noqa: F401
from tapegrad.onnx._analysis import Analysis, where
from tapegrad.onnx._capture import Call, Recording, Varying, content, dtype_name, place_of
from tapegrad.onnx._dynamic import Inputs
from tapegrad.onnx._emit_index import write_masked
from tapegrad.onnx._graph import Graph, Value
from tapegrad.onnx._memory import CannotSay, Memory
from tapegrad.onnx._paths import Place
from tapegrad.onnx._program import Interface, ONNXProgram
from tapegrad.onnx._sizes import Size
from tapegrad.onnx._translate import EMITTERS, CallContext
from tapegrad.onnx.errors import (
    OnnxExporterError,
    OnnxExporterWarning,
    SymbolicValueError,
    UnsupportedOperatorError,
)

__all__ = ["Names", "Translation"]


class Names(NamedTuple):
    """What the inputs and outputs of a graph are called, and their dynamic axes."""

    inputs: Inputs
    outputs: list[str]
    output_axes: dict[str, dict[int, str]]


class Translation:
    """A recording on its way to a graph."""

    def __init__(
        self,
        model: Callable[..., Any],
        names: Names,
        recording: Recording,
        arguments: list[list[Any]],
        opset: int,
    ) -> None:
        self._model = model
        self._names = names
        self._recording = recording
        self._arguments = arguments
        self._graph = Graph(len(arguments), opset)
        self._parameters: list[str] = []  # the names of initializers that are the model's
        self._inputs: list[tuple[Value, Place]] = []
        self._places: dict[int, int] = {}  # of inputs, by the identity of their memory
        self._named = self._find_named()
        self._add_inputs()
        self._facts = self._analyse()
        self._memories = [
            Memory(self._graph, size, self._facts.forms.get(number, []), is_made=values[3])
            for number, (size, values) in enumerate(
                zip(recording.sizes, recording.values[0], strict=True)
            )
        ]
        self._axis_names: dict[Size, str] = {}
        self._masks: dict[int, Value] = {}  # by the memory of their places

    def program(self) -> ONNXProgram:
        """Return the finished graph."""
        self._add_outside()
        for memory, content_of in self._facts.folded.items():
            if memory in self._facts.read:
                self._add_raw(memory, content_of)
        for number, call in enumerate(self._recording.calls):
            if number in self._facts.needed:
                self._add(call)
        outputs = self._outputs()
        interface = Interface(
            self._input_shapes(),
            [
                (value.name, value.dtype, [self._shown(size) for size in sizes])
                for value, sizes in outputs
            ],
            self._parameters,
        )
        for name, _, shape in interface.outputs:  # as the caller calls them
            for axis, symbol in self._names.output_axes.get(name, {}).items():
                shape[axis] = symbol
        return ONNXProgram(self._graph, interface)

    def _find_named(self) -> dict[int, list[tuple[str, Tensor]]]:
        """Return parameters and buffers by the identity of their memory."""
        named: dict[int, list[tuple[str, Tensor]]] = {}
        if isinstance(self._model, Module):
            for name, tensor in (*self._model.named_parameters(), *self._model.named_buffers()):
                named.setdefault(_C._memory_id(tensor), []).append((name, tensor))
        return named

    def _analyse(self) -> Analysis:
        inputs, parameters = set(), set()
        for number, (memory, _, _, is_made, *_) in enumerate(self._recording.values[0]):
            if is_made or memory is None:
                continue
            key = _C._memory_id(memory)
            if key in self._places:
                inputs.add(number)
            elif key in self._named:
                parameters.add(number)
        return Analysis(self._recording, inputs, parameters)

    # ---- inputs, parameters, constants

    def _add_inputs(self) -> None:
        for place, name in self._names.inputs.names.items():
            tensors = [leaves[place] for leaves in self._arguments]
            spot = place_of(tensors)
            value = Value(self._graph.name(name), spot.dtype)
            self._graph.note_sizes(value, spot.sizes, is_input=True)
            self._places[_C._memory_id(tensors[0])] = len(self._inputs)
            self._inputs.append((value, spot))

    def _input_shapes(self) -> list[tuple[str, str, list[int | str]]]:
        shapes = []
        for place, (value, spot) in zip(self._names.inputs.names, self._inputs, strict=True):
            axes = self._names.inputs.axes.get(place, {})
            shape = [axes.get(i, size.runs[0]) for i, size in enumerate(spot.sizes)]
            shapes.append((value.name, value.dtype, shape))
        return shapes

    def _add_outside(self) -> None:
        """Give memory from outside what it holds: inputs, parameters, and whatever else."""
        written: list[str] = []
        for number, value in enumerate(self._recording.values[0]):
            memory, nbytes, _, is_made, _, is_written, _ = value
            if is_made or memory is None or number not in self._facts.read:
                continue
            key = _C._memory_id(memory)
            if key in self._places:
                source, spot = self._inputs[self._places[key]]
                self._memories[number].write(spot, source)
                continue
            tensors = self._named.get(key, [])
            if not any(each.numel() * each.element_size() == nbytes for _, each in tensors):
                if is_written:
                    raise OnnxExporterError(
                        "export: the model writes to a tensor that it keeps and that is neither a "
                        "parameter nor a buffer, so that what it held before is not known; "
                        "register it with register_buffer"
                    )
                self._add_raw(number, content(memory))
            for name, tensor in tensors:
                initializer = self._graph.initializer(
                    name, tuple(tensor.shape), dtype_name(tensor.dtype), content(tensor)
                )
                self._parameters.append(initializer.name)
                self._memories[number].write(place_of([tensor] * self._graph.runs), initializer)
        for value in self._recording.values[0]:
            if value[5] and value[0] is not None and not value[3]:
                tensors = self._named.get(_C._memory_id(value[0]), [])
                written += [name for name, _ in tensors]
        if written:
            warnings.warn(
                f"export: the model writes to {', '.join(written)}; a graph has no state, so that "
                "each run begins with what it holds now",
                OnnxExporterWarning,
                stacklevel=5,
            )

    def _add_raw(self, number: int, data: bytes) -> None:
        """Put bytes into memory, to be read as of any dtype."""
        graph = self._graph
        zero, one = graph.size_of(0), graph.size_of(1)
        place = Place(zero, (graph.size_of(len(data)),), (one,), "uint8")
        self._memories[number].write(place, None, data)

    # ---- calls

    def _add(self, call: Call) -> None:
        if call.op == "constant":
            self._add_constant(call)
            return
        if self._add_masked(call):
            return
        emitter = EMITTERS.get(call.op)
        if emitter is None:
            raise UnsupportedOperatorError(
                f"export: {call.op} has no form in ONNX{where(call)}; compute this part with "
                "other ops, or outside the exported model"
            )
        context = CallContext(self._graph, call, self._memories, self._facts.read.__contains__)
        try:
            emitter(context)
        except CannotSay as reason:
            kind = UnsupportedOperatorError if self._graph.runs == 1 else SymbolicValueError
            raise kind(f"export: {call.op}: {reason}{where(call)}") from None

    def _add_masked(self, call: Call) -> bool:
        """Tell a write to all places of a mask, and keep the mask when the places are found."""
        masked = self._facts.masked - self._facts.folded.keys()
        if call.op == "nonzero" and call.outputs[0].memory in masked:
            mask = call.inputs[0]
            self._masks[call.outputs[0].memory] = self._memories[mask.memory].read(mask.place)
            return True
        mask_of = call.inputs[-1].memory if call.op == "index_put_" else None
        if mask_of not in self._masks:
            return False
        context = CallContext(self._graph, call, self._memories, self._facts.read.__contains__)
        write_masked(context, self._masks[mask_of])
        return True

    def _add_constant(self, call: Call) -> None:
        (target,) = call.outputs
        if isinstance(call.data, Varying):
            raise SymbolicValueError(
                "export: elements that came from Python depend on the sizes of dynamic axes; "
                "compute them with tensors, as torch.arange does, or make these axes static"
            )
        data, sizes = call.data or b"", [each.runs[0] for each in target.place.sizes]
        if target.place.dtype == "uint8" and len(sizes) == 1:
            self._memories[target.memory].write(target.place, None, data)
            return
        value = self._graph.raw_constant(sizes, target.place.dtype, data)
        self._memories[target.memory].write(target.place, value)

    # ---- outputs

    def _outputs(self) -> list[tuple[Value, tuple[Size, ...]]]:
        found = []
        leaves = self._recording.leaves[0]
        kept = [i for i, each in enumerate(leaves) if each is not None]
        names = self._names.outputs
        if len(names) > len(kept):
            raise ValueError(f"export: expected at most {len(kept)} output_names, got {len(names)}")
        for number, i in enumerate(kept):
            tensor = leaves[i]
            if not isinstance(tensor, Tensor):
                raise OnnxExporterError(
                    f"export: expected the model to return tensors, got {type(tensor).__name__}; "
                    "wrap it in a module that returns tensors alone"
                )
            default = "output" if len(kept) == 1 else f"output_{number}"
            name = names[number] if number < len(names) else default
            found.append((name, *self._output(i)))
        return [(self._graph.output(value, name), sizes) for name, value, sizes in found]

    def _output(self, i: int) -> tuple[Value, tuple[Size, ...]]:
        operand = self._recording.outputs[i]
        if operand is not None:
            return self._read(i, self._memories[operand.memory], operand.place)
        # What no call has touched: an input, or something that was there before.
        tensors = [leaves[i] for leaves in self._recording.leaves]
        first = tensors[0]
        known = self._places.get(_C._memory_id(first))
        owners = [first] * len(tensors)
        if known is not None:
            number = list(self._names.inputs.names)[known]
            owners = [leaves[number] for leaves in self._arguments]
        for tensor, owner in zip(tensors, owners, strict=True):
            is_same = _C._memory_id(tensor) == _C._memory_id(owner)
            if not is_same or tensor.dtype is not first.dtype or tensor.dim() != first.dim():
                raise SymbolicValueError(
                    f"export: which tensor the model returns as output {i} depends on the sizes "
                    "of dynamic axes; make these axes static"
                )
        spot = place_of(tensors)
        if known is None:
            if any(size.constant is None for size in (*spot.sizes, *spot.strides, spot.offset)):
                raise SymbolicValueError(
                    f"export: output {i} is a part of a constant that depends on the sizes of "
                    "dynamic axes; return a copy"
                )
            value = self._graph.raw_constant(tuple(first.shape), spot.dtype, content(first))
            return value, spot.sizes
        source, base = self._inputs[known]
        memory = Memory(self._graph, self._graph.size_of(0))
        memory.write(base, source)
        return self._read(i, memory, spot)

    def _read(self, i: int, memory: Memory, place: Place) -> tuple[Value, tuple[Size, ...]]:
        """Return an output's elements and sizes."""
        try:
            return memory.read(place), place.sizes
        except CannotSay as reason:
            kind = UnsupportedOperatorError if self._graph.runs == 1 else SymbolicValueError
            raise kind(f"export: output {i}: {reason}") from None

    def _shown(self, size: Size) -> int | str:
        """Return a size, or the name of an axis that has it."""
        known = size.constant
        if known is not None:
            return known
        for place, axes in self._names.inputs.axes.items():
            for axis, symbol in axes.items():
                if Size(leaves[place].shape[axis] for leaves in self._arguments) == size:
                    return symbol
        return self._axis_names.setdefault(size, f"dim_{len(self._axis_names)}")
