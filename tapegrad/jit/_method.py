"""A traced function: its programs by the geometry of its arguments, how they are run.

A program is for one geometry. Where the function is at hand, one that was not traced is traced when
it first comes; a program from a file has its numbers as functions of sizes instead (`_sizes`), and
is put together for each size that comes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import contiguous_format
from tapegrad.jit._record import (
    Shown,
    plain_structure,
    structure_from_json,
    structure_to_json,
)
from tapegrad.jit._sizes import evaluate
from tapegrad.tape.program import Program, program_from
from tapegrad.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

__all__ = ["Arguments", "Built", "Template", "geometry"]

_MASK = (1 << 64) - 1


def geometry(leaves: Sequence[Tensor]) -> tuple[Any, ...]:
    """Return what a program depends on of its arguments."""
    return tuple((tuple(each.shape), each.dtype, str(each.device)) for each in leaves)


class Arguments:
    """How a function is called: the names of its parameters, and the structure of what they take.

    Args:
        names: of the parameters, in the order of positional arguments.
        example: by name, what the function was traced with.
    """

    def __init__(self, name: str, names: Sequence[str], structure: TreeSpec) -> None:
        self.name = name
        self.names = list(names)
        self.structure = structure
        self._plain = plain_structure(structure)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
        """Return the tensors of a call in order."""
        expected = ", ".join(self.names)
        if len(args) > len(self.names):
            raise RuntimeError(
                f"{self.name}() expected at most {len(self.names)} argument(s), {expected}, but "
                f"received {len(args)}"
            )
        given = dict(zip(self.names, args, strict=False))
        for name, each in kwargs.items():
            if name not in self.names or name in given:
                raise RuntimeError(f"{self.name}() got an unexpected argument '{name}'")
            given[name] = each
        for name in self.names:
            if name not in given:
                raise RuntimeError(f"{self.name}() is missing value for argument '{name}'")
        leaves, structure = tree_flatten([given[name] for name in self.names])
        for each in leaves:
            if not isinstance(each, Tensor):
                raise RuntimeError(
                    f"{self.name}() expected tensors, or lists, tuples and dicts of tensors, as in "
                    f"the trace, got {type(each).__name__}"
                )
        if plain_structure(structure) != self._plain:
            raise RuntimeError(
                f"{self.name}() expected arguments nested as in the trace: {expected} are "
                f"{structure_to_json(self._plain)}, got {structure_to_json(structure)}"
            )
        return leaves

    def split(self, leaves: list[Any], count: int) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of a call from its tensors: so many by position, others by name."""
        values = tree_unflatten(leaves, self.structure)
        return values[:count], dict(zip(self.names[count:], values[count:], strict=True))


class Built:
    """A program for one geometry, ready to run.

    Args:
        document: of a run, or of a template for some sizes.
        data: the bytes of guards and constants.
        devices: where memory of a recorded device is now.
        structure: of the result; by default as the document has it.
        shown: results that show arguments or state; others are the program's own.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        data: bytes,
        devices: Mapping[str, str] | None = None,
        structure: TreeSpec | None = None,
        shown: Mapping[int, Shown] | None = None,
    ) -> None:
        self._shown = shown or {}
        moved = devices or {}
        values = [
            [nbytes, moved.get(device, device), made] for nbytes, device, made in document["values"]
        ]
        self._document = {**document, "values": values}
        self._data = data
        self._structure = structure or structure_from_json(document["result"])
        self.program = program_from(self._document, data)
        if len(self.program.outputs) != self._structure.num_leaves:
            raise ValueError("the outputs do not fit the structure of the result")
        self._order = [f"output.{i}" for i in range(len(self.program.outputs))]
        self.inputs = {each.name: each for each in self.program.inputs}
        self._randoms = _randoms(self._document)

    def run(self, tensors: Mapping[str, Tensor]) -> Any:
        """Run the program on tensors by name; others than its inputs are ignored."""
        given = {}
        copies = []
        for shown in self._shown.values():
            if tensors[shown.owner].stride() != shown.strides:
                raise RuntimeError("run: a result shows memory that is laid out in another way")
        for name, argument in self.inputs.items():
            x = tensors[name]
            place = _laid_out(x) if name.startswith("input.") else x
            if argument.is_written and place.data_ptr() != x.data_ptr():
                copies.append((x, place))
            given[name] = place
        outputs = self._current().run(given)
        for x, place in copies:
            x.detach().copy_(place)
        results = [outputs[name] for name in self._order]
        for number, shown in self._shown.items():
            results[number] = shown.of(tensors[shown.owner])
        return tree_unflatten(results, self._structure)

    def _current(self) -> Program:
        """Return the program with the random numbers of this run."""
        if not self._randoms:
            return self.program
        _, begin, end = self._document["random"]
        seed, offset = _C._generator_state()
        steps = list(self._document["steps"])
        for number in self._randoms:
            attributes = [
                [name, _signed(seed)]
                if name == "seed"
                else [name, _signed(value + offset - begin)]
                if name == "offset"
                else [name, value]
                for name, value in steps[number]["attributes"]
            ]
            steps[number] = {**steps[number], "attributes": attributes}
        _C._rewind_generator((begin - end) & _MASK)
        return program_from({**self._document, "steps": steps}, self._data)


def _signed(number: int) -> int:
    number &= _MASK
    return number - (1 << 64) if number >> 63 else number


def _randoms(document: Mapping[str, Any]) -> list[int]:
    """Return the numbers of the steps that draw from the generator."""
    seed, begin, end = document["random"]
    devices = [device for _, device, _ in document["values"]]
    found = []
    for number, step in enumerate(document["steps"]):
        attributes = dict(step.get("attributes", ()))
        if "seed" not in attributes or attributes.get("dropout") == 0:
            continue
        if devices[step["outputs"][0][0]] != "cpu":
            raise RuntimeError(
                f"trace: {step['op']} draws random numbers on a GPU, which a trace cannot repeat; "
                "call .eval() on the model"
            )
        is_own = (attributes["seed"] ^ seed) & _MASK == 0
        if not is_own or not begin <= attributes["offset"] & _MASK <= end:
            raise RuntimeError(
                f"trace: {step['op']} draws from a generator of its own, which a trace cannot "
                "repeat; draw outside, and pass the numbers as an argument"
            )
        found.append(number)
    return found


def _laid_out(x: Tensor) -> Tensor:
    """Return an argument with the strides of the recorded one, which was contiguous."""
    return x if x.is_contiguous() else x.clone(memory_format=contiguous_format)


class Template:
    """A program whose numbers are functions of sizes.

    Args:
        document: merged from several runs, or that of one.
        data: the bytes of guards and constants.
        shapes: of the arguments; a string is the name of a dynamic axis.
        dtypes: of the arguments, by name.
        axes: the names of dynamic axes.
        is_batch: whether the only dynamic axis is the first one of all arguments and results, and
            no row depends on another.
        reason: why no axis is dynamic, if that was tried.
    """

    def __init__(
        self,
        document: dict[str, Any],
        data: bytes,
        shapes: list[list[int | str]],
        dtypes: list[str],
        axes: list[str],
        is_batch: bool = False,
    ) -> None:
        self.document = document
        self.data = data
        self.shapes = shapes
        self.dtypes = dtypes
        self.axes = axes
        self.is_batch = is_batch
        self.reason = ""

    def sizes(self, arguments: Arguments, leaves: Sequence[Tensor]) -> list[int]:
        """Return the sizes of the dynamic axes in a call, or refuse it."""
        found: dict[str, int] = {}
        for number, (x, shape, dtype) in enumerate(
            zip(leaves, self.shapes, self.dtypes, strict=True)
        ):
            text = f"{dtype}[{', '.join(map(str, shape))}]"
            given = str(x.dtype).removeprefix("torch.")
            fits = given == dtype and len(x.shape) == len(shape)
            for size, expected in zip(x.shape, shape, strict=False):
                if isinstance(expected, str):
                    fits = fits and found.setdefault(expected, size) == size
                else:
                    fits = fits and size == expected
            if not fits:
                why = f"; other sizes did not do: {self.reason}" if self.reason else ""
                if self.axes:
                    why = f"; axes that may vary: {', '.join(self.axes)}"
                raise RuntimeError(
                    f"{arguments.name}(): the program was traced for {text} as tensor {number} of "
                    f"its arguments ({', '.join(arguments.names)}), got "
                    f"{given}[{', '.join(map(str, x.shape))}]; trace the model with such arguments"
                    f"{why}"
                )
        sizes = [found[axis] for axis in self.axes]
        if 0 in sizes:
            raise RuntimeError(f"{arguments.name}(): expected at least one row, got none")
        return sizes

    def build(self, sizes: Sequence[int], devices: Mapping[str, str]) -> Built:
        """Return the program for some sizes, on some devices."""
        return Built(evaluate(self.document, sizes), self.data, devices)
