"""Functions of rows of which some elements do not count: softmax, cumulative sums and the like."""

import math
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.masked._arguments import data_and_mask, fill, in_dtype
from tapegrad.masked._reductions import norm

__all__ = ["cumprod", "cumsum", "log_softmax", "logaddexp", "normalize", "softmax", "softmin"]


def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Return the softmax of the elements that count, zero for others.

    Args:
        input: a Tensor or a MaskedTensor.
        dim: the dimension along which results add up to one.
        dtype: convert to it first.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.
            Where none does the results are NaN.

    Example:
        >>> x = torch.tensor([1.0, 5.0, 1.0])
        >>> torch.masked.softmax(x, 0, mask=torch.tensor([True, False, True]))
        tensor([0.5000, 0.0000, 0.5000])
    """
    x, mask = data_and_mask("softmax", input, mask)
    return _C.softmax(fill(in_dtype(x, dtype), mask, -math.inf), dim)


def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Return the logarithm of the softmax of the elements that count, -inf for others.

    Args:
        input: a Tensor or a MaskedTensor.
        dim: the dimension along which exponentials of results add up to one.
        dtype: convert to it first.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.
            Where none does the results are NaN.

    Example:
        >>> x = torch.tensor([1.0, 5.0, 1.0])
        >>> torch.masked.log_softmax(x, 0, mask=torch.tensor([True, False, True]))
        tensor([-0.6931,    -inf, -0.6931])
    """
    x, mask = data_and_mask("log_softmax", input, mask)
    return _C.log_softmax(fill(in_dtype(x, dtype), mask, -math.inf), dim)


def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Return the softmax of the negatives of the elements that count, zero for others.

    Args:
        input: a Tensor or a MaskedTensor.
        dim: the dimension along which results add up to one.
        dtype: convert to it first.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.
            Where none does the results are NaN.

    Example:
        >>> x = torch.tensor([1.0, -5.0, 1.0])
        >>> torch.masked.softmin(x, 0, mask=torch.tensor([True, False, True]))
        tensor([0.5000, 0.0000, 0.5000])
    """
    x, mask = data_and_mask("softmin", input, mask)
    return _C.softmax(-fill(in_dtype(x, dtype), mask, math.inf), dim)


def normalize(
    input: Any,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Divide the elements that count by their norm; others become zero.

    Args:
        input: a Tensor or a MaskedTensor.
        ord: the order of the norm.
        dim: the dimension that norms are taken along.
        eps: the least divisor.
        dtype: convert to it first.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.

    Example:
        >>> x = torch.tensor([3.0, 7.0, 4.0])
        >>> torch.masked.normalize(x, 2.0, 0, mask=torch.tensor([True, False, True]))
        tensor([0.6000, 0.0000, 0.8000])
    """
    x, mask = data_and_mask("normalize", input, mask)
    x = in_dtype(x, dtype)
    return fill(x, mask, 0) / norm(x, ord, dim, keepdim=True, mask=mask).clamp(min=eps)


def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Return the running sums of the elements that count.

    Args:
        input: a Tensor or a MaskedTensor.
        dim: the dimension that is run along.
        dtype: convert to it first; integers are summed as int64 if it is left out.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.

    Example:
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> torch.masked.cumsum(x, 0, mask=torch.tensor([True, False, True]))
        tensor([1., 1., 4.])
    """
    x, mask = data_and_mask("cumsum", input, mask)
    return _C.cumsum(fill(in_dtype(x, dtype), mask, 0), dim)


def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Return the running products of the elements that count.

    Args:
        input: a Tensor or a MaskedTensor.
        dim: the dimension that is run along.
        dtype: convert to it first; integers are multiplied as int64 if it is left out.
        mask: True where elements count, broadcast to the shape of `input`; None is everywhere.

    Example:
        >>> x = torch.tensor([2.0, 3.0, 4.0])
        >>> torch.masked.cumprod(x, 0, mask=torch.tensor([True, False, True]))
        tensor([2., 2., 8.])
    """
    x, mask = data_and_mask("cumprod", input, mask)
    return _C.cumprod(fill(in_dtype(x, dtype), mask, 1), dim)


def logaddexp(
    input: Any,
    other: Any,
    *,
    dtype: Any = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """Return the logarithm of the sum of the exponentials of two tensors, element by element.

    Args:
        input: a Tensor or a MaskedTensor.
        other: the same.
        dtype: convert both to it first.
        input_mask: True where elements of `input` count; others are -inf.
        other_mask: the same for `other`.

    Example:
        >>> x, mask = torch.zeros(2), torch.tensor([True, False])
        >>> torch.masked.logaddexp(x, x, input_mask=mask)
        tensor([0.6931, 0.0000])
    """
    a, input_mask = data_and_mask("logaddexp", input, input_mask)
    b, other_mask = data_and_mask("logaddexp", other, other_mask)
    return _C.logaddexp(
        fill(in_dtype(a, dtype), input_mask, -math.inf),
        fill(in_dtype(b, dtype), other_mask, -math.inf),
    )
