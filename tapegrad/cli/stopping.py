"""Stopping a run from outside: the first signal asks, the second quits."""

import signal
import sys
from types import FrameType, TracebackType
from typing import Any

__all__ = ["StopRequest"]


class StopRequest:
    """While it is open, Ctrl-C and SIGTERM set `signal` instead of ending the program.

    A step then ends in peace and the run is saved. A second signal does what it always does.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._restore()
        sys.stderr.write("\nsaving; once more quits at once without saving\n")
        sys.stderr.flush()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
