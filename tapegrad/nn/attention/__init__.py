"""Which computation of attention `scaled_dot_product_attention` may choose.

| backend | what it stands for |
|---|---|
| CUDNN_ATTENTION | NVIDIA's cuDNN: float16 and bfloat16 on CUDA, head sizes up to 256 |
| FLASH_ATTENTION, EFFICIENT_ATTENTION | the fused kernels of this library, on every device |
| MATH | public ops with the whole matrix of scores: everything |

None but MATH holds that matrix. `torch.backends.cuda.can_use_cudnn_attention` tells why cuDNN does
not compute something, and `torch._fused_sdp_choice` what would be chosen.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from tapegrad import _attention_backends
from tapegrad._attention_backends import SDPBackend

__all__ = ["SDPBackend", "sdpa_kernel"]

SDPBackend.__module__ = __name__


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """Return the backends that are allowed now, the best first."""
    return _attention_backends.allowed()


@contextlib.contextmanager
def sdpa_kernel(
    backends: list[SDPBackend] | SDPBackend, set_priority: bool = False
) -> Iterator[dict[Any, Any]]:
    """Choose which backends `scaled_dot_product_attention` may use inside a with block.

    Where none of them computes what is asked for, it raises RuntimeError with the reasons.

    Args:
        backends: one backend or a list of them. MATH alone asks for the composed computation, which
            has higher derivatives and every dtype.
        set_priority: whether the list is in order of preference. Else the order is cuDNN, flash,
            efficient, math.

    Example:
        >>> from tapegrad.nn.attention import SDPBackend, sdpa_kernel
        >>> x = torch.ones(1, 2, 3)
        >>> with sdpa_kernel(SDPBackend.MATH):
        ...     torch.nn.functional.scaled_dot_product_attention(x, x, x).shape
        torch.Size([1, 2, 3])
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "sdpa_kernel: Backend must be an instance of SDPBackend or a list of SDPBackend "
            f"instances, got {type(backends).__name__}"
        )
    chosen = [backends] if isinstance(backends, SDPBackend) else list(dict.fromkeys(backends))
    allowed, order = _attention_backends.allowed(), _attention_backends.order()
    _attention_backends.allow(chosen)
    if set_priority:
        _attention_backends.prefer(chosen)
    try:
        yield {}
    finally:
        _attention_backends.prefer(order)
        _attention_backends.allow(allowed)
