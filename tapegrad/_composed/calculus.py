"""Finite differences and integrals of samples."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.arguments import expect_tensor, takes_out, wrap_dim
from tapegrad._composed.registry import function, method
from tapegrad._ops import runs

__all__ = ["cumulative_trapezoid", "diff", "gradient", "trapezoid"]


@function
@method
@takes_out()
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
        n: how many times to take the difference; 0 copies `input` alone.
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
        raise RuntimeError("diff expects input to be at least one-dimensional, got a 0-d tensor")
    if n < 0:
        raise RuntimeError(f"diff: order must be non-negative but got {n}")
    dim = wrap_dim("diff", dim, input.dim())
    if n == 0:
        return input.clone()
    parts = [part for part in (prepend, input, append) if part is not None]
    if any(part.dim() != input.dim() for part in parts):
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    result = input if len(parts) == 1 else _C.cat(parts, dim=dim)
    for _ in range(min(n, result.shape[dim])):
        left, right = _neighbours(result, dim)
        result = right.ne(left) if result.dtype == _C.bool else right - left
    return result


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
            f"{name}: There must be one `x` value for each sample point, {y.shape[dim]} along "
            f"dimension {dim}, "
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


@function
def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Estimate derivatives from samples: central differences, one-sided at the ends.

    Args:
        input: samples on a grid.
        spacing: the distance of neighbours, one number for all dimensions or one for each; or for
            each a vector of coordinates. None stands for 1.
        dim: the dimension or dimensions to differentiate along; all if left out.
        edge_order: the order of the differences at the ends, 1 or 2.

    Returns:
        For each dimension a tensor of the shape of `input`.

    Example:
        >>> torch.gradient(torch.tensor([1.0, 4.0, 9.0, 16.0]))
        (tensor([3., 4., 6., 7.]),)
    """
    expect_tensor("gradient", "input", input)
    if input.dtype in (_C.uint8, _C.bool):
        raise RuntimeError(f"gradient: expected a dtype with a sign, got {input.dtype}")
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: expected edge_order 1 or 2, got {edge_order}")
    if isinstance(spacing, Tensor):
        raise TypeError("gradient: expected spacing to be a number or a sequence, got a Tensor")
    dims = range(input.dim()) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = [wrap_dim("gradient", each, input.dim()) for each in dims]
    for each in dims:
        if dims.count(each) > 1:
            raise RuntimeError(f"gradient: dim {each} appears multiple times in the list of dims")
        if input.dim() and input.shape[each] < edge_order + 1:
            raise RuntimeError(
                f"torch.gradient expected each dimension size to be at least edge_order+1 = "
                f"{edge_order + 1}, got {input.shape[each]} in dimension {each}"
            )
    spacing = 1 if spacing is None else spacing
    steps = list(spacing) if isinstance(spacing, list | tuple) else [spacing] * len(dims)
    if len(steps) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
            f"{len(dims)}, but got a list of length {len(steps)}"
        )
    if not input.dtype.is_floating_point and not input.dtype.is_complex:
        input = input.to(_C.get_default_dtype())
    found = [_slope(input, each, h, edge_order) for each, h in zip(dims, steps, strict=True)]
    return tuple(found)


def _slope(x: Tensor, dim: int, spacing: Any, edge_order: int) -> Tensor:
    size = x.shape[dim]

    def at(start: int, count: int) -> Tensor:
        return x.narrow(dim, start, count)

    if not isinstance(spacing, Tensor):
        inner = (at(2, size - 2) - at(0, size - 2)) / (2.0 * spacing)
        if edge_order == 1:
            first = (at(1, 1) - at(0, 1)) / spacing
            last = (at(size - 1, 1) - at(size - 2, 1)) / spacing
        else:
            first = (-1.5 * at(0, 1) + 2.0 * at(1, 1) - 0.5 * at(2, 1)) / spacing
            last = (1.5 * at(size - 1, 1) - 2.0 * at(size - 2, 1) + 0.5 * at(size - 3, 1)) / spacing
        return _C.cat([first, inner, last], dim)
    if spacing.dim() != 1 or spacing.numel() != size:
        raise RuntimeError(
            f"gradient: expected {size} coordinates along dimension {dim}, got shape "
            f"{tuple(spacing.shape)}"
        )
    shape = [-1 if d == dim else 1 for d in range(x.dim())]
    steps = diff(spacing.to(x.dtype)).reshape(shape)
    return _uneven_slope(at, steps, dim, size, edge_order)


def _uneven_slope(at: Any, steps: Tensor, dim: int, size: int, edge_order: int) -> Tensor:
    """Slopes on uneven coordinates: of the parabola through three neighbours."""

    def step(index: int) -> Tensor:
        return steps.narrow(dim, index, 1)

    left, right = steps.narrow(dim, 0, size - 2), steps.narrow(dim, 1, size - 2)
    inner = (
        at(0, size - 2) * (-right / (left * (left + right)))
        + at(1, size - 2) * ((right - left) / (left * right))
        + at(2, size - 2) * (left / (right * (left + right)))
    )
    if edge_order == 1:
        first = (at(1, 1) - at(0, 1)) / step(0)
        last = (at(size - 1, 1) - at(size - 2, 1)) / step(size - 2)
    else:
        a, b = step(0), step(1)
        first = (
            at(0, 1) * (-(2 * a + b) / (a * (a + b)))
            + at(1, 1) * ((a + b) / (a * b))
            + at(2, 1) * (-a / (b * (a + b)))
        )
        a, b = step(size - 3), step(size - 2)
        last = (
            at(size - 3, 1) * (b / (a * (a + b)))
            + at(size - 2, 1) * (-(a + b) / (a * b))
            + at(size - 1, 1) * ((2 * b + a) / (b * (a + b)))
        )
    return _C.cat([first, inner, last], dim)
