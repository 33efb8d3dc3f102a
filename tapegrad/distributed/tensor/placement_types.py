"""Placements: how a dimension of a mesh holds a tensor."""

from dataclasses import dataclass

from tapegrad._refused import Refused

__all__ = ["Partial", "Placement", "Replicate", "Shard", "_StridedShard"]


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

    def __str__(self) -> str:
        return f"S({self.dim})"

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

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """The whole is a reduction of what the processes hold.

    Args:
        reduce_op: the reduction.
    """

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


class _StridedShard(Refused, Placement):
    """Refuses to be made: parts are not interleaved. No placement is one."""

    _why = "parts that are interleaved are not supported"
