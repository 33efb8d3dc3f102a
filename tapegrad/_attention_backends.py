"""Which computations of attention may be chosen, and in which order: the state of two modules.

`torch.nn.attention.sdpa_kernel` and the flags of `torch.backends.cuda` both change it.
"""

import enum
from collections.abc import Sequence

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["SDPBackend", "allow", "allowed", "is_allowed", "order", "prefer"]


class SDPBackend(enum.Enum):
    """The ways to compute attention, by PyTorch's names."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        """Return the number of the backend."""
        return int(self.value)


# The best first. cuDNN computes float16 and bfloat16 on CUDA, the kernels of our own, which flash
# and efficient attention stand for, every dtype on every device, and MATH all the rest.
_order = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.OVERRIDEABLE,
]
_allowed = set(_order)


def allowed() -> list[SDPBackend]:
    """Return those that may be chosen, the best first."""
    return [backend for backend in _order if backend in _allowed]


def is_allowed(backend: SDPBackend) -> bool:
    """Return whether it may be chosen."""
    return backend in _allowed


def allow(backends: Sequence[SDPBackend]) -> None:
    """Set which ones may be chosen, and no others."""
    _allowed.clear()
    _allowed.update(backends)
    _tell()


def prefer(backends: Sequence[SDPBackend]) -> None:
    """Set the order; those that are not given come last, as they were."""
    _order[:] = [*backends, *(backend for backend in _order if backend not in backends)]
    _tell()


def order() -> list[SDPBackend]:
    """Return all of them, the best first."""
    return list(_order)


def _tell() -> None:
    nobody = (SDPBackend.ERROR, SDPBackend.OVERRIDEABLE)
    _C._set_attention_backends([int(backend) for backend in allowed() if backend not in nobody])


def _fused_sdp_choice(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> int:
    """Return the number of the backend that attention of these arguments would use.

    Args:
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa: those of
            `torch.nn.functional.scaled_dot_product_attention`.

    Example:
        >>> x = torch.ones(1, 2, 8, 16)
        >>> torch.nn.attention.SDPBackend(torch._fused_sdp_choice(x, x, x, is_causal=True))
        <SDPBackend.FLASH_ATTENTION: 1>
    """
    return _C._attention_choice(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
    )
