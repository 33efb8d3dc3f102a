"""The accelerator of this machine, whatever it is: CUDA devices, where there are some."""

from typing import Any

from tapegrad import cuda
from tapegrad._types import device as _device
from tapegrad.accelerator import memory
from tapegrad.accelerator.memory import (
    empty_cache,
    get_memory_info,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from tapegrad.cuda.devices import device_index as _number
from tapegrad.cuda.streams import Stream, set_stream

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def is_available() -> bool:
    """Return whether there is an accelerator.

    Example:
        >>> device = torch.accelerator.current_accelerator() or torch.device("cpu")
    """
    return cuda.is_available()


def current_accelerator(check_available: bool = False) -> _device | None:
    """Return the accelerator as a device without a number, or None where there is none.

    Args:
        check_available: accepted; one that cannot be used is never returned.
    """
    return _device("cuda") if cuda.is_available() else None


def device_count() -> int:
    """Return the number of accelerators."""
    return cuda.device_count()


def current_device_index() -> int:
    """Return the number of the accelerator that this thread uses."""
    return cuda.current_device()


def set_device_index(device: Any, /) -> None:
    """Choose the accelerator that this thread uses, by number, name or object."""
    cuda.set_device(device)


current_device_idx = current_device_index
set_device_idx = set_device_index


class device_index:
    """Choose an accelerator for a block; None changes nothing.

    Args:
        device: its number.
    """

    def __init__(self, device: int | None, /) -> None:
        self._device = cuda.device(device)

    def __enter__(self) -> None:
        self._device.__enter__()

    def __exit__(self, *exc_info: object) -> None:
        self._device.__exit__(*exc_info)


def current_stream(device: Any = None, /) -> Stream:
    """Return the stream that this thread uses on an accelerator."""
    return cuda.current_stream(device)


def synchronize(device: Any = None, /) -> None:
    """Wait until everything that was started on an accelerator is done."""
    cuda.synchronize(_number(device, "synchronize"))
