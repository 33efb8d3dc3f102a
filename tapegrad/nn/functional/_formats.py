"""Tensors whose channels lie last in memory, seen as tensors whose last dimension they are.

What is composed of ops along spatial dimensions runs on that view, which is contiguous: the ops
keep its order, and so do their gradients. Turned back, the result has its channels last, as
PyTorch's has.
"""

from tapegrad._C import Tensor

__all__ = ["channels_to_end", "channels_to_front"]


def channels_to_end(input: Tensor) -> Tensor:
    """Return a view of shape ``(N, ..., C)`` of a tensor of shape ``(N, C, ...)``."""
    return input.permute(0, *range(2, input.dim()), 1)


def channels_to_front(input: Tensor) -> Tensor:
    """Return the way back."""
    last = input.dim() - 1
    return input.permute(0, last, *range(1, last))
