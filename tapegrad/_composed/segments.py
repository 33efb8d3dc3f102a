"""Reductions of runs of elements, and places of elements by number."""

from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.arguments import expect_tensor, into_out, wrap_dim
from tapegrad._composed.registry import function, method

__all__ = ["nonzero_static", "segment_reduce", "unravel_index"]

_REDUCTIONS = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin", "prod": "prod"}
_START = {"sum": 0.0, "mean": 0.0, "max": -float("inf"), "min": float("inf"), "prod": 1.0}


@function
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Tensor:
    """Reduce runs of neighbouring slices, each to one.

    Args:
        data: a tensor of a floating dtype.
        reduce: ``"sum"``, ``"mean"``, ``"max"``, ``"min"`` or ``"prod"``.
        lengths: how many slices each run has; along its last dimension they add up to the size of
            `data` there.
        indices: not supported, as in PyTorch.
        offsets: where each run begins, and where the last ends, instead of `lengths`.
        axis: the last dimension of `lengths`, along which the runs lie.
        unsafe: do not check the lengths.
        initial: takes part in every run, and is what an empty run gives.

    Returns:
        A tensor with as many slices along the axis as there are runs.

    Example:
        >>> torch.segment_reduce(torch.tensor([1., 2., 3.]), "sum", lengths=torch.tensor([2, 1]))
        tensor([3., 3.])
    """
    expect_tensor("segment_reduce", "data", data)
    if not data.dtype.is_floating_point:
        raise NotImplementedError(
            f"segment_reduce: expected a floating dtype, got {data.dtype}; call .float() first"
        )
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"segment_reduce: expected one of {tuple(_REDUCTIONS)}, got {reduce!r}")
    if indices is not None:
        raise RuntimeError("segment_reduce: indices based reduction is not supported yet")
    axis = wrap_dim("segment_reduce", axis, data.dim())
    lengths = _run_lengths(lengths, offsets, data, axis, unsafe)
    runs = lengths.shape[-1]
    number = _run_of_slice(lengths, data.shape[axis])
    shape = [*data.shape[:axis], runs, *data.shape[axis + 1 :]]
    index = number.reshape([*number.shape, *[1] * (data.dim() - number.dim())]).expand(data.shape)
    start = _START[reduce] if initial is None else float(initial)
    base = data.new_full(shape, start)
    if reduce == "mean":
        return _means(base, index, data, lengths, axis, initial)
    return base.scatter_reduce(axis, index, data, _REDUCTIONS[reduce])


def _run_lengths(
    lengths: Tensor | None, offsets: Tensor | None, data: Tensor, axis: int, unsafe: bool
) -> Tensor:
    if (lengths is None) == (offsets is None):
        what = "Either" if lengths is None else "Only one of"
        raise RuntimeError(f"segment_reduce(): {what} lengths or offsets must be defined.")
    if lengths is None:
        assert offsets is not None
        count = offsets.shape[-1] - 1
        lengths = offsets.narrow(-1, 1, count) - offsets.narrow(-1, 0, count)
    if lengths.dim() - 1 != axis:
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}."
        )
    if not unsafe:
        rows = lengths.reshape(-1, lengths.shape[-1]).tolist()
        if any(length < 0 for row in rows for length in row):
            raise RuntimeError("segment_reduce(): lengths contains negative value!")
        if any(sum(row) != data.shape[axis] for row in rows):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to "
                "data.size(lengths.dim()-1) when !unsafe."
            )
    return lengths.long()


def _run_of_slice(lengths: Tensor, size: int) -> Tensor:
    """Return for every slice along the last dimension the number of its run."""
    ends = lengths.cumsum(-1)
    positions = _C.arange(size, device=lengths.device).expand([*lengths.shape[:-1], size])
    return _C.searchsorted(ends, positions.contiguous(), right=True)


def _means(
    base: Tensor, index: Tensor, data: Tensor, lengths: Tensor, axis: int, initial: Any
) -> Tensor:
    sums = base.scatter_reduce(axis, index, data, "sum")
    counts = lengths.reshape([*lengths.shape, *[1] * (data.dim() - lengths.dim())])
    means = sums / counts.clamp(min=1).to(data.dtype)
    return means.masked_fill(counts.eq(0), float("nan") if initial is None else float(initial))


@function
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Turn places in the flattened tensor into one index for each dimension.

    Args:
        indices: the places, of an integer dtype.
        shape: the sizes of the tensor.

    Returns:
        As many tensors as there are sizes, each of the shape of `indices`.

    Example:
        >>> torch.unravel_index(torch.tensor([7, 1]), (3, 4))
        (tensor([1, 0]), tensor([3, 1]))
    """
    expect_tensor("unravel_index", "indices", indices)
    kind = indices.dtype
    if kind.is_floating_point or kind.is_complex or kind == _C.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    sizes = [shape] if isinstance(shape, int) else list(shape)
    for size in sizes:
        if not isinstance(size, int):
            raise TypeError(
                f"expected 'shape' to be int or sequence of ints, but got {type(size).__name__}"
            )
        if size < 0:
            raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    indices = indices.to(_C.int64)
    found, step = [], 1
    for size in reversed(sizes):
        found.append(indices.floor_divide(step).remainder(size))
        step *= size
    return tuple(reversed(found))


@function
@method
def nonzero_static(
    input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None
) -> Tensor:
    """Return the indices of the first elements that are not zero, as many rows as asked for.

    Args:
        input: a tensor.
        size: the number of rows.
        fill_value: what rows hold for which there is no element.
        out: where to put the result.

    Returns:
        A matrix of int64 with one column for each dimension.

    Example:
        >>> torch.nonzero_static(torch.tensor([0, 7]), size=2)
        tensor([[ 1],
                [-1]])
    """
    expect_tensor("nonzero_static", "input", input)
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    found = _C.nonzero(input)
    missing = size - found.shape[0]
    if missing > 0:
        rest = found.new_full((missing, input.dim()), fill_value)
        found = _C.cat([found, rest])
    return into_out("nonzero_static", found.narrow(0, 0, size).clone(), out, exact=True)
