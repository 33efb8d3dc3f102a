"""The engine of a group of one process: nothing has to move, or it moves from input to output."""

from collections.abc import Sequence
from datetime import timedelta

from tapegrad._C import Tensor
from tapegrad.distributed._reduce_op import RedOpType
from tapegrad.distributed.engine import Engine

__all__ = ["LocalEngine"]


class LocalEngine(Engine):
    """Serves every built-in backend while the world has one process."""

    averages = True

    def broadcast(self, buffer: Tensor, root: int) -> None:
        """Leave the buffer as it is."""

    def all_reduce(self, buffer: Tensor, op: RedOpType) -> None:
        """Leave the buffer as it is: the reduction of one value is that value."""

    def all_gather(self, output: Tensor, input: Tensor) -> None:
        """Copy."""
        output.copy_(input)

    def gather(self, output: Tensor | None, input: Tensor, root: int) -> None:
        """Copy."""
        assert output is not None
        output.copy_(input)

    def scatter(self, output: Tensor, input: Tensor | None, root: int) -> None:
        """Copy."""
        assert input is not None
        output.copy_(input)

    def reduce_scatter(self, output: Tensor, input: Tensor, op: RedOpType) -> None:
        """Copy."""
        output.copy_(input)

    def all_to_all(
        self,
        output: Tensor,
        output_counts: Sequence[int],
        input: Tensor,
        input_counts: Sequence[int],
    ) -> None:
        """Copy."""
        output.copy_(input)

    def barrier(self, timeout: timedelta) -> None:
        """Wait for nobody."""
