"""The old name of `torch.amp.GradScaler` for the CPU."""

from tapegrad import amp
from tapegrad.amp._old_names import warn_deprecated

__all__ = ["GradScaler"]


class GradScaler(amp.GradScaler):
    """`torch.amp.GradScaler` for "cpu".

    Args:
        init_scale: the scale at the beginning.
        growth_factor: what it is multiplied by when it grows.
        backoff_factor: what it is multiplied by after infinities or NaN.
        growth_interval: after how many steps in a row it grows.
        enabled: whether anything is scaled.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warn_deprecated("cpu.amp.GradScaler(args...)", "GradScaler('cpu', args...)")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
