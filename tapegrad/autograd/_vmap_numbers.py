"""The numbers of vmaps, which must be the same when a function runs again.

A batch is known by the number of its vmap, and every vmap that starts gets a new one. What a
checkpoint computes again meets gradients of the first run, though: if its batches had new numbers,
an op would take the two for different batches and compute every combination of their elements. So
a checkpoint notes the numbers of its first run, and later runs use them again in the same order.
"""

import threading

from tapegrad import _C

__all__ = ["VmapNumbers", "enter_vmap"]


class _Running(threading.local):
    def __init__(self) -> None:
        self.logs: list[_Log] = []  # outermost first


_running = _Running()


class VmapNumbers:
    """The numbers of the vmaps that a function starts, in order.

    Example:
        >>> from tapegrad.autograd._vmap_numbers import VmapNumbers, enter_vmap
        >>> def number():
        ...     try:
        ...         return enter_vmap(2, "error")
        ...     finally:
        ...         torch._C._exit_vmap()
        >>> numbers = VmapNumbers()
        >>> with numbers.noted():
        ...     first = number()
        >>> number() == first
        False
        >>> with numbers.used_again():
        ...     number() == first
        True
    """

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def noted(self) -> "_Log":
        """Return a block that notes the numbers of vmaps that start in it."""
        return _Log(self.numbers, None)

    def used_again(self) -> "_Log":
        """Return a block in which vmaps get the numbers that were noted, in the same order."""
        return _Log(self.numbers, 0)


class _Log:
    """A block that notes numbers, or that hands them out from a position on."""

    def __init__(self, numbers: list[int], position: int | None) -> None:
        self._numbers, self._position = numbers, position

    def __enter__(self) -> None:
        _running.logs.append(self)

    def __exit__(self, *exception: object) -> None:
        _running.logs.pop()

    @property
    def notes(self) -> bool:
        return self._position is None

    def note(self, number: int) -> None:
        self._numbers.append(number)

    def next(self) -> int:
        """Return the next number that was noted, 0 if there are no more."""
        assert self._position is not None
        if self._position >= len(self._numbers):
            return 0
        self._position += 1
        return self._numbers[self._position - 1]


def enter_vmap(size: int, randomness: str) -> int:
    """Start a vmap and return its number."""
    if not _running.logs:
        return _C._enter_vmap(size, randomness)
    # A run inside another one: what is noted by the inner is what the outer hands out.
    inner = []
    number = 0
    for log in reversed(_running.logs):
        if not log.notes:
            number = log.next()
            break
        inner.append(log)
    number = _C._enter_vmap(size, randomness, number)
    for log in inner:
        log.note(number)
    return number
