"""Apple's GPUs, which are not supported: the questions of programs that look for a device."""

from tapegrad.backends.mps import is_available

__all__ = ["device_count", "is_available", "manual_seed"]


def device_count() -> int:
    """Return the number of devices: none."""
    return 0


def manual_seed(seed: int) -> None:
    """Do nothing: there is no generator."""
