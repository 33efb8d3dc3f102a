"""How many elements lie in each bin of a grid, and places by number."""

from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed import return_types
from tapegrad._composed.arguments import expect_tensor, into_out
from tapegrad._composed.registry import function, method

__all__ = ["histogram", "histogramdd"]


@function
@method
def histogram(
    input: Tensor,
    bins: Any = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Any = None,
) -> return_types.histogram:
    """Count the elements in bins, each of which holds its lower edge; the last both edges.

    Args:
        input: a tensor of float32 or float64.
        bins: the number of bins of equal width, or a tensor of all edges in ascending order.
        range: the lower and the upper end of equal bins; the smallest and the largest element
            if left out.
        weight: how much every element counts, of the shape of `input`.
        density: divide by the sum and the widths, so that the integral over the bins is 1.
        out: where to put the results.

    Returns:
        A named tuple (hist, bin_edges).

    Example:
        >>> torch.histogram(torch.tensor([1.0, 2.0, 1.0]), 4, range=(0.0, 3.0)).hist
        tensor([0., 2., 1., 0.])
    """
    expect_tensor("histogram", "input", input)
    given = bins if isinstance(bins, Tensor) else [bins]
    edges = [given] if isinstance(given, Tensor) else given
    values = input.reshape(-1, 1)
    flat = None if weight is None else _flat_weight("histogram", weight, input.shape)
    hist, all_edges = _histogram(values, edges, range, flat, density)
    if out is None:
        return return_types.histogram(hist, all_edges[0])
    return return_types.histogram(
        into_out("histogram", hist, out[0]), into_out("histogram", all_edges[0], out[1])
    )


@function
def histogramdd(
    input: Tensor,
    bins: Any,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> return_types.histogramdd:
    """Count points in the cells of a grid, each of which holds its lower edges.

    Args:
        input: points as rows of float32 or float64; leading dimensions are flattened.
        bins: the number of bins of equal width, one for all dimensions or one for each, or for
            each a tensor of all edges.
        range: the lower and the upper end of equal bins of each dimension, one after the other.
        weight: how much every point counts.
        density: divide by the sum and the volumes, so that the integral over the cells is 1.

    Returns:
        A named tuple (hist, bin_edges), the second a tuple of tensors.

    Example:
        >>> points = torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [2.0, 2.0]])
        >>> torch.histogramdd(points, bins=[2, 2]).hist
        tensor([[0., 1.],
                [2., 1.]])
    """
    expect_tensor("histogramdd", "input", input)
    if input.dim() < 2:
        raise RuntimeError(
            f"histogramdd: input tensor should have at least 2 dimensions, got {input.dim()}"
        )
    columns = input.shape[-1]
    edges = [bins] * columns if isinstance(bins, int) else list(bins)
    if len(edges) != columns:
        raise RuntimeError(f"histogramdd: expected bins for {columns} dimensions, got {len(edges)}")
    values = input.reshape(-1, columns)
    flat = None if weight is None else _flat_weight("histogramdd", weight, input.shape[:-1])
    hist, all_edges = _histogram(values, edges, range, flat, density)
    return return_types.histogramdd(hist, tuple(all_edges))


def _flat_weight(name: str, weight: Tensor, shape: Any) -> Tensor:
    expect_tensor(name, "weight", weight)
    if tuple(weight.shape) != tuple(shape):
        raise RuntimeError(
            f"{name}: expected weight of shape {tuple(shape)}, got {tuple(weight.shape)}"
        )
    return weight.detach().reshape(-1)


def _histogram(
    values: Tensor, bins: Sequence[Any], range: Any, weight: Tensor | None, density: bool
) -> tuple[Tensor, list[Tensor]]:
    if values.dtype not in (_C.float32, _C.float64):
        raise NotImplementedError(
            f"histogram: expected float32 or float64, got {values.dtype}; call .float() first"
        )
    if weight is not None and weight.dtype != values.dtype:
        raise RuntimeError(
            f"histogram: expected weight of dtype {values.dtype}, got {weight.dtype}"
        )
    values = values.detach()
    edges = _edges(values, bins, range)
    cell, inside = None, None
    for column, limits in enumerate(edges):
        position, within = _positions(values.select(1, column), limits, bins[column])
        cell = position if cell is None else cell * (limits.numel() - 1) + position
        inside = within if inside is None else inside.logical_and(within)
    sizes = [limits.numel() - 1 for limits in edges]
    hist = _counts(cell, inside, weight, sizes, values)
    return (_as_density(hist, edges) if density else hist), edges


def _edges(values: Tensor, bins: Sequence[Any], limits: Any) -> list[Tensor]:
    columns = len(bins)
    if limits is not None and len(limits) != 2 * columns:
        raise RuntimeError(
            f"histogram: for a {columns}-dimensional histogram range should have {2 * columns} "
            f"elements, but got {len(limits)}"
        )
    found = []
    for column, count in enumerate(bins):
        if isinstance(count, Tensor):
            found.append(_given_edges(values, count, column))
            continue
        if count <= 0:
            raise RuntimeError(
                f"histogram: bins must be > 0, but got {count} for dimension {column}"
            )
        ends = None if limits is None else limits[2 * column : 2 * column + 2]
        low, high = _ends(values.select(1, column), ends, column)
        found.append(_C.linspace(low, high, count + 1, dtype=values.dtype, device=values.device))
    return found


def _given_edges(values: Tensor, edges: Tensor, column: int) -> Tensor:
    if edges.dim() != 1 or not edges.numel():
        raise RuntimeError(
            f"histogram: expected the edges of dimension {column} as a vector, got shape "
            f"{tuple(edges.shape)}"
        )
    if edges.dtype != values.dtype:
        raise RuntimeError(
            f"histogram: input tensor and bins tensors should have the same dtype, but got "
            f"{values.dtype} and {edges.dtype} for dimension {column}"
        )
    return edges.detach().clone()


def _ends(values: Tensor, ends: Any, column: int) -> tuple[float, float]:
    if ends is not None:
        low, high = map(float, ends)
    elif values.numel():
        low, high = float(values.amin()), float(values.amax())
    else:
        low, high = 0.0, 1.0
    if not abs(low) < float("inf") or not abs(high) < float("inf"):
        raise RuntimeError(f"histogram: dimension {column}'s range [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(
            f"histogram: min should not exceed max, but got min {low:g} max {high:g} for dimension "
            f"{column}"
        )
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _positions(values: Tensor, edges: Tensor, bins: Any) -> tuple[Tensor, Tensor]:
    """Return the bin of every element, and whether it is in any."""
    last = edges.numel() - 2
    inside = values.ge(edges[0]).logical_and(values.le(edges[-1]))
    if isinstance(bins, Tensor):
        place = _C.searchsorted(edges, values.contiguous(), right=True) - 1
        return place.clamp(0, max(last, 0)), inside
    # Where rounding put an element beside its bin, the edges say which it is.
    width = (edges[-1] - edges[0]) / bins
    place = ((values - edges[0]) / width).nan_to_num(0).clamp(0, last).long()
    place = place - values.lt(edges.take(place)).long()
    place = place.clamp(min=0)
    return (place + values.ge(edges.take(place + 1)).long()).clamp(max=last), inside


def _counts(
    cell: Any, inside: Any, weight: Tensor | None, sizes: list[int], values: Tensor
) -> Tensor:
    total = 1
    for size in sizes:
        total *= size
    # What lies outside is counted in a bin behind the last.
    cell = cell.masked_fill(inside.logical_not(), total)
    if weight is None:
        counts = _C.bincount(cell, minlength=total + 1).to(values.dtype)
    else:
        counts = values.new_zeros(total + 1).index_add(0, cell, weight)
    return counts.narrow(0, 0, total).reshape(sizes).clone()


def _as_density(hist: Tensor, edges: list[Tensor]) -> Tensor:
    hist = hist / hist.sum()
    for dim, limits in enumerate(edges):
        widths = limits.narrow(0, 1, limits.numel() - 1) - limits.narrow(0, 0, limits.numel() - 1)
        hist = hist / widths.reshape([-1 if d == dim else 1 for d in range(hist.dim())])
    return hist
