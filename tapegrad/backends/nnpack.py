"""NNPACK, which is not used: convolutions on the CPU are our own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["flags", "is_available", "set_flags"]

_wanted: Any = True


def is_available() -> bool:
    """Return False."""
    return False


def set_flags(_enabled: Any) -> tuple[Any, ...]:
    """Keep whether a program wants NNPACK, and return what was kept before."""
    global _wanted
    before, _wanted = _wanted, _enabled
    return (before,)


@contextmanager
def flags(enabled: Any = False) -> Iterator[None]:
    """Keep it for a block."""
    before = set_flags(enabled)
    try:
        yield
    finally:
        set_flags(before[0])
