"""How `DistributedDataParallel` combines gradients.

A hook of each parameter counts the gradients that a backward has finished. With the last that it
will reach, the processes tell each other which parameters have one, the gradients are put into
buckets, last layers first, and each bucket goes through the communication hook, which is an average
over the group by default. Parameters that no process has used are left out; one that others have
used counts as zero here. So a model may use different parts of itself in each step and process.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tapegrad
from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["GradBucket", "Reducer"]

MOST_SWEEPS = 64  # that run inside of each other
FIRST_BUCKET = 1 << 20  # bytes: small, so that communication could begin early

Hook = Callable[[Any, "GradBucket"], Any]


class GradBucket:
    """Gradients of some parameters, one behind the other in one buffer."""

    def __init__(self, index: int, buffer: Tensor, params: list[Tensor], is_last: bool) -> None:
        self._index, self._buffer = index, buffer
        self._params, self._is_last = params, is_last

    def index(self) -> int:
        """Return the number of the bucket."""
        return self._index

    def buffer(self) -> Tensor:
        """Return all gradients as one tensor of one dimension."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the buffer.

        Args:
            buffer: one of the same size.
        """
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """Return the gradients, as views of the buffer."""
        return _pieces(self._buffer, self._params)

    def parameters(self) -> list[Tensor]:
        """Return the parameters."""
        return list(self._params)

    def is_last(self) -> bool:
        """Return whether this is the last bucket of the backward."""
        return self._is_last


def _pieces(buffer: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    parts = buffer.split([each.numel() for each in like])
    return [part.view(each.shape) for part, each in zip(parts, like, strict=True)]


def _buckets(params: list[Tensor], cap: int) -> list[list[int]]:
    """Divide parameters, from the last to the first, into lists of one dtype and device."""
    buckets: list[list[int]] = []
    filled, limit = 0, min(FIRST_BUCKET, cap)
    for i in reversed(range(len(params))):
        nbytes = params[i].numel() * params[i].element_size()
        kind = params[i].dtype, params[i].device
        last = params[buckets[-1][0]] if buckets else None
        if last is None or kind != (last.dtype, last.device) or filled >= limit:
            if buckets:
                limit = cap
            buckets.append([])
            filled = 0
        buckets[-1].append(i)
        filled += nbytes
    return buckets


class _Sweep(NamedTuple):
    """A backward: how many gradients it will finish, and which it has."""

    expected: int
    reached: list[int]


class Reducer:
    """Combines the gradients of parameters after each backward.

    Args:
        params: the parameters.
        group: the processes.
        cap: the most bytes of a bucket.
        is_on: returns whether gradients are combined now.
    """

    def __init__(
        self, params: list[Tensor], group: Any, cap: int, is_on: Callable[[], bool]
    ) -> None:
        self.params, self.group, self.is_on = params, group, is_on
        self.hook: Hook = _average
        self.state: Any = group
        self._buckets = _buckets(params, cap)
        self._nodes = [tapegrad.autograd.graph.get_gradient_edge(p).node for p in params]
        self._sweeps: dict[int, _Sweep] = {}  # by number; one may run inside of another
        self._handles = [
            param.register_post_accumulate_grad_hook(self._noting(i))
            for i, param in enumerate(params)
        ]

    def remove(self) -> None:
        """Take the hooks off the parameters."""
        for handle in self._handles:
            handle.remove()

    def _noting(self, index: int) -> Callable[[Tensor], None]:
        return lambda param: self._note(index)

    def _note(self, index: int) -> None:
        if not self.is_on():
            return
        number = _C._current_sweep()
        if number not in self._sweeps:
            if len(self._sweeps) >= MOST_SWEEPS:  # those that errors have ended
                del self._sweeps[next(iter(self._sweeps))]
            reach = _C._will_reach(self._nodes)
            self._sweeps[number] = _Sweep(sum(reach) + (not reach[index]), [])
        sweep = self._sweeps[number]
        sweep.reached.append(index)
        if len(sweep.reached) == sweep.expected:
            del self._sweeps[number]
            with tapegrad.no_grad():
                self._combine(sweep.reached)

    def _used_anywhere(self, reached: list[int]) -> set[int]:
        if self.group.size() == 1:
            return set(reached)
        from tapegrad import distributed

        used = tapegrad.zeros(len(self.params), dtype=tapegrad.int32)
        used[reached] = 1
        used = used.to(self.params[0].device)
        distributed.all_reduce(used, distributed.ReduceOp.MAX, self.group)
        return {i for i, is_used in enumerate(used.tolist()) if is_used}

    def _combine(self, reached: list[int]) -> None:
        used = self._used_anywhere(reached)
        buckets = [[i for i in bucket if i in used] for bucket in self._buckets]
        buckets = [bucket for bucket in buckets if bucket]
        begun = []
        for number, indices in enumerate(buckets):
            params = [self.params[i] for i in indices]
            grads = [tapegrad.zeros_like(p) if p.grad is None else p.grad for p in params]
            buffer = tapegrad.cat([grad.detach().reshape(-1) for grad in grads])
            bucket = GradBucket(number, buffer, params, number + 1 == len(buckets))
            begun.append((params, self.hook(self.state, bucket)))
        for params, future in begun:
            if not isinstance(future, tapegrad.futures.Future):
                raise RuntimeError(
                    "DistributedDataParallel: expected the communication hook to return a "
                    f"torch.futures.Future, got {type(future).__name__}"
                )
            result = future.wait()
            result = result[0] if isinstance(result, (list, tuple)) else result
            for param, piece in zip(params, _pieces(result, params), strict=True):
                if param.grad is None:
                    param.grad = piece.to(param.dtype, copy=True)
                else:
                    param.grad.detach().copy_(piece)


def _average(group: Any, bucket: GradBucket) -> Any:
    """Begin to average a bucket over the group."""
    from tapegrad import distributed

    buffer = bucket.buffer()
    work = distributed.all_reduce(buffer, distributed.ReduceOp.AVG, group, async_op=True)
    assert work is not None
    return work.get_future()
