"""CUDA devices. This release has none: it generates kernels for them, and does not launch any.

`tapegrad.cuda.pointwise_source` writes the pointwise table as CUDA C; the tests compile all of it
with NVRTC, which needs no GPU.
"""

from typing import Any, NoReturn

__all__ = [
    "current_device",
    "device_count",
    "get_device_name",
    "is_available",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    """Return whether tensors can live on a CUDA device: not in this release.

    Example:
        >>> torch.cuda.is_available()
        False
    """
    return False


def device_count() -> int:
    """Return the number of CUDA devices that can be used: none in this release.

    Example:
        >>> torch.cuda.device_count()
        0
    """
    return 0


def _refuse(function: str) -> NoReturn:
    raise RuntimeError(
        f"cuda.{function}: expected a CUDA device, got none, as this build of tapegrad has no CUDA "
        "back end; use device='cpu'"
    )


def current_device() -> int:
    """Return the index of the selected device; raises RuntimeError, as there is none."""
    _refuse("current_device")


def set_device(device: Any) -> None:
    """Select a device; raises RuntimeError, as there is none."""
    _refuse("set_device")


def get_device_name(device: Any = None) -> str:
    """Return the name of a device; raises RuntimeError, as there is none."""
    _refuse("get_device_name")


def synchronize(device: Any = None) -> None:
    """Wait for a device to finish; raises RuntimeError, as there is none."""
    _refuse("synchronize")
