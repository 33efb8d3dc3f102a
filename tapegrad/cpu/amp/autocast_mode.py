"""Old names of `torch.amp` for the CPU."""

from typing import Any

from tapegrad import _C, amp
from tapegrad.amp._old_names import warn_deprecated

__all__ = ["autocast"]


class autocast(amp.autocast):
    """`torch.autocast` for "cpu".

    Args:
        enabled: whether autocast is on.
        dtype: what is cast to.
        cache_enabled: whether casts of parameters are kept.
    """

    def __init__(
        self, enabled: bool = True, dtype: Any = _C.bfloat16, cache_enabled: bool = True
    ) -> None:
        warn_deprecated("cpu.amp.autocast(args...)", "autocast('cpu', args...)")
        super().__init__("cpu", dtype, enabled, cache_enabled)
