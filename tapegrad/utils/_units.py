"""Numbers as people read them."""

import math
import re

__all__ = ["clock", "human_bytes", "human_count", "parse_bytes"]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*([kmgt]i?)?b?\s*", re.IGNORECASE)


def clock(seconds: float) -> str:
    """Return a time as m:ss or h:mm:ss.

    >>> clock(75), clock(3700)
    ('1:15', '1:01:40')
    """
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d}"
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def human_bytes(count: float) -> str:
    """Return a number of bytes with three digits and a binary unit.

    >>> human_bytes(0), human_bytes(1500), human_bytes(3 * 2**30)
    ('0 B', '1.46 KiB', '3.00 GiB')
    """
    if abs(count) < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        count /= 1024
        if abs(count) < 1023.5:
            return f"{_three_digits(count)} {unit}"
    return f"{_three_digits(count / 1024)} PiB"


def human_count(count: float) -> str:
    """Return a number with three digits and k, M, G or T.

    >>> human_count(822), human_count(11512), human_count(1.24e8)
    ('822', '11.5k', '124M')
    """
    if abs(count) < 1000:
        return f"{count:.0f}"
    for unit in "kMG":
        count /= 1000
        if abs(count) < 999.5:
            return f"{_three_digits(count)}{unit}"
    return f"{_three_digits(count / 1000)}T"


def _three_digits(value: float) -> str:
    size = abs(value)
    return f"{value:.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}"


def parse_bytes(size: str | int, what: str) -> int:
    """Turn a number of bytes, or a size such as "300 MiB" or "1.5GB", into bytes.

    kB, MB and GB are powers of 1000, KiB, MiB and GiB of 1024. `what` is who asks, for the error.

    >>> parse_bytes("1.5 KiB", "budget")
    1536
    """
    if isinstance(size, str):
        match = _SIZE.fullmatch(size)
        if match is None:
            raise ValueError(f'{what}: expected a size such as "300 MiB", got {size!r}')
        size, count = match[1], (_UNITS | _BINARY)[(match[2] or "").lower()]
        if math.isinf(float(size) * count):
            raise ValueError(f"{what}: expected a size that there can be, got {match[0]!r}")
        return round(float(size) * count)
    if isinstance(size, bool) or not isinstance(size, int):
        raise TypeError(
            f'{what}: expected a number of bytes or a size such as "300 MiB", got {size!r}'
        )
    return size
