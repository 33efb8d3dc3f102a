"""Chains of pointwise calls run tile by tile, so that what is between them stays in the cache.

A group is a run of pointwise calls over as many elements, each of them in order. It is run for some
thousand elements at a time: what only the group reads needs memory for one tile of each thread.
Element i of a result depends on element i of the operands alone, if every value is shown in one way
by all of the group, so that the order of tiles does not matter.
"""

from typing import NamedTuple

from tapegrad import _C
from tapegrad.compiler.passes.text import Operand, Step, Text

__all__ = ["Group", "find_groups"]

_LEAST = 1 << 16  # elements: below, all of a chain is in the cache anyway
TILE = 16384  # elements: measured, with chains of 20 and 25 calls


class Group(NamedTuple):
    """Steps from `begin` up to `end` that run tile by tile."""

    begin: int
    end: int
    numel: int
    inner: set[int]  # values that nothing else uses


def find_groups(text: Text) -> list[Group]:
    """Return the groups of a program, in order."""
    uses: dict[int, list[int]] = {}
    for number, step in enumerate(text.steps):
        for value in (*step.reads(), *step.writes()):
            uses.setdefault(value, []).append(number)
    groups: list[Group] = []
    begin = 0
    while begin < len(text.steps):
        end = _end_of(text, begin)
        if end - begin > 1:
            first = text.steps[begin].outputs[0]
            inner = {
                value
                for step in text.steps[begin:end]
                for value in step.writes()
                if value not in text.outside
                and value not in text.kept
                and uses[value][0] >= begin
                and uses[value][-1] < end
                and _is_written_first(text.steps[begin:end], value)
            }
            groups.append(Group(begin, end, _numel(first), inner))
        begin = max(end, begin + 1)
    return groups


def _end_of(text: Text, begin: int) -> int:
    """Return where a group that begins at a step ends."""
    shown: dict[int, Operand] = {}
    numel = 0
    end = begin
    for step in text.steps[begin:]:
        if not _fits(step, numel, shown):
            break
        numel = _numel(step.outputs[0])
        end += 1
    return end


def _fits(step: Step, numel: int, shown: dict[int, Operand]) -> bool:
    if step.name in ("read", "constant") or not _C._op_overwrites(step.name):
        return False
    size = _numel(step.outputs[0])
    if size < _LEAST or (numel and size != numel):
        return False
    found = dict(shown)
    written = {each[0] for each in step.outputs}
    for each in (*step.inputs, *step.outputs):
        if not isinstance(each, tuple):
            continue
        is_number = _numel(each) == 1
        if is_number and each[0] not in written and each[0] not in shown:
            found.setdefault(each[0], each)
            continue
        if _numel(each) != size or not _is_in_order(each):
            return False
        if found.setdefault(each[0], each)[1:] != each[1:]:
            return False
    shown.update(found)
    return True


def _is_written_first(steps: list[Step], value: int) -> bool:
    for step in steps:
        if value in step.reads():
            return False
        if value in step.writes():
            return True
    return False


def _numel(operand: Operand) -> int:
    numel = 1
    for size in operand[2]:
        numel *= size
    return numel


def _is_in_order(operand: Operand) -> bool:
    expected = 1
    for size, stride in zip(reversed(operand[2]), reversed(operand[3]), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
