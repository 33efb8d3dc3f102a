"""Old names of `torch.amp` for CUDA devices."""

from typing import Any

from tapegrad import _C, amp
from tapegrad.amp._old_names import warn_deprecated

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):
    """`torch.autocast` for "cuda".

    Args:
        enabled: whether autocast is on.
        dtype: what is cast to.
        cache_enabled: whether casts of parameters are kept.
    """

    def __init__(
        self, enabled: bool = True, dtype: Any = _C.float16, cache_enabled: bool = True
    ) -> None:
        warn_deprecated("cuda.amp.autocast(args...)", "autocast('cuda', args...)")
        super().__init__("cuda", dtype, enabled, cache_enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """`torch.amp.custom_fwd` for "cuda".

    Args:
        fwd: the method; without it, a decorator is returned.
        cast_inputs: the dtype that floating tensors are cast to where autocast is on.

    Returns:
        The decorated method.
    """
    warn_deprecated("cuda.amp.custom_fwd(args...)", "custom_fwd(args..., device_type='cuda')")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """`torch.amp.custom_bwd` for "cuda".

    Args:
        bwd: the method.

    Returns:
        The decorated method.
    """
    warn_deprecated("cuda.amp.custom_bwd(args...)", "custom_bwd(args..., device_type='cuda')")
    return amp.custom_bwd(bwd, device_type="cuda")
