"""The engine of MPI, by mpi4py: several processes on CPUs, started by mpiexec or Slurm.

What moves, moves as bytes; what is reduced has a type of MPI, except for half types, which are
reduced in float32 and rounded once. Every operation is begun without waiting for its end.
"""

import atexit
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import tapegrad
from tapegrad._C import Tensor
from tapegrad.autograd.graph import increment_version
from tapegrad.distributed import _watch
from tapegrad.distributed._errors import DistBackendError
from tapegrad.distributed._reduce_op import RedOpType
from tapegrad.distributed.engine import Engine, EngineOptions, Pending

__all__ = ["MpiEngine", "is_there", "world"]

_HALF = (tapegrad.float16, tapegrad.bfloat16)
_NAPS = (0.0, 0.00005)  # seconds, while an operation is waited for
_SHORT = 200  # how often the first is taken
_MANY = 16  # operations under way, from which on those that have ended are looked for

# What had not ended when its group did: MPI may use the buffers until it ends itself.
_lost: list["_MpiPending"] = []


def is_there() -> bool:
    """Return whether mpi4py can be imported, without doing so: that would start MPI."""
    from importlib.util import find_spec

    return find_spec("mpi4py") is not None


def _mpi() -> Any:
    try:
        if "mpi4py.MPI" not in sys.modules:
            import mpi4py

            mpi4py.rc.finalize = False  # it would wait for processes that have died
            atexit.register(_finalize)
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(
            f"torch.distributed: mpi4py finds no MPI ({error}); install a library, such as the "
            "wheel mpich"
        ) from error
    return MPI


def _finalize() -> None:
    """End MPI with the program, unless the processes no longer agree: nobody would come."""
    MPI = sys.modules.get("mpi4py.MPI")
    is_on = MPI is not None and MPI.Is_initialized() and not MPI.Is_finalized()
    if MPI is not None and is_on and not _watch.failed:
        MPI.Finalize()


def world() -> tuple[int, int]:
    """Return the rank of this process and the number of processes that MPI has started."""
    communicator = _mpi().COMM_WORLD
    return communicator.Get_rank(), communicator.Get_size()


def _bytes(buffer: Tensor) -> Any:
    """Return the memory of a buffer as an array of bytes."""
    if buffer.dtype is tapegrad.bfloat16:  # which NumPy lacks
        buffer = buffer.view(tapegrad.int16)
    return buffer.numpy().view("uint8")


class _MpiPending(Pending):
    """A request of MPI, with the buffers that it uses."""

    def __init__(
        self, engine: "MpiEngine", request: Any, kept: Any, finish: Callable[[], Any]
    ) -> None:
        self._request, self._kept, self._finish = request, kept, finish
        self._limit = engine.options.timeout
        self._open = engine.open
        self._open.add(self)  # its buffers stay, also if nobody waits for it
        self._status = engine.mpi.Status()

    def done(self) -> bool:
        """Return whether it has ended, and let MPI make progress."""
        if self._request is None:
            return True
        if not self._request.Test(self._status):
            return False
        self._request = self._kept = None
        self._open.discard(self)
        self._finish()
        return True

    def wait(self, timeout: timedelta | None) -> None:
        """Wait for its end."""
        limit = self._limit if timeout is None else timeout
        end, tries = time.monotonic() + limit.total_seconds(), 0
        while not self.done():
            if time.monotonic() >= end:
                raise DistBackendError(f"mpi: an operation did not end within {limit}")
            time.sleep(_NAPS[tries >= _SHORT])
            tries += 1

    def source(self) -> int:
        """Return the rank that a message was received from."""
        return self._status.Get_source()


class MpiEngine(Engine):
    """Moves bytes between processes of MPI's world."""

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self.mpi = MPI = _mpi()
        self.open: set[_MpiPending] = set()
        rank, size = world()
        ranks = options.global_ranks_in_group
        if max(ranks) >= size or ranks[self.rank] != rank:
            raise RuntimeError(
                f"mpi: this process is rank {rank} of {size} in MPI's world, and not rank "
                f"{ranks[self.rank]}; start the processes by mpiexec, or by srun --mpi=pmi2"
            )
        members = MPI.COMM_WORLD.Get_group().Incl(ranks)
        tag = zlib.crc32(options.group_id.encode()) % 32768
        with _watch.blocking(f"new_group of ranks {ranks}"):
            self._communicator = MPI.COMM_WORLD.Create_group(members, tag)
        members.Free()
        kinds = RedOpType
        self._ops = {
            kinds.SUM: MPI.SUM,
            kinds.PRODUCT: MPI.PROD,
            kinds.MIN: MPI.MIN,
            kinds.MAX: MPI.MAX,
            kinds.BAND: MPI.BAND,
            kinds.BOR: MPI.BOR,
            kinds.BXOR: MPI.BXOR,
        }
        self._truths = {
            **dict.fromkeys((kinds.SUM, kinds.MAX, kinds.BOR), MPI.BOR),
            **dict.fromkeys((kinds.PRODUCT, kinds.MIN, kinds.BAND), MPI.BAND),
            kinds.BXOR: MPI.BXOR,
        }

    def progress(self) -> None:
        """Let MPI move on what is under way: a test of one operation drives all."""
        if self.open:
            next(iter(self.open)).done()

    def exchange(self, value: Any) -> list[Any]:
        """Return what all processes of the group give, in order of rank."""
        found: list[Any] = self._communicator.allgather(value)
        return found

    def close(self) -> None:
        """Free the communicator. Nobody waits here for other processes."""
        if _watch.failed:
            _lost.extend(self.open)
            return
        _lost.extend(each for each in tuple(self.open) if not each.done())
        if not self.mpi.Is_finalized():
            self._communicator.Free()

    # ---- buffers

    def _check(self, buffer: Tensor) -> None:
        if buffer.device.type != "cpu":
            raise NotImplementedError(
                f"mpi: expected a tensor on the CPU, got one on {buffer.device}; several processes "
                "on GPUs are not supported yet"
            )

    def _begun(
        self, request: Any, kept: Any, written: Tensor | None, wide: Tensor | None = None
    ) -> Pending:
        """Return an operation that MPI has begun."""

        def finish() -> None:
            if written is None:
                return
            if wide is not None:
                written.copy_(wide)
            else:
                increment_version(written)

        if len(self.open) >= _MANY:
            for each in tuple(self.open):
                each.done()
        return _MpiPending(self, request, kept, finish)

    def _reducible(self, buffer: Tensor, op: RedOpType) -> tuple[Tensor, Any, Any]:
        """Return what MPI reduces in place of a buffer, as tensor and array, and its operation."""
        self._check(buffer)
        if buffer.dtype in _HALF:
            buffer = buffer.float()
        if buffer.dtype is tapegrad.bool:
            return buffer, _bytes(buffer), self._truths[op]
        return buffer, buffer.numpy(), self._ops[op]

    # ---- collectives

    def broadcast(self, buffer: Tensor, root: int) -> Pending:
        """Overwrite the buffer with that of the root."""
        self._check(buffer)
        memory = _bytes(buffer)
        written = None if self.rank == root else buffer
        return self._begun(self._communicator.Ibcast(memory, root), memory, written)

    def all_reduce(self, buffer: Tensor, op: RedOpType) -> Pending:
        """Overwrite the buffer with the reduction of all."""
        wide, memory, kind = self._reducible(buffer, op)
        request = self._communicator.Iallreduce(self.mpi.IN_PLACE, memory, kind)
        return self._begun(request, memory, buffer, None if wide is buffer else wide)

    def reduce(self, buffer: Tensor, root: int, op: RedOpType) -> Pending:
        """Overwrite the buffer of the root with the reduction of all."""
        wide, memory, kind = self._reducible(buffer, op)
        is_root = self.rank == root
        sent, received = (self.mpi.IN_PLACE, memory) if is_root else (memory, None)
        request = self._communicator.Ireduce(sent, received, kind, root)
        kept = None if wide is buffer else wide
        return self._begun(request, memory, buffer if is_root else None, kept)

    def all_gather(self, output: Tensor, input: Tensor) -> Pending:
        """Write the inputs of all into the output."""
        self._check(output)
        sent, received = _bytes(input), _bytes(output)
        request = self._communicator.Iallgather(sent, received)
        return self._begun(request, (sent, received), output)

    def gather(self, output: Tensor | None, input: Tensor, root: int) -> Pending:
        """Write the inputs of all into the output of the root."""
        self._check(input)
        sent, received = _bytes(input), None if output is None else _bytes(output)
        request = self._communicator.Igather(sent, received, root)
        return self._begun(request, (sent, received), output)

    def scatter(self, output: Tensor, input: Tensor | None, root: int) -> Pending:
        """Write this rank's part of the root's input."""
        self._check(output)
        sent, received = None if input is None else _bytes(input), _bytes(output)
        request = self._communicator.Iscatter(sent, received, root)
        return self._begun(request, (sent, received), output)

    def reduce_scatter(self, output: Tensor, input: Tensor, op: RedOpType) -> Pending:
        """Write this rank's part of the reduction of all inputs."""
        _, sent, kind = self._reducible(input, op)
        wide, received, _ = self._reducible(output, op)
        request = self._communicator.Ireduce_scatter_block(sent, received, kind)
        kept = None if wide is output else wide
        return self._begun(request, (sent, received), output, kept)

    def all_to_all(
        self,
        output: Tensor,
        output_counts: Sequence[int],
        input: Tensor,
        input_counts: Sequence[int],
    ) -> Pending:
        """Send a number of elements to each rank, and receive a number from each."""
        self._check(output)
        size = output.element_size()
        sent, received = _bytes(input), _bytes(output)
        byte = self.mpi.BYTE
        request = self._communicator.Ialltoallv(
            [sent, [count * size for count in input_counts], byte],
            [received, [count * size for count in output_counts], byte],
        )
        return self._begun(request, (sent, received), output)

    # ---- messages

    def send(self, buffer: Tensor, peer: int, tag: int) -> Pending:
        """Send a buffer to another rank."""
        self._check(buffer)
        memory = _bytes(buffer)
        return self._begun(self._communicator.Isend(memory, peer, tag), memory, None)

    def recv(self, buffer: Tensor, peer: int | None, tag: int) -> Pending:
        """Receive a buffer from a rank, or from any."""
        self._check(buffer)
        memory = _bytes(buffer)
        source = self.mpi.ANY_SOURCE if peer is None else peer
        return self._begun(self._communicator.Irecv(memory, source, tag), memory, buffer)

    def barrier(self, timeout: timedelta) -> Pending:
        """Let nobody pass before all have come."""
        pending = _MpiPending(self, self._communicator.Ibarrier(), None, lambda: None)
        pending._limit = timeout
        return pending
