"""Functions that make one number of many, and those that run along an axis."""

from collections.abc import Callable
from typing import Any

import tapegrad as torch
from tapegrad import Tensor
from tapegrad.compat.array_api._dtypes import is_floating, promoted
from tapegrad.compat.array_api._manipulation import Axes, axis_of


def _axes(x: Tensor, axis: Axes | None, name: str) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    return tuple(axis_of(x, each, name) for each in given)


def _sum_dtype(x: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    return dtype or (x.dtype if is_floating(x.dtype) else torch.int64)


def sum(
    x: Tensor,
    /,
    *,
    axis: Axes | None = None,
    dtype: torch.dtype | None = None,
    keepdims: bool = False,
) -> Tensor:
    """Return sums over axes, or over all; those of integers are int64."""
    x = x.to(_sum_dtype(x, dtype))
    axes = _axes(x, axis, "sum")
    return torch.sum(x, axes, keepdim=keepdims) if axes else x.clone()


def prod(
    x: Tensor,
    /,
    *,
    axis: Axes | None = None,
    dtype: torch.dtype | None = None,
    keepdims: bool = False,
) -> Tensor:
    """Return products over axes, or over all; those of integers are int64."""
    result = x.to(_sum_dtype(x, dtype), copy=True)
    for each in sorted(_axes(x, axis, "prod"), reverse=True):
        result = torch.prod(result, each, keepdim=keepdims)
    return result


def mean(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Return means over axes, or over all."""
    axes = _axes(x, axis, "mean")
    return torch.mean(x, axes, keepdim=keepdims) if axes else x.clone()


def var(
    x: Tensor, /, *, axis: Axes | None = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """Return variances over axes, or over all; ``correction`` is taken off the divisor."""
    axes = _axes(x, axis, "var")
    if not axes:  # each element is a sample of one
        x = x.unsqueeze(-1)
        return torch.var(x, -1, correction=correction)
    return torch.var(x, axes, correction=correction, keepdim=keepdims)


def std(
    x: Tensor, /, *, axis: Axes | None = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """Return standard deviations over axes, or over all."""
    return torch.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def max(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Return the largest elements over axes, or of all."""
    axes = _axes(x, axis, "max")
    return torch.amax(x, axes, keepdim=keepdims) if axes else x.clone()


def min(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Return the smallest elements over axes, or of all."""
    axes = _axes(x, axis, "min")
    return torch.amin(x, axes, keepdim=keepdims) if axes else x.clone()


def all(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Tell whether all elements over axes are other than zero."""
    axes = _axes(x, axis, "all")
    flags = x.to(torch.bool)
    return torch.all(flags, axes, keepdim=keepdims) if axes else flags.clone()


def any(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Tell whether any element over axes is other than zero."""
    axes = _axes(x, axis, "any")
    flags = x.to(torch.bool)
    return torch.any(flags, axes, keepdim=keepdims) if axes else flags.clone()


def count_nonzero(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Return how many elements over axes are other than zero."""
    return sum(x != 0, axis=axis, keepdims=keepdims)


def _arg(
    op: Callable[..., Tensor], x: Tensor, axis: int | None, keepdims: bool, name: str
) -> Tensor:
    if axis is not None:
        return op(x, axis_of(x, axis, name), keepdim=keepdims)
    return op(x).reshape((1,) * x.ndim) if keepdims else op(x)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the indices of the largest elements along an axis, or in all that are there."""
    return _arg(torch.argmax, x, axis, keepdims, "argmax")


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the indices of the smallest elements along an axis, or in all that are there."""
    return _arg(torch.argmin, x, axis, keepdims, "argmin")


def _cumulative(
    op: Callable[..., Tensor], first: int, x: Tensor, options: dict[str, Any], name: str
) -> Tensor:
    axis = options["axis"]
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{name}: expected an axis for a {x.ndim}-d tensor; 1-d need none")
        axis = 0
    axis = axis_of(x, axis, name)
    result = op(x, axis, dtype=_sum_dtype(x, options["dtype"]))
    if not options["include_initial"]:
        return result
    shape = [*result.shape[:axis], 1, *result.shape[axis + 1 :]]
    start = torch.full(shape, first, dtype=result.dtype, device=result.device)
    return torch.cat([start, result], axis)


def cumulative_sum(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: torch.dtype | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Return running sums along an axis, after a zero if ``include_initial``."""
    options = {"axis": axis, "dtype": dtype, "include_initial": include_initial}
    return _cumulative(torch.cumsum, 0, x, options, "cumulative_sum")


def cumulative_prod(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: torch.dtype | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Return running products along an axis, after a one if ``include_initial``."""
    options = {"axis": axis, "dtype": dtype, "include_initial": include_initial}
    return _cumulative(torch.cumprod, 1, x, options, "cumulative_prod")


def diff(
    x: Tensor,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Return the ``n``-th differences of neighbours along an axis.

    Args:
        x: the tensor.
        axis: along which.
        n: how often differences are taken.
        prepend: what stands before ``x``.
        append: what stands behind it.
    """
    axis = axis_of(x, axis, "diff")
    if n == 0:
        return x.clone()
    parts = [each for each in (prepend, x, append) if each is not None]
    return torch.diff(torch.cat(promoted(*parts), axis), n, axis)
