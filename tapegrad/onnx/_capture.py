"""Running a model to see its calls: once, or once for each of several sizes of dynamic axes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.onnx._paths import Place
from tapegrad.onnx._sizes import Size
from tapegrad.onnx.errors import OnnxExporterError, SymbolicValueError
from tapegrad.tape.program import Program, Step
from tapegrad.utils._pytree import tree_flatten

__all__ = [
    "SMALL",
    "Call",
    "Operand",
    "Recorded",
    "Recording",
    "Varying",
    "aligned",
    "content",
    "dtype_name",
    "kept_state",
    "listen",
    "place_of",
    "record",
]


SMALL = 1 << 16  # bytes of a constant that is kept rather than computed


class Recorded(NamedTuple):
    """A run of a model.

    Attributes:
        steps: its calls, and what happened beside them.
        lines: of the steps; empty where it is not known.
        values: memory by number: (tensor or None, bytes, device, made, read, written, used).
        outputs: the tensors that it returned, flat.
        places: the numbers of the outputs' memory, or None for one that no call touched.
    """

    steps: list[Step]
    lines: list[str]
    values: list[Any]
    outputs: list[Any]
    places: list[int | None]


class Operand(NamedTuple):
    """What a call reads or writes: a place in the memory of a number."""

    memory: int
    place: Place


class Varying(NamedTuple):
    """A number or attribute that is another in each run, and no size."""

    runs: tuple[Any, ...]


class Call(NamedTuple):
    """A call as it was in all runs."""

    op: str
    inputs: tuple[Any, ...]
    attributes: dict[str, Any]
    outputs: tuple[Operand, ...]
    data: bytes | Varying | None
    line: str


class Recording(NamedTuple):
    """All runs of a model as one.

    Attributes:
        calls: in order.
        sizes: of memory by number, in bytes.
        values: what is known of memory by number, in each run.
        outputs: where the tensors that were returned lie, or None for one that no call touched.
        leaves: what was returned, flat, in each run.
    """

    calls: list[Call]
    sizes: list[Size]
    values: list[list[Any]]
    outputs: list[Operand | None]
    leaves: list[list[Any]]


def dtype_name(dtype: Any) -> str:
    """Return a dtype by its name; complex ones and others that hardly compute are refused."""
    if dtype.is_complex:
        raise OnnxExporterError(
            f"torch.onnx.export: there is no form for tensors of {dtype}; export a model of their "
            "real and imaginary parts, see torch.view_as_real"
        )
    name = str(dtype).removeprefix("torch.")
    if name.startswith(("float8", "uint16", "uint32", "uint64")):
        raise OnnxExporterError(
            f"torch.onnx.export: there is no form for tensors of {dtype}; convert them to another "
            "dtype in the model"
        )
    return name


def content(tensor: Tensor) -> bytes:
    """Return the elements of a tensor as bytes, in order."""
    tensor = tensor.detach().cpu().contiguous()
    if dtype_name(tensor.dtype) == "bfloat16":
        tensor = tensor.view(_C.int16)
    return tensor.numpy().tobytes()


@contextmanager
def kept_state(model: Any) -> Iterator[None]:
    """Put parameters, buffers and the states of random generators back at the end."""
    tensors = []
    if hasattr(model, "state_dict"):
        tensors = [*model.parameters(), *model.buffers()]
    before = [(each, each.detach().clone()) for each in tensors if each.device.type != "meta"]
    state = _C.get_rng_state()
    try:
        yield
    finally:
        _C.set_rng_state(state)
        for tensor, copy in before:
            _C._copy_unseen(tensor.detach(), copy)


def record(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Recorded:
    """Run a function and return what it did."""
    program, result, steps, lines = listen(function, args, kwargs)
    if program.refusal:
        raise OnnxExporterError(f"export: {program.refusal}, which a graph cannot tell")
    outputs, _ = tree_flatten(result)
    values = program.values()
    numbers = {
        _C._memory_id(memory): i for i, (memory, *_) in enumerate(values) if memory is not None
    }
    places = [
        numbers.get(_C._memory_id(each)) if isinstance(each, Tensor) else None for each in outputs
    ]
    # Large temporaries of several runs are more than a model needs.
    for i, (_, nbytes, _, is_made, *rest) in enumerate(values):
        if is_made and nbytes > SMALL:
            values[i] = (None, nbytes, "", is_made, *rest)
    return Recorded(steps, lines, values, outputs, places)


def listen(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    program: Any = None,
) -> tuple[Any, Any, list[Step], list[str]]:
    """Run a function; return the native program, the result, the steps and their lines."""
    program, profile = _C.Program() if program is None else program, _C._Profile(False, True)
    with no_grad():
        has_lines = _started(profile)
        try:
            with program:
                result = function(*args, **kwargs)
        finally:
            if has_lines:
                profile.stop()
    steps = Program(program, (), ()).steps
    events = [(each[0], each[9] or "") for each in profile.events() if each[1] == "op"]
    return program, result, steps, _lines(steps, events)


def _started(profile: Any) -> bool:
    """Start a profile for the lines of calls, unless the thread has one already."""
    try:
        profile.start("")
    except RuntimeError:
        return False
    return True


def _lines(steps: Sequence[Step], events: Sequence[tuple[str, str]]) -> list[str]:
    """Return the line of each step; calls and events come in one order."""
    lines, rest = [], iter(events)
    for step in steps:
        if step.data is None:
            line = next((line for name, line in rest if name == step.op), "")
        else:
            line = step.line
        lines.append(line)
    return lines


# ---- several runs as one


def aligned(runs: Sequence[Recorded]) -> Recording:
    """Return runs with other sizes as one, or refuse them if they did not do the same."""
    first = runs[0]
    for other in runs[1:]:
        pairs = zip(first.steps, other.steps, first.lines, strict=False)
        for step, beside, line in pairs:
            if step.op != beside.op or _outline(step) != _outline(beside):
                raise SymbolicValueError(
                    f"export: what the model calls depends on the sizes of dynamic axes: {step.op} "
                    f"in one run is {beside.op} in another{_at(line)}; make these axes static"
                )
        if len(first.steps) != len(other.steps):
            raise SymbolicValueError(
                f"export: the number of calls depends on the sizes of dynamic axes: "
                f"{len(first.steps)} in one run, {len(other.steps)} in another, as in a loop over "
                "an axis; make these axes static"
            )
    calls = [_call([run.steps[i] for run in runs], first.lines[i]) for i in range(len(first.steps))]
    sizes = [Size(run.values[i][1] for run in runs) for i in range(len(first.values))]
    outputs = [_output(runs, i) for i in range(len(first.outputs))]
    values = [run.values for run in runs]
    return Recording(calls, sizes, values, outputs, [run.outputs for run in runs])


def _outline(step: Step) -> list[Any]:
    """Return what must be the same of a step in all runs: memory, ranks and dtypes of operands."""
    return [
        (each[0], len(each[2]), each[4]) if isinstance(each, tuple) else None
        for each in (*step.inputs, None, *step.outputs)
    ]


def _at(line: str) -> str:
    return f", called at {line}" if line else ""


def _call(steps: Sequence[Step], line: str) -> Call:
    first = steps[0]
    inputs = []
    for number, each in enumerate(first.inputs):
        found = [step.inputs[number] for step in steps]
        inputs.append(_operand(found) if isinstance(each, tuple) else _number(found))
    attributes = {}
    for number, (name, _) in enumerate(first.attributes):
        attributes[name] = _number([step.attributes[number][1] for step in steps])
    outputs = tuple(
        _operand([step.outputs[i] for step in steps]) for i in range(len(first.outputs))
    )
    data: Any = Varying(tuple(step.data for step in steps))
    if all(step.data == first.data for step in steps):
        data = first.data
    return Call(first.op, tuple(inputs), attributes, outputs, data, line)


def _operand(found: Sequence[Any]) -> Operand:
    first = found[0]
    return Operand(
        first.value,
        Place(
            Size(each.offset for each in found),
            tuple(Size(sizes) for sizes in zip(*(each.shape for each in found), strict=True)),
            tuple(Size(sizes) for sizes in zip(*(each.stride for each in found), strict=True)),
            dtype_name(first.dtype),
        ),
    )


def _number(found: Sequence[Any]) -> Any:
    """Return a number: what it is in all runs, a `Size`, or `Varying`."""
    if all(each == found[0] or each != each for each in found):
        return found[0]
    if all(isinstance(each, int | float) and float(each).is_integer() for each in found):
        return Size(int(each) for each in found)
    return Varying(tuple(found))


def _output(runs: Sequence[Recorded], number: int) -> Operand | None:
    """Return where a tensor that was returned lies."""
    memory = runs[0].places[number]
    tensors = [run.outputs[number] for run in runs]
    if any(run.places[number] != memory for run in runs):
        raise SymbolicValueError(
            f"export: which tensor the model returns as output {number} depends on the sizes of "
            "dynamic axes; make these axes static"
        )
    if memory is None or any(not isinstance(each, Tensor) for each in tensors):
        return None
    return Operand(memory, place_of(tensors))


def place_of(tensors: Sequence[Tensor]) -> Place:
    """Return where a tensor lies in its memory, which is one in each run."""
    return Place(
        Size(each.storage_offset() for each in tensors),
        tuple(Size(sizes) for sizes in zip(*(each.shape for each in tensors), strict=True)),
        tuple(Size(sizes) for sizes in zip(*(each.stride() for each in tensors), strict=True)),
        dtype_name(tensors[0].dtype),
    )
