"""Numbers of bytes as people write them."""

import re

__all__ = ["parse_bytes"]

_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)B?\s*")
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_bytes(size: int | str, op: str, name: str) -> int:
    """Return a number of bytes, given as one or as text with a unit.

    Args:
        size: a positive int, or text such as "64 MiB" (binary) or "64 MB" (decimal).
        op: what asks, for the error.
        name: the argument's name, for the error.

    >>> parse_bytes("64 MiB", "offload", "memory"), parse_bytes("1.5kB", "offload", "memory")
    (67108864, 1500)
    """
    if isinstance(size, bool) or not isinstance(size, int | str):
        raise TypeError(
            f"{op}: expected {name} to be a number of bytes or text such as '64 MiB', got "
            f"{type(size).__name__}"
        )
    if isinstance(size, str):
        match = _PATTERN.fullmatch(size)
        if match is None:
            raise ValueError(
                f"{op}: expected {name} to be text such as '64 MiB', '2 GB' or '4096', got {size!r}"
            )
        number, unit, binary = match.groups()
        size = int(float(number) * (1024 if binary else 1000) ** _POWERS[unit])
    if size <= 0:
        raise ValueError(f"{op}: expected {name} to be positive, got {size}")
    return size
