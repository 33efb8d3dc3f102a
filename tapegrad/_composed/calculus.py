"""Finite differences and integrals of samples."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.arguments import expect_tensor, wrap_dim
from tapegrad._composed.registry import function, method
from tapegrad._ops import runs

__all__ = ["cumulative_trapezoid", "diff", "trapezoid"]


@function
@method
@runs("sub")
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """The n-th forward difference along a dimension; for bool, whether neighbours differ.

    Args:
        input: a tensor of at least one dimension.
        n: how many times to take the difference.
        dim: the dimension.
        prepend: values to put before `input` along the dimension.
        append: values to put after it.

    Returns:
        A tensor shorter by `n` along the dimension.

    Example:
        >>> torch.diff(torch.tensor([1, 3, 6]))
        tensor([2, 3])
        >>> torch.diff(torch.tensor([1, 3, 6]), n=2)
        tensor([1])
    """
    expect_tensor("diff", "input", input)
    if input.dim() == 0:
        raise RuntimeError("diff: expected at least 1 dimension, got a 0-d tensor")
    if n < 0:
        raise RuntimeError(f"diff: expected n to be at least 0, got {n}")
    dim = wrap_dim("diff", dim, input.dim())
    parts = [part for part in (prepend, input, append) if part is not None]
    result = input if len(parts) == 1 else _C.cat(parts, dim=dim)
    for _ in range(min(n, result.shape[dim])):
        left, right = _neighbours(result, dim)
        result = right.ne(left) if result.dtype == _C.bool else right - left
    return result.clone() if n == 0 and result is input else result


def _neighbours(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    length = max(input.shape[dim] - 1, 0)
    return input.narrow(dim, 0, length), input.narrow(dim, min(1, input.shape[dim]), length)


def _panels(name: str, y: Tensor, x: Tensor | None, dx: Any, dim: int) -> tuple[Tensor, int]:
    """Return twice the area under each panel between two samples, and the wrapped dimension."""
    expect_tensor(name, "y", y)
    if x is not None and dx is not None:
        raise TypeError(f"{name}: expected x or dx, got both")
    if y.dim() == 0:
        raise IndexError(f"{name}: expected at least 1 dimension, got a 0-d tensor")
    dim = wrap_dim(name, dim, y.dim())
    left, right = _neighbours(y, dim)
    if x is None:
        return (left + right) * (1 if dx is None else dx), dim
    expect_tensor(name, "x", x)
    if x.dim() <= 1 and x.numel() != y.shape[dim]:
        raise RuntimeError(
            f"{name}: expected one x for each of the {y.shape[dim]} samples along dimension {dim}, "
            f"got shape {tuple(x.shape)}"
        )
    if x.dim() <= 1:
        steps = diff(x.reshape(-1)).reshape([-1] + [1] * (y.dim() - 1 - dim))
    else:
        steps = diff(x, dim=dim - y.dim())
    return (left + right) * steps, dim


@function
def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor:
    """Integrate samples with the trapezoidal rule.

    Args:
        y: the samples.
        x: where they were taken: one vector for the dimension, or a tensor that broadcasts.
        dx: the distance between samples, where `x` is not given; 1 by default.
        dim: the dimension to integrate along.

    Returns:
        The integrals.

    Example:
        >>> torch.trapezoid(torch.tensor([1.0, 2.0, 4.0]))
        tensor(4.5000)
    """
    panels, dim = _panels("trapezoid", y, x, dx, dim)
    return panels.sum(dim) * 0.5


@function
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor:
    """Integrate samples with the trapezoidal rule, from the first up to each of the others.

    Args:
        y: the samples.
        x: where they were taken: one vector for the dimension, or a tensor that broadcasts.
        dx: the distance between samples, where `x` is not given; 1 by default.
        dim: the dimension to integrate along.

    Returns:
        The running integrals, shorter by one along the dimension.

    Example:
        >>> torch.cumulative_trapezoid(torch.tensor([1.0, 2.0, 4.0]))
        tensor([1.5000, 4.5000])
    """
    panels, dim = _panels("cumulative_trapezoid", y, x, dx, dim)
    return panels.cumsum(dim) * 0.5
