"""The CPU as a device, as far as PyTorch has names for it: there is one, and it never waits."""

from typing import Any

from tapegrad.cpu import amp

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is a CPU: True."""
    return True


def device_count() -> int:
    """Return the number of CPUs, as devices: one."""
    return 1


def current_device() -> str:
    """Return the name of the device: ``"cpu"``."""
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is one device.

    Args:
        device: ignored.
    """


def synchronize(device: Any = None) -> None:
    """Do nothing: work on the CPU is done when a function returns.

    Args:
        device: ignored.
    """


def is_initialized() -> bool:
    """Whether the device is ready: True."""
    return True


class Stream:
    """The order of work on the CPU, for code that is written for any device: nothing waits.

    Args:
        priority: ignored.
    """

    def __init__(self, priority: int = -1) -> None: ...

    def wait_stream(self, stream: Any) -> None:
        """Do nothing: what was called has run."""

    def record_event(self) -> None:
        """Do nothing: what was called has run."""

    def wait_event(self, event: Any) -> None:
        """Do nothing: what was called has run."""


class Event:
    """A moment in that order, which has always come."""

    def query(self) -> bool:
        """Whether the moment has come: True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Do nothing: what was called has run."""

    def synchronize(self) -> None:
        """Do nothing: what was called has run."""

    def wait(self, stream: Any = None) -> None:
        """Do nothing: what was called has run."""


_current = Stream()


def current_stream(device: Any = None) -> Stream:
    """Return the stream that a block has chosen, or the first one.

    Args:
        device: ignored.
    """
    return _current


class StreamContext:
    """Choose a stream for a block; None changes nothing.

    Args:
        stream: what `current_stream` returns in the block.
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        global _current
        self._before = _current
        if self.stream is not None:
            _current = self.stream

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        global _current
        _current = self._before


def stream(stream: Stream | None) -> StreamContext:
    """Choose a stream for a block.

    Example:
        >>> s = torch.cpu.Stream()
        >>> with torch.cpu.stream(s):
        ...     print(torch.cpu.current_stream() is s)
        True
    """
    return StreamContext(stream)
