"""The device that new tensors go to."""

from importlib import import_module
from types import ModuleType
from typing import Any

from tapegrad import _C
from tapegrad._types import device as _device

__all__ = ["get_default_device", "get_device_module", "set_default_device"]


def get_default_device() -> _device:
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


def get_device_module(device: Any = None) -> ModuleType:
    """Return the module of a device: `torch.cpu` or `torch.cuda`.

    Args:
        device: a device or its name; that of the accelerator, or the CPU where there is none, if
            left out.

    Example:
        >>> torch.get_device_module("cpu") is torch.cpu
        True
    """
    if device is None:
        kind = "cuda" if _C._cuda_device_count() else "cpu"
    elif isinstance(device, _device | str):
        kind = _device(device).type
    else:
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    if kind == "meta":
        raise RuntimeError(
            "Device 'meta' does not have a corresponding module registered as 'torch.meta'."
        )
    return import_module(f"tapegrad.{kind}")
