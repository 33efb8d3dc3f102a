"""Signal processing, under the names of ``torch.signal``: window functions.

Example:
    >>> torch.signal.windows.hann(3)
    tensor([0., 1., 0.])
"""

from tapegrad.signal import windows

__all__ = ["windows"]
