"""Helpers that other parts share."""

from tapegrad.utils import hooks

__all__ = ["hooks"]
