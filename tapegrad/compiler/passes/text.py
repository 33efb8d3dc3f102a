"""A captured program as passes see it: steps over values, which they change in place."""

from typing import Any

__all__ = ["Operand", "Step", "Text", "is_whole", "same_place"]

# A number, which is a literal, or (value, offset, shape, strides, dtype, device).
Operand = Any


class Step:
    """A call of an op, a guard ("read") or a constant."""

    __slots__ = ("attributes", "data", "inputs", "lift", "line", "name", "outputs")

    def __init__(
        self, step: tuple[Any, ...], lift: tuple[int, dict[str, Any]] | None = None
    ) -> None:
        self.name, self.inputs, self.attributes, self.outputs, self.data, self.line = step
        self.lift = lift  # which optimizer's options its numbers are, and of which group

    def copied(self) -> "Step":
        """Return another step that does the same."""
        parts = self.name, self.inputs, self.attributes, self.outputs, self.data, self.line
        return Step(parts, self.lift)

    def reads(self) -> list[int]:
        """Return the values that it reads."""
        return [each[0] for each in self.inputs if isinstance(each, tuple)]

    def writes(self) -> list[int]:
        """Return the values that it writes."""
        return [each[0] for each in self.outputs]

    def rename(self, names: dict[int, int]) -> None:
        """Let operands show other values."""
        if any(each in names for each in (*self.reads(), *self.writes())):
            self.inputs = tuple(_renamed(each, names) for each in self.inputs)
            self.outputs = tuple(_renamed(each, names) for each in self.outputs)


def _renamed(operand: Operand, names: dict[int, int]) -> Operand:
    if not isinstance(operand, tuple) or operand[0] not in names:
        return operand
    return (names[operand[0]], *operand[1:])


class Text:
    """Steps in order, and what is known of the values.

    Args:
        steps: the steps.
        nbytes: of each value.
        outside: values that existed before.
        kept: values that outlive a run.
    """

    def __init__(
        self, steps: list[Step], nbytes: list[int], outside: set[int], kept: set[int]
    ) -> None:
        self.steps = steps
        self.nbytes = nbytes
        self.outside = outside
        self.kept = kept
        self.renamed: dict[int, int] = {}  # values that are gone, and those that took their place
        self.copies: dict[int, int] = {}  # values that were added, and those whose place they take

    def add_value(self, like: int, nbytes: int | None = None) -> int:
        """Return a new value that is like another one, or of another size."""
        self.nbytes.append(self.nbytes[like] if nbytes is None else nbytes)
        number = len(self.nbytes) - 1
        self.copies[number] = self.copies.get(like, like)
        return number

    def final(self, value: int) -> int:
        """Return the value that stands for one of the beginning."""
        while value in self.renamed:
            value = self.renamed[value]
        return value


def is_whole(operand: Operand, nbytes: int) -> bool:
    """Whether an operand shows all bytes of its value, each once and in order."""
    _, offset, shape, strides, dtype, _ = operand
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return offset == 0 and expected * dtype.itemsize == nbytes and nbytes > 0


def same_place(one: Operand, other: Operand) -> bool:
    """Whether two operands show their values in the same way."""
    return bool(one[1:] == other[1:])
