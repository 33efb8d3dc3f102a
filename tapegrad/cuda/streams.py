"""Streams, which are queues of work on a device, and events, which are places in them."""

from threading import local
from typing import Any

from tapegrad import _C
from tapegrad._types import device as _device
from tapegrad.cuda.devices import device_index

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "get_stream_from_external",
    "set_stream",
    "stream",
]


class Stream:
    """A queue of work on a device. What is in different queues may run at the same time.

    There are 32 streams of each priority on a device; more share them in turn. As a context manager
    the stream is the current one for a block.

    Args:
        device: where; the current device if left out.
        priority: lower numbers come first; 0 is the lowest there is.
    """

    device_index: int
    cuda_stream: int

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.device_index = device_index(device, "Stream")
        self.cuda_stream = _C._cuda_create_stream(self.device_index, priority)

    @classmethod
    def _of(cls, index: int, handle: int) -> "Stream":
        self = cls.__new__(cls)
        self.device_index, self.cuda_stream = index, handle
        return self

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the lowest priority and the highest, which is the smaller number."""
        return _C._cuda_stream_priorities(_C._cuda_current_device())

    @property
    def device(self) -> _device:
        """The device that the stream belongs to."""
        return _device("cuda", self.device_index)

    @property
    def priority(self) -> int:
        """The priority; lower numbers come first."""
        return _C._cuda_stream_priority(self.device_index, self.cuda_stream)

    def query(self) -> bool:
        """Return whether everything that was put into the stream is done."""
        return _C._cuda_stream_query(self.device_index, self.cuda_stream)

    def synchronize(self) -> None:
        """Wait until everything that was put into the stream is done."""
        _C._cuda_stream_synchronize(self.device_index, self.cuda_stream)

    def wait_event(self, event: "Event") -> None:
        """Let what is put into the stream from now on wait for an event."""
        event.wait(self)

    def wait_stream(self, stream: "Stream") -> None:
        """Let what is put into this stream from now on wait for what is in another one now."""
        self.wait_event(stream.record_event())

    def record_event(self, event: "Event | None" = None) -> "Event":
        """Record an event in the stream, a new one if none is given, and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> "Stream":
        _enter(self)
        return self

    def __exit__(self, *_: object) -> None:
        _leave()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return False
        return (self.device_index, self.cuda_stream) == (other.device_index, other.cuda_stream)

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device_index))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the version of the protocol and the driver's handle, for other libraries."""
        return 0, self.cuda_stream


class ExternalStream(Stream):
    """A stream that another library made, and that it must keep while it is used here.

    Args:
        stream_ptr: the driver's handle.
        device: the device it belongs to; the current one if left out.
    """

    def __init__(self, stream_ptr: int, device: Any = None) -> None:
        self.device_index = device_index(device, "ExternalStream")
        self.cuda_stream = stream_ptr


class Event(_C._CudaEvent):
    """A place in a stream that others wait for, or between which time is taken.

    Args:
        enable_timing: whether time is taken.
        blocking: whether `synchronize` sleeps while it waits; it is faster if it does not.
        interprocess: refused: events are not shared between processes.
    """

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        if interprocess:
            raise NotImplementedError("cuda.Event: interprocess events are not supported")
        super().__init__(enable_timing, blocking)

    @property
    def device(self) -> _device | None:
        """The device; None before the event is recorded."""
        return _device("cuda", self.device_index) if self.device_index >= 0 else None

    def record(self, stream: Stream | None = None) -> None:
        """Put the event into a stream; the current one if left out."""
        stream = current_stream() if stream is None else stream
        self.record_on(stream.device_index, stream.cuda_stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Let what is put into a stream from now on wait; the current one if left out."""
        stream = current_stream() if stream is None else stream
        self.wait_on(stream.device_index, stream.cuda_stream)

    def __repr__(self) -> str:
        handle = self.cuda_event
        return f"<torch.cuda.Event {handle:#x}>" if handle else "<torch.cuda.Event uninitialized>"


def current_stream(device: Any = None) -> Stream:
    """Return the stream that this thread uses on a device: where its kernels and copies go.

    Args:
        device: its number, name or object; the current one if left out.
    """
    index = device_index(device, "current_stream")
    return Stream._of(index, _C._cuda_current_stream(index))


def default_stream(device: Any = None) -> Stream:
    """Return the stream of a device that is used where no other was chosen."""
    return Stream._of(device_index(device, "default_stream"), 0)


def set_stream(stream: Stream | None) -> None:
    """Use a stream, and its device, on this thread from now on; None changes nothing."""
    if stream is not None:
        _C._cuda_set_device(stream.device_index)
        _C._cuda_set_stream(stream.device_index, stream.cuda_stream)


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """Return the stream that another library made, by the driver's handle."""
    return ExternalStream(data_ptr, device)


# What was in use around the blocks that this thread is in: device, and the stream on another.
_outer = local()


def _enter(stream: Stream) -> None:
    index = stream.device_index
    state = _C._cuda_current_device(), index, _C._cuda_current_stream(index)
    set_stream(stream)
    _outer.__dict__.setdefault("states", []).append(state)


def _leave() -> None:
    device, index, handle = _outer.states.pop()
    _C._cuda_set_stream(index, handle)
    _C._cuda_set_device(device)


class StreamContext:
    """Use a stream, and its device, for a block; None changes nothing.

    Args:
        stream: the stream.
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            _enter(self.stream)

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            _leave()


def stream(stream: Stream | None) -> StreamContext:
    """Return a context manager that uses a stream, and its device, for a block.

    Args:
        stream: the stream; None changes nothing.
    """
    return StreamContext(stream)
