"""PowerSGD: gradients of matrices are averaged as products of two thin ones.

A gradient M of n by m becomes P Q', with P of n by r and Q of m by r. One power iteration a step,
which begins at the Q of the step before, is enough where what is lost is added to the next
gradient (Vogels, Karimireddy and Jaggi, 2019).
"""

from typing import Any

import tapegrad
from tapegrad._C import Tensor
from tapegrad.distributed._collectives import all_reduce
from tapegrad.distributed._groups import resolve
from tapegrad.distributed._reduce_op import ReduceOp
from tapegrad.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from tapegrad.nn.parallel._buckets import GradBucket

__all__ = ["PowerSGDState", "powerSGD_hook"]


class PowerSGDState:
    """What `powerSGD_hook` keeps between steps.

    Args:
        process_group: the processes; the world if None.
        matrix_approximation_rank: the number of columns of P and Q.
        start_powerSGD_iter: the number of steps before, in which gradients are averaged as they
            are. At least 2 with error feedback or a warm start: buckets change after the first.
        min_compression_rate: how many times smaller P and Q must be than a gradient.
        use_error_feedback: whether what is lost is added to the next gradient.
        warm_start: whether Q begins as it was, and not with random numbers.
        orthogonalization_epsilon: accepted: columns are made orthogonal by a QR decomposition.
        random_seed: for Q.
        compression_stats_logging_frequency: accepted.
        batch_tensors_with_same_shape: accepted.
    """

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is "
                "enabled, because PowerSGD can only be applied after the first two iterations in "
                "DDP."
            )
        if matrix_approximation_rank < 1:
            raise ValueError(
                "PowerSGDState: expected matrix_approximation_rank of at least 1, got "
                f"{matrix_approximation_rank}"
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback = use_error_feedback
        self.warm_start = warm_start
        self.random_seed = random_seed
        self.iter = 0
        self.error_dict: dict[int, Tensor] = {}  # by bucket
        self.q_memory_dict: dict[int, list[Tensor]] = {}

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a step with the last of its buckets."""
        if bucket.is_last():
            self.iter += 1

    def _compresses(self, rows: int, columns: int) -> bool:
        rank = min(self.matrix_approximation_rank, rows, columns)
        return (rows + columns) * rank * self.min_compression_rate < rows * columns

    def _first_q(self, matrices: list[Tensor], index: int) -> list[Tensor]:
        """Return a Q for each matrix, the same in all processes."""
        known = self.q_memory_dict.get(index)
        if known is not None and self.warm_start:
            return known
        seed = self.random_seed + 1_000_003 * self.iter + index
        generator = tapegrad.Generator().manual_seed(seed)
        made = []
        for matrix in matrices:
            rank = min(self.matrix_approximation_rank, *matrix.shape)
            q = tapegrad.randn(matrix.shape[1], rank, generator=generator)
            made.append(_orthogonal(q.to(matrix.device, matrix.dtype)))
        return made


def _orthogonal(matrix: Tensor) -> Tensor:
    wide = matrix if matrix.dtype == tapegrad.float64 else matrix.float()
    return tapegrad.linalg.qr(wide)[0].to(matrix.dtype)


def _average(tensors: list[Tensor], group: Any) -> tuple[Any, Any]:
    """Begin to average tensors as one; return the work, and what gives them back."""
    flat = tapegrad.cat([tensor.reshape(-1) for tensor in tensors])
    work = all_reduce(flat, ReduceOp.AVG, group, async_op=True)

    def take() -> list[Tensor]:
        parts = flat.split([tensor.numel() for tensor in tensors])
        return [part.view(each.shape) for part, each in zip(parts, tensors, strict=True)]

    assert work is not None
    return work.get_future(), take


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Any:
    """Average gradients as products of thin matrices, and those of vectors as they are.

    Args:
        state: what is kept between steps.
        bucket: the gradients.

    Example:
        >>> hooks = torch.distributed.algorithms.ddp_comm_hooks
        >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
        >>> state = hooks.powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)
        >>> model.register_comm_hook(state, hooks.powerSGD_hook.powerSGD_hook)
        >>> model(torch.ones(1, 8)).sum().backward()
        >>> torch.distributed.destroy_process_group()
    """
    is_early = state.iter < state.start_powerSGD_iter
    state.maybe_increase_iter(bucket)
    if is_early:
        return allreduce_hook(state.process_group, bucket)
    group, index, buffer = resolve(state.process_group), bucket.index(), bucket.buffer()
    error = state.error_dict.get(index) if state.use_error_feedback else None
    if error is not None and error.shape == buffer.shape:
        buffer.add_(error)
    before = buffer.clone() if state.use_error_feedback else None
    matrices: list[Tensor] = []
    plain: list[Tensor] = []
    for grad in bucket.gradients():
        rows = grad.shape[0] if grad.dim() > 1 else 1
        matrix = grad.view(rows, -1) if grad.numel() else grad
        fits = grad.dim() > 1 and grad.numel() and state._compresses(*matrix.shape)
        (matrices if fits else plain).append(matrix)
    q = state._first_q(matrices, index)
    begun, take = _average(
        plain + [m @ each for m, each in zip(matrices, q, strict=True)] + [buffer.new_zeros(1)],
        group,
    )

    def finish(_: Any) -> Tensor:
        found = take()
        for tensor, value in zip(plain, found, strict=False):
            tensor.copy_(value)
        p = [_orthogonal(each) for each in found[len(plain) : -1]]
        if p:
            future, take_q = _average(
                [m.t() @ each for m, each in zip(matrices, p, strict=True)], group
            )
            future.wait()
            q[:] = take_q()
        for matrix, left, right in zip(matrices, p, q, strict=True):
            matrix.copy_(left @ right.t())
        if before is not None:
            state.error_dict[index] = _lost(before, buffer, matrices)
        if state.warm_start:
            state.q_memory_dict[index] = q
        return buffer

    return begun.then(finish)


def _lost(before: Tensor, buffer: Tensor, matrices: list[Tensor]) -> Tensor:
    """Return what is not in the products; nothing for gradients that were averaged as they are."""
    lost = tapegrad.zeros_like(buffer)
    for matrix in matrices:
        start = matrix.storage_offset() - buffer.storage_offset()
        part = slice(start, start + matrix.numel())
        lost[part] = before[part] - buffer[part]
    return lost
