"""OpenMP, which is not used: the CPU's threads are a pool of our own."""

__all__ = ["is_available"]


def is_available() -> bool:
    """Return False."""
    return False
