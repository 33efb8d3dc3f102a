"""`export`: a model as a file that ONNX's runtimes run."""

import inspect
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

from tapegrad._C import Tensor
from tapegrad._types import contiguous_format
from tapegrad.nn.modules.module import Module
from tapegrad.onnx._capture import Recorded, Recording, aligned, kept_state, record
from tapegrad.onnx._dynamic import Inputs, axes_of_shapes, dynamic_axes, runs_of
from tapegrad.onnx._program import ONNXProgram
from tapegrad.onnx._translation import Names, Translation
from tapegrad.onnx.errors import OnnxExporterError, SymbolicValueError
from tapegrad.utils._pytree import tree_flatten, tree_unflatten

__all__ = [
    "OperatorExportTypes",
    "TrainingMode",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
]

_OPSETS = range(18, 24)
_DEFAULT_OPSET = 20  # PyTorch's

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


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Take a function of PyTorch's older exporter, which `export` does not call.

    An op of one's own is exported as what it is made of.

    Args:
        symbolic_name: ``"namespace::name"``.
        symbolic_fn: writes nodes for the op.
        opset_version: from which version on.
    """
    if "::" not in symbolic_name:
        raise OnnxExporterError(
            f"Failed to register operator {symbolic_name}. The symbolic name must match the format "
            "domain::name, and should start with a letter and contain only alphanumerical "
            "characters"
        )


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
        opset_version: of ONNX's ops, from 18 to 23; by default 20.
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
    opset = _DEFAULT_OPSET if opset_version is None else opset_version
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
        request.verify(program, training)
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
        for leaf in leaves:
            _check_leaf(leaf)
        held = model.state_dict().values() if isinstance(model, Module) else ()
        if any(isinstance(each, Tensor) and each.is_meta for each in (*leaves, *held)):
            raise OnnxExporterError(
                "export: expected tensors with elements, got one on the meta device; materialise "
                "the model with to_empty and load its parameters first"
            )

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

    def program(self, opset: int, training: TrainingMode) -> ONNXProgram:
        """Run the model and return its graph."""
        with self._mode(training):
            recording, arguments = self._recorded()
            names = Names(self.inputs, self.output_names, self.output_axes)
            return Translation(self.model, names, recording, arguments, opset).program()

    def verify(self, program: ONNXProgram, training: TrainingMode) -> None:
        """Compare a graph with the model on the example."""
        leaves = list(self.inputs.leaves)
        with self._mode(training), kept_state(self.model):
            expected = [each for each in self._run(leaves).outputs if each is not None]
        program._compare([self.inputs.leaves[place] for place in self.inputs.names], expected)

    @contextmanager
    def _mode(self, training: TrainingMode) -> Iterator[None]:
        """Put the model into a mode, and back again at the end."""
        global _exporting
        modules = list(self.model.modules()) if isinstance(self.model, Module) else []
        modes = [module.training for module in modules]
        before, _exporting = _exporting, True
        try:
            if modules and training is not TrainingMode.PRESERVE:
                modules[0].train(training is TrainingMode.TRAINING)
            yield
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

    def _run(self, leaves: list[Any]) -> Recorded:
        # Copies: the model may write to its arguments, and they must not share memory. What is kept
        # of them are aliases: it may also give an argument another shape.
        given = list(leaves)
        for place in self.inputs.names:
            given[place] = leaves[place].detach().clone(memory_format=contiguous_format)
            leaves[place] = given[place].detach()
        args, kwargs = tree_unflatten(given, self.structure)
        return record(self.model, args, kwargs)


def _check_leaf(leaf: Any) -> None:
    """Refuse an argument with tensors that would be taken for constants."""
    if isinstance(leaf, Tensor | Module):
        return
    inside = [
        name for name, each in getattr(leaf, "__dict__", {}).items() if isinstance(each, Tensor)
    ]
    if inside:
        raise TypeError(
            f"export: expected tensors in tuples, lists and dicts, got one in '{inside[0]}' of a "
            f"{type(leaf).__name__}; wrap the model in one that takes tensors"
        )


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
