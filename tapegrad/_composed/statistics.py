"""Order statistics, covariance, and reductions that skip nan."""

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad._composed import return_types
from tapegrad._composed.arguments import expect_tensor, takes_out, wrap_dim
from tapegrad._composed.registry import function, method

__all__ = [
    "aminmax",
    "corrcoef",
    "cov",
    "hash_tensor",
    "nanmean",
    "nanmedian",
    "nanquantile",
    "nansum",
    "quantile",
]

_Dims = int | Sequence[int] | None


@function
@method
@takes_out()
@casts()
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
    if input.is_complex():
        raise RuntimeError("nansum: does not support complex inputs; use where() and sum()")
    if input.dtype.is_floating_point:
        input = input.masked_fill(input.isnan(), 0)
    return input.sum(dim, keepdim=keepdim, dtype=dtype)


@function
@method
@takes_out()
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
@method
@takes_out()
def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False
) -> return_types.aminmax:
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
    if dim is not None:
        dim = wrap_dim("aminmax", operator.index(dim), input.dim())
    if input.numel() == 0 and (dim is None or input.shape[dim] == 0):
        raise RuntimeError(
            "aminmax: cannot compute aminmax over an empty dimension as the operation has no "
            f"identity, got shape {tuple(input.shape)}"
        )
    dims = () if dim is None else dim
    return return_types.aminmax(
        input.amin(dims, keepdim=keepdim), input.amax(dims, keepdim=keepdim)
    )


def _share_among_ties(input: Tensor, value: Tensor) -> Tensor:
    """Return the value as a function of all elements equal to it: they share its gradient."""
    if not value.requires_grad:
        return value
    ties = input.masked_select(input == value)
    # Nothing equals nan, which therefore keeps the single element it was read from.
    return ties.amax() if ties.numel() else value


@function
@method
@takes_out()
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
    expect_tensor("nanmedian", "input", input)
    if input.dtype == _C.bool:
        raise NotImplementedError("nanmedian: expected a number dtype, got bool")
    if dim is None:
        if input.numel() == 0 and input.dtype.is_floating_point:
            return input.new_full((), float("nan"))
        flat = input.reshape(-1)
        return _share_among_ties(flat, nanmedian(flat, 0).values)
    dim = wrap_dim("nanmedian", dim, input.dim())
    if input.dim() == 0:
        return return_types.nanmedian(input.clone(), _C.zeros_like(input, dtype=_C.int64))
    if input.shape[dim] == 0:
        raise IndexError(
            f"nanmedian: expected dimension {dim} to have at least one element, "
            f"got shape {tuple(input.shape)}"
        )
    # nan sorts last: the median stands in the middle of what comes before.
    valid = input.detach().isnan().logical_not().sum(dim, keepdim=True)
    position = ((valid - 1).clamp(min=0) / 2).long()
    index = input.detach().argsort(dim=dim, stable=True).gather(dim, position)
    values = input.gather(dim, index)
    if keepdim:
        return return_types.nanmedian(values, index)
    return return_types.nanmedian(values.squeeze(dim), index.squeeze(dim))


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(
    name: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str
) -> Tensor:
    expect_tensor(name, "input", input)
    if input.dtype not in (_C.float32, _C.float64):
        raise RuntimeError(
            f"{name}() input tensor must be either float or double dtype, got {input.dtype}"
        )
    if input.numel() == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
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
            f"{name}() q tensor must be same dtype as the input tensor, {input.dtype}, got "
            f"{ratio.dtype}"
        )
    if ratio.dim() > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor, got {tuple(ratio.shape)}")
    if not bool(((ratio >= 0) & (ratio <= 1)).all()):
        raise RuntimeError(f"{name}() q values must be in the range [0, 1], got {ratio.tolist()}")
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
@takes_out(exact=True)
@casts(cpu="float32")
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
@takes_out(exact=True)
@casts(cpu="float32")
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
        if not total:
            raise RuntimeError("cov: weights sum to zero, can't be normalized")
        mean = (rows * weights).sum(1, keepdim=True) / total
        shrink = (weights * aweights).sum() / total if aweights is not None else 1
        divisor = (total - correction * shrink).clamp(min=0)
    centred = rows - mean
    scaled = centred if weights is None else centred * weights
    result = centred.mm(scaled.t().conj()) / divisor
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
    deviation = covariance.diagonal()
    if not covariance.is_complex():
        deviation = deviation.sqrt()
        return (covariance / deviation.unsqueeze(1) / deviation).clamp(-1, 1)
    deviation = deviation.real.sqrt()  # variances are real
    result = covariance / deviation.unsqueeze(1) / deviation
    return _C.view_as_complex(_C.view_as_real(result).clamp(-1, 1))


@function
@method
@takes_out()
def hash_tensor(
    input: Tensor, dim: _Dims = None, *, keepdim: bool = False, mode: int = 0
) -> Tensor:
    """Combine the bits of elements into one number, by exclusive or.

    Args:
        input: a tensor; elements count as those of float64 or int64 that have their value.
        dim: the dimension or dimensions to combine over; all if None.
        keepdim: whether these stay, with size one.
        mode: 0, the only way there is.

    Returns:
        A tensor of uint64.

    Example:
        >>> torch.hash_tensor(torch.tensor([[1, 2], [5, 6]]), 1)
        tensor([3, 3], dtype=torch.uint64)
    """
    if mode != 0:
        raise RuntimeError(f"hash_tensor: Unknown hash_tensor mode: {mode}")
    if input.is_complex():
        raise NotImplementedError(f"hash_tensor: not implemented for {input.dtype}")
    if dim is None and input.numel() == 0:
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify "
            "the reduction dim with the 'dim' argument."
        )
    dims = list(range(input.dim())) if dim is None or dim == () else dim
    listed = [dims] if isinstance(dims, int) else dims
    dims = sorted({wrap_dim("hash_tensor", d, input.dim()) for d in listed})
    for d in dims:
        if input.shape[d] == 0:
            raise IndexError(f"hash_tensor: Expected reduction dim {d} to have non-zero size.")
    kept = [d for d in range(input.dim()) if d not in dims]
    wide = input.detach().to(_C.float64 if input.is_floating_point() else _C.int64)
    count = prod(input.shape[d] for d in dims)
    bits = wide.permute([*kept, *dims]).reshape([*(input.shape[d] for d in kept), count])
    bits = bits.view(_C.int64)
    while bits.shape[-1] > 1:  # halves, so that there are few calls
        half = bits.shape[-1] // 2
        folded = _C.bitwise_xor(bits[..., :half], bits[..., half : 2 * half])
        bits = folded if bits.shape[-1] % 2 == 0 else _C.cat([folded, bits[..., 2 * half :]], -1)
    shape = [1 if d in dims else n for d, n in enumerate(input.shape) if keepdim or d not in dims]
    return bits.reshape(shape).view(_C.uint64)
