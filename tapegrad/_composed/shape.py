"""Views and rearrangements: broadcasting, grids, swapping and rotating dimensions."""

import itertools
from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.arguments import as_sequence, expect_tensor, wrap_dim
from tapegrad._composed.registry import function, method
from tapegrad._ops import runs
from tapegrad._types import Size

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "combinations",
    "fliplr",
    "flipud",
    "meshgrid",
    "rot90",
]


@function
def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """Return the shape that results from broadcasting shapes against each other.

    Args:
        *shapes: the shapes, as sequences of int; a plain int stands for a shape of one dimension.

    Returns:
        The common shape.

    Example:
        >>> tuple(torch.broadcast_shapes((2, 1), (3,), (1, 3)))
        (2, 3)
    """
    given = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    result = [1] * max((len(shape) for shape in given), default=0)
    for shape in given:
        for offset, size in enumerate(reversed(shape), start=1):
            if size < 0:
                raise RuntimeError(
                    f"broadcast_shapes: expected sizes that are not negative, got {shape}"
                )
            if size in (1, result[-offset]):
                continue
            if result[-offset] != 1:
                raise RuntimeError(
                    "broadcast_shapes: Shape mismatch: objects cannot be broadcast to a single "
                    f"shape: dimension {-offset} has {result[-offset]} and {size} in {given}"
                )
            result[-offset] = size
    return Size(result)


@function
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Expand tensors to their common shape, as views.

    Args:
        *tensors: tensors whose shapes broadcast.

    Returns:
        One view for each tensor, all of the same shape.

    Example:
        >>> x, y = torch.broadcast_tensors(torch.arange(3), torch.tensor([[0], [1]]))
        >>> y
        tensor([[0, 0, 0],
                [1, 1, 1]])
    """
    for index, tensor in enumerate(tensors):
        expect_tensor("broadcast_tensors", f"tensors[{index}]", tensor)
    shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
    return tuple(tensor.expand(shape) for tensor in tensors)


@function
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Return the coordinates of a grid, one tensor for each axis, as views.

    Args:
        *tensors: the coordinates along each axis, 0-d or 1-d.
        indexing: ``"ij"`` (the default) gives shapes in the order of the arguments; ``"xy"`` swaps
            the first two dimensions, as for plotting.

    Returns:
        One tensor for each axis, all of the shape of the grid.

    Example:
        >>> x, y = torch.meshgrid(torch.tensor([1, 2]), torch.tensor([3, 4, 5]), indexing="ij")
        >>> x
        tensor([[1, 1, 1],
                [2, 2, 2]])
        >>> y
        tensor([[3, 4, 5],
                [3, 4, 5]])
    """
    axes = as_sequence("meshgrid", tensors)
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    if not axes:
        raise RuntimeError("meshgrid: expected at least one tensor, got none")
    for index, axis in enumerate(axes):
        if axis.dim() > 1:
            raise RuntimeError(
                "meshgrid: Expected 0D or 1D tensor in the tensor list but got shape "
                f"{tuple(axis.shape)} for tensors[{index}]"
            )
        if axis.dtype != axes[0].dtype:
            raise RuntimeError(
                "torch.meshgrid expects all tensors to have the same dtype, but got "
                f"{axes[0].dtype} and {axis.dtype}"
            )
    swap = indexing == "xy" and len(axes) >= 2
    if swap:
        axes = (axes[1], axes[0], *axes[2:])
    shape = [axis.numel() for axis in axes]
    grids = []
    for index, axis in enumerate(axes):
        own = [1] * len(axes)
        own[index] = shape[index]
        grids.append(axis.reshape(own).expand(shape))
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@function
@runs("cat")
def cartesian_prod(*tensors: Any) -> Tensor:
    """Return all combinations that take one element from each tensor.

    Args:
        *tensors: 1-d tensors of one dtype.

    Returns:
        A tensor with one row for each combination, the last element changing fastest; for a
        single argument, that tensor itself.

    Example:
        >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4]))
        tensor([[1, 3],
                [1, 4],
                [2, 3],
                [2, 4]])
    """
    sequence = as_sequence("cartesian_prod", tensors)
    for index, tensor in enumerate(sequence):
        if tensor.dim() != 1:
            raise RuntimeError(
                "cartesian_prod: Expect a 1D vector, but got shape "
                f"{list(tensor.shape)} for tensors[{index}]"
            )
    if len(sequence) == 1:
        return sequence[0]
    return _C.stack([grid.flatten() for grid in meshgrid(*sequence, indexing="ij")], dim=1)


@function
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return the combinations of `r` elements of a 1-d tensor, in the order of itertools.

    Args:
        input: the 1-d tensor to draw from.
        r: the number of elements in a combination.
        with_replacement: whether an element may occur more than once.

    Returns:
        A tensor with one row of length `r` for each combination.

    Example:
        >>> torch.combinations(torch.tensor([1, 2, 3]))
        tensor([[1, 2],
                [1, 3],
                [2, 3]])
    """
    expect_tensor("combinations", "input", input)
    if input.dim() != 1:
        raise RuntimeError(f"combinations: Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"combinations: Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty((0,))
    if r == 1:
        return input.reshape(-1, 1).clone()
    if r == 2:
        size = input.numel()
        upper = _C.ones((size, size), dtype=_C.bool, device=input.device)
        places = _C.nonzero(upper.triu(0 if with_replacement else 1)).reshape(-1)
        return input.index_select(0, places).reshape(-1, 2)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    chosen = list(itertools.chain.from_iterable(choose(range(input.numel()), r)))
    indices = _C.tensor(chosen, dtype=_C.int64, device=input.device)
    return input.index_select(0, indices).reshape(len(chosen) // r, r)


def _at_least(operation: str, tensors: tuple[Any, ...], shape_of: Any) -> Any:
    one = len(tensors) == 1 and isinstance(tensors[0], Tensor)
    sequence = as_sequence(operation, tensors)
    raised = []
    for tensor in sequence:
        shape = shape_of(tuple(tensor.shape))
        raised.append(tensor if len(shape) == tensor.dim() else tensor.reshape(shape))
    return raised[0] if one else tuple(raised)


@function
def atleast_1d(*tensors: Any) -> Any:
    """View 0-d tensors as 1-d; others stay as they are.

    Args:
        *tensors: one tensor, several, or one list of tensors.

    Returns:
        A tensor for one tensor, otherwise a tuple.

    Example:
        >>> torch.atleast_1d(torch.tensor(2.0))
        tensor([2.])
    """
    return _at_least("atleast_1d", tensors, lambda shape: shape or (1,))


@function
def atleast_2d(*tensors: Any) -> Any:
    """View tensors as at least 2-d; a vector becomes a row.

    Args:
        *tensors: one tensor, several, or one list of tensors.

    Returns:
        A tensor for one tensor, otherwise a tuple.

    Example:
        >>> torch.atleast_2d(torch.tensor([1, 2]))
        tensor([[1, 2]])
    """
    return _at_least("atleast_2d", tensors, lambda shape: (1,) * (2 - len(shape)) + shape)


@function
def atleast_3d(*tensors: Any) -> Any:
    """View tensors as at least 3-d; a matrix of shape (M, N) becomes (M, N, 1).

    Args:
        *tensors: one tensor, several, or one list of tensors.

    Returns:
        A tensor for one tensor, otherwise a tuple.

    Example:
        >>> torch.atleast_3d(torch.tensor([1, 2])).shape == (1, 2, 1)
        True
    """
    return _at_least(
        "atleast_3d",
        tensors,
        lambda shape: shape if len(shape) > 2 else ((1,) * (2 - len(shape)) + shape + (1,)),
    )


@function
@method
@runs("flip")
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotate by 90 degrees in the plane of two dimensions, from the first towards the second.

    Args:
        input: a tensor of at least two dimensions.
        k: how many times to rotate; negative rotates the other way.
        dims: the two dimensions of the plane.

    Returns:
        The rotated copy.

    Example:
        >>> torch.rot90(torch.tensor([[0, 1], [2, 3]]))
        tensor([[1, 3],
                [0, 2]])
    """
    expect_tensor("rot90", "input", input)
    if len(dims) != 2:
        raise RuntimeError(f"rot90: expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.dim() < 2:
        raise RuntimeError(f"rot90: expected total dims >= 2, but got total dims = {input.dim()}")
    first, second = (wrap_dim("rot90", dim, input.dim()) for dim in dims)
    if first == second:
        raise RuntimeError(
            "rot90: expected rotation dims to be different, but got "
            f"dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    turns = k % 4
    if turns == 0:
        return input.clone()
    if turns == 2:
        return input.flip((first, second))
    if turns == 1:
        return input.flip((second,)).transpose(first, second)
    return input.flip((first,)).transpose(first, second)


@function
@method
@runs("flip")
def fliplr(input: Tensor) -> Tensor:
    """Reverse the second dimension: left and right of a matrix change places.

    Args:
        input: a tensor of at least two dimensions.

    Returns:
        The flipped copy.

    Example:
        >>> torch.fliplr(torch.tensor([[0, 1], [2, 3]]))
        tensor([[1, 0],
                [3, 2]])
    """
    if input.dim() < 2:
        raise RuntimeError(
            f"fliplr: expected at least 2 dimensions, got shape {tuple(input.shape)}"
        )
    return input.flip((1,))


@function
@method
@runs("flip")
def flipud(input: Tensor) -> Tensor:
    """Reverse the first dimension: up and down of a matrix change places.

    Args:
        input: a tensor of at least one dimension.

    Returns:
        The flipped copy.

    Example:
        >>> torch.flipud(torch.tensor([[0, 1], [2, 3]]))
        tensor([[2, 3],
                [0, 1]])
    """
    if input.dim() < 1:
        raise RuntimeError("flipud: expected at least 1 dimension, got a 0-d tensor")
    return input.flip((0,))
