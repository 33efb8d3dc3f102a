"""Saved values that an `offload` keeps track of, and the lock that guards what is known of them.

A `Record` is the memory of one storage that the tape saved something of; a `Handle` is one saved
value, a view of it, and what the tape holds instead of a tensor. Handles hold their record, the
record knows its handles weakly: it ends with the last of them, whether a sweep dropped it or the
graph went away without one.
"""

import collections
import threading
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from tapegrad import _C
from tapegrad._C import Tensor

if TYPE_CHECKING:
    from tapegrad.tape._offload_tracking import Tracker

__all__ = [
    "Handle",
    "Holder",
    "Record",
    "Small",
    "State",
    "changed",
    "intact",
    "locked",
    "records",
    "wait",
]

_IDLE = 1.0  # seconds after which a waiting thread checks again, as a safety net


class Holder(Protocol):
    """What keeps a value in memory: a `Kept`, mostly."""

    def get(self) -> Tensor:
        """Return it."""


class State:
    """Where a record is; `_offload_store.py` shows the way from one to the other."""

    HELD, QUEUED, WRITING, FILED, READING, READY, PINNED = range(7)
    UNWRITTEN = (HELD, QUEUED, WRITING, PINNED)


class Record:
    """The memory of one storage."""

    __slots__ = (
        "__weakref__",
        "base",
        "checksum",
        "counted",
        "error",
        "extent",
        "handles",
        "itemsize",
        "key",
        "length",
        "nbytes",
        "number",
        "pins",
        "positions",
        "ref",
        "start",
        "state",
        "store",
        "sweep",
        "wait",
    )

    def __init__(self, store: Any, key: int, nbytes: int, itemsize: int) -> None:
        self.store = store
        self.key = key  # the storage's number; only while its bytes are in memory
        self.ref = weakref.ref(self)
        self.nbytes = nbytes
        self.itemsize = itemsize
        self.number = store.next_position  # in the order of the tape
        self.state = State.HELD
        self.handles: list[weakref.ref[Handle]] = []
        self.positions: list[int] = []
        self.counted = 0  # bytes that the store counts for it
        self.base: Tensor | None = None  # the bytes that were read back
        self.pins = False  # whether bytes that are read back lie in page-locked memory
        self.start = 0  # the first element in the file
        self.length = 0  # the bytes in the file
        self.extent: int | None = None  # their place
        self.checksum = 0
        self.error: Exception | None = None
        self.sweep: Any = None  # the last that took it
        self.wait = 1  # how many values are packed before it is checked again

    def live_handles(self) -> "list[Handle]":
        """Return the values that are still on a tape."""
        found = [handle for ref in self.handles if (handle := ref()) is not None]
        if len(found) < len(self.handles):
            self.handles = [handle.ref for handle in found]
        return found

    def is_kept(self) -> bool:
        """Return whether the storage as it was saved is in memory, and ours for sure."""
        return any((handle := ref()) is not None and handle.kept for ref in self.handles)

    def is_base_intact(self) -> bool:
        """Return whether the bytes that were brought back are still those that were saved."""
        return self.base is not None and self.base._version == 0

    def remains(self) -> tuple[Any, ...]:
        """Return what the store has to put in order when it has died."""
        unwritten = self.state in State.UNWRITTEN
        return self.counted, self.positions, unwritten, (self.extent, self.length)

    def __del__(self) -> None:
        _dead.append((self.store, self.key, self.ref, self.remains()))
        _collect()


class Handle:
    """One saved value."""

    __slots__ = (
        "__weakref__", "dtype", "kept", "offset", "position", "record", "ref",
        "shape", "stride", "taken",
    )  # fmt: skip

    def __init__(self, record: Record, kept: Holder | None, tensor: Tensor, offset: int) -> None:
        self.record = record
        self.kept = kept
        self.dtype = tensor.dtype
        self.shape = tuple(tensor.shape)
        self.stride = tensor.stride()
        self.offset = offset
        self.ref = weakref.ref(self)
        self.position = 0  # in the order of packing
        self.taken: Any = None  # the sweep that took it last

    def range(self) -> tuple[int, int]:
        """Return the first element of the storage that it shows, and the one behind its last."""
        if 0 in self.shape:
            return self.offset, self.offset
        reach = sum((n - 1) * step for n, step in zip(self.shape, self.stride, strict=True))
        return self.offset, self.offset + reach + 1

    def view_of(self, base: Tensor) -> Tensor:
        """Return the value, shown in bytes that were read back."""
        grad_enabled = _C.is_grad_enabled()
        _C.set_grad_enabled(False)
        try:
            place = self.offset - self.record.start
            return base.view(self.dtype).as_strided(self.shape, self.stride, place)
        finally:
            _C.set_grad_enabled(grad_enabled)


class Small:
    """A saved value that is not worth moving, or cannot be."""

    __slots__ = ("counted", "kept", "store")

    def __init__(self, store: "Tracker", kept: Holder, counted: int) -> None:
        self.store = store
        self.kept = kept
        self.counted = counted

    def __del__(self) -> None:
        _dead.append((self.store, 0, None, (self.counted, ())))
        _collect()


# ---- the lock, and records that died while it was held
#
# Records die wherever Python frees something, even while the lock is held. So they only leave a
# note, which is processed by the next thread that has the lock.

_lock = threading.Lock()
changed = threading.Condition(_lock)
_dead: collections.deque[tuple[Any, ...]] = collections.deque()
records: dict[int, weakref.ref[Record]] = {}  # by storage, while the bytes are in memory


class _Locked:
    def __enter__(self) -> None:
        _lock.acquire()
        if _dead:
            _bury()

    def __exit__(self, *exception: object) -> None:
        _lock.release()
        if _dead:
            _collect()


locked = _Locked()


def _collect() -> None:
    while _dead and _lock.acquire(blocking=False):
        try:
            _bury()
        finally:
            _lock.release()


def _bury() -> None:
    while _dead:
        store, key, ref, remains = _dead.popleft()
        store._forget(*remains)
        if ref is not None and records.get(key) is ref:
            del records[key]


def wait() -> None:
    changed.wait(_IDLE)
    if _dead:
        _bury()


def intact(handles: list[Handle]) -> Tensor | None:
    """Return one of the kept tensors, if none was overwritten; None otherwise."""
    tensor = None
    for handle in handles:
        if handle.kept is None:
            return None
        try:
            tensor = handle.kept.get()
        except RuntimeError:
            return None
    return tensor
