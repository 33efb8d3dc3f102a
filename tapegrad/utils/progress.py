"""One line that says where a long computation stands: a bar on a terminal, plain lines elsewhere.

>>> from tapegrad.utils.progress import Progress
>>> with Progress(3, noun="step", stream=sys.stdout, interval=0) as progress:
...     for step in range(3):
...         progress.update(step + 1, loss=f"{1 / (step + 1):.2f}")
step 1/3   loss 1.00   ETA ...
step 2/3   loss 0.50   ETA ...
step 3/3   loss 0.33   ETA 0:00
"""

import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, TextIO, TypeVar

from tapegrad.utils._units import clock

__all__ = ["Progress", "memory_in_use", "track"]

T = TypeVar("T")

_LIVE_INTERVAL = 0.1  # seconds between two pictures of the bar
_PLAIN_INTERVAL = 10.0  # seconds between two lines where nothing can be overwritten
_WINDOW = 20.0  # seconds that the estimate of the remaining time looks back


class Progress:
    """Shows position, facts and remaining time.

    On a terminal one line with a bar is drawn over and over; elsewhere (a file, a pipe) whole
    lines come at a calm pace. `update` may be called as often as one likes: it draws when due.

    Args:
        total: where the end is.
        start: where the counting begins, for what is resumed.
        noun: what is counted.
        stream: where to write; standard error if None.
        interval: seconds between two drawings; 0.1 on a terminal and 10 elsewhere if None.
        delay: seconds before the first drawing; what ends sooner shows nothing.
        disable: show nothing at all.
    """

    def __init__(
        self,
        total: int,
        *,
        start: int = 0,
        noun: str = "step",
        stream: TextIO | None = None,
        interval: float | None = None,
        delay: float = 0.0,
        disable: bool = False,
    ) -> None:
        self.total, self.position, self.noun, self.disable = total, start, noun, disable
        self.stream = sys.stderr if stream is None else stream
        self.live = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        usual = _LIVE_INTERVAL if self.live else _PLAIN_INTERVAL
        self.interval = usual if interval is None else interval
        self._facts: dict[str, Any] = {}
        self._seen: deque[tuple[float, int]] = deque([(time.monotonic(), start)])
        self._first_drawing = time.monotonic() + delay
        self._drawn_at = -self.interval
        self._drawn_position: int | None = None
        self._moved = False
        self._shown = False  # whether a bar is on the terminal's last line

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def update(self, position: int, **facts: Any) -> None:
        """Move to a position; facts are shown in the order in which they first came."""
        self.position, self._moved = position, True
        self._facts |= facts
        now = time.monotonic()
        if position == self._seen[0][1]:
            self._seen.clear()  # nothing is done yet: what came before is not part of the pace
        self._seen.append((now, position))
        while len(self._seen) > 2 and self._seen[1][0] < now - _WINDOW:
            self._seen.popleft()
        begun = bool(self._facts) or len(self._seen) > 1
        if begun and (now - self._drawn_at >= self.interval or position == self.total):
            self._draw()

    def write(self, text: str) -> None:
        """Print text above the bar."""
        if self.disable:
            return
        self._clear()
        self.stream.write(text + "\n")
        self.stream.flush()

    def close(self) -> None:
        """Leave the last state on a line of its own; further calls do nothing."""
        if self._drawn_position != self.position and self._moved:
            self._draw()
        if self._shown:
            self.stream.write("\n")
            self.stream.flush()
            self._shown = False
        self.disable = True

    def remaining(self) -> float | None:
        """Return the seconds to the end at the present pace, or None before the first step."""
        (before, first), (now, last) = self._seen[0], self._seen[-1]
        if last <= first:
            return None
        return (now - before) / (last - first) * max(0, self.total - self.position)

    def _draw(self) -> None:
        now = time.monotonic()
        if self.disable or now < self._first_drawing:
            return
        self._drawn_at, self._drawn_position = now, self.position
        if self.live:
            columns = shutil.get_terminal_size().columns - 1
            text = self._text(columns)
            bar = self._bar(min(30, columns - len(text) - 2))
            self.stream.write("\r\x1b[K" + (bar + text)[:columns])
            self._shown = True
        else:
            self.stream.write(self._text() + "\n")
        self.stream.flush()

    def _text(self, columns: int | None = None) -> str:
        """Return position, facts and time, without the last facts where there is no room."""
        width = len(str(self.total))
        left = self.remaining()
        first = f"{self.noun} {self.position:>{width}}/{self.total}"
        facts = [f"{name.replace('_', ' ')} {value}" for name, value in self._facts.items()]
        last = f"ETA {'?' if left is None else clock(left)}"
        while True:
            text = "   ".join([first, *facts, last])
            if columns is None or len(text) <= columns or not facts:
                return text
            facts.pop()

    def _bar(self, width: int) -> str:
        """Return a bar of so many characters and a gap, or nothing where there is no room."""
        if width < 5:
            return ""
        done = width if not self.total else width * self.position // self.total
        full, empty = ("━", "─") if _can_write(self.stream, "━─") else ("#", ".")
        return full * done + empty * (width - done) + "  "

    def _clear(self) -> None:
        if self._shown:
            self.stream.write("\r\x1b[K")
            self._shown = False


def track(iterable: Iterable[T], total: int | None = None, **options: Any) -> Iterator[T]:
    """Yield what an iterable yields, and show how far it is.

    Args:
        iterable: to go through.
        total: how many items there are; ``len(iterable)`` if None.
        options: those of `Progress`.

    Example:
        >>> from tapegrad.utils.progress import track
        >>> sum(track([1, 2, 3], noun="item", disable=True))
        6
    """
    count = len(iterable) if total is None else total  # type: ignore[arg-type]
    with Progress(count, **options) as progress:
        for position, item in enumerate(iterable, start=1):
            yield item
            progress.update(position)


def memory_in_use() -> int:
    """Return the bytes of memory that this process holds; its peak where only that is known.

    Example:
        >>> from tapegrad.utils.progress import memory_in_use
        >>> memory_in_use() > 2**20
        True
    """
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def _can_write(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
