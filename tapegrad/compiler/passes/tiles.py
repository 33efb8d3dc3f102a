"""Calls in a row run tile by tile, so that what is between them stays in the cache.

A group is a run of steps that work row by row on a grid (`rows`), or element by element. It is run
for some rows at a time, as many as have some thousand elements together: what only the group reads
needs memory for one tile of each thread. A row of a result depends on that row of the operands
alone, if every value that the group writes is shown in one way by all of it, so that the order of
tiles does not matter. Steps in between that do not fit, and that the rest of the group does not
wait for, run after it. Where a call may refuse values, what existed before is written before it or
after it as it was: an error leaves behind what it leaves without a trace.
"""

from dataclasses import dataclass, field
from math import gcd
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad.compiler.passes.rows import (
    FULL,
    ROW,
    Grid,
    Shown,
    fit,
    may_fail,
    numel,
    sums_of,
)
from tapegrad.compiler.passes.text import Operand, Step, Text

__all__ = ["Group", "check_groups", "find_groups"]

_LEAST = 1 << 16  # elements: below, all of a group is in the cache anyway
_TILE = 16384  # elements: measured, with chains of 20 and 25 calls
_DRAWN = 64  # elements that random calls draw together
_FEWEST = 2  # steps of a group
_MOST_LATER = 8  # steps that a group goes on beyond

Key = tuple[str, int, Any] | None


class Group(NamedTuple):
    """Steps from `begin` up to `end` that run tile by tile.

    Attributes:
        begin: the first step.
        end: the step after the last.
        grid: the rows.
        tile: how many of them are run at a time.
        shown: the operands of each step.
        inner: values that nothing else uses, and the bytes that each needs for a tile.
        alike: values that all of it shows in one way, row by row.
    """

    begin: int
    end: int
    grid: Grid
    tile: int
    shown: list[list[Shown]]
    inner: dict[int, int]
    alike: set[int]


@dataclass
class _Draft:
    """A group that is being put together."""

    outside: set[int]  # values that existed before
    grid: Grid | None = None
    steps: list[Step] = field(default_factory=list)
    before: list[Step] = field(default_factory=list)  # that run before it
    later: list[Step] = field(default_factory=list)  # that the group goes on beyond
    is_random: bool = False
    may_fail: bool = False  # one of the steps, or of those that it goes on beyond
    views: dict[int, set[Key]] = field(default_factory=dict)  # by value, how it is shown
    written: set[int] = field(default_factory=set)
    later_reads: set[int] = field(default_factory=set)
    later_writes: set[int] = field(default_factory=set)

    def take(self, step: Step) -> bool:
        """Add a step if it fits."""
        if self._waits_for_later(step) or self._shows_in_errors(step):
            return False
        found = fit(step, self.grid)
        if found is None or (self.grid is None and found[0].numel < _LEAST):
            return False
        is_random = self.is_random or "seed" in _C._op_attributes(step.name)
        views = _views([step], [found[1]])
        for value, keys in self.views.items():
            views[value] = keys | views.get(value, set())
        written = self.written | _written(step)
        if not tile_of(found[0], is_random) or not _are_alike(views, written):
            return False
        self.grid, self.views, self.written, self.is_random = found[0], views, written, is_random
        self.steps.append(step)
        self.may_fail |= may_fail(step)
        return True

    def pass_over(self, step: Step) -> None:
        """Let a step run after the group, or before it where that is possible."""
        used = self.views.keys() | self.later_reads | self.later_writes
        if not step.reads() and used.isdisjoint(step.writes()):
            self.before.append(step)
            return
        self.later.append(step)
        self.may_fail |= may_fail(step)
        self.later_reads.update(step.reads())
        self.later_writes.update(step.writes())

    def _shows_in_errors(self, step: Step) -> bool:
        """Whether memory that existed before could be written too early, or in part."""
        if self.may_fail and not self.outside.isdisjoint(step.writes()):
            return True
        written = (*self.written, *self.later_writes, *step.writes())
        return may_fail(step) and not self.outside.isdisjoint(written)

    def _waits_for_later(self, step: Step) -> bool:
        return any(value in self.later_writes for value in step.reads()) or any(
            value in self.later_writes or value in self.later_reads for value in step.writes()
        )


def find_groups(text: Text) -> list[Group]:
    """Return the groups of a program, in order; steps in between move behind them."""
    found: list[tuple[int, int, _Draft]] = []
    begin = 0
    while begin < len(text.steps):
        draft, end = _draft_from(text, begin)
        if len(draft.steps) >= _FEWEST:
            text.steps[begin:end] = [*draft.before, *draft.steps, *draft.later]
            begin += len(draft.before)
            found.append((begin, begin + len(draft.steps), draft))
        begin += max(len(draft.steps), 1)
    uses: dict[int, list[int]] = {}
    for number, step in enumerate(text.steps):
        for value in (*step.reads(), *step.writes()):
            uses.setdefault(value, []).append(number)
    return [_settled(text, uses, *each) for each in found]


def _draft_from(text: Text, begin: int) -> tuple[_Draft, int]:
    """Return the group that begins at a step, and the step after all that it goes on beyond."""
    draft = _Draft(text.outside)
    before, later, end = 0, 0, begin
    for number in range(begin, len(text.steps)):
        step = text.steps[number]
        if step.name == "read" or step.lift:
            break  # what is written before is not written after it
        first, rest = sums_of(text, step)
        if draft.take(first):
            for each in rest:
                draft.pass_over(each)
            before, later, end = len(draft.before), len(draft.later), number + 1
        elif not draft.steps or len(draft.later) == _MOST_LATER:
            break
        else:
            draft.pass_over(step)
    del draft.before[before:], draft.later[later:]
    return draft, end


def _settled(text: Text, uses: dict[int, list[int]], begin: int, end: int, draft: _Draft) -> Group:
    grid = draft.grid or Grid(0)
    steps = text.steps[begin:end]
    shown = [found[1] for step in steps if (found := fit(step, grid))]
    tile = tile_of(grid, draft.is_random)
    views = _views(steps, shown)
    inner = {}
    for value in draft.written:
        is_known = value in text.outside or value in text.kept
        if is_known or uses[value][0] < begin or uses[value][-1] >= end:
            continue
        key = next(iter(views[value]))
        if key is not None and key[0] in (FULL, ROW) and _is_written_first(steps, value):
            elements = (grid.length or 1) if key[0] == FULL else 1
            inner[value] = tile * elements * key[2].itemsize
    alike = {value for value, keys in views.items() if len(keys) == 1 and None not in keys}
    return Group(begin, end, grid, tile, shown, inner, alike)


def tile_of(grid: Grid, is_random: bool) -> int:
    """Return how many rows are run at a time, or 0 if that cannot be done."""
    length = grid.length or 1
    # Random calls begin where what they draw together begins.
    unit = _DRAWN // gcd(length, _DRAWN) if is_random else 1
    most = max(_TILE // length, 1)
    if not grid.part:
        return most - most % unit
    # Parts are whole numbers of tiles.
    fitting = (rows for rows in range(most, 0, -1) if rows % unit == 0 and grid.part % rows == 0)
    return next(fitting, 0)


def _views(steps: list[Step], shown: list[list[Shown]]) -> dict[int, set[Key]]:
    """Return how steps show each value; None stands for what can be read only."""
    views: dict[int, set[Key]] = {}
    for step, operands in zip(steps, shown, strict=True):
        for operand, each in zip((*step.inputs, *step.outputs), operands, strict=True):
            if isinstance(operand, tuple):
                views.setdefault(operand[0], set()).add(_key(operand, each))
    return views


def _key(operand: Operand, shown: Shown) -> Key:
    if shown.cut is None or shown.kind == "other":
        return None
    return shown.kind, operand[1], operand[4]


def _written(step: Step) -> set[int]:
    return {out[0] for out in step.outputs if numel(out)}


def _are_alike(views: dict[int, set[Key]], written: set[int]) -> bool:
    """Whether each value that is written is shown in one way."""
    return all(len(views[value]) == 1 and None not in views[value] for value in written)


def _is_written_first(steps: list[Step], value: int) -> bool:
    for step in steps:
        if value in step.reads():
            return False
        if value in step.writes():
            return True
    return False


def check_groups(text: Text, groups: list[Group]) -> None:
    """Raise if a group is not what a plan takes it for."""
    for group in groups:
        steps = text.steps[group.begin : group.end]
        views = _views(steps, group.shown)
        written = {value for step in steps for value in _written(step)}
        if not _are_alike(views, written):
            raise AssertionError(f"the group at step {group.begin} shows a value in two ways")
        if group.grid.part and group.grid.part % group.tile:
            raise AssertionError(f"parts of the group at step {group.begin} are cut")
        outside = text.steps[: group.begin] + text.steps[group.end :]
        used = {value for step in outside for value in (*step.reads(), *step.writes())}
        lost = group.inner.keys() & (used | text.kept | text.outside)
        if lost:
            raise AssertionError(f"values {lost} are needed outside of their group")
