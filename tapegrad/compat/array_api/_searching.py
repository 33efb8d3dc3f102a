"""Functions that search, sort and find what is unique."""

from typing import Any, NamedTuple

import tapegrad as torch
from tapegrad import Tensor
from tapegrad.compat.array_api._dtypes import promoted, result_type
from tapegrad.compat.array_api._manipulation import axis_of


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Tensor
    inverse_indices: Tensor


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Return the indices of elements other than zero, a tensor for each axis."""
    if x.ndim == 0:
        raise ValueError("nonzero: expected at least 1 dimension, got 0")
    return torch.nonzero(x, as_tuple=True)


def searchsorted(
    x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """Return where elements of ``x2`` belong in the sorted ``x1``.

    Args:
        x1: a one-dimensional tensor in ascending order, or in that of ``sorter``.
        x2: what to look for: a tensor or a number.
        side: ``"left"`` or ``"right"`` of elements that are equal.
        sorter: the indices that sort ``x1``.
    """
    order, values = promoted(x1, x2)
    if sorter is not None:
        order = order[sorter.to(torch.int64)]
    return torch.searchsorted(order, values.contiguous(), side=side)


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """Return elements of ``x1`` where a condition holds, and of ``x2`` elsewhere."""
    dtype = result_type(x1, x2)
    x1, x2 = (
        each.to(dtype)
        if isinstance(each, Tensor)
        else torch.tensor(each, dtype=dtype, device=condition.device)
        for each in (x1, x2)
    )
    return torch.where(condition, x1, x2)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return a tensor with its elements along an axis in order."""
    axis = axis_of(x, axis, "sort")
    return torch.sort(x, dim=axis, descending=descending, stable=stable).values


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """Return the indices that put the elements of a tensor along an axis in order."""
    axis = axis_of(x, axis, "argsort")
    return torch.sort(x, dim=axis, descending=descending, stable=stable).indices


def unique_all(x: Tensor, /) -> UniqueAll:
    """Return values that are unique, where each is first, where each went, and their counts."""
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    order = torch.sort(inverse.flatten(), stable=True).indices
    return UniqueAll(values, order[torch.cumsum(counts, 0) - counts], inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Return values that are unique, and how often each is there."""
    return UniqueCounts(*torch.unique(x, return_counts=True))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Return values that are unique, and for each element which of them it is."""
    return UniqueInverse(*torch.unique(x, return_inverse=True))


def unique_values(x: Tensor, /) -> Tensor:
    """Return values that are unique."""
    return torch.unique(x)
