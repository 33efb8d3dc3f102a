"""Order statistics, covariance, and reductions that skip nan."""

from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed import return_types
from tapegrad._composed.arguments import expect_tensor, wrap_dim
from tapegrad._composed.linear_algebra import diagonal
from tapegrad._composed.registry import function, method

__all__ = [
    "aminmax",
    "corrcoef",
    "cov",
    "kthvalue",
    "median",
    "nanmean",
    "nanmedian",
    "nanquantile",
    "nansum",
    "quantile",
    "std_mean",
]

_Dims = int | Sequence[int] | None


@function
@method
def nansum(input: Tensor, dim: _Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum with nan counted as zero.

    Args:
        input: a tensor.
        dim: the dimension or dimensions to sum; None sums all.
        keepdim: keep the summed dimensions with size 1.
        dtype: convert to this dtype first.

    Returns:
        The sum.

    Example:
        >>> torch.nansum(torch.tensor([1.0, float("nan"), 2.0]))
        tensor(3.)
    """
    expect_tensor("nansum", "input", input)
    if input.dtype.is_floating_point:
        input = input.masked_fill(input.isnan(), 0)
    return input.sum(dim, keepdim=keepdim, dtype=dtype)


@function
@method
def nanmean(
    input: Tensor, dim: _Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """Mean of the elements that are not nan.

    Args:
        input: a tensor of a floating dtype.
        dim: the dimension or dimensions to average over; None takes all.
        keepdim: keep the reduced dimensions with size 1.
        dtype: convert to this dtype first.

    Returns:
        The mean; nan where there is nothing to average.

    Example:
        >>> torch.nanmean(torch.tensor([1.0, float("nan"), 2.0]))
        tensor(1.5000)
    """
    expect_tensor("nanmean", "input", input)
    if not input.dtype.is_floating_point:
        raise RuntimeError(
            f"nanmean: expected a floating dtype, got {input.dtype}; call .float() first"
        )
    count = input.isnan().logical_not().sum(dim, keepdim=keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / count


@function
def std_mean(
    input: Tensor,
    dim: _Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean in one pass.

    Args:
        input: a tensor of a floating dtype.
        dim: the dimension or dimensions to reduce; None takes all.
        unbiased: True stands for correction 1, False for correction 0.
        keepdim: keep the reduced dimensions with size 1.
        correction: what to subtract from the number of elements in the divisor; 1 by default.

    Returns:
        The standard deviation and the mean.

    Example:
        >>> torch.std_mean(torch.tensor([1.0, 2.0, 3.0]))
        (tensor(1.), tensor(2.))
    """
    expect_tensor("std_mean", "input", input)
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 0 if unbiased is False else 1
    elif unbiased is not None:
        raise TypeError("std_mean: expected unbiased or correction, got both")
    variance, mean = _C.var_mean(input, dim, correction=correction, keepdim=keepdim)
    # The zero constant takes the place of a zero variance, whose root has an infinite slope: the
    # gradient of the deviation of equal numbers is 0, not nan.
    variance = _C.where(variance == 0, variance.new_zeros(()), variance)
    return variance.sqrt(), mean


@function
@method
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """Smallest and largest elements.

    Args:
        input: a tensor with at least one element to compare.
        dim: the dimension to reduce; None takes all.
        keepdim: keep the reduced dimension with size 1.

    Returns:
        A named tuple (min, max).

    Example:
        >>> torch.aminmax(torch.tensor([1, -3, 5])).max
        tensor(5)
    """
    expect_tensor("aminmax", "input", input)
    if input.numel() == 0 and (dim is None or input.shape[dim] == 0):
        raise RuntimeError(
            f"aminmax: expected at least one element to reduce, got shape {tuple(input.shape)}"
        )
    dims = () if dim is None else dim
    return return_types.aminmax(
        input.amin(dims, keepdim=keepdim), input.amax(dims, keepdim=keepdim)
    )


def _select_ranked(
    input: Tensor, dim: int, position: Tensor | int, keepdim: bool, kind: Any
) -> Any:
    """Return the elements at a position of the sorted order, and where they were."""
    order = input.detach().argsort(dim=dim, stable=True)
    if isinstance(position, int):
        index = order.narrow(dim, position, 1)
    else:
        index = order.gather(dim, position)
    values = input.gather(dim, index)
    if keepdim:
        return kind(values, index)
    return kind(values.squeeze(dim), index.squeeze(dim))


def _median_position(input: Tensor, dim: int, skip_nan: bool) -> Tensor | int:
    size = input.shape[dim]
    if not input.dtype.is_floating_point:
        return (size - 1) // 2
    # nan sorts last, so the first nan, if there is one, stands right behind the valid elements.
    valid = input.detach().isnan().logical_not().sum(dim, keepdim=True)
    if skip_nan:
        return ((valid - 1).clamp(min=0) / 2).long()
    return _C.where(valid < size, valid, (size - 1) // 2)


def _median(input: Tensor, dim: int | None, keepdim: bool, skip_nan: bool) -> Any:
    name, kind = (
        ("nanmedian", return_types.nanmedian) if skip_nan else ("median", return_types.median)
    )
    expect_tensor(name, "input", input)
    if input.dtype == _C.bool:
        raise NotImplementedError(f"{name}: expected a number dtype, got bool")
    if dim is None:
        if input.numel() == 0 and input.dtype.is_floating_point:
            return input.new_full((), float("nan"))
        flat = input.reshape(-1)
        return _share_among_ties(flat, _median(flat, 0, False, skip_nan).values)
    dim = wrap_dim(name, dim, input.dim())
    if input.dim() == 0:
        return kind(input.clone(), _C.zeros_like(input, dtype=_C.int64))
    if input.shape[dim] == 0:
        raise IndexError(
            f"{name}: expected dimension {dim} to have at least one element, "
            f"got shape {tuple(input.shape)}"
        )
    return _select_ranked(input, dim, _median_position(input, dim, skip_nan), keepdim, kind)


def _share_among_ties(input: Tensor, value: Tensor) -> Tensor:
    """Return the value as a function of all elements equal to it: they share its gradient."""
    if not value.requires_grad:
        return value
    ties = input.masked_select(input == value)
    # Nothing equals nan, which therefore keeps the single element it was read from.
    return ties.amax() if ties.numel() else value


@function
@method
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Median; of an even number of elements, the lower of the two in the middle.

    Args:
        input: a tensor.
        dim: the dimension to reduce; None takes the median of all elements.
        keepdim: keep the reduced dimension with size 1.

    Returns:
        A 0-d tensor, or with `dim` a named tuple (values, indices). nan if there is any.

    Example:
        >>> torch.median(torch.tensor([3, 1, 2]))
        tensor(2)
        >>> torch.median(torch.tensor([[3, 1, 2]]), dim=1).indices
        tensor([2])
    """
    return _median(input, dim, keepdim, skip_nan=False)


@function
@method
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Median of the elements that are not nan.

    Args:
        input: a tensor.
        dim: the dimension to reduce; None takes the median of all elements.
        keepdim: keep the reduced dimension with size 1.

    Returns:
        A 0-d tensor, or with `dim` a named tuple (values, indices). nan if all are.

    Example:
        >>> torch.nanmedian(torch.tensor([3.0, float("nan"), 1.0]))
        tensor(1.)
    """
    return _median(input, dim, keepdim, skip_nan=True)


@function
@method
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest element along a dimension, counted from 1.

    Args:
        input: a tensor.
        k: the rank, from 1 to the size of the dimension.
        dim: the dimension to search.
        keepdim: keep the dimension with size 1.

    Returns:
        A named tuple (values, indices).

    Example:
        >>> torch.kthvalue(torch.tensor([30, 10, 20]), 2).values
        tensor(20)
    """
    expect_tensor("kthvalue", "input", input)
    dim = wrap_dim("kthvalue", dim, input.dim())
    size = input.shape[dim] if input.dim() else 1
    if not 1 <= k <= size:
        raise RuntimeError(
            f"kthvalue: expected k between 1 and {size}, the size of dimension {dim}, got {k}"
        )
    if input.dim() == 0:
        return return_types.kthvalue(input.clone(), _C.zeros_like(input, dtype=_C.int64))
    return _select_ranked(input, dim, k - 1, keepdim, return_types.kthvalue)


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(
    name: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str
) -> Tensor:
    expect_tensor(name, "input", input)
    if input.dtype not in (_C.float32, _C.float64):
        raise RuntimeError(f"{name}: expected float32 or float64, got {input.dtype}")
    if input.numel() == 0:
        raise RuntimeError(f"{name}: expected at least one element, got none")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}: expected interpolation to be one of {_INTERPOLATIONS}, got {interpolation!r}"
        )
    ratio = _read_ratio(name, input, q)
    rank = input.dim()
    if dim is not None:
        dim = wrap_dim(name, dim, rank)
    rows = input.reshape(-1) if dim is None or rank == 0 else input.movedim(dim, -1)
    found = _interpolate(rows.sort(dim=-1)[0], ratio.reshape(-1), name, interpolation)
    found = found.movedim(-1, 0)
    if keepdim and rank:
        kept = [1] * rank if dim is None else list(input.shape)
        if dim is not None:
            kept[dim] = 1
        found = found.reshape(ratio.numel(), *kept)
    return found.squeeze(0) if ratio.dim() == 0 else found


def _read_ratio(name: str, input: Tensor, q: Any) -> Tensor:
    ratio = q if isinstance(q, Tensor) else _C.tensor(q, dtype=input.dtype, device=input.device)
    if ratio.dtype != input.dtype:
        raise RuntimeError(
            f"{name}: expected q to have the dtype of the input, {input.dtype}, got {ratio.dtype}"
        )
    if ratio.dim() > 1:
        raise RuntimeError(f"{name}: expected q to be 0-d or 1-d, got {tuple(ratio.shape)}")
    if not bool(((ratio >= 0) & (ratio <= 1)).all()):
        raise RuntimeError(f"{name}: expected q in the range [0, 1], got {ratio.tolist()}")
    return ratio


def _interpolate(ordered: Tensor, ratio: Tensor, name: str, interpolation: str) -> Tensor:
    """Read quantiles off rows sorted along the last dimension, nan last."""
    last = ordered.shape[-1] - 1
    valid = ordered.detach().isnan().logical_not().sum(-1, keepdim=True)
    if name == "nanquantile":
        rank = ratio * (valid - 1).clamp(min=0).to(ratio.dtype)
    else:
        # A row with any nan has quantile nan: that is what its last element is.
        rank = _C.where(valid > last, ratio * last, _C.full_like(ratio, last))
    if interpolation == "lower":
        rank = rank.floor()
    elif interpolation == "higher":
        rank = rank.ceil()
    elif interpolation == "nearest":
        rank = rank.round()
    below = rank.floor()
    low = ordered.gather(-1, below.long())
    if interpolation in ("lower", "higher", "nearest"):
        return low
    high = ordered.gather(-1, rank.ceil().long())
    weight = _C.full_like(rank, 0.5) if interpolation == "midpoint" else rank - below
    return low.lerp(high, weight)


@function
@method
def quantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Quantiles: the values below which the fractions `q` of the elements lie.

    Args:
        input: a tensor of float32 or float64.
        q: one fraction in [0, 1], or a 1-d tensor of them.
        dim: the dimension to reduce; None takes all elements.
        keepdim: keep the reduced dimension with size 1.
        interpolation: between two elements: linear, lower, higher, midpoint or nearest.

    Returns:
        The quantiles; for a 1-d `q` they are the first dimension.

    Example:
        >>> torch.quantile(torch.tensor([0.0, 1.0, 2.0, 3.0]), 0.5)
        tensor(1.5000)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation)


@function
@method
def nanquantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Quantiles of the elements that are not nan.

    Args:
        input: a tensor of float32 or float64.
        q: one fraction in [0, 1], or a 1-d tensor of them.
        dim: the dimension to reduce; None takes all elements.
        keepdim: keep the reduced dimension with size 1.
        interpolation: between two elements: linear, lower, higher, midpoint or nearest.

    Returns:
        The quantiles; for a 1-d `q` they are the first dimension.

    Example:
        >>> torch.nanquantile(torch.tensor([0.0, float("nan"), 2.0]), 0.5)
        tensor(1.)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation)


@function
@method
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Covariance matrix of variables given as rows, with observations as columns.

    Args:
        input: a matrix, or a vector for one variable.
        correction: what to subtract from the number of observations in the divisor.
        fweights: how many times each observation counts, integers.
        aweights: the importance of each observation.

    Returns:
        A square matrix, 0-d for one variable.

    Example:
        >>> torch.cov(torch.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    expect_tensor("cov", "input", input)
    if input.dim() > 2:
        raise RuntimeError(f"cov: expected at most 2 dimensions, got shape {tuple(input.shape)}")
    if input.dtype == _C.bool:
        raise RuntimeError("cov: expected a number dtype, got bool")
    rows = input.reshape(1, -1) if input.dim() < 2 else input
    count = rows.shape[1]
    weights = _observation_weights(count, fweights, aweights)
    if weights is None:
        total: Any = count
        mean = rows.sum(1, keepdim=True) / count
        divisor: Any = max(count - correction, 0)
    else:
        total = weights.sum()
        mean = (rows * weights).sum(1, keepdim=True) / total
        shrink = (weights * aweights).sum() / total if aweights is not None else 1
        divisor = (total - correction * shrink).clamp(min=0)
    centred = rows - mean
    scaled = centred if weights is None else centred * weights
    result = centred.mm(scaled.t()) / divisor
    return result.squeeze() if input.dim() < 2 or rows.shape[0] == 1 else result


def _observation_weights(
    count: int, fweights: Tensor | None, aweights: Tensor | None
) -> Tensor | None:
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is None:
            continue
        if weights.dim() > 1 or weights.numel() != count:
            raise RuntimeError(
                f"cov: expected {name} to hold one weight for each of the {count} observations, "
                f"got shape {tuple(weights.shape)}"
            )
        if weights.dtype.is_floating_point != (name == "aweights"):
            kind = "a floating" if name == "aweights" else "an integer"
            raise RuntimeError(f"cov: expected {name} of {kind} dtype, got {weights.dtype}")
        if bool((weights < 0).any()):
            raise RuntimeError(f"cov: expected {name} that are not negative")
    if fweights is None or aweights is None:
        return aweights if fweights is None else fweights
    return fweights * aweights


@function
@method
def corrcoef(input: Tensor) -> Tensor:
    """Pearson correlation matrix of variables given as rows, with observations as columns.

    Args:
        input: a matrix, or a vector for one variable.

    Returns:
        A square matrix with values in [-1, 1], 0-d for one variable.

    Example:
        >>> torch.corrcoef(torch.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    expect_tensor("corrcoef", "input", input)
    if input.dim() > 2:
        raise RuntimeError(
            f"corrcoef: expected at most 2 dimensions, got shape {tuple(input.shape)}"
        )
    covariance = cov(input)
    if covariance.dim() == 0:
        return covariance / covariance
    deviation = diagonal(covariance).sqrt()
    return (covariance / deviation.unsqueeze(1) / deviation).clamp(-1, 1)
