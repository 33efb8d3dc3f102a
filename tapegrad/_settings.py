"""Switches of the whole process: threads beside the pool, warnings, and the smallest numbers."""

from tapegrad import _C

__all__ = [
    "get_num_interop_threads",
    "init_num_threads",
    "is_warn_always_enabled",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_warn_always",
]

_interop_threads: int | None = None
_warn_always = False


def get_num_interop_threads() -> int:
    """Return what `set_num_interop_threads` has set, or the number of threads at the start.

    Example:
        >>> torch.get_num_interop_threads() >= 1
        True
    """
    return _C.get_num_threads() if _interop_threads is None else _interop_threads


def set_num_interop_threads(num: int) -> None:
    """Set how many ops may run beside each other; once, and no more than a wish.

    Ops run one after another, on the threads of `torch.set_num_threads`: what `torch.jit.fork`
    is given runs at once. So the number is kept for `get_num_interop_threads` and moves nothing.

    Args:
        num: at least 1.
    """
    global _interop_threads
    if isinstance(num, bool) or not isinstance(num, int):
        raise RuntimeError(f"set_num_interop_threads expects an int, but got {type(num).__name__}")
    if num < 1:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    if _interop_threads is not None:
        raise RuntimeError(
            "Error: cannot set number of interop threads after parallel work has started or "
            "set_num_interop_threads called"
        )
    _interop_threads = num


def init_num_threads() -> None:
    """Do nothing: the threads are made when the first op wants them."""


def is_warn_always_enabled() -> bool:
    """Return whether warnings that come once in a process come each time: see `set_warn_always`."""
    return _warn_always


def set_warn_always(b: bool, /) -> None:
    """Choose whether warnings that come once in a process come each time.

    Args:
        b: True for each time. All are Python's warnings, which its filters may show once more.

    Example:
        >>> torch.set_warn_always(False)
        >>> torch.is_warn_always_enabled()
        False
    """
    global _warn_always
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _warn_always = b


def set_flush_denormal(mode: bool, /) -> bool:
    """Choose whether arithmetic takes numbers that are too small to have all digits for zero.

    Such numbers, below 1.2e-38 in float32, are many times slower on some processors. The choice is
    that of the calling thread, of the threads that it starts, and of the work that others do for
    it.

    Args:
        mode: True for zero.

    Returns:
        Whether the processor can.

    Example:
        >>> torch.set_flush_denormal(True)
        True
        >>> torch.tensor([1e-323], dtype=torch.float64) * 1
        tensor([0.], dtype=torch.float64)
        >>> torch.set_flush_denormal(False)
        True
    """
    if not isinstance(mode, bool):
        raise RuntimeError(f"flush_denormal expects a bool, but got {type(mode).__name__}")
    return bool(_C._set_flush_denormal(mode))
