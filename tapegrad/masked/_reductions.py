"""Reductions over the elements that count."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.statistics import nanmedian
from tapegrad.masked._arguments import data_and_mask, dims_of, fill, highest, in_dtype, lowest

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "prod",
    "std",
    "sum",
    "var",
]

_Dims = int | Sequence[int] | None


def _accumulated(x: Tensor, dtype: Any) -> Tensor:
    """Return a tensor in the dtype that sums and products of it have."""
    if dtype is None and not x.is_floating_point() and not x.is_complex():
        dtype = _C.int64
    return in_dtype(x, dtype)


def sum(
    input: Any,
    dim: _Dims = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Sum the elements that count; the sum of none is 0.

    Args:
        input: a Tensor or a MaskedTensor.
        dim: the dimensions to reduce; None and () are all.
        keepdim: keep them with size one.
        dtype: convert to it first; integers are summed as int64 if it is left out.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.

    Example:
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> torch.masked.sum(x, 0, mask=torch.tensor([[True, False], [True, True]]))
        tensor([4., 4.])
    """
    x, mask = data_and_mask("sum", input, mask)
    dims = dims_of("sum", dim, x.dim())
    x = fill(_accumulated(x, dtype), mask, 0)
    return x.sum(dims, keepdim=keepdim)


def prod(
    input: Any,
    dim: _Dims = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Multiply the elements that count; the product of none is 1.

    Args:
        input: a Tensor or a MaskedTensor.
        dim: the dimensions to reduce; None and () are all.
        keepdim: keep them with size one.
        dtype: convert to it first; integers are multiplied as int64 if it is left out.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.

    Example:
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> torch.masked.prod(x, 1, mask=torch.tensor([[True, False], [True, True]]))
        tensor([ 1., 12.])
    """
    x, mask = data_and_mask("prod", input, mask)
    x = fill(_accumulated(x, dtype), mask, 1)
    # The last dimension first, so that the numbers of the others stay.
    for each in sorted(dims_of("prod", dim, x.dim()), reverse=True):
        x = x.prod(each, keepdim=keepdim)
    return x


def _extreme(
    reduce: Callable[..., Tensor],
    neutral: Callable[[str, Any], Any],
    input: Any,
    dim: _Dims,
    keepdim: bool,
    dtype: Any,
    mask: Tensor | None,
) -> Tensor:
    name = reduce.__name__
    x, mask = data_and_mask(name, input, mask)
    dims = dims_of(name, dim, x.dim())
    x = in_dtype(x, dtype)
    return reduce(fill(x, mask, neutral(name, x.dtype)), dims, keepdim)


def amax(
    input: Any,
    dim: _Dims = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the largest element that counts; among none, the least number of the dtype.

    Args:
        input: a Tensor or a MaskedTensor.
        dim: the dimensions to reduce; None and () are all.
        keepdim: keep them with size one.
        dtype: convert to it first.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.

    Example:
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> torch.masked.amax(x, 1, mask=torch.tensor([[True, False], [True, True]]))
        tensor([1., 4.])
    """
    return _extreme(_C.amax, lowest, input, dim, keepdim, dtype, mask)


def amin(
    input: Any,
    dim: _Dims = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the least element that counts; among none, the largest number of the dtype.

    Args:
        input: a Tensor or a MaskedTensor.
        dim: the dimensions to reduce; None and () are all.
        keepdim: keep them with size one.
        dtype: convert to it first.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.

    Example:
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> torch.masked.amin(x, 0, mask=torch.tensor([[False, True], [True, True]]))
        tensor([3., 2.])
    """
    return _extreme(_C.amin, highest, input, dim, keepdim, dtype, mask)


def _place(
    find: Callable[..., Tensor],
    neutral: Callable[[str, Any], Any],
    input: Any,
    dim: int | None,
    keepdim: bool,
    dtype: Any,
    mask: Tensor | None,
) -> Tensor:
    name = find.__name__
    x, mask = data_and_mask(name, input, mask)
    x = in_dtype(x, dtype)
    return find(fill(x, mask, neutral(name, x.dtype)), dim, keepdim).to(x.dtype)


def argmax(
    input: Any,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return where the largest element that counts is, as PyTorch in the dtype of the input.

    Args:
        input: a Tensor or a MaskedTensor.
        dim: the dimension to reduce; None is the flattened input.
        keepdim: keep it with size one.
        dtype: convert to it first.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.

    Example:
        >>> x = torch.tensor([[1, 2], [3, 4]])
        >>> torch.masked.argmax(x, 1, mask=torch.tensor([[True, False], [True, True]]))
        tensor([0, 1])
    """
    return _place(_C.argmax, lowest, input, dim, keepdim, dtype, mask)


def argmin(
    input: Any,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return where the least element that counts is, as PyTorch in the dtype of the input.

    Args:
        input: a Tensor or a MaskedTensor.
        dim: the dimension to reduce; None is the flattened input.
        keepdim: keep it with size one.
        dtype: convert to it first.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.

    Example:
        >>> x = torch.tensor([[1, 2], [3, 4]])
        >>> torch.masked.argmin(x, 1, mask=torch.tensor([[False, True], [True, True]]))
        tensor([1, 0])
    """
    return _place(_C.argmin, highest, input, dim, keepdim, dtype, mask)


def _counts(x: Tensor, mask: Tensor | None, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """Return how many elements count in each place of a reduction."""
    if mask is None:
        mask = _C.ones((), dtype=_C.bool, device=x.device).expand(x.shape)
    return mask.sum(dims, keepdim=keepdim)


def mean(
    input: Any,
    dim: _Dims = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the mean of the elements that count; the mean of none is NaN.

    Args:
        input: a Tensor or a MaskedTensor, of a floating or complex dtype unless `dtype` is one.
        dim: the dimensions to reduce; None and () are all.
        keepdim: keep them with size one.
        dtype: convert to it first.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.

    Example:
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> torch.masked.mean(x, 1, mask=torch.tensor([[True, False], [True, True]]))
        tensor([1.0000, 3.5000])
    """
    x, mask = data_and_mask("mean", input, mask)
    dims = dims_of("mean", dim, x.dim())
    x = in_dtype(x, dtype)
    if not x.is_floating_point() and not x.is_complex():
        raise ValueError(
            "mean(): Could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {x.dtype}; pass dtype="
        )
    if mask is None:
        return x.mean(dims, keepdim=keepdim)
    return fill(x, mask, 0).sum(dims, keepdim=keepdim) / _counts(x, mask, dims, keepdim)


def median(
    input: Any,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the median of the elements that count, the lower one of two; that of none is NaN.

    Args:
        input: a Tensor or a MaskedTensor. NaN does not count.
        dim: the dimension to reduce.
        keepdim: keep it with size one.
        dtype: convert to it first.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.
            Along each row of integers some element has to.

    Example:
        >>> x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        >>> torch.masked.median(x, 1, mask=torch.tensor([[True, False, True], [False, True, True]]))
        tensor([1., 5.])
    """
    x, mask = data_and_mask("median", input, mask)
    (dim,) = dims_of("median", dim, x.dim()) or (0,)
    x = in_dtype(x, dtype)
    if x.is_floating_point():
        return nanmedian(fill(x, mask, math.nan), dim, keepdim).values
    if mask is None or x.dim() == 0:
        return _C.median(x, dim, keepdim).values
    counts = mask.sum(dim, keepdim=True)
    if bool((counts == 0).any()):
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    # What does not count comes last.
    ordered = fill(x, mask, highest("median", x.dtype)).sort(dim).values
    middle = ordered.gather(dim, (counts - 1) // 2)
    return middle if keepdim else middle.squeeze(dim)


def logsumexp(
    input: Any,
    dim: _Dims = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the logarithm of the sum of exponentials of the elements that count.

    Args:
        input: a Tensor or a MaskedTensor.
        dim: the dimensions to reduce; None and () are all.
        keepdim: keep them with size one.
        dtype: convert to it first; integers are promoted to the default dtype if it is left out.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.
            Where none does the result is -inf.

    Example:
        >>> x = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
        >>> torch.masked.logsumexp(x, 1, mask=torch.tensor([[True, True], [True, False]]))
        tensor([0.6931, 1.0000])
    """
    x, mask = data_and_mask("logsumexp", input, mask)
    dims = dims_of("logsumexp", dim, x.dim())
    x = in_dtype(x, dtype)
    if not x.is_floating_point():
        x = x.to(_C.get_default_dtype())
    x = fill(x, mask, -math.inf)
    return _C.logsumexp(x, dims, keepdim) if dims else x.clone()


def norm(
    input: Any,
    ord: float | None = 2.0,
    dim: _Dims = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the vector norm of the elements that count.

    Args:
        input: a Tensor or a MaskedTensor.
        ord: the order, infinity and negative ones too; None is 2.
        dim: the dimensions to reduce; None and () are all.
        keepdim: keep them with size one.
        dtype: convert to it first.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.

    Example:
        >>> x = torch.tensor([[3.0, 4.0], [5.0, 6.0]])
        >>> torch.masked.norm(x, 2.0, 1, mask=torch.tensor([[True, True], [True, False]]))
        tensor([5., 5.])
    """
    # Here, because linear algebra is loaded when it is first asked for.
    from tapegrad.linalg import vector_norm

    x, mask = data_and_mask("norm", input, mask)
    dims = dims_of("norm", dim, x.dim())
    order = 2.0 if ord is None else ord
    x = fill(in_dtype(x, dtype), mask, math.inf if order < 0 else 0)
    return vector_norm(x, order, dims or None, keepdim)


def var(
    input: Any,
    dim: _Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the variance of the elements that count.

    Args:
        input: a Tensor or a MaskedTensor; integers are promoted to the default dtype.
        dim: the dimensions to reduce; None and () are all.
        unbiased: False is ``correction=0``, True is ``correction=1``.
        correction: how much smaller than the number of elements the divisor is, 1 if left out.
        keepdim: keep the dimensions with size one.
        dtype: convert to it first.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.

    Example:
        >>> x = torch.tensor([[1.0, 9.0, 3.0], [4.0, 5.0, 6.0]])
        >>> torch.masked.var(x, 1, mask=torch.tensor([[True, False, True], [True, True, True]]))
        tensor([2., 1.])
    """
    if unbiased is not None and correction is not None:
        raise AssertionError("var: Only one of unbiased and correction may be given")
    if correction is None:
        correction = 0 if unbiased is False else 1
    x, mask = data_and_mask("var", input, mask)
    dims = dims_of("var", dim, x.dim())
    x = in_dtype(x, dtype)
    if not x.is_floating_point() and not x.is_complex():
        x = x.to(_C.get_default_dtype())
    counts = _counts(x, mask, dims, keepdim=True)
    center = fill(x, mask, 0).sum(dims, keepdim=True) / counts
    distance = fill(x - center, mask, 0)
    squares = (distance.abs() if x.is_complex() else distance).square().sum(dims, keepdim=keepdim)
    if not keepdim:
        counts = counts.reshape(squares.shape)
    return squares / (counts - correction).clamp(min=0)


def std(
    input: Any,
    dim: _Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the standard deviation of the elements that count.

    Args:
        input: a Tensor or a MaskedTensor; integers are promoted to the default dtype.
        dim: the dimensions to reduce; None and () are all.
        unbiased: False is ``correction=0``, True is ``correction=1``.
        correction: how much smaller than the number of elements the divisor is, 1 if left out.
        keepdim: keep the dimensions with size one.
        dtype: convert to it first.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.

    Example:
        >>> x = torch.tensor([[1.0, 9.0, 3.0], [4.0, 5.0, 6.0]])
        >>> mask = torch.tensor([[True, False, True], [True, True, True]])
        >>> torch.masked.std(x, 1, False, mask=mask)
        tensor([1.0000, 0.8165])
    """
    return var(
        input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask
    ).sqrt()
