"""Messages between a loader and its workers, over a socket, with the arrays in shared memory.

A message is a header, a pickle, and file descriptors that ride along with the header. The memory
of large tensors and NumPy arrays is no part of the pickle: it lies in segments, anonymous files in
memory that are passed by descriptor and mapped by the receiver without a copy. A segment has no
name. The kernel frees it with its last descriptor or mapping, in whatever way the processes end,
so there is nothing to unlink and nothing that can be left behind.

A receiver closes a descriptor once the segment is mapped (Python's own mmap would keep it open), so
batches that are kept cost no open files. Each large array has its own segment: to keep the labels
of a batch does not keep its images. Small arrays travel in the pickle, because a mapping takes at
least a page, and a process may have only some ten thousands.
"""

import os
import pickle
import socket
import struct
from collections.abc import Callable
from io import BytesIO
from multiprocessing.connection import wait
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.multiprocessing.shared import map_shared

__all__ = ["Message", "Parcel", "pack", "receive", "send", "unpack"]

SECONDS_BETWEEN_LOOKS = 1.0  # whether the other side still lives
HEADER = struct.Struct("!qBBQ")  # epoch, kind, number of segments, bytes of the pickle
SMALL = 32 * 1024
MOST_SEGMENTS = 16
MOST_WRITTEN = 1 << 30
FLAGS = socket.MSG_WAITALL | getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Parcel(NamedTuple):
    """A value ready to be sent: a pickle, and open descriptors of segments."""

    pickle: bytes
    segments: list[int]


class Message(NamedTuple):
    """What came: a pickle that `unpack` opens, and mapped segments."""

    epoch: int
    kind: int
    pickle: bytearray
    segments: list[Any]


# ---- values


_NUMPY_FLOATS = (_C.float16, _C.float32, _C.float64)


class _Pickler(ForkingPickler):
    def reducer_override(self, value: Any) -> Any:
        return _reduce(value) if type(value) is Tensor else NotImplemented


def _reduce(tensor: Tensor) -> Any:
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "DataLoader: a batch holds a tensor that requires grad and is not a leaf; the tape "
            "does not cross processes: detach() it in the dataset or the collate_fn"
        )
    if tensor.is_cuda:
        raise RuntimeError(
            f"DataLoader: a batch holds a tensor on {str(tensor.device)!r}, and memory of a GPU is "
            "not shared between processes: let workers make tensors of the CPU, and move batches "
            "where they arrive"
        )
    memory: Any = b""
    if tensor.numel() > 0:
        flat = tensor.detach().contiguous().reshape(-1)
        if flat.is_floating_point() and flat.dtype not in _NUMPY_FLOATS:
            flat = flat.view(_C.int16 if flat.dtype is _C.bfloat16 else _C.uint8)
        values: Any = flat.numpy()
        memory = pickle.PickleBuffer(values)
    return _rebuild, (memory, tensor.dtype, tuple(tensor.shape), tensor.requires_grad)


def _rebuild(memory: Any, dtype: Any, shape: tuple[int, ...], requires_grad: bool) -> Tensor:
    if 0 in shape:
        return _C.empty(shape, dtype=dtype, device="cpu", requires_grad=requires_grad)
    return _C.frombuffer(memory, dtype=dtype).reshape(shape).requires_grad_(requires_grad)


def pack(value: Any) -> Parcel:
    """Pickle a value, with its large arrays in segments."""
    large: list[memoryview] = []

    def stays_in_pickle(buffer: pickle.PickleBuffer) -> bool:
        memory = buffer.raw()
        if memory.nbytes < SMALL:
            return True
        large.append(memory)
        return False

    stream = BytesIO()
    _Pickler(stream, 5, True, stays_in_pickle).dump(value)
    each = -(-len(large) // MOST_SEGMENTS) or 1
    groups = [large[start : start + each] for start in range(0, len(large), each)]
    lengths = [[memory.nbytes for memory in group] for group in groups]
    segments: list[int] = []
    try:
        for group in groups:
            segments.append(_write_segment(group))
    except BaseException:
        close(segments)
        raise
    return Parcel(pickle.dumps((lengths, stream.getvalue())), segments)


def unpack(message: Message) -> Any:
    """Return the value of a message. Its large arrays lie in the segments."""
    lengths, body = pickle.loads(message.pickle)
    buffers = []
    for sizes, segment in zip(lengths, message.segments, strict=True):
        start, memory = 0, memoryview(segment)
        for size in sizes:
            buffers.append(memory[start : start + size])
            start += size
    return pickle.loads(body, buffers=buffers)


# ---- segments


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tapegrad-batch")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write_segment(buffers: list[memoryview]) -> int:
    """Return the descriptor of a new segment. Without memory this raises; a store would kill."""
    descriptor = _anonymous_file()
    try:
        for buffer in buffers:
            rest = buffer
            while rest.nbytes > 0:
                rest = rest[os.write(descriptor, rest[:MOST_WRITTEN]) :]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _map_segment(descriptor: int) -> Any:
    """Return the memory of a segment, mapped until the last reference to it goes."""
    size = os.fstat(descriptor).st_size
    memory = map_shared(descriptor, size, at_once=True)
    return _read_segment(descriptor, size) if memory is None else memory


def _read_segment(descriptor: int, size: int) -> bytearray:
    memory = bytearray(size)
    view, place = memoryview(memory), 0
    while place < size:
        place += os.preadv(descriptor, [view[place : place + MOST_WRITTEN]], place)
    return memory


def close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
    descriptors.clear()


# ---- messages


def send(sock: socket.socket, epoch: int, kind: int, parcel: Parcel) -> None:
    """Send a parcel. It is used up, also when this raises."""
    try:
        header = HEADER.pack(epoch, kind, len(parcel.segments), len(parcel.pickle))
        if parcel.segments:
            socket.send_fds(sock, [header], parcel.segments)
        else:
            sock.sendall(header)
        sock.sendall(parcel.pickle)
    finally:
        close(parcel.segments)


def receive(sock: socket.socket, is_gone: Callable[[], bool]) -> Message | None:
    """Return the next message, or None when the other side is gone.

    Args:
        sock: the socket, which has something to read.
        is_gone: whether the process on the other side has ended. It may do so in the middle of a
            message, and others that inherited its end hold the socket open.
    """
    descriptors: list[int] = []
    try:
        header, descriptors, _, _ = socket.recv_fds(sock, HEADER.size, MOST_SEGMENTS, FLAGS)
        if len(header) < HEADER.size:
            return None
        epoch, kind, count, size = HEADER.unpack(header)
        if len(descriptors) != count:
            raise RuntimeError(
                "DataLoader: a batch's shared memory did not arrive; probably this process has "
                "too many open files: raise the limit with ulimit -n"
            )
        body = bytearray(size)
        view = memoryview(body)
        while view.nbytes > 0:
            try:
                got = sock.recv_into(view, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if not wait([sock], SECONDS_BETWEEN_LOOKS) and is_gone() and not wait([sock], 0):
                    return None
                continue
            if got == 0:
                return None
            view = view[got:]
        return Message(epoch, kind, body, [_map_segment(each) for each in descriptors])
    except ConnectionError:
        return None
    finally:
        close(list(descriptors))
