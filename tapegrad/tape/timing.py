"""How long the entries of a tape took, forward and backward.

A profile notes each op with the number that the next entry will have, so that the ops just before
an entry are counted as its own. Not all of them are: an optimizer's step or the loading of a batch
records nothing, but also comes before some entry. So the start of a module's forward, the end of a
backward and the end of an optimizer's step are boundaries: what ran before them is no part of the
next entry. An entry that is only a view runs no op.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from threading import get_ident
from time import perf_counter_ns
from typing import Any

from tapegrad import _C

__all__ = ["Times"]

_VIEWS = frozenset(
    (
        *("alias", "as_strided", "diagonal", "expand", "permute", "select", "slice"),
        *("split_with_sizes", "squeeze", "transpose", "unbind", "unfold", "unsafe_view"),
        *("unsqueeze", "view"),
    )
)
_MANY = 100_000  # numbers of entries, after which those of entries that are gone are dropped
_EVER = 2**63


class Times:
    """Nanoseconds of the ops of this thread, by the numbers of entries, while it runs."""

    def __init__(self) -> None:
        self._thread = 0
        self._profile: Any = None
        self._undo = ExitStack()
        self._forward: dict[int, int] = {}
        self._backward: dict[int, int] = {}
        self._boundaries: dict[int, int] = {}  # by number: when what belongs to the entry begins

    def start(self) -> None:
        """Begin; an error if a profiler runs on this thread."""
        from tapegrad.nn.modules import _hooks
        from tapegrad.optim.optimizer import register_optimizer_step_post_hook

        profile = _C._Profile(False)
        profile.start()
        self._profile, self._thread = profile, get_ident()
        with ExitStack() as undo:
            undo.callback(self._end)
            for handle in (
                _hooks.register_module_forward_pre_hook(self.mark_boundary),
                register_optimizer_step_post_hook(self.mark_boundary),
            ):
                undo.callback(handle.remove)
            self._undo = undo.pop_all()

    def stop(self) -> None:
        """End."""
        self._undo.close()

    def _end(self) -> None:
        profile, self._profile = self._profile, None
        profile.stop()
        self._read(profile.events())

    def mark_boundary(self, *_: Any) -> None:
        """Note that what ran so far is no part of the next entry."""
        if get_ident() == self._thread:
            self._boundaries[_C._next_sequence()] = perf_counter_ns()

    def read(self) -> bool:
        """Take in what was noted so far; return whether this is the thread that is timed."""
        if get_ident() != self._thread or self._profile is None:
            return False
        before, after = self._profile, _C._Profile(False)
        before.stop()
        after.start()
        self._profile = after
        self._read(before.events())
        return True

    def _read(self, events: Iterable[Any]) -> None:
        end_of_op = 0
        for _, kind, in_backward, start, end, _, _, _, sequence, *_ in events:
            if kind == "backward":
                self._backward[sequence] = self._backward.get(sequence, 0) + end - start
            elif kind == "op" and not in_backward and start >= end_of_op:
                end_of_op = end  # ops that run inside this one are a part of it
                if start >= self._boundaries.get(sequence, 0):
                    self._forward[sequence] = self._forward.get(sequence, 0) + end - start
        if len(self._forward) + len(self._backward) + len(self._boundaries) > _MANY:
            self._forget()

    def _forget(self) -> None:
        live = {node._sequence_nr() for node in _C._tape_live(0, _EVER)}
        live.add(_C._next_sequence())
        for times in (self._forward, self._backward, self._boundaries):
            for sequence in times.keys() - live:
                del times[sequence]

    def forget_sweeps(self) -> None:
        """Drop the times of backwards."""
        self._backward.clear()

    def of(self, entries: Iterable[tuple[int, str, bool]]) -> list[tuple[float, float]]:
        """Return the microseconds forward and backward of entries.

        Args:
            entries: in tape order, the number of each, its op, and whether it is a leaf's.
        """
        found = []
        waiting = (0, 0)  # a leaf's entry is made just before that of the op: its number, the time
        for sequence, op, is_leaf in entries:
            time = self._forward.get(sequence, 0)
            if waiting[0] == sequence - 1:
                time += waiting[1]
            waiting = (sequence, time) if is_leaf else (0, 0)
            forward = 0 if is_leaf or op in _VIEWS else time
            found.append((forward / 1000, self._backward.get(sequence, 0) / 1000))
        return found
