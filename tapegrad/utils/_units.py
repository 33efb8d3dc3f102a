"""Numbers as people read them."""

__all__ = ["clock", "human_bytes", "human_count"]


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
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{_three_digits(count)} {unit}"
        count /= 1024
    return f"{_three_digits(count)} TiB"


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
