"""Copies of a tensor in which one view shows other elements."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.arguments import expect_tensor, into_out, wrap_dim
from tapegrad._composed.registry import function, method

__all__ = [
    "as_strided_scatter",
    "diagonal_scatter",
    "index_reduce",
    "select_scatter",
    "slice_scatter",
]


def _expect_shape(name: str, src: Tensor, shape: Any) -> None:
    if tuple(src.shape) != tuple(shape):
        raise RuntimeError(
            f"{name}: expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(shape)}"
        )


def _expect_two(name: str, input: Tensor, src: Tensor) -> None:
    expect_tensor(name, "input", input)
    expect_tensor(name, "src", src)


@function
@method
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Copy a tensor, with other elements in the slice at one index.

    Args:
        input: a tensor of at least one dimension.
        src: the elements, of the shape of ``input.select(dim, index)``.
        dim: the dimension of the slice.
        index: where the slice lies.

    Returns:
        A tensor of the shape and dtype of `input`.

    Example:
        >>> torch.select_scatter(torch.zeros(2, 2), torch.ones(2), 0, 1)
        tensor([[0., 0.],
                [1., 1.]])
    """
    _expect_two("select_scatter", input, src)
    shape = input.select(dim, index).shape
    _expect_shape("select_scatter", src, shape)
    dim = wrap_dim("select_scatter", dim, input.dim())
    position = index % input.shape[dim]
    return _replaced(input, dim, range(position, position + 1), src.unsqueeze(dim))


def _replaced(input: Tensor, dim: int, positions: range, src: Tensor) -> Tensor:
    index = _C.arange(
        positions.start, positions.stop, positions.step, dtype=_C.int64, device=input.device
    )
    moved = input.movedim(dim, 0)
    return moved.index_put((index,), src.movedim(dim, 0).to(input.dtype)).movedim(0, dim)


@function
@method
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """Copy a tensor, with other elements in a range of positions.

    Args:
        input: a tensor of at least one dimension.
        src: the elements, of the shape of the slice.
        dim: the dimension of the slice.
        start: its first position; the beginning if left out.
        end: the position behind it; the end if left out.
        step: the distance of its positions.

    Returns:
        A tensor of the shape and dtype of `input`.

    Example:
        >>> torch.slice_scatter(torch.zeros(4), torch.ones(2), step=2, end=4)
        tensor([1., 0., 1., 0.])
    """
    _expect_two("slice_scatter", input, src)
    dim = wrap_dim("slice_scatter", dim, input.dim())
    if step <= 0:
        raise RuntimeError(f"slice_scatter: slice step must be positive, got {step}")
    if input.dim() == 0:
        raise RuntimeError("slice_scatter: slice() cannot be applied to a 0-dim tensor.")
    positions = range(*slice(start, end, step).indices(input.shape[dim]))
    shape = list(input.shape)
    shape[dim] = len(positions)
    _expect_shape("slice_scatter", src, shape)
    if positions.stop <= positions.start:
        positions = range(0)
    return _replaced(input, dim, positions, src)


@function
@method
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """Copy a tensor, with other elements in a diagonal.

    Args:
        input: a tensor of at least two dimensions.
        src: the elements, of the shape of ``input.diagonal(offset, dim1, dim2)``.
        offset: which diagonal: above the main one if positive.
        dim1: the dimension of its rows.
        dim2: the dimension of its columns.

    Returns:
        A tensor of the shape and dtype of `input`.

    Example:
        >>> torch.diagonal_scatter(torch.zeros(2, 2), torch.ones(2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    _expect_two("diagonal_scatter", input, src)
    shape = input.diagonal(offset, dim1, dim2).shape
    _expect_shape("diagonal_scatter", src, shape)
    along = _C.arange(shape[-1], device=input.device)
    places = along + max(-offset, 0), along + max(offset, 0)
    moved = input.movedim((dim1, dim2), (0, 1))
    filled = moved.index_put(places, src.movedim(-1, 0).to(input.dtype))
    return filled.movedim((0, 1), (dim1, dim2))


@function
@method
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """Copy a tensor, with other elements where `as_strided` would show them.

    Args:
        input: a tensor.
        src: the elements, of the given sizes.
        size: the sizes of the view.
        stride: its strides.
        storage_offset: where it begins; where `input` does if left out.

    Returns:
        A tensor of the shape, strides and dtype of `input`.

    Example:
        >>> torch.as_strided_scatter(torch.zeros(2, 2), torch.ones(2), (2,), (3,))
        tensor([[1., 0.],
                [0., 1.]])
    """
    _expect_two("as_strided_scatter", input, src)
    _expect_shape("as_strided_scatter", src, size)
    result = input.clone()
    if storage_offset is not None:
        storage_offset -= input.storage_offset()
    result.as_strided(size, stride, storage_offset).copy_(src)
    return result


_REDUCTIONS = ("prod", "mean", "amax", "amin")


@function
@method
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """Copy a tensor, with slices of a source reduced into the slices that an index names.

    Args:
        input: a tensor.
        dim: the dimension of the slices.
        index: for every slice of `source`, where it goes; a vector of int64 or int32.
        source: the slices, of the dtype of `input`.
        reduce: ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.
        include_self: whether what is in `input` takes part.
        out: where to put the result.

    Returns:
        A tensor of the shape and dtype of `input`.

    Example:
        >>> places, values = torch.tensor([1, 1]), torch.tensor([5.0, 3.0])
        >>> torch.index_reduce(torch.ones(2), 0, places, values, "amax")
        tensor([1., 5.])
    """
    expect_tensor("index_reduce", "input", input)
    expect_tensor("index_reduce", "index", index)
    expect_tensor("index_reduce", "source", source)
    dim = wrap_dim("index_reduce", dim, input.dim())
    if input.dtype == _C.bool and not include_self:
        raise NotImplementedError("index_reduce: not implemented for bool without include_self")
    _check_index_reduce(input, dim, index, source, reduce)
    if index.numel() == 0 and input.dtype == _C.bool:  # of which there is no mean
        return into_out("index_reduce", input.clone(), out)
    places = index.reshape([-1 if d == dim else 1 for d in range(max(source.dim(), 1))])
    places = places.reshape(()) if source.dim() == 0 else places.expand(source.shape)
    try:
        result = input.scatter_reduce(dim, places.long(), source, reduce, include_self=include_self)
    except RuntimeError as error:
        if "out of bounds" not in str(error):
            raise
        raise IndexError(str(error).replace("scatter:", "index_reduce:", 1)) from None
    return into_out("index_reduce", result, out)


def _check_index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str
) -> None:
    if reduce not in _REDUCTIONS:
        raise RuntimeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    if index.dim() > 1:
        raise IndexError(f"index_reduce: expected index to be a vector, got {tuple(index.shape)}")
    if index.dtype not in (_C.int64, _C.int32):
        raise RuntimeError(f"index_reduce: expected index to be int64 or int32, got {index.dtype}")
    if input.dtype != source.dtype:
        raise RuntimeError(
            f"index_reduce: self ({input.dtype}) and source ({source.dtype}) must have the same "
            "scalar type"
        )
    rest = [[n for d, n in enumerate(x.shape) if d != dim] for x in (input, source)]
    if input.dim() != source.dim() or rest[0] != rest[1]:
        raise RuntimeError(
            "index_reduce: source tensor shape must match self tensor shape, excluding the "
            f"specified dimension. Got self.shape = {list(input.shape)} source.shape = "
            f"{list(source.shape)}"
        )
    count = source.shape[dim] if source.dim() else 1
    if index.numel() != count:
        raise RuntimeError(
            f"index_reduce: expected as many indices as source has slices, {count}, got "
            f"{index.numel()}"
        )
