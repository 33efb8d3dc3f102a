"""Intel's GPUs, which are not supported: the questions of programs that look for a device."""

from typing import Any

__all__ = [
    "device_count",
    "empty_cache",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
]


def is_available() -> bool:
    """Return False: tensors cannot be on Intel's GPUs."""
    return False


def device_count() -> int:
    """Return the number of devices: none."""
    return 0


def is_initialized() -> bool:
    """Return False: there is nothing to start."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return False: there is no device that could."""
    return False


def empty_cache() -> None:
    """Do nothing: no memory is held."""


def manual_seed(seed: Any) -> None:
    """Do nothing: there is no generator."""


def manual_seed_all(seed: Any) -> None:
    """Do nothing: there is no generator."""
