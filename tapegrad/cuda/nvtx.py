"""Marks for NVIDIA's profilers.

They are made with the library libnvToolsExt, of the wheel nvidia-nvtx-cu12 or of the system. Where
it is not found, the functions do nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


@cache
def _library() -> Any:
    """Return the library, or None."""
    import ctypes
    from importlib.util import find_spec
    from os import path

    places = ["libnvToolsExt.so.1"]
    if nvidia := find_spec("nvidia"):
        folders = nvidia.submodule_search_locations or []
        places = [path.join(folder, "nvtx", "lib", places[0]) for folder in folders] + places
    for place in places:
        try:
            library = ctypes.CDLL(place)
        except OSError:
            continue
        library.nvtxRangeStartA.restype = ctypes.c_uint64
        library.nvtxRangeEnd.argtypes = [ctypes.c_uint64]
        return library
    return None


def range_push(msg: str) -> int:
    """Begin a range inside the one that was begun last, and return its depth from 0.

    Args:
        msg: the name of the range.
    """
    library = _library()
    return library.nvtxRangePushA(msg.encode()) if library else -1


def range_pop() -> int:
    """End the range that was begun last, and return its depth from 0."""
    library = _library()
    return library.nvtxRangePop() if library else -1


def range_start(msg: str) -> int:
    """Begin a range that may overlap others, and return what ends it.

    Args:
        msg: the name of the range.
    """
    library = _library()
    return library.nvtxRangeStartA(msg.encode()) if library else 0


def range_end(range_id: int) -> None:
    """End a range that `range_start` began."""
    if library := _library():
        library.nvtxRangeEnd(range_id)


def mark(msg: str) -> None:
    """Mark a moment.

    Args:
        msg: its name.
    """
    if library := _library():
        library.nvtxMarkA(msg.encode())


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Make a range of a block; also as a decorator.

    Args:
        msg: its name, a format for the other arguments.

    Example:
        >>> with torch.cuda.nvtx.range("batch {}", 3):
        ...     y = torch.ones(2) * 2
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
