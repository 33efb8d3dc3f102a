"""Intel's MKL, which is not used: products of matrices on the CPU are OpenBLAS's or our own."""

__all__ = ["VERBOSE_OFF", "VERBOSE_ON", "is_available"]

VERBOSE_OFF = 0
VERBOSE_ON = 1


def is_available() -> bool:
    """Return False."""
    return False
