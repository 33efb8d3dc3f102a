"""Numbers as a reader wants them."""

from __future__ import annotations

_SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
}


def show(value: float, unit: str) -> str:
    """Three significant digits in the largest unit that leaves at least one before the point."""
    scales = _SCALES[unit]
    scale, name = next((pair for pair in scales if abs(value) >= pair[0]), scales[-1])
    scaled = value / scale
    digits = 2 if abs(scaled) < 10 else 1 if abs(scaled) < 100 else 0
    return f"{scaled:.{digits}f} {name}"


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"
