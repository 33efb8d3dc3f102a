"""A `GradScaler` for gradients that are divided between processes."""

from typing import Any

from tapegrad._C import Tensor
from tapegrad.amp.grad_scaler import GradScaler
from tapegrad.distributed._collectives import all_reduce
from tapegrad.distributed._groups import resolve
from tapegrad.distributed._reduce_op import ReduceOp

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """Scales losses; see `torch.amp.GradScaler`. What one process finds infinite, all leave out.

    Args:
        device: the type of the device.
        init_scale: the first factor.
        backoff_factor: what it is multiplied with after infinite gradients.
        growth_factor: what it is multiplied with after many finite ones.
        growth_interval: how many.
        enabled: whether anything is scaled.
        process_group: the processes; the world if left out.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Any = None,
    ) -> None:
        self.process_group = resolve(process_group)
        super().__init__(
            device,
            init_scale=init_scale,
            backoff_factor=backoff_factor,
            growth_factor=growth_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> Any:
        found = super()._unscale_grads_(optimizer, inv_scale, found_inf, allow_fp16)
        if self.process_group is not None and self.process_group.size() > 1:
            for each in found.values():
                all_reduce(each, ReduceOp.MAX, self.process_group)
        return found
