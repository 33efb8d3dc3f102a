"""Listening to the engine: sweeps that begin and end, entries that run.

These are events of the engine itself, so it does not matter how a sweep was started: a
``loss.backward`` that was bound before the block is heard, too. While nobody listens, nothing is
called.
"""

from collections.abc import Callable
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["SweepEvents"]

Finish = Callable[[], None]


class SweepEvents:
    """Calls functions when sweeps begin and when entries run, on any thread, inside a block.

    Args:
        begin: called with the roots and whether the graph is retained, before every backward. If it
            returns a function, that is called when the backward is over, whether or not it failed.
            A backward inside another, as a recomputation or a hook may start it, is not announced.
        entry: called with every entry (``grad_fn``) that is about to run, in whatever sweep.

    Example:
        >>> from tapegrad.tape.sweeps import SweepEvents
        >>> x = torch.ones(2, requires_grad=True)
        >>> y = (x * x).sum()
        >>> with SweepEvents(entry=lambda entry: print(entry.name())):
        ...     y.backward()
        SumBackward0
        MulBackward0
        AccumulateGrad
    """

    def __init__(
        self,
        begin: Callable[[list[Tensor], bool], Finish | None] | None = None,
        entry: Callable[[Any], None] | None = None,
    ) -> None:
        self._begin, self._entry = begin, entry

    def __enter__(self) -> "SweepEvents":
        self._listener = _C._listen_to_sweeps(self._begin, self._entry)
        return self

    def __exit__(self, *exception: Any) -> None:
        _C._stop_listening(self._listener)
