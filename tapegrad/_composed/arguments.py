"""Argument checks that the composed operations share."""

import operator
from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["as_sequence", "expect_count", "expect_tensor", "wrap_dim"]

_LARGEST = 2**63 - 1


def expect_count(operation: str, count: int, what: str, bytes_each: int) -> None:
    """Refuse a result of more objects than memory can hold, before the first of them is made."""
    _C._check_count(operation, min(operator.index(count), _LARGEST), what, bytes_each)


def expect_tensor(operation: str, name: str, value: Any) -> None:
    """Raise TypeError unless the value is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{operation}: expected {name} to be a Tensor, got {type(value).__name__}")


def wrap_dim(operation: str, dim: int, rank: int) -> int:
    """Return a dimension counted from the front; a 0-d tensor counts as having one."""
    rank = max(rank, 1)
    if not -rank <= dim < rank:
        raise IndexError(
            f"{operation}: expected a dimension in the range [{-rank}, {rank - 1}], got {dim}"
        )
    return dim % rank


def as_sequence(operation: str, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    """Return the tensors of ``f(a, b)`` or of ``f([a, b])`` as one tuple."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    for index, tensor in enumerate(tensors):
        expect_tensor(operation, f"tensors[{index}]", tensor)
    return tuple(tensors)
