"""Tensors that lie on several processes: refused in words. Placements are data, and are there."""

from dataclasses import dataclass

from tapegrad._refused import Refused, refused
from tapegrad.distributed.device_mesh import DeviceMesh, init_device_mesh
from tapegrad.distributed.tensor import parallel

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "init_device_mesh",
    "parallel",
]

_WHY = "tensors that lie on several processes are not supported"


class Placement:
    """How a dimension of a mesh holds a tensor."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether it holds parts, along a dimension if one is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Return whether each process holds the whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether the whole is a reduction of what the processes hold."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each process holds a part along a dimension.

    Args:
        dim: the dimension.
    """

    dim: int

    @staticmethod
    def local_shard_size_and_offset(
        curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """Return the size of a part, as ``chunk`` makes them, and where it begins.

        Args:
            curr_local_size: the size of what is divided.
            num_chunks: among how many.
            rank: which part.
        """
        most = -(-curr_local_size // num_chunks)
        start = most * rank
        return max(min(most, curr_local_size - start), 0), min(start, curr_local_size)


@dataclass(frozen=True)
class Replicate(Placement):
    """Each process holds the whole."""


@dataclass(frozen=True)
class Partial(Placement):
    """The whole is a reduction of what the processes hold.

    Args:
        reduce_op: the reduction.
    """

    reduce_op: str = "sum"


class _StridedShard(Refused, Placement):
    """Refuses to be made: parts are not interleaved. No placement is one."""

    _why = _WHY


class DTensor(Refused):
    """Refuses to be made. No tensor is one, so that ``isinstance`` answers."""

    _why = _WHY
    from_local = staticmethod(refused("DTensor.from_local", _WHY))


distribute_tensor = refused("distribute_tensor", _WHY)
distribute_module = refused("distribute_module", _WHY)
