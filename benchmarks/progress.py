"""One line that says where a long run stands."""

from __future__ import annotations

import sys
import time

from benchmarks.units import clock

_QUIET_INTERVAL = 15.0  # seconds between lines where there is no terminal to overwrite


class Progress:
    """Elapsed time, case k of n, and an ETA from the cases' own estimates of their cost."""

    def __init__(self, estimates: list[float]) -> None:
        self._estimates = estimates
        self._start = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._last_line = self._start

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._start

    def show(self, index: int, name: str) -> None:
        done = sum(self._estimates[:index])
        remaining = sum(self._estimates[index:])
        pace = self.elapsed / done if done else 1.0
        line = (
            f"[{clock(self.elapsed)}] case {index + 1} of {len(self._estimates)}, "
            f"ETA {clock(remaining * pace)}  {name}"
        )
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{line[:99]}")
            sys.stderr.flush()
        elif time.monotonic() - self._last_line >= _QUIET_INTERVAL:
            self._last_line = time.monotonic()
            print(line, file=sys.stderr, flush=True)

    def finish(self) -> None:
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
