"""The interface of an engine: what moves bytes between the processes of one group.

Everything that users see (groups, ranks, lists of tensors, dtypes, layouts, objects, averages) is
dealt with above it, in `_collectives` and its neighbours; an engine sees flat buffers and ranks of
its own group, and needs about ten short methods. Design note 0036 says why it is cut this way.

What an engine may rely on:

- Every buffer is a contiguous tensor of one dimension, without history, on a device of a type that
  the engine was registered for. Its dtype is real: complex numbers come as twice as many reals.
  It may have no elements.
- Sizes and dtypes of the two sides fit, as far as this process can know. Roots and peers are ranks
  within the group, in range.
- `op` is SUM, PRODUCT, MIN, MAX, BAND, BOR or BXOR, and AVG if `averages` is true. Bitwise kinds
  come with integer and bool buffers only. For bool, SUM and MAX are "or", PRODUCT and MIN "and".
- Calls come in the same order in all processes of the group, from one thread at a time.

What it promises: inputs are not written. A method either is done when it returns None, or returns a
`Pending`; buffers are kept alive and untouched until then. An engine that writes memory behind the
library's back calls `tapegrad.autograd.graph.increment_version` on what it wrote.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from tapegrad._C import Tensor
from tapegrad.distributed._reduce_op import RedOpType

__all__ = ["Engine", "EngineOptions", "Pending"]


class EngineOptions(NamedTuple):
    """What an engine is made from, when its group is.

    Attributes:
        store: a place in which the group's processes exchange what they need to find each other.
        group_rank: the rank of this process within the group.
        group_size: the number of processes in the group.
        timeout: how long an operation may take.
        group_id: the name of the group.
        global_ranks_in_group: the ranks of the group's processes in the whole world.
        device_id: the device that this process has bound itself to, if any.
    """

    store: Any
    group_rank: int
    group_size: int
    timeout: timedelta
    group_id: str
    global_ranks_in_group: list[int]
    device_id: Any = None


class Pending:
    """An operation that is under way."""

    def done(self) -> bool:
        """Return whether it has ended, and make progress if nobody else does."""
        raise NotImplementedError

    def wait(self, timeout: timedelta | None) -> None:
        """Wait for its end.

        Args:
            timeout: the most to wait, the group's timeout if None.

        Raises:
            DistBackendError: it failed, or time ran out.
        """
        raise NotImplementedError

    def source(self) -> int:
        """Return the rank within the group that a message was received from."""
        raise NotImplementedError


class Engine:
    """Moves bytes between the processes of one group.

    Attributes:
        averages: whether reductions know AVG; if not, sums are divided above.
    """

    averages = False

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self.rank = options.group_rank
        self.size = options.group_size

    def broadcast(self, buffer: Tensor, root: int) -> Pending | None:
        """Overwrite the buffer with that of the root."""
        raise self._lacks("broadcast")

    def all_reduce(self, buffer: Tensor, op: RedOpType) -> Pending | None:
        """Overwrite the buffer with the reduction of all."""
        raise self._lacks("all_reduce")

    def reduce(self, buffer: Tensor, root: int, op: RedOpType) -> Pending | None:
        """Do as `all_reduce` on the root; other processes' buffers may hold anything after it."""
        return self.all_reduce(buffer, op)

    def all_gather(self, output: Tensor, input: Tensor) -> Pending | None:
        """Write the inputs of all, in order of rank, into the output, which is as long as all."""
        raise self._lacks("all_gather")

    def gather(self, output: Tensor | None, input: Tensor, root: int) -> Pending | None:
        """Do as `all_gather` on the root; the output is None elsewhere."""
        raise self._lacks("gather")

    def scatter(self, output: Tensor, input: Tensor | None, root: int) -> Pending | None:
        """Write this rank's part of the root's input, which is None elsewhere."""
        raise self._lacks("scatter")

    def reduce_scatter(self, output: Tensor, input: Tensor, op: RedOpType) -> Pending | None:
        """Write this rank's part of the reduction of all inputs."""
        raise self._lacks("reduce_scatter")

    def all_to_all(
        self,
        output: Tensor,
        output_counts: Sequence[int],
        input: Tensor,
        input_counts: Sequence[int],
    ) -> Pending | None:
        """Send a number of elements to each rank, and receive a number from each, in order."""
        raise self._lacks("all_to_all")

    def send(self, buffer: Tensor, peer: int, tag: int) -> Pending | None:
        """Send a buffer to another rank."""
        raise self._lacks("send")

    def recv(self, buffer: Tensor, peer: int | None, tag: int) -> Pending | None:
        """Receive a buffer of this size from a rank, or from any if it is None.

        With None it returns a `Pending`, which knows the source.
        """
        raise self._lacks("recv")

    def barrier(self, timeout: timedelta) -> Pending | None:
        """Let nobody pass before all have come."""
        raise self._lacks("barrier")

    def progress(self) -> None:
        """Move on what is under way, without waiting; for engines that nobody else drives."""

    def close(self) -> None:
        """Give back what the group took. Nothing is called after it."""

    def _lacks(self, name: str) -> Exception:
        return NotImplementedError(f"{name}: {type(self).__name__} has no {name}")
