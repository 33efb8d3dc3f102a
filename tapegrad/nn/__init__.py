"""Neural-network functions."""

from tapegrad.nn import functional

__all__ = ["functional"]
