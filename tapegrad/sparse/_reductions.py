"""Sums, norms and softmax over what is stored."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import sparse_coo
from tapegrad.sparse._convert import coalesce, coalesced_parts
from tapegrad.sparse._errors import check_coo
from tapegrad.sparse._history import build, is_sparse, parts_of, values_of
from tapegrad.sparse._order import Merged, coalescing
from tapegrad.sparse._parts import Parts
from tapegrad.sparse._table import rule

__all__ = ["log_softmax", "softmax", "sum"]


def _dims(name: str, dim: Any, rank: int) -> list[int]:
    given = [dim] if isinstance(dim, int) else list(dim)
    wrapped = []
    for each in given:
        if not -rank <= each < rank:
            raise IndexError(
                f"{name}: Dimension out of range (expected to be in range of [{-rank}, "
                f"{rank - 1}], but got {each})"
            )
        wrapped.append(each % rank)
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError(f"{name}: dim {given} appears multiple times in the list of dims")
    return sorted(wrapped)


@rule("sum")
def sum_of(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Return the sum: dense over all dimensions or all sparse ones, else sparse."""
    values = values_of(input)
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        if keepdim:
            raise NotImplementedError("sum: keepdim over all dimensions needs .to_dense() first")
        return values.sum(dtype=dtype)
    if input.layout is not sparse_coo:
        raise NotImplementedError(
            f"sum: over dimensions of layout {input.layout} is not supported; call .to_sparse() "
            "first"
        )
    result = _sum_over(input, _dims("sum", dim, input.dim()), dtype)
    if not keepdim:
        return result
    from tapegrad.sparse._shape import unsqueeze

    for each in _dims("sum", dim, input.dim()):
        result = unsqueeze(result, each) if is_sparse(result) else result.unsqueeze(each)
    return result


def _sum_over(x: Tensor, dims: list[int], dtype: Any) -> Tensor:
    parts = parts_of(x)
    values = values_of(x)
    indices = parts.coordinates(x.shape)
    count = indices.shape[0]
    wide = values.sum(0, dtype=dtype).dtype
    values = values.to(wide)
    dense = [d - count + 1 for d in dims if d >= count]
    if dense:
        values = values.sum(dense)
    shape = [size for d, size in enumerate(x.shape) if d not in dims]
    kept = [d for d in range(count) if d not in dims]
    if not kept:
        return values.sum(0)
    if len(kept) == count:
        left = Parts(sparse_coo, values.detach(), indices, coalesced=parts.coalesced)
        return build(left, values, shape)
    rows = indices.index_select(0, _C.tensor(kept))
    left = Parts(sparse_coo, values.detach(), rows, coalesced=False)
    return coalesce(build(left, values, shape))


def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """Return the sum of a sparse tensor over some dimensions.

    Args:
        input: of layout sparse_coo.
        dim: one dimension or several; all if None, or all sparse ones, for a dense result.
        dtype: of the result.

    Example:
        >>> x = torch.sparse_coo_tensor([[0, 1], [2, 2]], [3.0, 4.0], (2, 3))
        >>> torch.sparse.sum(x, 0).to_dense()
        tensor([0., 0., 7.])
    """
    check_coo("sum", input)
    return sum_of(input, dim, dtype=dtype)


@rule("norm")
def norm(
    input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    """Return the norm over all elements."""
    if dim is not None or keepdim:
        raise NotImplementedError("norm: over dimensions, call .to_dense() first")
    _, values = coalesced_parts(input)
    return values.norm(2 if p in ("fro", None) else p, dtype=dtype)


@rule("any")
def any(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    if dim is not None or keepdim:
        raise NotImplementedError("any: over dimensions, call .to_dense() first")
    return coalesced_parts(input)[1].any()


@rule("count_nonzero")
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    if dim is not None:
        raise NotImplementedError("count_nonzero: over dimensions, call .to_dense() first")
    return coalesced_parts(input)[1].count_nonzero()


# ---- softmax


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Return the softmax along a dimension, over elements that are stored.

    An element that is not stored counts as minus infinity, so its probability is zero.

    Args:
        input: of layout sparse_coo.
        dim: the dimension.
        dtype: of the result.

    Example:
        >>> x = torch.sparse_coo_tensor([[0, 0], [0, 2]], [1.0, 1.0], (1, 3))
        >>> torch.sparse.softmax(x, 1).to_dense()
        tensor([[0.5000, 0.0000, 0.5000]])
    """
    return _softmax("softmax", input, dim, dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Return the logarithm of the softmax along a dimension, over elements that are stored.

    Args:
        input: of layout sparse_coo.
        dim: the dimension.
        dtype: of the result.

    Example:
        >>> x = torch.sparse_coo_tensor([[0, 0], [0, 2]], [1.0, 1.0], (1, 3))
        >>> torch.sparse.log_softmax(x, 1).values()
        tensor([-0.6931, -0.6931])
    """
    return _softmax("log_softmax", input, dim, dtype)


def _softmax(name: str, x: Tensor, dim: int, dtype: Any) -> Tensor:
    check_coo(name, x)
    (d,) = _dims(name, dim, x.dim())
    parts, values = coalesced_parts(x)
    assert parts.indices is not None
    if dtype is not None:
        values = values.to(dtype)
    if not values.dtype.is_floating_point:
        raise NotImplementedError(
            f"{name}: expected a floating dtype, got {values.dtype}; call .float() first"
        )
    count = parts.indices.shape[0]
    if d >= count:
        function = _C.softmax if name == "softmax" else _C.log_softmax
        result = function(values, d - count + 1)
        return build(parts, result, x.shape)
    if values.shape[0] == 0:
        return build(parts, values, x.shape)
    others = [k for k in range(count) if k != d]
    groups, group_count = _groups(parts, others, x.shape)
    flat = values.reshape(values.shape[0], -1)
    with_one = groups.unsqueeze(1).expand_as(flat)
    highest = flat.new_full((group_count, flat.shape[1]), -float("inf")).scatter_reduce(
        0, with_one, flat.detach(), "amax"
    )
    # A group of minus infinities alone has no maximum to take away.
    highest = highest.masked_fill(highest.isinf() & (highest < 0), 0)
    shifted = flat - highest.index_select(0, groups)
    powers = shifted.exp()
    totals = flat.new_zeros((group_count, flat.shape[1])).index_add(0, groups, powers)
    each = totals.index_select(0, groups)
    result = powers / each if name == "softmax" else shifted - each.log()
    return build(parts, result.reshape(values.shape), x.shape)


def _groups(parts: Parts, others: list[int], shape: Any) -> tuple[Tensor, int]:
    """Return which elements differ in one dimension alone, as numbers of groups."""
    assert parts.indices is not None
    if not others:
        return _C.zeros(parts.indices.shape[1], dtype=_C.int64), 1
    rows = parts.indices.index_select(0, _C.tensor(others))
    merged: Merged = coalescing(
        Parts(sparse_coo, parts.values, rows, coalesced=False), [shape[k] for k in others]
    )
    numbers = _C.repeat_interleave(_C.arange(merged.indices.shape[1]), merged.starts.diff())
    groups = _C.empty_like(numbers).index_copy_(0, merged.order, numbers)
    return groups, merged.indices.shape[1]
