"""The CPU as a device, as far as PyTorch has names for it: there is one, and it never waits."""

from typing import Any

from tapegrad.cpu import amp

__all__ = ["amp", "current_device", "device_count", "is_available", "set_device", "synchronize"]


def is_available() -> bool:
    """Whether there is a CPU: True."""
    return True


def device_count() -> int:
    """Return the number of CPUs, as devices: one."""
    return 1


def current_device() -> str:
    """Return the name of the device: ``"cpu"``."""
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is one device.

    Args:
        device: ignored.
    """


def synchronize(device: Any = None) -> None:
    """Do nothing: work on the CPU is done when a function returns.

    Args:
        device: ignored.
    """
