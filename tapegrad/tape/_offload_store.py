"""Where offloaded values are: in memory, on their way, in the file.

What stands on the tape instead of tensors is in `_offload_records.py`, when it may be moved in
`_offload_tracking.py`. Here is what moves it.

The states of a record, all changed under one lock:

    HELD -> QUEUED -> WRITING -> FILED -> READING -> READY (-> FILED, when dropped again)
                             \\-> PINNED: overwritten by the program, or could not be written

One thread writes, another reads ahead of the sweep, in the order of the tape. Both move bytes
without the GIL. When the allowed memory is full, the packing thread writes as well: it waits for
the disk.
"""

import collections
import os
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.tape._offload_records import (
    Handle,
    Holder,
    Record,
    Small,
    State,
    changed,
    intact,
    locked,
    records,
    wait,
)
from tapegrad.tape._offload_tracking import BITS, Statistics, Tracker, current_sweep
from tapegrad.tape._spill_file import MARK_BYTES, SpillFile
from tapegrad.utils._units import human_bytes

__all__ = ["Store", "close_all"]

_BATCH = 2**20  # bytes worth waking the writer for
_MOST_BATCH = 2**23  # bytes of one write
_MOST_QUEUED = 2**26  # bytes that may wait to be written where no limit is set

_stores: "weakref.WeakSet[Store]" = weakref.WeakSet()


class _Write:
    """A record on its way to the file."""

    def __init__(self, record: Record, tensor: Tensor) -> None:
        self.record = record
        flat = tensor.as_strided((record.length // record.itemsize,), (1,), record.start)
        self.buffer: Any = flat.view(BITS[record.itemsize]).numpy()


class _Own:
    """A tensor that nobody else has, and that nobody can overwrite."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def get(self) -> Tensor:
        return self._tensor


class Store(Tracker):
    """A file with its records, its two threads and its count of bytes in memory."""

    def __init__(
        self, where: str, prefetch: int, memory: int | None, min_bytes: int, stats: Statistics
    ) -> None:
        super().__init__(prefetch, min_bytes, stats)
        self.file = SpillFile(where)
        self.memory = memory
        self.entered = 0
        self.closed = False
        self.ours = True  # not a fork's copy of another process's
        self.unwritten = 0  # of the bytes in memory, those that are not in the file
        self.failure: OSError | None = None
        self.warned = False  # that the allowed memory is not enough
        self.failure_reported = False
        self.sweeping = False  # the last thing asked for was a value, not room for one
        self.queue: collections.deque[tuple[weakref.ref[Record], int]] = collections.deque()
        self.queued_bytes = 0
        self.writing = 0  # threads that write
        self.moving = 0  # records that a thread holds while it moves them
        self.wanted: list[weakref.ref[Record]] = []
        self.threads: dict[str, threading.Thread] = {}
        _stores.add(self)

    # -- packing

    def pack(self, tensor: Tensor) -> Handle | Small:
        """Return what stands for a tensor on the tape."""
        if self.failure is not None:
            raise self._disk_error()
        return super().pack(tensor)

    def _make_way(self, nbytes: int) -> None:
        if missing := self._make_room(nbytes):
            self._report_shortage(missing)

    def _note_packed(self) -> None:
        self.sweeping = False
        if self.unwritten > self._low_mark():
            self._queue_unshared(urgent=False)
            if self.queued_bytes >= min(_BATCH, (self.memory or _BATCH * 8) // 8):
                self._wake("writer", self._run_writer)

    def _count(self, nbytes: int, unwritten: bool = True) -> None:
        self.in_memory += nbytes
        if unwritten:
            self.unwritten += nbytes
        self.stats.peak_memory = max(self.stats.peak_memory, self.in_memory)

    def _uncount(self, record: Record, unwritten: bool = False) -> None:
        if unwritten:
            self.unwritten -= record.counted
        super()._uncount(record)

    def _low_mark(self) -> int:
        """Return how many bytes may wait in memory before the writer starts."""
        return 0 if self.memory is None else self.memory // 2

    def _make_room(self, nbytes: int) -> int:
        """Make room for so many bytes in the allowed memory; return how many are missing."""
        if self.memory is None:
            self._shorten_queue()
            return 0
        waited = False
        while True:
            with locked:
                if self.in_memory + nbytes > self.memory:
                    self._drop_idle(nbytes)
                missing = self.in_memory + nbytes - self.memory
                if missing <= 0:
                    return 0
                if not waited:
                    waited = True
                    self.stats.waits += 1
                self._queue_unshared(urgent=True)
                batch = self._begin_write(max(missing, _BATCH))
                if not batch:
                    if not self.writing:
                        return missing
                    wait()
                    continue
            self._write(batch)

    def _shorten_queue(self) -> None:
        while self.queued_bytes > _MOST_QUEUED:
            with locked:
                batch = self._begin_write(_MOST_BATCH)
            if not batch:
                return
            self.stats.waits += 1
            self._write(batch)

    def _report_shortage(self, missing: int) -> None:
        """Warn that the allowed memory is not enough; raise if the disk is to blame."""
        if self.failure is not None:
            raise self._disk_error()
        if self.warned or self.memory is None:
            return
        self.warned = True
        warnings.warn(
            f"offload: {human_bytes(missing)} more than the allowed {human_bytes(self.memory)} are "
            "needed, for values that the program itself holds or that are too small to move",
            stacklevel=6,
        )

    # -- writing

    def _queue_unshared(self, urgent: bool) -> None:
        """Queue the records whose memory only the tape holds."""
        for record in self._take_unshared(urgent):
            self.queue.append((record.ref, record.nbytes))
            self.queued_bytes += record.nbytes

    def _begin_write(self, limit: int) -> list[_Write]:
        """Take records from the queue and give them places in the file, side by side."""
        batch: list[_Write] = []
        size = 0
        while self.queue and size < limit and self.failure is None and self.ours:
            ref, nbytes = self.queue.popleft()
            self.queued_bytes -= nbytes
            record = ref()
            if record is None:
                continue
            live = record.live_handles()
            if not self._is_ours(record):  # a sweep reads it
                self._hold(record)
                continue
            tensor = intact(live)
            if tensor is None or record.itemsize not in BITS:
                record.state = State.PINNED
                continue
            record.start, record.length = self._measure(record, live)
            record.state = State.WRITING
            size += record.length + MARK_BYTES
            batch.append(_Write(record, tensor))
        if batch:
            self.writing += 1
            self.moving += len(batch)
            offset = self.file.allocate(size)
            for write in batch:
                write.record.extent = offset
                offset += write.record.length + MARK_BYTES
        return batch

    def _write(self, batch: list[_Write]) -> None:
        """Write records to their places; where that fails, they stay in memory."""
        error: BaseException | None = None
        try:
            offset = batch[0].record.extent
            assert offset is not None
            checksums = self.file.write([write.buffer for write in batch], offset)
            for write, each in zip(batch, checksums, strict=True):
                write.record.checksum = each
        except BaseException as found:
            error = found
        with locked:
            self.writing -= 1
            self.moving -= len(batch)
            self.stats.file_bytes = max(self.stats.file_bytes, self.file.size)
            for write in batch:
                write.buffer = None  # it holds the memory
                if error is None:
                    self.stats.written_bytes += write.record.length
                self._end_write(write.record, error)
            if isinstance(error, OSError) and self.failure is None:
                self.failure = error.with_traceback(None)  # whose frames hold tensors
            batch.clear()
            changed.notify_all()
        try:
            if error is not None and not isinstance(error, OSError):  # such as KeyboardInterrupt
                raise error
        finally:
            del error  # its traceback would hold this frame, and that the tensors

    def _end_write(self, record: Record, error: BaseException | None) -> None:
        live = record.live_handles()
        end = record.start + record.length // record.itemsize
        inside = all(record.start <= h.range()[0] and h.range()[1] <= end for h in live)
        if error is None and inside and self._is_ours(record) and intact(live) is not None:
            record.state = State.FILED
            if records.get(record.key) is record.ref:
                del records[record.key]
            for handle in live:
                handle.kept = None
            self._uncount(record, unwritten=True)
            return
        if record.extent is not None:
            self.file.free(record.extent, record.length + MARK_BYTES)
        record.extent = None
        if isinstance(error, OSError):
            record.state = State.PINNED
        else:  # a sweep took it meanwhile
            self._hold(record)

    def flush(self) -> None:
        """Write all that only the tape holds."""
        while True:
            with locked:
                self.check_all_at = 0
                self._queue_unshared(urgent=True)
                batch = self._begin_write(_MOST_BATCH)
                if not batch:
                    if not self.writing:
                        return
                    wait()
                    continue
            self._write(batch)

    # -- reading

    def unpack(self, packed: "Handle | Small") -> Tensor:
        """Return the tensor that was packed."""
        if isinstance(packed, Small):
            with locked:
                self.stats.unpacked += 1
                self.stats.reused += 1
            return packed.kept.get()
        record = packed.record
        store = record.store
        sweep = current_sweep()
        kept, base = store._bring_back(packed)
        with locked:
            self.stats.unpacked += 1
            if kept is not None or (sweep is not None and record.sweep == sweep):
                self.stats.reused += 1
            store._note_taken(packed, sweep)
        if kept is not None:
            return kept.get()
        assert base is not None
        return packed.view_of(base)

    def _note_taken(self, handle: Handle, sweep: Any) -> None:
        handle.taken = handle.record.sweep = sweep
        self._drop_idle()
        self.sweeping = True
        if self.prefetch:
            self._ask_before(handle.position)

    def _bring_back(self, handle: Handle) -> tuple[Holder | None, Tensor | None]:
        record = handle.record
        while True:
            with locked:
                if handle.kept is not None:
                    return handle.kept, None
                if record.is_base_intact():
                    return None, record.base
                if record.base is not None:  # somebody wrote into it
                    self._drop(record)
                if record.error is not None:
                    error, record.error = record.error, None
                    raise self._read_error(record, error) from None
                if record.state == State.READING:
                    wait()
                    continue
            self._make_room(record.length)
            with locked:
                if record.state != State.FILED:
                    continue
                self._begin_read(record)
            self._read(record)

    def _ask_before(self, position: int) -> None:
        """Ask for the values that the sweep will come to after this position."""
        ahead = self._ahead_of(position)
        self.wanted = [record.ref for record in ahead if record.state == State.FILED]
        if self.wanted:
            self._wake("reader", self._run_reader)

    def _next_wanted(self) -> Record | None:
        while self.wanted:
            record = self.wanted[0]()
            if record is None or record.state != State.FILED or record.error is not None:
                del self.wanted[0]
                continue
            if self.memory is not None and self.in_memory + record.length > self.memory:
                self._drop_idle(record.length, spent_only=True)
                if self.in_memory + record.length > self.memory:
                    return None
            del self.wanted[0]
            return record
        return None

    def _begin_read(self, record: Record) -> None:
        record.state = State.READING
        record.counted = record.length
        self._count(record.length, unwritten=False)

    def _read(self, record: Record) -> None:
        """Read a record's bytes; what goes wrong is left in it."""
        base: Tensor | None = None
        error: BaseException | None = None
        try:
            count = record.length // record.itemsize
            if record.pins:
                base = _C._cuda_pinned_bytes(record.length)
            else:
                base = _C.empty(count, dtype=BITS[record.itemsize], device="cpu")
            assert record.extent is not None
            self.file.read(base.numpy(), record.extent, record.checksum)
        except BaseException as found:
            base, error = None, found
        with locked:
            if base is None:
                record.state = State.FILED
                if isinstance(error, Exception):
                    record.error = error.with_traceback(None)
                self._uncount(record, unwritten=False)
            else:
                record.state, record.base = State.READY, base
                record.key = _C._storage_id(base)
                records[record.key] = record.ref
                self.ready[record.ref] = None
                self.stats.read_bytes += record.length
            changed.notify_all()
        try:
            if error is not None and record.error is None:  # such as KeyboardInterrupt
                raise error
        finally:
            del error

    def _is_over(self, room: int) -> bool:
        return self.memory is not None and self.in_memory + room > self.memory

    # -- for values of GPUs, which come and go through page-locked memory

    def reserve(self, nbytes: int) -> bool:
        """Make room for so many bytes and count them; return whether there is room."""
        if self.failure is not None:
            raise self._disk_error()
        if self._make_room(nbytes):
            return False
        with locked:
            self._count(nbytes)
        return True

    def release(self, nbytes: int) -> None:
        """End a reservation; the lock is held."""
        self._count(-nbytes)

    def take(self, tensor: Tensor) -> Handle | None:
        """Take bytes that nobody else has, for which room is reserved; None if it is too late."""
        with locked:
            if self.closed or not self.ours:
                return None
            self.release(tensor.nbytes)
            handle = self._add(_C._storage_id(tensor), _Own(tensor), tensor, tensor.nbytes)
            handle.record.pins = True
        return handle

    def fetch(self, handle: Handle) -> Tensor:
        """Return what was taken; read it if need be."""
        kept, base = self._bring_back(handle)
        with locked:
            self._note_taken(handle, current_sweep())
        if kept is not None:
            return kept.get()
        assert base is not None
        return handle.view_of(base)

    def find(self, handle: Handle) -> Tensor | None:
        """Return what was taken if it is in memory; begin to read it otherwise."""
        with locked:
            if handle.kept is not None:
                return handle.kept.get()
            if handle.record.base is not None:
                return handle.view_of(handle.record.base)
            if self.prefetch:
                self._ask_before(handle.position + 1)
        return None

    # -- threads

    def _wake(self, name: str, run: Callable[[], None]) -> None:
        if name not in self.threads:
            thread = threading.Thread(target=run, name=f"tapegrad-offload-{name}", daemon=True)
            self.threads[name] = thread
            thread.start()
        changed.notify_all()

    def _run_writer(self) -> None:
        while True:
            with locked:
                batch: list[_Write] = []
                while not batch:
                    if self.closed:
                        return
                    if self.unwritten > self._low_mark() and not self.sweeping:
                        batch = self._begin_write(_MOST_BATCH)
                    if not batch:
                        wait()
            self._write(batch)

    def _run_reader(self) -> None:
        while True:
            with locked:
                while (record := self._next_wanted()) is None:
                    if self.closed:
                        return
                    wait()
                self._begin_read(record)
                self.moving += 1
            self._read(record)
            del record
            with locked:
                self.moving -= 1
                changed.notify_all()

    # -- the end

    def enter(self) -> bool:
        """Begin a block, unless the store is closed."""
        with locked:
            if not self.closed:
                self.entered += 1
            return not self.closed

    def count(self) -> tuple[int, int]:
        """Return how many bytes are in memory now, and how many in the file."""
        with locked:
            return self.in_memory, self.file.used

    def leave(self) -> None:
        """End a block: begin to read what a sweep would ask for first, or close."""
        with locked:
            while 0 < self.live <= self.moving:  # all may be dead once they are there
                wait()
            self.entered -= 1
            if not self._close_if_done():
                self._queue_unshared(urgent=False)
                if self.queue:
                    self._wake("writer", self._run_writer)
                if self.prefetch:
                    self._ask_before(self.next_position)
        if self.closed:
            for thread in self.threads.values():
                if thread is not threading.current_thread():
                    thread.join()
        if self.failure is not None and not self.failure_reported:
            warnings.warn(str(self._disk_error()), stacklevel=3)

    def _forget(
        self,
        counted: int,
        positions: list[int],
        unwritten: bool = True,
        place: tuple[int | None, int] = (None, 0),
    ) -> None:
        if unwritten:
            self.unwritten -= counted
        extent, length = place
        if extent is not None:
            self.file.free(extent, length + MARK_BYTES)
        super()._forget(counted, positions)
        self._close_if_done()

    def _close_if_done(self) -> bool:
        if self.live == 0 and self.entered == 0 and not self.closed:
            self.closed = True
            self.file.close()
            changed.notify_all()
        return self.closed

    def disown(self) -> None:
        """Leave the file to the process that this one is a fork of: read, but do not write.

        Both would give the same places away. What is saved from now on stays in memory.
        """
        self.ours = False
        self.memory = None
        self.threads = {}
        self.writing = self.moving = 0
        self.file.disown()
        for ref in list(self.order.values()):
            handle = ref()
            if handle is not None and handle.record.state == State.READING:
                handle.record.state = State.FILED
                self._uncount(handle.record, unwritten=False)

    # -- errors

    def _disk_error(self) -> OSError:
        failure = self.failure
        assert failure is not None
        self.failure_reported = True
        return OSError(
            failure.errno,
            f"offload: {failure.strerror} when writing saved values "
            f"({human_bytes(self.stats.written_bytes)} written before); those are still in memory, "
            "and parameters, .grad and optimizer state are as they were: free some space or name "
            "another folder, and run the step again",
            self.file.path,
        )

    def _read_error(self, record: Record, error: Exception) -> Exception:
        if not isinstance(error, OSError | EOFError):
            return error
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return RuntimeError(
            f"offload: cannot read back a saved value of {human_bytes(record.length)} from "
            f"'{self.file.path}': {reason}. Parameters and optimizer state are as they were; .grad "
            "may hold a part of this backward's gradients: call zero_grad() and run the step again"
        )


def close_all() -> None:
    """Remove the files of blocks that are still open, at the end of the process."""
    for store in list(_stores):
        if store.ours and not store.closed and os.path.exists(store.file.path):
            os.unlink(store.file.path)


def _after_fork() -> None:
    try:
        for store in list(_stores):
            store.disown()
    finally:
        changed.release()


# Nobody is in the middle of something when a process forks.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=changed.acquire, after_in_parent=changed.release, after_in_child=_after_fork
    )
