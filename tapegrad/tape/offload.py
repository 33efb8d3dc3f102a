"""Saved values elsewhere while they are not needed: on disk, or those of a GPU on the host.

Between the forward and the backward, a value that the tape saved lies idle; the first to be saved
lie longest. `offload` moves them away as the forward runs and brings them back ahead of the sweep,
which asks for them in reverse order. How a value moves is described in
`tapegrad/tape/_offload_store.py` for files and in `_offload_device.py` for GPUs.
"""

import atexit
import os
import threading
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.tape._offload_device import DeviceStore
from tapegrad.tape._offload_records import Handle, Small
from tapegrad.tape._offload_store import Store, close_all
from tapegrad.tape._offload_tracking import Statistics
from tapegrad.utils._kept import Hooks, Kept
from tapegrad.utils._units import human_bytes, parse_bytes

__all__ = ["offload"]

atexit.register(close_all)


def _positive(size: int | str, name: str) -> int:
    count = parse_bytes(size, f"offload: {name}")
    if count <= 0:
        raise ValueError(f"offload: {name}: expected more than 0 bytes, got {size!r}")
    return count


class _Stays:
    """A value of the CPU that stays in its memory."""

    __slots__ = ("kept", "stats")

    def __init__(self, tensor: Tensor, stats: Statistics) -> None:
        self.kept = Kept(tensor)
        self.stats = stats
        stats.packed += 1
        stats.kept += 1

    def get(self) -> Tensor:
        self.stats.unpacked += 1
        self.stats.reused += 1
        return self.kept.get()


class _Stores:
    """Where the values of a block go: those of the CPU to a file, or nowhere; those of GPUs."""

    def __init__(self, host: Store | None, device: DeviceStore, stats: Statistics) -> None:
        self.host = host
        self.device = device
        self.stats = stats

    def pack(self, tensor: Tensor) -> Handle | Small | _Stays:
        if tensor.is_cuda:
            return self.device.pack(tensor)
        if tensor.device.type != "cpu":
            raise NotImplementedError(
                f"offload: expected tensors on the CPU or on a GPU, got one on {tensor.device}, "
                "which has no bytes to move; leave the block for it"
            )
        return _Stays(tensor, self.stats) if self.host is None else self.host.pack(tensor)


def _unpack(packed: Handle | Small | _Stays) -> Tensor:
    if isinstance(packed, Handle):
        found: Tensor = packed.record.store.unpack(packed)
        return found
    return packed.store.unpack(packed) if isinstance(packed, Small) else packed.get()


class _Block(Hooks):
    """The hooks of one block, which pack into its stores."""

    def __init__(self, stores: _Stores) -> None:
        self.stores = stores
        self.pack = stores.pack  # type: ignore[method-assign]
        self.unpack = _unpack  # type: ignore[assignment]  # the tape holds no more than that

    def leave(self) -> None:
        if self.stores.host is not None:
            self.stores.host.leave()


class offload:
    """Keep what the tape saves elsewhere, inside a block, and bring it back ahead of the sweep.

    A value is moved once only the tape holds it: parameters, inputs and what the program itself
    keeps stay where they are and are never duplicated. Gradients are bitwise what they are without.

    Values of a GPU go to page-locked memory of the host, and from there to the file, if there is
    one. Streams of their own copy them while the device goes on computing; nothing waits on the
    host, and the device waits only where copies are more than 256 MiB behind. Memory on the GPU is
    used again when the copy is done. The sweep finds the next values copied back, as many as
    `prefetch` says and at least 64 MiB. The last values before the sweep stay on the GPU.

    Args:
        where: a folder, in which a file without a name is made; or the path of a file that does not
            exist, removed at the end; or "cpu", the host's memory: there the values of CPU tensors
            are already, so they stay.
        prefetch: how many values are brought back ahead of the sweep.
        memory: how many bytes of saved values may be in the host's memory at a time, on their way
            to the file and back: an int, or text such as "64 MiB". Ops then wait for the disk where
            they must. What the program itself holds cannot be moved; a warning says so if it takes
            more. None sets no limit: values are written beside the computation, as fast as that
            goes, and ops wait only when 64 MiB are behind. With "cpu", what is more stays on the
            GPU.
        min_bytes: values of less memory stay.

    Raises:
        OutOfMemoryError: from an op inside the block: the host has no page-locked memory left.
        OSError: no file can be made there; or, from an op inside the block, the disk is full. Then
            nothing is lost: what was saved is still in memory, parameters and gradients are as they
            were.
        RuntimeError: from a backward, with the op and its line: the file was cut or changed.

    Example:
        >>> x = torch.randn(64, 64, requires_grad=True)
        >>> with torch.tape.offload(".", memory="1 MiB") as o:
        ...     y = x
        ...     for _ in range(200):  # saves 200 results of 16 KiB
        ...         y = torch.tanh(y)
        ...     y.sum().backward()
        >>> o.peak_memory <= 2**20 and o.written_bytes > 2 * 2**20
        True
    """

    def __init__(
        self,
        where: str | os.PathLike[str],
        *,
        prefetch: int = 4,
        memory: int | str | None = None,
        min_bytes: int | str = 4096,
    ) -> None:
        if isinstance(prefetch, bool) or not isinstance(prefetch, int) or prefetch < 0:
            raise ValueError(
                f"offload: expected prefetch to be an int of at least 0, got {prefetch!r}"
            )
        self.where = os.fsdecode(where)
        if not self.where or "\0" in self.where:
            raise ValueError(f"offload: expected a folder, a file or 'cpu', got {where!r}")
        self.prefetch = prefetch
        self.memory = None if memory is None else _positive(memory, "memory")
        self.min_bytes = _positive(min_bytes, "min_bytes")
        if self._is_host and memory is not None and _C._cuda_why_unavailable():
            raise ValueError(
                "offload: expected memory=None with 'cpu' where there is no GPU: values of the CPU "
                "stay in its memory; name a folder to have less of them there"
            )
        self._stats = Statistics()
        self._stores: _Stores | None = None
        self._blocks = threading.local()  # each thread has hooks of its own

    @property
    def _is_host(self) -> bool:
        return self.where == "cpu"

    def __enter__(self) -> "offload":
        block = _Block(self._open())
        try:
            block.push()
        except BaseException:  # hooks are disabled here
            block.leave()
            raise
        self._stack().append(block)
        return self

    def __exit__(self, *exception: object) -> None:
        if not self._stack():
            raise RuntimeError("offload: expected to leave a block that this thread has entered")
        block = self._stack().pop()
        block.pop()
        block.leave()

    def _stack(self) -> list[_Block]:
        blocks = self._blocks
        if not hasattr(blocks, "entered"):
            blocks.entered = []
        stack: list[_Block] = blocks.entered
        return stack

    def _open(self) -> _Stores:
        """Return the stores of this block: the former, if values of a former block are there."""
        stores = self._stores
        if stores is None or (stores.host is not None and not stores.host.enter()):
            options = self.prefetch, self.memory, self.min_bytes, self._stats
            host = None
            if not self._is_host:
                host = Store(os.path.abspath(self.where), *options)
                host.enter()
            stores = self._stores = _Stores(host, DeviceStore(host, *options), self._stats)
        return stores

    def flush(self) -> None:
        """Move everything now that only the tape holds, and wait for it.

        For a moment at which memory is wanted for something else. Without `flush`, what little is
        left when the forward ends stays, because a sweep will ask for it first.
        """
        if self._stores is None:
            return
        self._stores.device.flush()
        if self._stores.host is not None:
            self._stores.host.flush()

    @property
    def packed(self) -> int:
        """How many values the tape saved."""
        return self._stats.packed

    @property
    def kept(self) -> int:
        """How many storages stayed in memory: small ones, and parameters."""
        return self._stats.kept

    @property
    def unpacked(self) -> int:
        """How many values sweeps have asked for."""
        return self._stats.unpacked

    @property
    def reused(self) -> int:
        """How many of those were in memory anyway and not brought back for this."""
        return self._stats.reused

    @property
    def written_bytes(self) -> int:
        """Bytes written to the file."""
        return self._stats.written_bytes

    @property
    def read_bytes(self) -> int:
        """Bytes read back."""
        return self._stats.read_bytes

    @property
    def copied_bytes(self) -> int:
        """Bytes copied from GPUs to the host."""
        return self._stats.copied_bytes

    @property
    def returned_bytes(self) -> int:
        """Bytes copied back to GPUs."""
        return self._stats.returned_bytes

    @property
    def file_bytes(self) -> int:
        """The largest size of the file."""
        return self._stats.file_bytes

    @property
    def peak_memory(self) -> int:
        """The most bytes of saved values in the host's memory at a time, parameters apart."""
        return self._stats.peak_memory

    @property
    def peak_device_memory(self) -> int:
        """The most bytes of saved values on GPUs at a time, parameters apart."""
        return self._stats.peak_device_memory

    @property
    def memory_now(self) -> int:
        """Bytes of saved values that are in the host's memory, parameters apart."""
        stores = self._stores
        if stores is None:
            return 0
        return stores.device.in_host if stores.host is None else stores.host.count()[0]

    @property
    def device_memory_now(self) -> int:
        """Bytes of saved values that are on GPUs, parameters apart."""
        return 0 if self._stores is None else self._stores.device.in_memory

    @property
    def file_now(self) -> int:
        """Bytes of saved values that are in the file."""
        stores = self._stores
        return 0 if stores is None or stores.host is None else stores.host.count()[1]

    @property
    def waits(self) -> int:
        """How often an op waited for the disk."""
        return self._stats.waits

    def summary(self) -> str:
        """Return a summary of what happened so far, as text."""
        stats = self._stats
        limit = "" if self.memory is None else f" of {human_bytes(self.memory)} allowed"
        lines = [
            f"offload to {self.where!r}",
            f"  saved      {stats.packed} values, {stats.kept} of them never moved",
            f"  written    {human_bytes(stats.written_bytes)}, to a file of "
            f"{human_bytes(stats.file_bytes)}",
            f"  read back  {human_bytes(stats.read_bytes)}, for {stats.unpacked} values, "
            f"{stats.reused} of them in memory anyway",
            f"  in memory  at most {human_bytes(stats.peak_memory)}{limit}; "
            f"{stats.waits} waits for the disk",
        ]
        if stats.copied_bytes:
            lines.append(
                f"  on GPUs    at most {human_bytes(stats.peak_device_memory)}; "
                f"{human_bytes(stats.copied_bytes)} copied to the host, "
                f"{human_bytes(stats.returned_bytes)} back"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        options: list[Any] = [repr(self.where), f"prefetch={self.prefetch}"]
        if self.memory is not None:
            options.append(f"memory={human_bytes(self.memory)!r}")
        stats = self._stats
        return (
            f"offload({', '.join(options)}): {human_bytes(stats.written_bytes)} written, "
            f"{human_bytes(stats.read_bytes)} read, "
            f"at most {human_bytes(stats.peak_memory)} in memory"
        )
