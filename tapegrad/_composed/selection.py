"""Bins, ranks, runs, and the indices of triangles."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.arguments import expect_tensor, takes_out, wrap_dim
from tapegrad._composed.registry import function, method
from tapegrad._ops import runs

__all__ = [
    "argwhere",
    "bucketize",
    "histc",
    "msort",
    "tril_indices",
    "triu_indices",
    "unique_consecutive",
]


@function
@takes_out(exact=True)
@runs("searchsorted")
def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """Return the index of the bucket that each value falls into.

    Args:
        input: a tensor or a number.
        boundaries: the limits of the buckets, a sorted vector.
        out_int32: return int32 instead of int64.
        right: whether a value equal to a limit belongs to the bucket above it.

    Returns:
        Indices between 0 and the number of boundaries.

    Example:
        >>> torch.bucketize(torch.tensor([1, 3, 9]), torch.tensor([1, 3, 5]))
        tensor([0, 1, 3])
    """
    expect_tensor("bucketize", "boundaries", boundaries)
    if boundaries.dim() != 1:
        raise RuntimeError(
            f"bucketize: boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})"
        )
    return _C.searchsorted(boundaries, input, out_int32=out_int32, right=right)


@function
@method
@takes_out(exact=True)
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Count the elements in equal bins between two limits.

    Args:
        input: a tensor of a floating dtype.
        bins: the number of bins.
        min: the lower limit.
        max: the upper limit; if both limits are equal the range of the data is taken.

    Returns:
        The counts, in the dtype of `input`. Elements outside the limits and nan count nowhere.

    Example:
        >>> torch.histc(torch.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
        tensor([0., 2., 1., 0.])
    """
    expect_tensor("histc", "input", input)
    if not input.dtype.is_floating_point:
        raise NotImplementedError(
            f"histc: expected a floating dtype, got {input.dtype}; call .float() first"
        )
    if bins <= 0:
        raise RuntimeError(f"histc: bins must be > 0, got {bins}")
    values = input.detach().reshape(-1)
    low, high = float(min), float(max)
    if low == high and values.numel():
        low, high = values.amin().item(), values.amax().item()
    if low == high:
        low, high = low - 1, high + 1
    if not -float("inf") < low < high < float("inf"):
        raise RuntimeError(
            f"histc: range of [{low:g}, {high:g}] is not finite, or max must be larger than min"
        )
    inside = values[values.ge(low).logical_and(values.le(high))]
    index = ((inside - low) * (bins / (high - low))).long().clamp(max=bins - 1)
    return _C.bincount(index, minlength=bins).to(input.dtype)


@function
@method
def argwhere(input: Tensor) -> Tensor:
    """Return the indices of the elements that are not zero, one row for each.

    Args:
        input: a tensor.

    Returns:
        A matrix with one column for each dimension.

    Example:
        >>> torch.argwhere(torch.tensor([0, 7, 9]))
        tensor([[1],
                [2]])
    """
    return _C.nonzero(input)


@function
@method
@takes_out(exact=True)
@runs("sort")
def msort(input: Tensor) -> Tensor:
    """Sort along the first dimension.

    Args:
        input: a tensor.

    Returns:
        The sorted values.

    Example:
        >>> torch.msort(torch.tensor([3, 1, 2]))
        tensor([1, 2, 3])
    """
    return input.sort(dim=0)[0]


def _triangle(
    name: str, row: int, col: int, offset: int, dtype: Any, device: Any, options: dict[str, Any]
) -> Tensor:
    if row < 0 or col < 0:
        which, size = ("row", row) if row < 0 else ("col", col)
        raise RuntimeError(f"{name}: {which} must be non-negative, got {size}")
    cut = _C.tril if name == "tril_indices" else _C.triu
    inside = cut(_C.ones((row, col), dtype=_C.bool, device=device), offset)
    found = _C.nonzero(inside).transpose(0, 1).contiguous().to(dtype or _C.int64)
    _C.empty(0, dtype=found.dtype, **options)  # refuses what cannot be
    return found.requires_grad_(True) if options["requires_grad"] else found


@function
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return the indices of the lower triangle of a matrix, row by row.

    Args:
        row: the number of rows.
        col: the number of columns.
        offset: the last diagonal to include, 0 being the main one.
        dtype: the dtype of the result, int64 by default.
        device: the device of the result.
        layout, pin_memory, requires_grad: as in `torch.empty`.

    Returns:
        A tensor of two rows: row indices and column indices.

    Example:
        >>> torch.tril_indices(2, 2)
        tensor([[0, 1, 1],
                [0, 0, 1]])
    """
    options = {"layout": layout, "pin_memory": pin_memory, "requires_grad": requires_grad}
    return _triangle("tril_indices", row, col, offset, dtype, device, options)


@function
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return the indices of the upper triangle of a matrix, row by row.

    Args:
        row: the number of rows.
        col: the number of columns.
        offset: the first diagonal to include, 0 being the main one.
        dtype: the dtype of the result, int64 by default.
        device: the device of the result.
        layout, pin_memory, requires_grad: as in `torch.empty`.

    Returns:
        A tensor of two rows: row indices and column indices.

    Example:
        >>> torch.triu_indices(2, 2)
        tensor([[0, 0, 1],
                [0, 1, 1]])
    """
    options = {"layout": layout, "pin_memory": pin_memory, "requires_grad": requires_grad}
    return _triangle("triu_indices", row, col, offset, dtype, device, options)


@function
@method
def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Keep the first of every run of equal neighbours.

    Args:
        input: a tensor.
        return_inverse: also return the run that each element belongs to.
        return_counts: also return the length of each run.
        dim: the dimension whose slices to compare; None compares all elements in order.

    Returns:
        The kept elements, followed by what else was asked for.

    Example:
        >>> torch.unique_consecutive(torch.tensor([1, 1, 2, 2, 2, 1]), return_counts=True)
        (tensor([1, 2, 1]), tensor([2, 3, 1]))
    """
    expect_tensor("unique_consecutive", "input", input)
    flat = input.reshape(-1) if dim is None else input
    axis = 0 if dim is None else wrap_dim("unique_consecutive", dim, input.dim())
    size = flat.shape[axis]
    changed = flat.narrow(axis, min(1, size), max(size - 1, 0)).ne(
        flat.narrow(axis, 0, max(size - 1, 0))
    )
    if flat.dim() > 1:
        changed = changed.movedim(axis, 0).flatten(1).any(1)
    first = _C.ones((min(1, size),), dtype=_C.bool, device=input.device)
    starts = _C.cat([first, changed])
    positions = _C.nonzero(starts).reshape(-1)
    result = [flat.index_select(axis, positions)]
    if return_inverse:
        inverse = starts.cumsum(0) - 1
        result.append(inverse.reshape(input.shape) if dim is None else inverse)
    if return_counts:
        ends = _C.cat([positions, _C.tensor([size], device=input.device)])
        result.append(ends.narrow(0, 1, positions.numel()) - positions)
    return tuple(result) if len(result) > 1 else result[0]
