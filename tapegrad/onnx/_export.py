"""`export`: a model as a file that ONNX's runtimes run."""

import inspect
import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import contiguous_format
from tapegrad.nn.modules.module import Module
from tapegrad.onnx import _emit_basic, _emit_index, _emit_nn, _emit_pool, _emit_reduce  # noqa: F401
from tapegrad.onnx._capture import (
    Call,
    Operand,
    Recording,
    Varying,
    aligned,
    dtype_name,
    kept_state,
    record,
)
from tapegrad.onnx._dynamic import Inputs, axes_of_shapes, dynamic_axes, runs_of
from tapegrad.onnx._graph import Graph, Value
from tapegrad.onnx._memory import CannotSay, Memory, item_size
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
from tapegrad.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["OperatorExportTypes", "TrainingMode", "export", "is_in_onnx_export"]

_OPSETS = range(18, 24)
_CHECKS = ("has_zero",)  # ops whose result is looked at only to refuse bad input

_exporting = False


class TrainingMode(Enum):
    """In which mode modules are exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(Enum):
    """Which ops a graph may have; only ``ONNX`` is supported."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def is_in_onnx_export() -> bool:
    """Return whether an export is running the model."""
    return _exporting


def export(
    model: Callable[..., Any],
    args: Any = (),
    f: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Any = None,
    custom_translation_table: Any = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike[str] = ".",
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Mapping[str, Any] | None = None,
    training: TrainingMode = TrainingMode.EVAL,
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: bool | Collection[type[Module]] = False,
    autograd_inlining: bool = True,
) -> ONNXProgram | None:
    """Write a model as a graph of ONNX.

    The model is run on the example, and what it calls becomes nodes. What depends on the elements
    of its inputs in Python (an ``if``, ``item()``) is refused. Parameters and buffers are in the
    file under the names of its ``state_dict``.

    With dynamic axes the model is run several times, with other sizes of them: what is the same in
    all runs is taken for constant, and what changes must follow from the sizes.

    Args:
        model: a module, or any function of tensors.
        args: the example: a tuple of arguments, or one tensor. Those that are no tensors are fixed.
        f: where to write the file: a path, or a binary file object. None: only return the program.
        kwargs: arguments by keyword.
        verbose: print the graph.
        input_names: of the inputs, in order; by default those of the model's parameters.
        output_names: of the outputs, in order.
        opset_version: of ONNX's ops, from 18 on; by default 18.
        dynamo: whether to return the program. With False nothing is returned, and the file is one.
        external_data: whether large tensors are written to a second file, the first one's name with
            ``.data`` behind it, as PyTorch does.
        dynamic_shapes: for each argument its dynamic axes, as ``{0: "batch"}``, or None.
        custom_translation_table, report, profile, dump_exported_program, custom_opsets: refused.
        optimize, do_constant_folding, autograd_inlining: runtimes do so when they load the graph.
        verify: run the graph with onnxruntime and compare.
        artifacts_dir: not used.
        export_params: whether parameters are in the file. If not, they are inputs.
        keep_initializers_as_inputs: whether parameters are inputs as well.
        dynamic_axes: dynamic axes by the names of inputs and outputs.
        training: in which mode modules are exported; by default as after ``model.eval()``.
        operator_export_type: only ``ONNX``.
        export_modules_as_functions: refused.

    Returns:
        The graph as an `ONNXProgram`, or None with ``dynamo=False``.

    Raises:
        UnsupportedOperatorError: a call has no form in ONNX. The text names the op and its line.
        SymbolicValueError: something depends on dynamic axes in a way that is not expressed.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        >>> program = torch.onnx.export(
        ...     model, (torch.zeros(2, 4),), input_names=["x"], dynamic_axes={"x": {0: "batch"}}
        ... )
        >>> print(program)
        inputs: x float32[batch, 4]
        0.weight: float32[8, 4]
        0.bias: float32[8]
        gemm = Gemm(x, 0.weight, 0.bias, transB=1)
        output = Relu(gemm)
        outputs: output float32[batch, 8]
    """
    refused = {
        "custom_translation_table": custom_translation_table,
        "report": report,
        "profile": profile,
        "dump_exported_program": dump_exported_program,
        "custom_opsets": custom_opsets,
        "export_modules_as_functions": export_modules_as_functions,
    }
    for name, value in refused.items():
        if value:
            raise NotImplementedError(f"export: {name}={value!r} is not supported; leave it out")
    if operator_export_type is not OperatorExportTypes.ONNX:
        raise NotImplementedError("export: expected operator_export_type ONNX")
    opset = _OPSETS[0] if opset_version is None else opset_version
    if opset not in _OPSETS:
        raise ValueError(
            f"export: expected opset_version from {_OPSETS[0]} to {_OPSETS[-1]}, got {opset}"
        )
    if not callable(model):
        raise TypeError(f"export: expected a module or a function, got {type(model).__name__}")
    request = _Request(model, args, kwargs or {}, input_names, output_names)
    request.set_dynamic(dynamic_axes, dynamic_shapes)
    program = request.program(opset, training)
    if verbose:
        print(program)
    if verify:
        program._compare(request.tensors(), request.expected)
    if f is not None:
        program.save(
            f,
            include_initializers=export_params,
            keep_initializers_as_inputs=keep_initializers_as_inputs or not export_params,
            external_data=external_data and dynamo and isinstance(f, str | os.PathLike),
        )
    return program if dynamo else None


# ---- what is exported


class _Request:
    """A model with its example, and what the inputs and outputs are called."""

    def __init__(
        self,
        model: Callable[..., Any],
        args: Any,
        kwargs: Mapping[str, Any],
        input_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
    ) -> None:
        self.model = model
        args = (args,) if isinstance(args, Tensor) or not isinstance(args, tuple | list) else args
        if args and isinstance(args[-1], dict) and not kwargs and len(args) > 1:
            names = _parameters(model)
            if set(args[-1]) <= set(names) and len(args) - 1 + len(args[-1]) <= len(names):
                args, kwargs = args[:-1], args[-1]
        self.args, self.kwargs = list(args), dict(kwargs)
        names = _parameters(model)
        names += [f"input_{i}" for i in range(len(names), len(self.args))]
        self.parameters = names
        self.tree = dict(zip(names, self.args, strict=False)) | self.kwargs
        leaves, self.structure = tree_flatten((self.args, self.kwargs))
        paths = [path for name, each in self.tree.items() for path in _paths(name, each)]
        places = [i for i, each in enumerate(leaves) if isinstance(each, Tensor)]
        given = list(input_names or [])
        if len(given) > len(places):
            raise ValueError(
                f"export: expected at most {len(places)} input_names, got {len(given)}"
            )
        chosen = [*given, *(paths[i] for i in places[len(given) :])]
        if len(set(chosen)) < len(chosen):
            raise ValueError(f"export: expected different names of inputs, got {chosen}")
        self.inputs = Inputs(leaves, dict(zip(places, chosen, strict=True)), {})
        self.output_names = list(output_names or [])
        self.output_axes: dict[str, dict[int, str]] = {}
        self.expected: list[Tensor] = []

    def set_dynamic(self, axes: Mapping[str, Any] | None, shapes: Any) -> None:
        """Take the dynamic axes from either argument."""
        found: dict[int, dict[int, str]] = {}
        if shapes is not None:
            found = axes_of_shapes(shapes, self.inputs.leaves, self.tree, self.parameters)
        if axes is not None:
            names = list(self.inputs.names.values())
            by_name = dynamic_axes(axes, names, self.output_names)
            places = {name: place for place, name in self.inputs.names.items()}
            for name, each in by_name.items():
                if name in places:
                    found.setdefault(places[name], {}).update(each)
                else:
                    self.output_axes[name] = each
        for place, each in found.items():
            rank = self.inputs.leaves[place].dim()
            found[place] = {
                axis + rank if -rank <= axis < 0 else axis: name for axis, name in each.items()
            }
        self.inputs.axes.update({place: each for place, each in found.items() if each})

    def tensors(self) -> list[Tensor]:
        """Return the example, flat."""
        return [self.inputs.leaves[place] for place in self.inputs.names]

    def program(self, opset: int, training: TrainingMode) -> ONNXProgram:
        """Run the model and return its graph."""
        global _exporting
        modules = list(self.model.modules()) if isinstance(self.model, Module) else []
        modes = [module.training for module in modules]
        before, _exporting = _exporting, True
        try:
            if modules and training is not TrainingMode.PRESERVE:
                modules[0].train(training is TrainingMode.TRAINING)
            recording, arguments = self._recorded()
            return _Translation(self, recording, arguments, opset).program()
        finally:
            _exporting = before
            for module, mode in zip(modules, modes, strict=True):
                module.training = mode

    def _recorded(self) -> tuple[Recording, list[list[Any]]]:
        """Run the model; return what it calls, and its arguments in each run."""
        for is_last in (False, True):
            with kept_state(self.model):
                runs, arguments = runs_of(self.inputs, self._run)
            try:
                return aligned(runs), arguments
            except SymbolicValueError:
                # A first run may do more than others: lazy parameters, caches that are filled.
                if is_last:
                    raise
        raise AssertionError("unreachable")

    def _run(self, leaves: list[Any]) -> Any:
        # Copies: the model may write to its arguments, and they must not share memory.
        for place in self.inputs.names:
            leaves[place] = leaves[place].detach().clone(memory_format=contiguous_format)
        args, kwargs = tree_unflatten(leaves, self.structure)
        return record(self.model, args, kwargs)


def _parameters(model: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters of a model's forward, as far as they are known."""
    function = model.forward if isinstance(model, Module) else model
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [each.name for each in parameters if each.kind in kinds]


def _paths(name: str, tree: Any) -> list[str]:
    """Return a name for each leaf of an argument."""
    if isinstance(tree, dict):
        return [path for key, each in tree.items() for path in _paths(f"{name}_{key}", each)]
    if isinstance(tree, tuple | list):
        return [path for i, each in enumerate(tree) for path in _paths(f"{name}_{i}", each)]
    return [name]


# ---- from calls to a graph


class _Translation:
    """Calls on their way to nodes."""

    def __init__(
        self, request: _Request, recording: Recording, arguments: list[list[Any]], opset: int
    ) -> None:
        self.request = request
        self.recording = recording
        self.arguments = arguments
        self.opset = opset
        self.graph = Graph(len(arguments))
        forms = self._forms()
        self.memories = [
            Memory(self.graph, size, forms.get(number, []))
            for number, size in enumerate(recording.sizes)
        ]
        self.tainted: set[int] = set()  # memory that depends on the inputs
        self.parameters: list[str] = []  # the names of initializers that are the model's
        self.inputs: dict[int, tuple[Value, Place]] = {}  # by the identity of memory
        self._read, self._needed = self._find_needed()

    def _forms(self) -> dict[int, list[Place]]:
        """Return the places by which calls see all of some memory, by its number."""
        forms: dict[int, list[Place]] = {}
        operands = [each for each in self.recording.outputs if each is not None]
        for call in self.recording.calls:
            operands += [
                each for each in (*call.inputs, *call.outputs) if isinstance(each, Operand)
            ]
        for memory, place in operands:
            nbytes = place.numel() * item_size(place.dtype)
            if nbytes == self.recording.sizes[memory] and place.is_dense():
                forms.setdefault(memory, []).append(place)
        return forms

    def _find_needed(self) -> tuple[set[int], set[int]]:
        """Return the memory that is read for the outputs, and the places of calls that make it."""
        read = {each.memory for each in self.recording.outputs if each is not None}
        needed = set()
        for number in reversed(range(len(self.recording.calls))):
            call = self.recording.calls[number]
            if call.op == "read" or read.intersection(each.memory for each in call.outputs):
                needed.add(number)
                read.update(each.memory for each in call.inputs if isinstance(each, Operand))
        return read, needed

    def program(self) -> ONNXProgram:
        """Return the finished graph."""
        self._add_inputs()
        self._add_outside()
        for number, call in enumerate(self.recording.calls):
            if number in self._needed:
                self._add(call)
        outputs = self._outputs()
        names = {
            value.name: [self._shown(i, size) for i, size in enumerate(sizes)]
            for value, sizes in outputs
        }
        interface = Interface(
            [(each.name, each.dtype, shape) for each, shape in self._input_shapes()],
            [(value.name, value.dtype, names[value.name]) for value, _ in outputs],
            self.parameters,
        )
        self._name_axes(interface)
        return ONNXProgram(self.graph, interface, self.opset)

    # ---- inputs, parameters, constants

    def _add_inputs(self) -> None:
        names = self.request.inputs.names
        for place, name in names.items():
            tensors = [leaves[place] for leaves in self.arguments]
            where = _place_of(tensors)
            value = Value(self.graph.name(name), where.dtype)
            self.graph.note_sizes(value, where.sizes, is_input=True)
            self.inputs[_C._memory_id(tensors[0])] = (value, where)

    def _input_shapes(self) -> list[tuple[Value, list[int | str]]]:
        shapes = []
        values = self.inputs.values()
        for place, (value, where) in zip(self.request.inputs.names, values, strict=True):
            axes = self.request.inputs.axes.get(place, {})
            shape = [axes.get(i, size.runs[0]) for i, size in enumerate(where.sizes)]
            shapes.append((value, shape))
        return shapes

    def _add_outside(self) -> None:
        """Give memory from outside what it holds: inputs, parameters, and whatever else."""
        named: dict[int, list[tuple[str, Tensor]]] = {}
        written: list[str] = []
        model = self.request.model
        if isinstance(model, Module):
            for name, tensor in (*model.named_parameters(), *model.named_buffers()):
                named.setdefault(_C._memory_id(tensor), []).append((name, tensor))
        for number, value in enumerate(self.recording.first.values):
            memory, nbytes, _, is_made, is_read, is_written, _ = value
            if is_made or memory is None:
                continue
            key = _C._memory_id(memory)
            if key in self.inputs:
                self.tainted.add(number)
                self.memories[number].write(self.inputs[key][1], self.inputs[key][0])
                continue
            tensors = named.get(key, [])
            covered = sum(each.numel() * each.element_size() for _, each in tensors)
            if covered < nbytes and is_read:
                if is_written:
                    raise OnnxExporterError(
                        "export: the model writes to a tensor that it keeps and that is neither a "
                        "parameter nor a buffer, so that what it held before is not known; "
                        "register it with register_buffer"
                    )
                self._add_raw(number, memory)
            for name, tensor in tensors:
                self._add_parameter(number, name, tensor)
                if is_written:
                    written.append(name)
        if written:
            warnings.warn(
                f"export: the model writes to {', '.join(written)}; a graph has no state, so that "
                "each run begins with what it holds now",
                OnnxExporterWarning,
                stacklevel=6,
            )

    def _add_raw(self, number: int, memory: Tensor) -> None:
        graph = self.graph
        zero, one = graph.size_of(0), graph.size_of(1)
        place = Place(zero, (graph.size_of(memory.numel()),), (one,), "uint8")
        self.memories[number].write(place, None, _content(memory))

    def _add_parameter(self, number: int, name: str, tensor: Tensor) -> None:
        value = self.graph.initializer(
            name, tuple(tensor.shape), dtype_name(tensor.dtype), _content(tensor)
        )
        self.parameters.append(value.name)
        self.memories[number].write(_place_of([tensor] * self.graph.runs), value)

    # ---- calls

    def _add(self, call: Call) -> None:
        if call.op == "constant":
            self._add_constant(call)
            return
        depends = any(
            isinstance(each, Operand) and each.memory in self.tainted for each in call.inputs
        )
        if call.op == "read":
            self._check_read(call, depends)
            return
        if depends:
            self.tainted.update(each.memory for each in call.outputs)
        emitter = EMITTERS.get(call.op)
        if emitter is None:
            raise UnsupportedOperatorError(
                f"export: {call.op} has no form in ONNX{_where(call)}; compute this part with "
                "other ops, or outside the exported model"
            )
        context = CallContext(self.graph, call, self.memories, self._read.__contains__)
        try:
            emitter(context)
        except CannotSay as reason:
            kind = UnsupportedOperatorError if self.graph.runs == 1 else SymbolicValueError
            raise kind(f"export: {call.op}: {reason}{_where(call)}") from None
        self._last = call

    def _add_constant(self, call: Call) -> None:
        (target,) = call.outputs
        if isinstance(call.data, Varying):
            raise SymbolicValueError(
                "export: elements that came from Python depend on the sizes of dynamic axes; "
                "compute them with tensors, as torch.arange does, or make these axes static"
            )
        data = call.data or b""
        item = max(len(data) // max(target.place.numel().runs[0], 1), 1)
        sizes = [each.constant for each in target.place.sizes]
        if target.place.dtype == "uint8" and len(sizes) == 1 and item == 1:
            self.memories[target.memory].write(target.place, None, data)
            return
        value = self.graph.raw_constant([each or 0 for each in sizes], target.place.dtype, data)
        self.memories[target.memory].write(target.place, value)

    def _check_read(self, call: Call, depends: bool) -> None:
        """Refuse what Python looked at, if it may be another in other runs."""
        if not depends:
            return
        if self._last is not None and self._last.op in _CHECKS:
            return
        maker = self._last.op if self._last is not None else "an input"
        if not call.line and self._last is not None:
            call = self._last
        raise UnsupportedOperatorError(
            f"export: the model looks at elements that depend on its inputs, what {maker} gave"
            f"{_where(call)}: a branch, an item() or a size that depends on elements has no form "
            "in ONNX; use torch.where and masks, or leave this part outside"
        )

    _last: Call | None = None

    # ---- outputs

    def _outputs(self) -> list[tuple[Value, tuple[Size, ...]]]:
        found = []
        leaves = self.recording.first.outputs
        kept = [i for i, each in enumerate(leaves) if each is not None]
        names = self.request.output_names
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
            found.append((name, *self._output(i, tensor)))
        self.request.expected = [leaves[i] for i in kept]
        return [(self.graph.output(value, name), sizes) for name, value, sizes in found]

    def _output(self, i: int, tensor: Tensor) -> tuple[Value, tuple[Size, ...]]:
        operand = self.recording.outputs[i]
        if operand is not None:
            try:
                return self.memories[operand.memory].read(operand.place), operand.place.sizes
            except CannotSay as reason:
                raise UnsupportedOperatorError(f"export: output {i}: {reason}") from None
        known = self.inputs.get(_C._memory_id(tensor))
        if known is not None:
            memory = Memory(self.graph, self.graph.size_of(0))
            memory.write(known[1], known[0])
            place = _place_of([tensor] * self.graph.runs)
            if self.graph.runs > 1:
                return known[0], known[1].sizes
            return memory.read(place), place.sizes
        place = _place_of([tensor] * self.graph.runs)
        value = self.graph.raw_constant(tuple(tensor.shape), place.dtype, _content(tensor))
        return value, place.sizes

    def _shown(self, axis: int, size: Size) -> int | str:
        known = size.constant
        if known is not None:
            return known
        for place, axes in self.request.inputs.axes.items():
            tensors = [leaves[place] for leaves in self.arguments]
            for each, symbol in axes.items():
                if Size(tensor.shape[each] for tensor in tensors) == size:
                    return symbol
        return f"dim_{'_'.join(map(str, size.runs))}"

    def _name_axes(self, interface: Interface) -> None:
        """Call dynamic axes of outputs as the caller calls them."""
        for name, _, shape in interface.outputs:
            for axis, symbol in self.request.output_axes.get(name, {}).items():
                shape[axis] = symbol


def _where(call: Call) -> str:
    return f", called at {call.line}" if call.line else ""


def _place_of(tensors: Sequence[Tensor]) -> Place:
    return Place(
        Size(each.storage_offset() for each in tensors),
        tuple(Size(sizes) for sizes in zip(*(each.shape for each in tensors), strict=True)),
        tuple(Size(sizes) for sizes in zip(*(each.stride() for each in tensors), strict=True)),
        dtype_name(tensors[0].dtype),
    )


def _content(tensor: Tensor) -> bytes:
    """Return the elements of a tensor as bytes, in order."""
    tensor = tensor.detach().cpu().contiguous()
    if dtype_name(tensor.dtype) == "bfloat16":
        tensor = tensor.view(_C.int16)
    return tensor.numpy().tobytes()
