"""A `GradScaler` for sharded gradients, which in one process are whole."""

from typing import Any

from tapegrad.amp.grad_scaler import GradScaler
from tapegrad.distributed._groups import resolve

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """Scales losses; see `torch.amp.GradScaler`.

    Args:
        device: the type of the device.
        init_scale: the first factor.
        backoff_factor: what it is multiplied with after infinite gradients.
        growth_factor: what it is multiplied with after many finite ones.
        growth_interval: how many.
        enabled: whether anything is scaled.
        process_group: the processes, of which there must be one; the world if left out.
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
        group = resolve(process_group)
        if group is not None and group.size() > 1:
            raise NotImplementedError("ShardedGradScaler: several processes are not supported yet")
        self.process_group = group
        super().__init__(
            device,
            init_scale=init_scale,
            backoff_factor=backoff_factor,
            growth_factor=growth_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )
