"""One run of a function as a document: its calls, what they work on, what it returned.

The document is JSON: the parts of a program as `tapegrad.tape` writes them, with the names of its
inputs (``input.0``, ``state.fc.weight``, ``constant.0``) and outputs, where the random generator
began and ended, and the structure of the result. `_sizes` merges documents of runs with other
sizes.
"""

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._ops import ops
from tapegrad.jit._state import state
from tapegrad.onnx._capture import listen
from tapegrad.tape._program_file import describe_program
from tapegrad.tape._program_names import named_inputs, named_outputs
from tapegrad.tape.program import Operand
from tapegrad.utils._pytree import TreeSpec, tree_flatten, treespec_leaf

__all__ = [
    "Look",
    "Run",
    "Shown",
    "plain_structure",
    "run_once",
    "structure_from_json",
    "structure_to_json",
    "without_classes",
]

_CHECKS = ("has_zero",)  # ops whose result is looked at only to refuse bad input
_GRAD_CONSTANT = (
    "Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter or "
    "input, or detaching the gradient"
)


class Look(NamedTuple):
    """Where Python looked at a value that depends on what the function is given."""

    maker: str
    line: str
    dtype: str
    numel: int


class Shown(NamedTuple):
    """A result in memory that was there before: how it shows an argument or a tensor of the state.

    Attributes:
        owner: that tensor's name.
        strides: its strides at the time.
        place: the shape, the strides and the offset from the owner's, or None for the owner itself.
    """

    owner: str
    strides: tuple[int, ...]
    place: tuple[tuple[int, ...], tuple[int, ...], int] | None

    def of(self, owner: Tensor) -> Tensor:
        """Return the same of another owner."""
        if self.place is None:
            return owner
        shape, strides, offset = self.place
        return owner.as_strided(shape, strides, owner.storage_offset() + offset)


class Run(NamedTuple):
    """A run of a function.

    Attributes:
        document: its calls, as JSON.
        data: the bytes of guards and constants.
        constants: tensors of outside that are neither arguments nor state, by name.
        result: what the function returned.
        structure: of the result.
        looks: where Python looked at values.
        random: the names of calls that draw random numbers.
        shown: by number, results in memory that was there before; a program returns copies.
    """

    document: dict[str, Any]
    data: bytes
    constants: dict[str, Tensor]
    result: Any
    structure: TreeSpec
    looks: list[Look]
    random: list[str]
    shown: dict[int, Shown]


def run_once(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
) -> Run:
    """Run a function and describe what it did.

    Args:
        function: what to run, with recording for gradients off.
        args, kwargs: its arguments.
        tensors: arguments and state by name.
    """
    outside = {_C._memory_id(each): name for name, each in tensors.items()}
    shown: dict[int, Shown] = {}

    def traced(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        leaves, structure = tree_flatten(without_classes(result))
        _check_leaves(result, leaves)
        made = {
            _C._memory_id(memory)
            for memory, _, _, is_made, _, is_written, _ in native.values()
            if memory is not None and is_made and is_written
        }
        for number, leaf in enumerate(leaves):
            owner = outside.get(_C._memory_id(leaf))
            if owner is not None and leaf.dtype is tensors[owner].dtype:
                shown[number] = _shown(leaf, owner, tensors[owner])
        return [_own(each, made, outside) for each in leaves], structure, result

    native = _C.Program()
    seed, begin = _C._generator_state()
    with state.tracing():
        _, (leaves, structure, result), steps, lines = listen(traced, args, kwargs, native)
    last_seed, end = _C._generator_state()
    if native.refusal:
        raise RuntimeError(f"trace: {native.refusal}, which a trace does not repeat")
    if last_seed != seed or end < begin:
        raise RuntimeError("trace: the function seeds the random generator, which a trace does not")
    constants = _constants(native, tensors)
    known = _used(native, {**tensors, **constants})
    inputs = named_inputs(native, known, (), (), ())
    outputs = named_outputs(native, {f"output.{i}": each for i, each in enumerate(leaves)}, None)
    document, data = describe_program(native.values(), steps, inputs, outputs)
    document["random"] = [seed, begin, end]
    document["result"] = structure_to_json(structure)
    random = {record.name for record in ops() if "random" in record.traits}
    return Run(
        document,
        data,
        constants,
        result,
        structure,
        _looks(steps, lines, {each.operand.value for each in inputs}),
        [step.op for step in steps if step.op in random],
        shown,
    )


def without_classes(result: Any) -> Any:
    """Return a result with plain tuples for those that ops such as ``topk`` return."""
    if isinstance(result, tuple):
        inner = [without_classes(each) for each in result]
        return type(result)(*inner) if hasattr(result, "_fields") else tuple(inner)
    if type(result) is list:
        return [without_classes(each) for each in result]
    if type(result) is dict:
        return {key: without_classes(each) for key, each in result.items()}
    return result


def _check_leaves(result: Any, leaves: Sequence[Any]) -> None:
    if not leaves or result is None:
        raise RuntimeError(
            "The traced function didn't return any values! Side-effects are not captured in "
            "traces, so it would be a no-op."
        )
    if not all(isinstance(each, Tensor) for each in leaves):
        raise RuntimeError(
            "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from "
            "traced functions"
        )


def _shown(leaf: Tensor, name: str, owner: Tensor) -> Shown:
    strides = tuple(owner.stride())
    if leaf is owner:
        return Shown(name, strides, None)
    offset = leaf.storage_offset() - owner.storage_offset()
    return Shown(name, strides, (tuple(leaf.shape), tuple(leaf.stride()), offset))


def _own(leaf: Tensor, made: set[int], outside: Mapping[int, str]) -> Tensor:
    """Return a result in memory that the program makes: what was there before is copied."""
    memory = _C._memory_id(leaf)
    if memory in made:
        return leaf
    if leaf.requires_grad and memory not in outside:
        raise RuntimeError(_GRAD_CONSTANT)
    return leaf.detach().clone()


def _constants(native: Any, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what the program reads of memory that is nobody's."""
    named = {_C._memory_id(each) for each in tensors.values()}
    dtypes: dict[int, Any] = {}
    for _, inputs, _, outputs, _, _ in native.steps():
        for operand in (*inputs, *outputs):
            if isinstance(operand, tuple):
                dtypes.setdefault(operand[0], operand[4])
    found: dict[str, Tensor] = {}
    used = {_C._memory_id(tensor): tensor for tensor, _ in native.used()}
    for number, (memory, _, _, is_made, _, is_written, span) in enumerate(native.values()):
        if is_made or memory is None or _C._memory_id(memory) in named or number not in dtypes:
            continue
        first = used.get(_C._memory_id(memory))
        if first is not None and first.requires_grad:
            raise RuntimeError(_GRAD_CONSTANT)
        if is_written:
            raise RuntimeError(
                "trace: the function writes to a tensor that is neither an argument nor a "
                "parameter or buffer; register it as a buffer, or compute a new one"
            )
        dtype = dtypes[number]
        begin = span[0] // dtype.itemsize
        count = -(-span[1] // dtype.itemsize) - begin
        found[f"constant.{len(found)}"] = _C._tensor_at(memory, dtype, (count,), (1,), begin)
    return found


def _used(native: Any, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors that the program found outside."""
    values = {
        _C._memory_id(memory)
        for memory, _, _, is_made, *_ in native.values()
        if memory is not None and not is_made
    }
    return {name: each for name, each in tensors.items() if _C._memory_id(each) in values}


def _looks(steps: Sequence[Any], lines: Sequence[str], sources: set[int]) -> list[Look]:
    """Return where Python looked at what depends on arguments or state."""
    tainted, found, last = set(sources), [], ("an argument", "")
    for step, line in zip(steps, lines, strict=True):
        read = {each.value for each in step.inputs if isinstance(each, Operand)}
        if step.op == "read":
            place: Any = step.inputs[0]
            if read & tainted and last[0] not in _CHECKS:
                numel = 1
                for size in place.shape:
                    numel *= size
                name = str(place.dtype).removeprefix("torch.")
                found.append(Look(last[0], line or last[1], name, numel))
        elif step.op != "constant":
            if read & tainted:
                tainted |= {output.value for output in step.outputs}
            last = step.op, line
    return found


# ---- structures


def structure_to_json(structure: TreeSpec) -> Any:
    """Return a structure as JSON; named tuples become tuples."""
    if structure.is_leaf():
        return None
    if structure.type not in (list, tuple, namedtuple) and structure.keys is None:
        raise RuntimeError(
            "trace: expected tensors in tuples, lists and dicts, got a container of type "
            f"{structure.type.__name__}"
        )
    children = [structure_to_json(each) for each in structure.children()]
    if structure.keys is None:
        return {"list" if structure.type is list else "tuple": children}
    if not all(isinstance(key, str) for key in structure.keys):
        raise RuntimeError("trace: expected dicts whose keys are strings")
    return {"dict": [list(each) for each in zip(structure.keys, children, strict=True)]}


def structure_from_json(document: Any) -> TreeSpec:
    """Return the structure that JSON describes."""
    if document is None:
        return treespec_leaf()
    ((kind, children),) = document.items()
    if kind == "dict":
        keys = [key for key, _ in children]
        if len(set(keys)) < len(keys) or not all(isinstance(key, str) for key in keys):
            raise ValueError("expected different strings as keys")
        inner = [structure_from_json(each) for _, each in children]
        return TreeSpec(dict, keys, inner)
    return TreeSpec(
        {"list": list, "tuple": tuple}[kind],
        None,
        [structure_from_json(each) for each in children],
    )


def plain_structure(structure: TreeSpec) -> TreeSpec:
    """Return a structure without regard to which class of dict or tuple it has."""
    if structure.is_leaf():
        return structure
    children = [plain_structure(each) for each in structure.children()]
    if structure.keys is not None:
        return TreeSpec(dict, structure.keys, children)
    if structure.type is namedtuple:
        return TreeSpec(tuple, None, children)
    return TreeSpec(structure.type, structure.context, children)
