"""Programs: recorded blocks as values, to be printed, compared, saved, loaded and run elsewhere.

A program is the list of calls that passed the dispatch point while a block was recorded, with
guards where values were looked at and constants where they came from Python. It names memory by
number and holds none of it: what the block found outside are the program's inputs, what it made is
made anew in each run. The file that a program is saved to is described in `_program_file`.
"""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._ops import ops
from tapegrad.tape._arguments import expect_type
from tapegrad.tape._memory import same_elements
from tapegrad.tape._program_file import build_program, read_program, write_program

__all__ = ["Argument", "Operand", "Program", "Step", "load_program"]

_SHOWN = 8  # elements of a constant


class Operand(NamedTuple):
    """What a call reads or writes: elements of a value.

    Attributes:
        value: the number of the value, which is memory.
        offset: where the first element lies, counted in elements.
        shape: its sizes.
        stride: its strides.
        dtype: of the elements.
        device: where the memory is.
    """

    value: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: Any
    device: str

    def __str__(self) -> str:
        name = str(self.dtype).removeprefix("torch.")
        text = f"%{self.value} {name}[{', '.join(map(str, self.shape))}]"
        if self.stride != _dense_strides(self.shape):
            text += f" strides ({', '.join(map(str, self.stride))})"
        if self.offset:
            text += f" from {self.offset}"
        return text if self.device == "cpu" else f"{text} on {self.device}"


class Step(NamedTuple):
    """A call of an op, or what happens beside calls.

    Attributes:
        op: the op's name; ``"read"`` where a value was looked at, ``"constant"`` where one came
            from Python.
        inputs: an `Operand` for each tensor, and a number for each number of the expression.
        attributes: (name, number) pairs, or (name, numbers) for those with one for each dimension.
        outputs: what it writes.
        data: the bytes that were seen, or that came from Python; None for a call.
        line: where a value was looked at, as far as known.
    """

    op: str
    inputs: tuple[Any, ...]
    attributes: tuple[tuple[str, Any], ...]
    outputs: tuple[Operand, ...]
    data: bytes | None = None
    line: str = ""

    def __str__(self) -> str:
        if self.op == "read":
            where = f"  # at {self.line}" if self.line else ""
            return f"expect {self.inputs[0]} == {_elements(self.inputs[0], self.data)}{where}"
        if self.op == "constant":
            return f"{self.outputs[0]} = {_elements(self.outputs[0], self.data)}"
        named = [f"{name}={_text(value)}" for name, value in self.attributes if name != "unused"]
        arguments = ", ".join([*map(str, self.inputs), *named])
        return f"{', '.join(map(str, self.outputs))} = {self.op}({arguments})"


class Argument(NamedTuple):
    """An input or an output of a program.

    Attributes:
        name: by which `Program.run` takes or returns it.
        operand: which elements of which value it is.
        is_read: whether the program reads what an input holds. One that is only written to may be
            left out.
        is_written: whether the program writes to it.
    """

    name: str
    operand: Operand
    is_read: bool
    is_written: bool

    def __str__(self) -> str:
        uses = {"read": self.is_read, "written": self.is_written}
        return f"{self.name}: {self.operand}, {' and '.join(use for use in uses if uses[use])}"


class Program:
    """The calls of a recorded block, as a value: `Tape.program` makes it, `load_program` loads it.

    Programs print as a listing, are equal when they have the same calls with the same geometry and
    attributes under the same names, and run on any tensors of the same geometry.

    Example:
        >>> x = torch.ones(2, 3)
        >>> with torch.tape.record(replay=True) as t:
        ...     y = x.softmax(1) * 0.5
        >>> program = t.program(names={"x": x}, outputs={"y": y})
        >>> print(program)
        inputs:
          x: %0 float32[2, 3], read
        steps:
          %1 float32[2, 3] = softmax(%0 float32[2, 3], dim=1)
          %2 float32[2, 3] = mul(%1 float32[2, 3], 0.5, dtype=float32)
        outputs:
          y: %2 float32[2, 3]
        >>> program.run({"x": torch.zeros(2, 3)})["y"].sum()
        tensor(1.)
    """

    def __init__(
        self, native: Any, inputs: tuple[Argument, ...], outputs: tuple[Argument, ...]
    ) -> None:
        self._native = native
        self._inputs = inputs
        self._outputs = outputs

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """What the program finds outside: each must be given to `run`, if it is read."""
        return self._inputs

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """What `run` returns."""
        return self._outputs

    @property
    def steps(self) -> list[Step]:
        """The calls, guards and constants, in order."""
        names = {record.name: record.attributes for record in ops()}
        return [_step(names, *each) for each in self._native.steps()]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The recorded tensors by name, to run on or to save; none in a program that was loaded."""
        values = self._native.values()
        found = {}
        for argument in self._inputs:
            memory, place = values[argument.operand.value][0], argument.operand
            if memory is not None:
                found[argument.name] = _C._tensor_at(
                    memory, place.dtype, place.shape, place.stride, place.offset
                )
        return found

    def __len__(self) -> int:
        return len(self._native)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        return (
            self._inputs == other._inputs
            and self._outputs == other._outputs
            and self._native.is_same(other._native)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"<Program of {len(self)} steps, {len(self._inputs)} inputs and "
            f"{len(self._outputs)} outputs>"
        )

    def __str__(self) -> str:
        outputs = [f"{each.name}: {each.operand}" for each in self._outputs]
        parts = [("inputs", self._inputs), ("steps", self.steps), ("outputs", outputs)]
        lines = []
        for title, entries in parts:
            lines += [f"{title}:", *(f"  {each}" for each in entries)]
        return "\n".join(lines)

    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run the program on tensors of the recorded geometry.

        What the block wrote outside is written in the tensors that are given: parameters, the state
        of an optimizer. What it made is made anew. Random ops give the numbers of the recording
        again. Nothing is recorded for gradients.

        Args:
            inputs: tensors by the names of `inputs`, with the dtypes, sizes and strides of the
                recorded ones.

        Returns:
            The outputs by name.

        Raises:
            RuntimeError: a guard does not hold: the block looked at a value that is another now.
                Nothing has changed then.
            ValueError: an input is missing, unknown, or does not fit.

        Example:
            >>> weight = torch.ones(2)
            >>> with torch.tape.record(replay=True) as t:
            ...     _ = weight.mul_(3.0)
            >>> program = t.program(names={"weight": weight})
            >>> other = torch.tensor([1.0, 2.0])
            >>> program.run({"weight": other})["output"] is other
            False
            >>> other
            tensor([3., 6.])
        """
        expect_type("run", "inputs", inputs, Mapping, "a dict from names to tensors")
        known = {argument.name: argument for argument in self._inputs}
        for name in inputs:
            if name not in known:
                raise ValueError(f"run: the program has no input '{name}'; it has {_listed(known)}")
        given: dict[int, list[tuple[Argument, Tensor]]] = {}
        for name, argument in known.items():
            if name in inputs:
                _check(argument, inputs[name])
                given.setdefault(argument.operand.value, []).append((argument, inputs[name]))
            elif argument.is_read:
                raise ValueError(f"run: expected input '{name}' ({argument.operand}), got none")
        values = self._native.values()
        bound = [
            each for value, tensors in given.items() for each in _bound(values[value], tensors)
        ]
        results = self._native.run(bound, [tuple(each.operand) for each in self._outputs])
        return {each.name: result for each, result in zip(self._outputs, results, strict=True)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program to a file, for `load_program`.

        The file has the calls, what guards compare with and what came from Python; not what the
        inputs hold. It takes the place of one that is there only when it is complete.

        Args:
            path: where to.
        """
        write_program(
            os.fspath(path), self._native.values(), self.steps, self._inputs, self._outputs
        )


def load_program(path: str | os.PathLike[str]) -> Program:
    """Load a program that `Program.save` wrote, perhaps in another process.

    Neither the model nor any other code of the recorded block is needed. A file that is damaged,
    of another version, or that names ops, attributes or devices which are not there is refused, and
    so is a call whose operands do not lie within the memory of their values. Beyond that a program
    is code: run only those of people whom you trust.

    Args:
        path: of the file.

    Raises:
        ValueError: the file is no program that this build can run; the text says why.

    Example:
        >>> import os, tempfile
        >>> x = torch.ones(2)
        >>> with torch.tape.record(replay=True) as t:
        ...     y = x.exp()
        >>> path = os.path.join(tempfile.mkdtemp(), "block.program")
        >>> t.program(names={"x": x}).save(path)
        >>> torch.tape.load_program(path).run({"x": torch.zeros(2)})
        {'output': tensor([1., 1.])}
    """
    return _program_of(
        *read_program(os.fspath(path), {record.name: record.attributes for record in ops()})
    )


def program_from(parts: Mapping[str, Any], data: bytes) -> Program:
    """Return the program of what `describe_program` gave."""
    return _program_of(
        *build_program(parts, data, {record.name: record.attributes for record in ops()})
    )


def _program_of(native: Any, inputs: list[Any], outputs: list[Any]) -> Program:
    arguments = [
        tuple(Argument(each[0], Operand(*each[1]), *each[2:]) for each in listed)
        for listed in (inputs, outputs)
    ]
    return Program(native, *arguments)


# ---- from the native program


def _step(
    names: Mapping[str, tuple[str, ...]],
    op: str,
    inputs: tuple[Any, ...],
    attributes: tuple[Any, ...],
    outputs: tuple[Any, ...],
    data: bytes | None,
    line: str,
) -> Step:
    read = tuple(Operand(*each) if isinstance(each, tuple) else each for each in inputs)
    named = () if data is not None else tuple(_named(names[op], attributes))
    return Step(op, read, named, tuple(Operand(*each) for each in outputs), data, line)


def _named(names: tuple[str, ...], numbers: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Return the numbers of a call by name; a name with a star has several."""
    starred = sum(name.endswith("*") for name in names)
    count = (len(numbers) - len(names) + starred) // starred if starred else 0
    rest = iter(numbers)
    return [
        (name[:-1], tuple(next(rest) for _ in range(count)))
        if name.endswith("*")
        else (name, next(rest))
        for name in names
    ]


# ---- running


def _check(argument: Argument, tensor: Any) -> None:
    """Refuse a tensor that does not fit an input."""
    name, place = argument.name, argument.operand
    expect_type("run", f"input '{name}'", tensor, Tensor, "a tensor")
    found = {
        "dtype": (place.dtype, tensor.dtype),
        "shape": (place.shape, tuple(tensor.shape)),
        "device": (place.device, str(tensor.device)),
    }
    for what, (expected, given) in found.items():
        if expected != given:
            raise ValueError(f"run: expected input '{name}' of {what} {expected}, got {given}")
    strides = zip(place.shape, place.stride, tensor.stride(), strict=True)
    if 0 not in place.shape and any(size > 1 and one != other for size, one, other in strides):
        raise ValueError(
            f"run: expected input '{name}' of strides {place.stride}, got {tensor.stride()}; copy "
            "it to a tensor that is laid out like the recorded one"
        )


def _bound(value: Any, tensors: list[tuple[Argument, Tensor]]) -> list[tuple[int, Tensor, int]]:
    """Return (value, tensor, recorded offset) of the tensors that are given for a value."""
    places = {
        (_C._storage_id(tensor), (tensor.storage_offset() - argument.operand.offset))
        for argument, tensor in tensors
    }
    if len(places) > 1:
        return [_gathered(value, tensors)]
    return [(each.operand.value, tensor, each.operand.offset) for each, tensor in tensors]


def _gathered(value: Any, tensors: list[tuple[Argument, Tensor]]) -> tuple[int, Tensor, int]:
    """Bring tensors that shared memory when they were recorded together in such memory."""
    names = " and ".join(f"'{argument.name}'" for argument, _ in tensors)
    if any(argument.is_written for argument, _ in tensors):
        raise ValueError(
            f"run: inputs {names} shared memory when they were recorded, and the program writes "
            "it; pass tensors that share memory in the same way"
        )
    begin, end = value[-1]
    begin -= begin % 64
    first = tensors[0][0].operand
    scratch = _C.empty(end - begin, dtype=_C.uint8, device=first.device)
    shown = []
    for argument, tensor in tensors:
        place = argument.operand
        offset = place.offset - begin // place.dtype.itemsize
        view = _C._tensor_at(scratch, place.dtype, place.shape, place.stride, offset)
        view.copy_(tensor.detach())
        shown.append((view, tensor))
    if not all(same_elements(view, tensor) for view, tensor in shown):
        raise ValueError(
            f"run: inputs {names} shared memory when they were recorded, and the tensors that are "
            "given for them differ there"
        )
    return first.value, shown[0][0], first.offset


# ---- text


def _dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _elements(operand: Operand, data: bytes | None) -> str:
    """Return the elements of a constant as text, or how many bytes there are."""
    if not data or len(data) > _SHOWN * operand.dtype.itemsize:
        return f"<{len(data or b'')} bytes>"
    elements = _C.frombuffer(bytearray(data), dtype=operand.dtype)
    return str(elements.reshape(operand.shape).tolist())


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value).removeprefix("torch.")


def _listed(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
