"""How exact matrix products of float32 are on devices that have a faster way."""

from tapegrad import _C

__all__ = ["get_float32_matmul_precision", "set_float32_matmul_precision"]

_PRECISIONS = ("highest", "high", "medium")


def get_float32_matmul_precision() -> str:
    """Return what `set_float32_matmul_precision` has set.

    Example:
        >>> torch.get_float32_matmul_precision()
        'highest'
    """
    return _PRECISIONS[_C._cuda_matmul_settings()["float32_precision"]]


def set_float32_matmul_precision(precision: str) -> None:
    """Set how exact matrix products of float32 tensors on CUDA are. The CPU's are always exact.

    Args:
        precision: ``"highest"`` computes in float32; ``"high"`` and ``"medium"`` may use TF32,
            which has 10 bits for the fraction of a number in place of 23, and is much faster.

    Example:
        >>> torch.set_float32_matmul_precision("high")
        >>> torch.backends.cuda.matmul.allow_tf32
        True
        >>> torch.set_float32_matmul_precision("highest")
    """
    if precision not in _PRECISIONS:
        raise RuntimeError(
            "set_float32_matmul_precision: expected 'highest', 'high' or 'medium', "
            f"got {precision!r}"
        )
    settings = _C._cuda_matmul_settings()
    settings["float32_precision"] = _PRECISIONS.index(precision)
    _C._cuda_set_matmul_settings(**settings)
