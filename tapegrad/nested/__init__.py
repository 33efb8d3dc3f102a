"""Batches of sequences of different lengths, packed without padding, as torch.nested.

A `NestedTensor` is what PyTorch calls a nested tensor of layout `torch.jagged`: all elements in one
tensor of `values`, and `offsets` that say where each sequence begins.

Example:
    >>> x = torch.nested.nested_tensor([torch.ones(1, 2), torch.ones(3, 2)])
    >>> x.values().shape, x.offsets()
    (torch.Size([4, 2]), tensor([0, 1, 4]))
    >>> x.to_padded_tensor(0.0).shape
    torch.Size([2, 3, 2])
"""

from tapegrad.nested._functions import (
    as_nested_tensor,
    masked_select,
    narrow,
    nested_tensor,
    nested_tensor_from_jagged,
    to_padded_tensor,
)
from tapegrad.nested._tensor import NestedTensor

__all__ = [
    "NestedTensor",
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]
