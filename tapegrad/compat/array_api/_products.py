"""Products of vectors and matrices that stand in the main namespace."""

from collections.abc import Sequence

import tapegrad as torch
from tapegrad import Tensor
from tapegrad.compat.array_api._dtypes import promoted


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Return the product of matrices or vectors."""
    return torch.matmul(*promoted(x1, x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Return matrices with rows and columns exchanged."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: expected at least 2 dimensions, got {x.ndim}")
    return x.mT


def tensordot(
    x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """Return sums of products over axes: the last and first ``axes``, or those that are named."""
    dims = axes if isinstance(axes, int) else [list(each) for each in axes]
    first, second = promoted(x1, x2)
    return torch.tensordot(first, second, dims=dims)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return products of vectors along an axis, the first of them conjugated."""
    if axis >= 0 or axis < -min(x1.ndim, x2.ndim):
        raise ValueError(f"vecdot: expected a negative axis that both tensors have, got {axis}")
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(
            f"vecdot: expected vectors of one size, got {x1.shape[axis]} and {x2.shape[axis]}"
        )
    x1, x2 = promoted(x1, x2)
    left = torch.conj(x1) if x1.dtype.is_complex else x1
    return torch.sum(left * x2, axis, dtype=x1.dtype)
