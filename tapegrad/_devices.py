"""The device that new tensors go to."""

from typing import Any

from tapegrad import _C
from tapegrad._types import device

__all__ = ["get_default_device", "set_default_device"]


def get_default_device() -> device:
    """Return the device that new tensors of this thread go to.

    Example:
        >>> torch.get_default_device()
        device(type='cpu')
    """
    return _C._get_default_device()


def set_default_device(device: Any) -> None:
    """Set the device that new tensors of this thread go to, where none is given.

    Args:
        device: a device, its name, or None for the CPU. ``with torch.device(name):`` does the same
            for a block.

    Example:
        >>> torch.set_default_device("meta")
        >>> torch.ones(2, 3).device
        device(type='meta')
        >>> torch.set_default_device(None)
    """
    _C._set_default_device(device)
