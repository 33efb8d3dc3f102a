"""Saved values on disk while they are not needed.

Between the forward and the backward, a value that the tape saved lies idle; the first to be saved
lie longest. `offload` writes them to a file as the forward runs and reads them ahead of the sweep,
which asks for them in reverse order. How a value moves is described in
`tapegrad/tape/_offload_store.py`.
"""

import atexit
import os
import threading
from typing import Any

from tapegrad._C import Tensor
from tapegrad.tape._offload_store import Statistics, Store, check_device, close_all
from tapegrad.utils._kept import Hooks, Kept
from tapegrad.utils._units import human_bytes, parse_bytes

__all__ = ["offload"]

atexit.register(close_all)


def _positive(size: int | str, name: str) -> int:
    count = parse_bytes(size, f"offload: {name}")
    if count <= 0:
        raise ValueError(f"offload: {name}: expected more than 0 bytes, got {size!r}")
    return count


class _FileHooks(Hooks):
    """Packs into a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pack = store.pack  # type: ignore[method-assign]
        self.unpack = store.unpack  # type: ignore[method-assign]  # the tape holds no more than that


class _HostHooks(Hooks):
    """Leaves values in the host's memory, where those of the CPU are already."""

    def __init__(self, stats: Statistics) -> None:
        self.stats = stats

    def pack(self, tensor: Tensor) -> Kept:
        check_device(tensor)
        self.stats.packed += 1
        self.stats.kept += 1
        return Kept(tensor)

    def unpack(self, packed: Kept) -> Tensor:
        self.stats.unpacked += 1
        self.stats.reused += 1
        return packed.get()


class offload:
    """Keep what the tape saves in a file, inside a block, and bring it back ahead of the sweep.

    A value is written once only the tape holds it: parameters, inputs and what the program itself
    keeps stay where they are and are never duplicated. Gradients are bitwise what they are without.

    Args:
        where: a folder, in which a file without a name is made; or the path of a file that does not
            exist, removed at the end; or "cpu", the host's memory: there the values of CPU tensors
            are already, so they stay.
        prefetch: how many values are read ahead of the sweep.
        memory: how many bytes of saved values may be in memory at a time, on their way to the file
            and back: an int, or text such as "64 MiB". Ops then wait for the disk where they must.
            What the program itself holds cannot be moved; a warning says so if it takes more. None
            sets no limit: values are written beside the computation, as fast as that goes, and
            ops wait only when 64 MiB are behind.
        min_bytes: values of less memory stay.

    Raises:
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
        if self._is_host and memory is not None:
            raise ValueError(
                "offload: expected memory=None with 'cpu': values of the CPU stay in its memory; "
                "name a folder to have less of them there"
            )
        self._stats = Statistics()
        self._store: Store | None = None
        self._blocks = threading.local()  # each thread has hooks of its own

    @property
    def _is_host(self) -> bool:
        return self.where == "cpu"

    def __enter__(self) -> "offload":
        hooks: Hooks
        hooks = _HostHooks(self._stats) if self._is_host else _FileHooks(self._open())
        try:
            hooks.push()
        except BaseException:  # hooks are disabled here
            if isinstance(hooks, _FileHooks):
                hooks.store.leave()
            raise
        self._stack().append(hooks)
        return self

    def __exit__(self, *exception: object) -> None:
        if not self._stack():
            raise RuntimeError("offload: expected to leave a block that this thread has entered")
        hooks = self._stack().pop()
        hooks.pop()
        if isinstance(hooks, _FileHooks):
            hooks.store.leave()

    def _stack(self) -> list[Hooks]:
        blocks = self._blocks
        if not hasattr(blocks, "hooks"):
            blocks.hooks = []
        stack: list[Hooks] = blocks.hooks
        return stack

    def _open(self) -> Store:
        """Return the file of this block: the former, if values of a former block are in it."""
        store = self._store
        if store is None or not store.enter():
            path = os.path.abspath(self.where)
            store = Store(path, self.prefetch, self.memory, self.min_bytes, self._stats)
            store.enter()
            self._store = store
        return store

    def flush(self) -> None:
        """Write everything now that only the tape holds, and wait for it.

        For a moment at which memory is wanted for something else. Without `flush`, what little is
        left when the forward ends stays, because a sweep will ask for it first.
        """
        if self._store is not None:
            self._store.flush()

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
        """How many of those were in memory anyway and not read for this."""
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
    def file_bytes(self) -> int:
        """The largest size of the file."""
        return self._stats.file_bytes

    @property
    def peak_memory(self) -> int:
        """The most bytes of saved values that were in memory at a time, parameters apart."""
        return self._stats.peak_memory

    @property
    def memory_now(self) -> int:
        """Bytes of saved values that are in memory, parameters apart."""
        return 0 if self._store is None else self._store.count()[0]

    @property
    def file_now(self) -> int:
        """Bytes of saved values that are in the file."""
        return 0 if self._store is None else self._store.count()[1]

    @property
    def waits(self) -> int:
        """How often an op waited for the disk."""
        return self._stats.waits

    def summary(self) -> str:
        """Return a summary of what happened so far, as text."""
        stats = self._stats
        limit = "" if self.memory is None else f" of {human_bytes(self.memory)} allowed"
        return "\n".join(
            [
                f"offload to {self.where!r}",
                f"  saved      {stats.packed} values, {stats.kept} of them never moved",
                f"  written    {human_bytes(stats.written_bytes)}, to a file of "
                f"{human_bytes(stats.file_bytes)}",
                f"  read back  {human_bytes(stats.read_bytes)}, for {stats.unpacked} values, "
                f"{stats.reused} of them in memory anyway",
                f"  in memory  at most {human_bytes(stats.peak_memory)}{limit}; "
                f"{stats.waits} waits for the disk",
            ]
        )

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
