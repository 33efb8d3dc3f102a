"""Where values lie: one arena, in which those that are not needed at the same time share memory."""

from bisect import insort
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from tapegrad import _C
from tapegrad.compiler.passes.text import Step, Text
from tapegrad.compiler.passes.tiles import Group

__all__ = ["Layout", "check_layout", "lay_out", "lay_out_tile"]

_ALIGNMENT = 64
_MOST_BLOCKS = 600  # that are placed in the order of their size, which takes longer


class Layout(NamedTuple):
    """Offsets of values in the arena, values that are constants, and how large the arena is."""

    offsets: dict[int, int]
    constants: set[int]
    arena_bytes: int


def lay_out(text: Text, groups: Sequence[Group] = ()) -> Layout:
    """Give a place to every value that is made and used within a run.

    Args:
        text: the program.
        groups: steps that run tile by tile: their values are needed from the first to the last.
    """
    first, last = _lifetimes(text, groups)
    constants = _constants(text)
    blocks = _blocks(text, first, last, constants, groups)
    placed = _in_order(blocks)
    if len(blocks) <= _MOST_BLOCKS:
        placed = min(placed, _largest_first(blocks), key=lambda each: each[1])
    offsets = {
        value: offset
        for block, offset in zip(blocks, placed[0], strict=True)
        for value in block.values
    }
    return Layout(offsets, constants, placed[1])


def lay_out_tile(text: Text, group: Group) -> Layout:
    """Give a place to each inner value of a group, for one tile."""
    steps = text.steps[group.begin : group.end]
    nbytes = [group.inner.get(value, 0) for value in range(len(text.nbytes))]
    others = {value for step in steps for value in (*step.reads(), *step.writes())}
    return lay_out(Text(steps, nbytes, others - group.inner.keys(), set()))


class _Block:
    """Memory of one value, or of several that take each other's place, while it is needed."""

    def __init__(self, value: int, nbytes: int, first: int, last: int) -> None:
        self.values = [value]
        self.size = max(-(-nbytes // _ALIGNMENT), 1) * _ALIGNMENT
        self.first = first
        self.last = last

    def meets(self, other: "_Block") -> bool:
        return self.first <= other.last and other.first <= self.last


def _blocks(
    text: Text,
    first: dict[int, int],
    last: dict[int, int],
    constants: set[int],
    groups: Sequence[Group],
) -> list[_Block]:
    """Return the blocks in the order in which they are needed.

    Within a group a result may take the place of an input that no later step reads, as elsewhere:
    the rows of a tile that are written are those that have been read.
    """
    blocks: dict[int, _Block] = {}
    last_use = _lifetimes(text)[1]
    alike = {n: group.alike for group in groups for n in range(group.begin, group.end)}
    for number, step in enumerate(text.steps):
        for value in dict.fromkeys((*step.writes(), *step.reads())):
            if value in blocks or value not in first or value in constants:
                continue
            source = _place_of_input(text, step, number, value, last_use, blocks)
            if source is None or source not in alike.get(number, blocks):
                blocks[value] = _Block(value, text.nbytes[value], first[value], last[value])
            else:
                block = blocks[value] = blocks[source]
                block.values.append(value)
                block.last = max(block.last, last[value])
    return list(dict.fromkeys(blocks.values()))


def _in_order(blocks: list[_Block]) -> tuple[list[int], int]:
    """Place blocks as an allocator would, the smallest free piece first."""
    arena = _Arena()
    offsets: dict[_Block, int] = {}
    ending: list[tuple[int, int, _Block]] = []
    for number, block in enumerate(blocks):
        while ending and ending[0][0] < block.first:
            done = heappop(ending)[2]
            arena.give(offsets[done], done.size)
        offsets[block] = arena.take(block.size)
        heappush(ending, (block.last, number, block))
    return [offsets[block] for block in blocks], arena.size


def _largest_first(blocks: list[_Block]) -> tuple[list[int], int]:
    """Place the largest first, each as low as those that are needed at the same time let it be."""
    placed: list[tuple[_Block, int]] = []
    offsets: dict[_Block, int] = {}
    for block in sorted(blocks, key=lambda each: -each.size):
        taken = sorted((offset, other.size) for other, offset in placed if other.meets(block))
        at = 0
        for offset, size in taken:
            if offset >= at + block.size:
                break
            at = max(at, offset + size)
        placed.append((block, at))
        offsets[block] = at
    size = max((offset + block.size for block, offset in placed), default=0)
    return [offsets[block] for block in blocks], size


def _lifetimes(text: Text, groups: Sequence[Group] = ()) -> tuple[dict[int, int], dict[int, int]]:
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    spans = {n: group for group in groups for n in range(group.begin, group.end)}
    inner = {value for group in groups for value in group.inner}
    for number, step in enumerate(text.steps):
        group = spans.get(number)
        for value in (*step.reads(), *step.writes()):
            if value in text.outside or value in text.kept or value in inner:
                continue
            first.setdefault(value, number if group is None else group.begin)
            last[value] = number if group is None else group.end - 1
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
    text: Text, step: Step, number: int, value: int, last: dict[int, int], blocks: dict[int, _Block]
) -> int | None:
    """Return the input that a result may be written over: it is not needed any more."""
    if step.name in ("read", "constant") or not step.inputs or not step.outputs:
        return None
    source, target = step.inputs[0], step.outputs[0]
    if not isinstance(source, tuple) or target[0] != value or source[0] == value:
        return None
    if source[0] not in blocks or last[source[0]] != number:
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

    def take(self, size: int) -> int:
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

    def give(self, offset: int, size: int) -> None:
        begin, end = offset, offset + size
        joined = [piece for piece in self._free if piece[0] + piece[1] == begin or piece[0] == end]
        for piece in joined:
            self._free.remove(piece)
            begin, end = min(begin, piece[0]), max(end, piece[0] + piece[1])
        insort(self._free, (begin, end - begin))


def check_layout(text: Text, layout: Layout, groups: Sequence[Group] = ()) -> None:
    """Raise if two values that are needed at the same time share memory."""
    first, last = _lifetimes(text, groups)
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
            same = layout.offsets[one] == layout.offsets[other]
            if not (same and _may_replace(text, one, other, groups)):
                raise AssertionError(f"values {one} and {other} share memory at step {begin}")


def _may_replace(text: Text, one: int, other: int, groups: Sequence[Group]) -> bool:
    """Whether one of two values may be written over the other."""
    first, last = _lifetimes(text)
    at, until = max(first[one], first[other]), min(last[one], last[other])
    group = next((each for each in groups if each.begin <= at < each.end), None)
    if group is not None and not {one, other} <= group.alike:
        return False
    if at == until:
        return bool(_C._op_overwrites(text.steps[at].name))
    return at > until and group is not None and text.nbytes[one] == text.nbytes[other]
