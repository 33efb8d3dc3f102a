"""Whether mixed precision can be had on a CUDA device."""

from tapegrad.cuda.devices import is_available

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Whether there is no CUDA device."""
    return not is_available()
