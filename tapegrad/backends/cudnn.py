"""Settings of cuDNN, which is not used: programs may set them, and nothing changes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["flags", "is_acceptable", "is_available", "set_flags", "version"]

enabled = True
benchmark = False
benchmark_limit: int | None = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    """Return False: cuDNN is not used.

    Example:
        >>> torch.backends.cudnn.is_available()
        False
    """
    return False


def version() -> int | None:
    """Return None: cuDNN is not used."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Return False: no tensor goes to cuDNN."""
    return False


_FLAGS = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
) -> tuple[Any, ...]:
    """Set those that are not None, and return what all of them were before."""
    before = tuple(globals()[name] for name in _FLAGS)
    given = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)
    globals().update({n: v for n, v in zip(_FLAGS, given, strict=True) if v is not None})
    return before


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int | None = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """Set the flags for a block.

    Example:
        >>> with torch.backends.cudnn.flags(enabled=True, deterministic=True):
        ...     torch.backends.cudnn.deterministic
        True
    """
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*before)
