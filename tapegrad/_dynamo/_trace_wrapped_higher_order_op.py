"""What masks of attention are built under."""

from contextlib import nullcontext

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(nullcontext[None]):
    """A block in which ``x[i]`` takes numbers that are tensors of a `vmap`: here as everywhere."""
