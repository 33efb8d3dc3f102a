"""What the tests of `tape.compress` share."""

from library import torch


def hidden(*shape, dtype=torch.float32):
    """Return a leaf and a value with a history that is equal to it."""
    leaf = torch.randn(shape, dtype=dtype, requires_grad=True)
    return leaf, leaf + 0


def codecs(c):
    """Return how many values became what."""
    return {name: counts["values"] for name, counts in c.by_codec().items()}
