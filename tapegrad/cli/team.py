"""The processes that train one model together, as `tapegrad launch` or mpiexec has started them.

All take the same steps: each learns from its part of every batch, and gradients are averaged. The
first writes the run, and says what is to be said.
"""

import os
from typing import Any

import tapegrad
from tapegrad import Tensor
from tapegrad.cli.errors import UserError

__all__ = ["Team"]


class Team:
    """Some processes; one, unless a launcher has started several.

    Args:
        rank: of this process.
        size: how many there are.
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @classmethod
    def join(cls) -> "Team":
        """Return the team that a launcher has put this process into."""
        from tapegrad.distributed import _environment

        sizes = [os.environ.get(name) for _, name in _environment._WORLD]
        if all(size in (None, "", "1") for size in sizes):
            return cls()
        from tapegrad import distributed

        try:
            distributed.init_process_group("mpi")
        except RuntimeError as error:
            raise UserError(str(error)) from error
        return cls(distributed.get_rank(), distributed.get_world_size())

    @property
    def is_first(self) -> bool:
        """Whether this process writes the run."""
        return self.rank == 0

    def part(self, batch: int) -> slice:
        """Return which rows of a batch this process learns from."""
        if batch % self.size:
            raise UserError(
                f"--batch {batch} cannot be divided among {self.size} processes; "
                f"choose a multiple of {self.size}"
            )
        share = batch // self.size
        return slice(self.rank * share, (self.rank + 1) * share)

    def wrapped(self, model: Any) -> Any:
        """Return a model whose gradients are averaged."""
        if self.size == 1:
            return model
        return tapegrad.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)

    def average(self, value: Tensor) -> Tensor:
        """Return the average of a value of each process."""
        if self.size > 1:
            tapegrad.distributed.all_reduce(value, tapegrad.distributed.ReduceOp.AVG)
        return value

    def agree(self, wish: bool) -> bool:
        """Return whether any process wishes something."""
        if self.size == 1:
            return wish
        found = tapegrad.tensor([int(wish)])
        tapegrad.distributed.all_reduce(found, tapegrad.distributed.ReduceOp.MAX)
        return bool(found.item())

    def share(self, value: Any = None) -> Any:
        """Return what the first process gives."""
        if self.size == 1:
            return value
        found = [value]
        tapegrad.distributed.broadcast_object_list(found, 0)
        return found[0]

    def gather(self, value: Any) -> list[Any]:
        """Return what all processes give, in order."""
        found: list[Any] = [value] * self.size
        if self.size > 1:
            tapegrad.distributed.all_gather_object(found, value)
        return found

    def leave(self) -> None:
        """End the team."""
        if self.size > 1 and tapegrad.distributed.is_initialized():
            tapegrad.distributed.destroy_process_group()
