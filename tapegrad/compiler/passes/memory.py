"""Where values lie: one arena, in which those that are not needed at the same time share memory."""

from bisect import insort
from typing import NamedTuple

from tapegrad import _C
from tapegrad.compiler.passes.text import Step, Text

__all__ = ["Layout", "check_layout", "lay_out"]

_ALIGNMENT = 64


class Layout(NamedTuple):
    """Offsets of values in the arena, values that are constants, and how large the arena is."""

    offsets: dict[int, int]
    constants: set[int]
    arena_bytes: int


def lay_out(text: Text) -> Layout:
    """Give a place to every value that is made and used within a run."""
    first, last = _lifetimes(text)
    constants = _constants(text)
    arena = _Arena()
    offsets: dict[int, int] = {}
    taken: set[int] = set()  # values whose place went to another one
    for number, step in enumerate(text.steps):
        for value in dict.fromkeys((*step.writes(), *step.reads())):
            if value in offsets or value not in first or value in constants:
                continue
            place = _place_of_input(text, step, number, value, last, offsets, constants)
            if place is None:
                offsets[value] = arena.take(text.nbytes[value])
            else:
                offsets[value] = offsets[place]
                taken.add(place)
        for value in {*step.writes(), *step.reads()}:
            if value in offsets and last[value] == number and value not in taken:
                arena.give(offsets[value], text.nbytes[value])
    return Layout(offsets, constants, arena.size)


def _lifetimes(text: Text) -> tuple[dict[int, int], dict[int, int]]:
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, step in enumerate(text.steps):
        for value in (*step.reads(), *step.writes()):
            if value not in text.outside and value not in text.kept:
                first.setdefault(value, number)
                last[value] = number
    return first, last


def _constants(text: Text) -> set[int]:
    """Return the values that one constant fills and nothing else writes."""
    writers: dict[int, list[Step]] = {}
    for step in text.steps:
        for value in step.writes():
            writers.setdefault(value, []).append(step)
    return {
        value
        for value, steps in writers.items()
        if [step.name for step in steps] == ["constant"]
        and value not in text.outside
        and value not in text.kept
    }


def _place_of_input(
    text: Text,
    step: Step,
    number: int,
    value: int,
    last: dict[int, int],
    offsets: dict[int, int],
    constants: set[int],
) -> int | None:
    """Return the input that a result may be written over: it is not needed any more."""
    if step.name in ("read", "constant") or not step.inputs or not step.outputs:
        return None
    source, target = step.inputs[0], step.outputs[0]
    if not isinstance(source, tuple) or target[0] != value or source[0] == value:
        return None
    if source[0] not in offsets or last[source[0]] != number or source[0] in constants:
        return None
    if source[1:] != target[1:] or text.nbytes[source[0]] != text.nbytes[value]:
        return None
    alike = all(
        each[1:] == source[1:]
        for each in step.inputs
        if isinstance(each, tuple) and each[0] == source[0]
    )
    others = [each[0] for each in step.outputs[1:]]
    if not alike or source[0] in others or value in others or value in step.reads():
        return None
    return source[0] if _C._op_overwrites(step.name) else None


class _Arena:
    """Free pieces of memory, the smallest that fits first."""

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []  # offset, size, in order, never adjacent

    def take(self, nbytes: int) -> int:
        size = _rounded(nbytes)
        fitting = [piece for piece in self._free if piece[1] >= size]
        if fitting:
            piece = min(fitting, key=lambda each: each[1])
            self._free.remove(piece)
            if piece[1] > size:
                insort(self._free, (piece[0] + size, piece[1] - size))
            return piece[0]
        if self._free and sum(self._free[-1]) == self.size:
            offset, _ = self._free.pop()
        else:
            offset = self.size
        self.size = offset + size
        return offset

    def give(self, offset: int, nbytes: int) -> None:
        begin, end = offset, offset + _rounded(nbytes)
        joined = [piece for piece in self._free if piece[0] + piece[1] == begin or piece[0] == end]
        for piece in joined:
            self._free.remove(piece)
            begin, end = min(begin, piece[0]), max(end, piece[0] + piece[1])
        insort(self._free, (begin, end - begin))


def _rounded(nbytes: int) -> int:
    return max(-(-nbytes // _ALIGNMENT), 1) * _ALIGNMENT


def check_layout(text: Text, layout: Layout) -> None:
    """Raise if two values that are needed at the same time share memory."""
    first, last = _lifetimes(text)
    placed = [each for each in first if each in layout.offsets]
    for number, one in enumerate(placed):
        for other in placed[:number]:
            begin, end = max(first[one], first[other]), min(last[one], last[other])
            low = max(layout.offsets[one], layout.offsets[other])
            high = min(
                layout.offsets[one] + text.nbytes[one], layout.offsets[other] + text.nbytes[other]
            )
            if begin > end or low >= high:
                continue
            step = text.steps[begin]
            is_reuse = begin == end and layout.offsets[one] == layout.offsets[other]
            if not (is_reuse and _C._op_overwrites(step.name)):
                raise AssertionError(
                    f"values {one} and {other} share memory at step {begin}, {step.name}"
                )
