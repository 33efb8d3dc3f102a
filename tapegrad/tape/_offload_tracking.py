"""What an `offload` knows of saved values: their order, who holds them, how much they take.

A `Tracker` makes records and handles (`_offload_records.py`) of what is packed and watches for the
moment at which a value may be moved. Moving it is the business of those who derive from it: to a
file (`_offload_store.py`), or from a GPU to the host (`_offload_device.py`).

Note [Only the tape holds it]
A value is moved once only the tape holds its memory. Moving it earlier would free nothing:
parameters, inputs and whatever else the program keeps stay where they are, are not duplicated, and
are used by the sweep directly. From then on nothing can write to it, so the bytes that are moved
are those that were saved. There is no notification when the program lets go of a value; those that
it still holds are checked when others are packed, each less often the longer it is held.
"""

import heapq
import weakref
from collections.abc import Callable
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.tape._offload_records import Handle, Holder, Record, Small, State, locked, records
from tapegrad.utils._kept import Kept

__all__ = ["BITS", "Statistics", "Tracker", "current_sweep"]

BITS = {1: _C.uint8, 2: _C.int16, 4: _C.int32, 8: _C.int64}  # dtypes that NumPy knows, by bytes
_FEW = 256  # records that can always be checked
_LONGEST_SEARCH = 64  # values passed over when looking for what to bring back next


class Statistics:
    """What an `offload` did."""

    def __init__(self) -> None:
        self.packed = 0
        self.kept = 0
        self.unpacked = 0
        self.reused = 0
        self.written_bytes = 0
        self.read_bytes = 0
        self.copied_bytes = 0
        self.returned_bytes = 0
        self.peak_memory = 0
        self.peak_device_memory = 0
        self.file_bytes = 0
        self.waits = 0


def _keep(tensor: Tensor) -> tuple[Kept, bool]:
    """Keep a tensor; also return whether the tape is not charged for it.

    It is not for leaves, nor for what it holds anyway, outside of the block.
    """
    is_free = not _C._is_charged(tensor)
    return Kept(tensor), is_free


def current_sweep() -> Any:
    """Return the number of the backward that runs on this thread, or None."""
    try:
        return _C._current_sweep()
    except RuntimeError:  # a saved value is read outside of any backward
        return None


class Tracker:
    """Records of saved values, in the order of the tape.

    Args:
        prefetch: how many values are brought back ahead of the sweep.
        min_bytes: values of less memory are not moved.
        stats: what is counted.
        make_record: the class of the records.
    """

    alignment = 64  # bytes: kernels find values aligned as they were
    bytes_ahead = 0  # to be brought back ahead of the sweep, if the values are small

    def __init__(
        self,
        prefetch: int,
        min_bytes: int,
        stats: Statistics,
        make_record: Callable[..., Record] = Record,
    ) -> None:
        self.prefetch = prefetch
        self.min_bytes = min_bytes
        self.stats = stats
        self.live = 0  # records and small values on some tape
        self.in_memory = 0  # bytes counted, where the values were saved
        self.clock = 0  # counts what was packed
        self.next_position = 0
        self.order: dict[int, weakref.ref[Handle]] = {}
        self.held: list[tuple[int, int, weakref.ref[Record]]] = []  # a heap by when to check again
        self.check_all_at = 0
        self.ready: dict[weakref.ref[Record], None] = {}
        self._make_record = make_record

    # -- packing

    def pack(self, tensor: Tensor) -> Handle | Small:
        """Return what stands for a tensor on the tape."""
        nbytes = tensor.untyped_storage().nbytes()
        if nbytes < self.min_bytes or _C._running_vmaps():
            return self._pack_small(tensor, nbytes)
        key = _C._storage_id(tensor)
        with locked:
            self.stats.packed += 1
            record = self._find(key)
            if record is not None and record.state == State.READY:
                return self._add_handle(record, None, tensor, record.start)
        if record is None:
            self._make_way(nbytes)
            kept, is_free = _keep(tensor)
        else:
            kept, is_free = Kept(tensor), False
        with locked:
            return self._add(key, kept, tensor, nbytes, is_free)

    def unpack(self, packed: "Handle | Small") -> Tensor:
        """Return the tensor that was packed."""
        raise NotImplementedError

    def _make_way(self, nbytes: int) -> None:
        """Make room for bytes that are going to be saved."""

    def _note_packed(self) -> None:
        """Do what is due when a value was packed; the lock is held."""

    def _add(
        self, key: int, kept: Holder, tensor: Tensor, nbytes: int, is_free: bool = False
    ) -> Handle:
        self.clock += 1
        record = self._find(key)
        if record is None:
            record = self._add_record(key, nbytes, tensor.element_size(), is_free)
        handle = self._add_handle(record, kept, tensor, 0)
        self._note_packed()
        return handle

    def _pack_small(self, tensor: Tensor, nbytes: int) -> Small:
        small = Small(self, Kept(tensor), nbytes)
        with locked:
            self.stats.packed += 1
            self.stats.kept += 1
            self.live += 1
            self._count(nbytes)
        return small

    def _find(self, key: int) -> Record | None:
        """Return the record of a storage."""
        ref = records.get(key)
        record = ref() if ref is not None else None
        if record is None:
            return None
        if record.state == State.READY:
            if record.is_base_intact():
                return record
            record.store._drop(record)  # somebody wrote into it: it is another value now
            return None
        return record if record.is_kept() else None

    def _add_record(self, key: int, nbytes: int, itemsize: int, is_free: bool) -> Record:
        record = self._make_record(self, key, nbytes, itemsize)
        records[key] = record.ref
        self.live += 1
        if is_free:
            record.state = State.PINNED
            self.stats.kept += 1
            return record
        record.counted = nbytes
        self._count(nbytes)
        self._hold(record)
        return record

    def _add_handle(
        self, record: Record, kept: Holder | None, tensor: Tensor, offset: int
    ) -> Handle:
        handle = Handle(record, kept, tensor, tensor.storage_offset() + offset)
        record.handles.append(handle.ref)
        store = record.store  # another one's, if both saved the same memory
        handle.position = store.next_position
        store.next_position += 1
        store.order[handle.position] = handle.ref
        record.positions.append(handle.position)
        return handle

    def _count(self, nbytes: int) -> None:
        """Count bytes that are saved and not moved yet."""
        raise NotImplementedError

    def _uncount(self, record: Record) -> None:
        """End what was counted for a record."""
        self.in_memory -= record.counted
        record.counted = 0

    # -- who holds it

    def _hold(self, record: Record) -> None:
        """Note a record that the program holds as well, to be checked again later."""
        record.state = State.HELD
        heapq.heappush(self.held, (self.clock + record.wait, record.number, record.ref))
        record.wait *= 2

    def _take_unshared(self, urgent: bool) -> list[Record]:
        """Return the records whose memory only the tape holds: check all, or those that are due."""
        if urgent and (len(self.held) <= _FEW or self.clock >= self.check_all_at):
            due, self.held = self.held, []
            self.check_all_at = self.clock + len(due) // 8
        else:
            due = []
            while self.held and self.held[0][0] <= self.clock:
                due.append(heapq.heappop(self.held))
        due.sort(key=lambda entry: entry[1])  # oldest first
        found = []
        for _, _, ref in due:
            record = ref()
            if record is None:
                continue
            if self._is_ours(record):
                record.state = State.QUEUED
                found.append(record)
            else:
                self._hold(record)
        return found

    def _is_ours(self, record: Record) -> bool:
        """Return whether only the tape holds the bytes of a record, and they are there."""
        live = record.live_handles()
        if not live or not record.is_kept() or _C._storage_uses(record.key) > len(live):
            return False
        return not _C._storage_is_evicted(record.key)  # by a budget, which knows how to get it back

    def _measure(self, record: Record, live: list[Handle]) -> tuple[int, int]:
        """Return the first element of a record that values show, and the bytes up to the last."""
        ranges = [handle.range() for handle in live]
        line = self.alignment // record.itemsize
        start = min(first for first, _ in ranges) // line * line
        return start, (max(last for _, last in ranges) - start) * record.itemsize

    # -- what was brought back

    def _ahead_of(self, position: int) -> list[Record]:
        """Return the records that the sweep will come to after this position."""
        seen: dict[weakref.ref[Record], Record] = {}
        last = max(0, position - self.prefetch - _LONGEST_SEARCH)
        nbytes = 0 if self.prefetch else self.bytes_ahead
        while position > last and (len(seen) < self.prefetch or nbytes < self.bytes_ahead):
            position -= 1
            ref = self.order.get(position)
            handle = ref() if ref is not None else None
            if handle is not None and handle.kept is None and handle.record.ref not in seen:
                seen[handle.record.ref] = handle.record
                nbytes += handle.record.length
        return list(seen.values())

    def _drop(self, record: Record) -> None:
        """Let go of bytes that are elsewhere as well."""
        if records.get(record.key) is record.ref:
            del records[record.key]
        record.state, record.base = State.FILED, None
        self._uncount(record)
        self.ready.pop(record.ref, None)

    def _is_over(self, room: int) -> bool:
        """Return whether so many bytes more are too many."""
        return False

    def _is_crowded(self) -> bool:
        """Return whether more has been brought back than is needed ahead of the sweep."""
        return len(self.ready) > 2 * self.prefetch + 2

    def _drop_idle(self, room: int = 0, spent_only: bool = False) -> None:
        """Drop bytes that were brought back and that nobody uses now, to make room for others.

        First those that the sweep has asked for already: it may ask again while it is at the same
        entry, which frees them when it is through, unless the graph is retained. Then those that
        the sweep comes to last.
        """
        if not self._is_crowded() and not self._is_over(room):
            return
        idle = []
        for ref in list(self.ready):
            record = ref()
            if record is None or record.base is None:
                del self.ready[ref]
            elif _C._storage_uses(record.key) == 1:
                live = record.live_handles()
                spent = all(h.taken is not None and h.taken == record.sweep for h in live)
                if spent or not spent_only:
                    idle.append((not spent, max((h.position for h in live), default=0), record))
        idle.sort(key=lambda place: place[:2], reverse=True)
        while idle and (self._is_crowded() or self._is_over(room)):
            self._drop(idle.pop()[2])

    def _forget(self, counted: int, positions: list[int]) -> None:
        """Note that a record has died."""
        self.in_memory -= counted
        for position in positions:
            self.order.pop(position, None)
        self.live -= 1
