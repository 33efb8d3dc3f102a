"""Meta's accelerators, which are not supported: the questions of programs that look for one."""

__all__ = ["device_count", "is_available", "is_initialized"]


def is_available() -> bool:
    """Return False: tensors cannot be on such a device."""
    return False


def device_count() -> int:
    """Return the number of devices: none."""
    return 0


def is_initialized() -> bool:
    """Return False: there is nothing to start."""
    return False
