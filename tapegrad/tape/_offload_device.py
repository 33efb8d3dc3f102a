"""How values of a GPU leave for the host's memory, and come back.

Note [Copies beside the computation]
The host never waits for a copy. A value that may leave (Note [Only the tape holds it]) is copied
to page-locked memory on a stream of its own, behind what its op's stream has been given so far, and
let go at once: the allocator hands its memory out again when the copy is done. A host that runs
ahead of the device would see none of these copies done and take fresh memory for everything; so
where more than some bytes wait, the device itself waits for the oldest copy before it uses that
memory again.

On the way back, memory is taken on the stream of the sweep, which is some values ahead of where
the copy is needed: it is free there when the device gets to that place. A second stream copies
behind that place, and the sweep's stream waits for the copy where the value is used. From then on
the memory is like any other of the sweep's stream.

The states of a record:

    HELD -> QUEUED -> FILED (on the host) -> READY (-> FILED, when dropped again)
                  \\-> PINNED: overwritten by the program

FILED bytes are in page-locked memory (`host`), or have been given on to a `Store`, which writes
them to its file (`filed`).
"""

import collections
import contextlib
import weakref
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.tape._offload_records import (
    Handle,
    Holder,
    Record,
    Small,
    State,
    intact,
    locked,
    records,
)
from tapegrad.tape._offload_store import Store
from tapegrad.tape._offload_tracking import BITS, Statistics, Tracker, current_sweep
from tapegrad.utils._units import human_bytes

__all__ = ["DeviceStore"]

_MOST_WAITING = 2**28  # bytes of a device that may wait for copies
_AHEAD = 2**26  # bytes that keep the copies busy while the sweep is at one entry


class _DeviceRecord(Record):
    """The memory of one storage on a GPU."""

    __slots__ = (
        "device", "filed", "host", "left", "owner", "reserved", "returned", "stream", "users",
    )  # fmt: skip

    def __init__(self, store: "DeviceStore", key: int, nbytes: int, itemsize: int) -> None:
        super().__init__(store, key, nbytes, itemsize)
        self.device = 0
        self.stream = 0  # on which it was packed
        self.host: Tensor | None = None
        self.filed: Handle | None = None
        self.reserved = 0  # bytes of the host's memory that are counted for it
        self.left: Any = None  # the event behind the copy to the host
        self.returned: Any = None  # the event behind the copy to the device
        self.owner = 0  # the stream that the base's memory belongs to
        self.users: list[int] = []  # streams that wait for it, or have

    def remains(self) -> tuple[Any, ...]:
        return self.counted, self.positions, self.reserved


class DeviceStore(Tracker):
    """Values of GPUs that are in the host's memory, and the streams that carry them.

    Args:
        file: where they go from there; None leaves them in memory.
        prefetch: how many values come back ahead of the sweep.
        memory: without a file, how many bytes of the host may be taken; what is more stays on the
            device.
        min_bytes: smaller values stay.
        stats: what is counted.
    """

    alignment = 512  # as the allocator's
    bytes_ahead = _AHEAD

    def __init__(
        self,
        file: Store | None,
        prefetch: int,
        memory: int | None,
        min_bytes: int,
        stats: Statistics,
    ) -> None:
        super().__init__(prefetch, min_bytes, stats, _DeviceRecord)
        self.file = file
        self.memory = memory
        self.in_host = 0  # bytes of the host's memory, without a file
        self.queue: collections.deque[weakref.ref[Record]] = collections.deque()
        self.landing: collections.deque[weakref.ref[Record]] = collections.deque()
        self.streams: dict[int, tuple[int, int]] = {}  # of each device: away and back

    # -- packing

    def pack(self, tensor: Tensor) -> Handle | Small:
        """Return what stands for a tensor on the tape."""
        handle = super().pack(tensor)
        self._send(self.prefetch)  # the sweep comes to the last ones first: they stay
        return handle

    def _add_handle(self, record: Record, kept: Any, tensor: Tensor, offset: int) -> Handle:
        assert isinstance(record, _DeviceRecord)
        if not record.handles:
            record.device = tensor.get_device()
            record.stream = _C._cuda_current_stream(record.device)
        return super()._add_handle(record, kept, tensor, offset)

    def _note_packed(self) -> None:
        self.queue.extend(record.ref for record in self._take_unshared(urgent=False))

    def _count(self, nbytes: int) -> None:
        self.in_memory += nbytes
        stats = self.stats
        stats.peak_device_memory = max(stats.peak_device_memory, self.in_memory)

    # -- away

    def _send(self, stay: int) -> None:
        """Copy queued records to the host, all but the last ones."""
        while len(self.queue) > stay:
            with locked:
                record, length = self._next_to_leave(stay)
            if record is None:
                continue
            host = None
            try:
                host = self._host_memory(record, length)
            finally:
                with locked:
                    is_away = host is not None and self._leave(record, host)
                    if not is_away:
                        self._hold(record)
                        if host is not None:
                            self._release(length)
            if is_away:
                away = self._streams_of(record.device)[0]
                _C._cuda_limit_waiting(record.device, away, max(_MOST_WAITING, 2 * length))

    def _next_to_leave(self, stay: int) -> tuple[_DeviceRecord | None, int]:
        """Take a record from the queue; return it with the bytes it will take on the host."""
        if len(self.queue) <= stay:  # another thread was faster
            return None, 0
        record = self.queue.popleft()()
        if record is None or record.state != State.QUEUED:
            return None, 0
        live = record.live_handles()
        if not self._is_ours(record):  # a sweep reads it
            self._hold(record)
            return None, 0
        if intact(live) is None or record.itemsize not in BITS:
            record.state = State.PINNED
            return None, 0
        assert isinstance(record, _DeviceRecord)
        return record, self._measure(record, live)[1]

    def _leave(self, record: _DeviceRecord, host: Tensor) -> bool:
        """Begin to copy a record and let go of its memory, if it is still ours alone."""
        live = record.live_handles()
        if not self._is_ours(record):
            return False
        start, length = self._measure(record, live)
        tensor = intact(live)
        if length != host.nbytes or tensor is None:
            return False
        away = self._streams_of(record.device)[0]
        flat = tensor.as_strided((length // record.itemsize,), (1,), start)
        _C._cuda_copy_aside(host, flat, away, record.stream)
        record.left = _C._CudaEvent()
        record.left.record_on(record.device, away)
        record.start, record.length, record.host = start, length, host
        record.reserved = length
        record.state = State.FILED
        if records.get(record.key) is record.ref:
            del records[record.key]
        for handle in live:
            handle.kept = None
        self._uncount(record)
        self.stats.copied_bytes += length
        if self.file is not None:
            self.landing.append(record.ref)
        return True

    def _streams_of(self, device: int) -> tuple[int, int]:
        if device not in self.streams:
            create = _C._cuda_create_stream
            self.streams[device] = create(device, 0), create(device, 0)
        return self.streams[device]

    # -- the host's memory

    def _host_memory(self, record: _DeviceRecord, nbytes: int) -> Tensor | None:
        """Return page-locked memory; None if as much is taken as is allowed."""
        if not self._reserve(nbytes):
            return None
        try:
            away = self._streams_of(record.device)[0]
            return _C._cuda_pinned_for(nbytes, record.device, away)
        except _C.OutOfMemoryError as error:
            with locked:
                self._release(nbytes)
            raise _C.OutOfMemoryError(self._explain(nbytes, error)) from None

    def _explain(self, nbytes: int, error: Exception) -> str:
        more = "; or name a folder, to have them in a file" if self.file is None else ""
        taken = self.in_host if self.file is None else self.file.in_memory
        return (
            "offload: the host has no page-locked memory left for a saved value of "
            f"{human_bytes(nbytes)}, beside {human_bytes(taken)} of others ({error}); allow less "
            f"with memory=, to have the rest stay on the GPU{more}"
        )

    def _reserve(self, nbytes: int) -> bool:
        if self.file is None:
            with locked:
                if self.memory is not None and self.in_host + nbytes > self.memory:
                    return False
                self.in_host += nbytes
                self.stats.peak_memory = max(self.stats.peak_memory, self.in_host)
            return True
        self._land()
        while not self.file.reserve(nbytes):
            if not self._land_one():
                return False
        return True

    def _release(self, nbytes: int) -> None:
        """End a reservation; the lock is held."""
        if self.file is None:
            self.in_host -= nbytes
        else:
            self.file.release(nbytes)

    def _land(self) -> None:
        """Give on to the file what has arrived on the host."""
        while (record := self._first_landing()) is not None:
            if not record.left.query():
                return
            self._give_on(record)

    def _land_one(self) -> bool:
        """Wait for the oldest copy and give it on; return whether there was one."""
        record = self._first_landing()
        if record is None:
            return False
        self.stats.waits += 1
        record.left.synchronize()
        self._give_on(record)
        return True

    def _first_landing(self) -> _DeviceRecord | None:
        with locked:
            while self.landing:
                record = self.landing[0]()
                if isinstance(record, _DeviceRecord) and record.host is not None:
                    return record
                self.landing.popleft()
        return None

    def _give_on(self, record: _DeviceRecord) -> None:
        assert self.file is not None
        with locked:
            host, record.host = record.host, None
            if host is None:  # another thread was faster
                return
            reserved, record.reserved = record.reserved, 0
        filed = self.file.take(host)
        with locked:
            record.filed = filed
            if filed is None:  # the file is closed
                record.host, record.reserved = host, reserved
                self.landing.clear()

    # -- back

    def unpack(self, packed: "Handle | Small") -> Tensor:
        """Return the tensor that was packed."""
        if isinstance(packed, Small):
            with locked:
                self.stats.unpacked += 1
                self.stats.reused += 1
            return packed.kept.get()
        record = packed.record
        assert isinstance(record, _DeviceRecord)
        store: DeviceStore = record.store
        sweep = current_sweep()
        kept, base = store._bring_back(packed, record)
        with locked:
            self.stats.unpacked += 1
            if kept is not None or (sweep is not None and record.sweep == sweep):
                self.stats.reused += 1
            packed.taken = record.sweep = sweep
            store._drop_idle()
            ahead = store._ahead_of(packed.position)
        store._prefetch(ahead)
        if kept is not None:
            return kept.get()
        assert base is not None
        return packed.view_of(base)

    def _bring_back(
        self, handle: Handle, record: _DeviceRecord
    ) -> tuple[Holder | None, Tensor | None]:
        """Return what keeps a value on the device, or its bytes there for the current stream."""
        while True:
            with locked:
                if handle.kept is not None:
                    return handle.kept, None
                if record.base is not None and not record.is_base_intact():
                    self._drop(record)  # somebody wrote into it
                if record.base is not None:
                    self._join(record)
                    return None, record.base
                host, filed = record.host, record.filed
            if host is None and filed is not None:
                assert self.file is not None
                host = self.file.fetch(filed)
            if host is not None:  # else it is being given on by another thread
                with locked:
                    if record.base is None:
                        self._return(record, host)

    def _prefetch(self, ahead: list[Record]) -> None:
        """Begin to copy back what the sweep will come to."""
        for record in ahead:
            assert isinstance(record, _DeviceRecord)
            host = record.host
            if host is None and record.filed is not None and record.base is None:
                assert self.file is not None
                host = self.file.find(record.filed)
            with locked:
                if host is None or record.base is not None or record.state != State.FILED:
                    continue
                with contextlib.suppress(_C.OutOfMemoryError):  # later, when others are through
                    self._return(record, host)

    def _return(self, record: _DeviceRecord, host: Tensor) -> None:
        """Begin to copy a record back, into memory of the current stream."""
        device = record.device
        count = record.length // record.itemsize
        base = _C.empty(count, dtype=BITS[record.itemsize], device=f"cuda:{device}")
        back = self._streams_of(device)[1]
        record.owner = _C._cuda_current_stream(device)
        record.left.wait_on(device, back)
        _C._cuda_copy_aside(base, host, back, record.owner)
        record.returned = _C._CudaEvent()
        record.returned.record_on(device, back)
        record.users = []
        record.state, record.base = State.READY, base
        record.key = _C._storage_id(base)
        records[record.key] = record.ref
        self.ready[record.ref] = None
        record.counted = record.length
        self._count(record.length)
        self.stats.returned_bytes += record.length

    def _is_crowded(self) -> bool:
        if not super()._is_crowded():
            return False
        found = (ref() for ref in self.ready)
        nbytes = sum(record.length for record in found if record is not None)
        return nbytes > 2 * self.bytes_ahead

    def _join(self, record: _DeviceRecord) -> None:
        """Let the current stream, and the one that the memory belongs to, wait for the copy."""
        stream = _C._cuda_current_stream(record.device)
        base = record.base
        assert base is not None
        if not record.users:
            record.returned.wait_on(record.device, record.owner)
            _C._cuda_erase_stream(base, self._streams_of(record.device)[1])
            record.users.append(record.owner)
        if stream not in record.users:
            record.returned.wait_on(record.device, stream)
            _C._cuda_record_stream(base, stream)
            record.users.append(stream)

    # -- the rest

    def flush(self) -> None:
        """Copy away all that only the tape holds, and wait for it."""
        with locked:
            self.check_all_at = 0
            self.queue.extend(record.ref for record in self._take_unshared(urgent=True))
        self._send(0)
        for device, (away, _) in self.streams.items():
            _C._cuda_stream_synchronize(device, away)
            _C._cuda_limit_waiting(device, away, 0)
        if self.file is not None:
            self._land()

    def _forget(self, counted: int, positions: list[int], reserved: int = 0) -> None:
        super()._forget(counted, positions)
        if reserved:
            self._release(reserved)
