"""The tape of the last backward that some code runs, described before the sweep empties it."""

import os
import sys
from typing import Any

import tapegrad
from tapegrad import Tensor
from tapegrad.tape.entries import without_collections
from tapegrad.tape.sweeps import BeforeSweeps

__all__ = ["LastBackward"]

_PACKAGE = os.path.join(os.path.dirname(tapegrad.__file__), "")


class LastBackward:
    """Describes what every backward is about to sweep, and keeps the last description.

    Only the document is kept, never the graph, so that memory is what it would be without.
    Backwards inside a backward, as checkpoints run, belong to the outer one.

    Args:
        only: describe this backward and no other, counted from 1; None describes each and keeps
            the last. It saves the time of describing where there are many.

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

    def __init__(self, only: int | None = None) -> None:
        self.only = only
        self.document: dict[str, Any] | None = None
        self.number = 0
        self.count = 0
        self.place = ""

    def __enter__(self) -> "LastBackward":
        self._sweeps = BeforeSweeps(self._describe)
        self._sweeps.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._sweeps.__exit__(*exception)

    def _describe(self, roots: Any, retain_graph: bool) -> None:
        """Note the tape of a backward's roots; wrong arguments are left to the backward."""
        tensors = [root for root in roots if isinstance(root, Tensor) and root.requires_grad]
        if not tensors:
            return
        self.count += 1
        if self.only is not None and self.count != self.only:
            return
        self.place = _caller()
        self.number = self.count
        with without_collections():
            self.document = tapegrad.tape.of(tensors).to_dict()


def _caller() -> str:
    """Return the line outside this package that is being run."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
