"""How the names that PyTorch has moved to `torch.amp` warn where they still stand."""

import warnings

__all__ = ["warn_deprecated"]


def warn_deprecated(old: str, new: str) -> None:
    """Warn whoever calls the caller of this function.

    Args:
        old: the old call.
        new: the new one.
    """
    warnings.warn(
        f"`torch.{old}` is deprecated. Please use `torch.amp.{new}` instead.",
        FutureWarning,
        stacklevel=3,
    )
