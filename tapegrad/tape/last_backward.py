"""The tape of the last backward that some code runs, described before the sweep empties it."""

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import tapegrad
from tapegrad import Tensor
from tapegrad.tape.entries import without_collections
from tapegrad.tape.sweeps import SweepEvents
from tapegrad.tape.timing import Times

__all__ = ["LastBackward"]

_PACKAGE = os.path.join(os.path.dirname(tapegrad.__file__), "")


class LastBackward:
    """Describes what every backward is about to sweep, and keeps the last description.

    Only the document is kept, never the graph, so that memory is what it would be without.
    Backwards inside a backward, as checkpoints run, belong to the outer one.

    Args:
        only: describe this backward and no other, counted from 1; None describes each and keeps
            the last. It saves the time of describing where there are many.
        profile: note the time that each entry takes, forward and backward. Ops of the thread that
            enters the block are timed; no other profiler may run on it.

    Attributes:
        document: of the tape, or None if no backward ran.
        number: which backward it is of, counted from 1.
        count: how many backwards ran.
        place: the line that called it.

    Example:
        >>> from tapegrad.tape.last_backward import LastBackward
        >>> x = torch.ones(3, requires_grad=True)
        >>> with LastBackward() as last:
        ...     (x * x).sum().backward()
        >>> [entry["op"] for entry in last.document["entries"]]
        ['accumulate_grad', 'mul', 'sum']
    """

    def __init__(self, only: int | None = None, profile: bool = False) -> None:
        self.only = only
        self._times = Times() if profile else None
        self.document: dict[str, Any] | None = None
        self.number = 0
        self.count = 0
        self.place = ""

    def __enter__(self) -> "LastBackward":
        with ExitStack() as undo:
            if self._times is not None:
                self._times.start()
                undo.callback(self._times.stop)
            undo.enter_context(SweepEvents(begin=self._before))
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._undo.close()

    def _before(self, roots: Any, retain_graph: bool) -> Callable[[], None] | None:
        """Note the tape of a backward's roots; wrong arguments are left to the backward."""
        times = self._times
        is_timed = times is not None and times.read()
        tensors = [root for root in roots if isinstance(root, Tensor) and root.requires_grad]
        if tensors:
            self.count += 1
            if self.only is None or self.count == self.only:
                self.place = _caller()
                self.number = self.count
                with without_collections():
                    self.document = tapegrad.tape.of(tensors).to_dict()
                return self._note_times if is_timed else None
        return times.mark_boundary if times is not None else None

    def _note_times(self) -> None:
        """Put times into the document of the backward that is over."""
        times, document = self._times, self.document
        assert times is not None and document is not None
        times.forget_sweeps()
        times.read()
        times.mark_boundary()
        entries = document["entries"]
        known = times.of((e["sequence"], e["op"], e["leaf"] is not None) for e in entries)
        for entry, (forward, backward) in zip(entries, known, strict=True):
            entry["forward_us"], entry["backward_us"] = forward, backward


def _caller() -> str:
    """Return the line outside this package that is being run."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
