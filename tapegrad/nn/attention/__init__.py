"""Which computation of attention `scaled_dot_product_attention` may choose.

On the CPU there are two: the composed one (MATH) and, where it takes the inputs, a fused one, which
any of the other backends stands for.
"""

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

__all__ = ["SDPBackend", "sdpa_kernel"]


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


_FUSED = (
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
)
_allowed: list[SDPBackend] = [*_FUSED, SDPBackend.MATH, SDPBackend.OVERRIDEABLE]


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """Return the backends that are allowed now."""
    return list(_allowed)


def _fused_is_allowed() -> bool:
    return any(backend in _FUSED for backend in _allowed)


@contextlib.contextmanager
def sdpa_kernel(
    backends: list[SDPBackend] | SDPBackend, set_priority: bool = False
) -> Iterator[dict[Any, Any]]:
    """Choose which backends `scaled_dot_product_attention` may use inside a with block.

    Args:
        backends: one backend or a list of them. MATH alone asks for the composed computation, which
            has higher derivatives and every dtype.
        set_priority: whether the list is in order of preference; accepted, since there is one fused
            computation only.

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
    before = _cur_sdpa_kernel_backends()
    _allowed[:] = chosen
    try:
        yield {}
    finally:
        _allowed[:] = before
