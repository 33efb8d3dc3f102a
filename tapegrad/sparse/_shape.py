"""Shapes, selections and joins."""

from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import sparse_coo, sparse_csc, sparse_csr
from tapegrad.sparse._convert import coalesce, to_dense, to_sparse
from tapegrad.sparse._history import build, is_sparse, parts_of, values_of
from tapegrad.sparse._parts import Parts
from tapegrad.sparse._table import rule

__all__ = ["cat", "get_item", "select", "transpose", "unsqueeze"]


def _wrap(name: str, dim: int, rank: int) -> int:
    if not -rank <= dim < rank:
        raise IndexError(
            f"{name}: Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], "
            f"but got {dim})"
        )
    return dim % rank


def _coo_parts(name: str, x: Tensor) -> tuple[Parts, Tensor]:
    """Return parts with indices, and how the layout is told to be another one than expected."""
    if x.layout is not sparse_coo:
        raise NotImplementedError(
            f"{name}: layout {x.layout} is not supported; call .to_sparse() or .to_dense() first"
        )
    parts = parts_of(x)
    assert parts.indices is not None
    return parts, parts.indices


@rule("transpose", "swapaxes", "swapdims")
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Return the tensor with two dimensions swapped: both sparse, or both dense."""
    a, b = _wrap("transpose", dim0, input.dim()), _wrap("transpose", dim1, input.dim())
    if a == b:
        return input
    order = list(range(input.dim()))
    order[a], order[b] = b, a
    return permute(input, order)


@rule("permute")
def permute(input: Tensor, *dims: Any) -> Tensor:
    given = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    order = [_wrap("permute", d, input.dim()) for d in given]
    if sorted(order) != list(range(input.dim())):
        raise RuntimeError(
            f"permute: expected each of {input.dim()} dimensions once, got {list(given)}"
        )
    if order == list(range(input.dim())):
        return input
    parts, values = parts_of(input), values_of(input)
    shape = [input.shape[d] for d in order]
    if parts.layout is not sparse_coo:
        other = sparse_csc if parts.layout is sparse_csr else sparse_csr
        turned = Parts(other, parts.values, None, parts.starts, parts.plain)
        return build(turned, values, shape)
    assert parts.indices is not None
    count = parts.indices.shape[0]
    if sorted(order[:count]) != list(range(count)):
        raise RuntimeError(
            "permute: sparse dimensions change places with sparse ones alone, and dense ones with "
            f"dense ones, got {list(given)} for {count} sparse dimensions"
        )
    indices = parts.indices.index_select(0, _C.tensor(order[:count]))
    values = values.permute(0, *[d - count + 1 for d in order[count:]])
    same = order[:count] == list(range(count))
    turned = Parts(sparse_coo, parts.values, indices, coalesced=parts.coalesced and same)
    return build(turned, values, shape)


@rule("t")
def t(input: Tensor) -> Tensor:
    if input.dim() > 2:
        raise RuntimeError(f"t: expects a tensor with <= 2 dimensions, but self is {input.dim()}D")
    return input if input.dim() < 2 else transpose(input, 0, 1)


@rule("transpose_", "t_")
def transpose_(input: Tensor, dim0: int = 0, dim1: int = 1) -> Tensor:
    if _C.is_grad_enabled() and input.requires_grad:
        raise NotImplementedError("transpose_: in-place ops on sparse tensors are not recorded")
    result = transpose(input, dim0, dim1)
    parts_of(input).replace(parts_of(result))
    _C._sparse_reshape(input, tuple(result.shape))
    _C._sparse_wrote("transpose_", input)
    return input


@rule("unsqueeze")
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    parts, indices = _coo_parts("unsqueeze", input)
    place = _wrap("unsqueeze", dim, input.dim() + 1)
    shape = [*input.shape[:place], 1, *input.shape[place:]]
    values, count = values_of(input), indices.shape[0]
    if place > count:
        return build(parts, values.unsqueeze(place - count + 1), shape)
    zeros = indices.new_zeros((1, indices.shape[1]))
    rows = _C.cat([indices[:place], zeros, indices[place:]])
    return build(Parts(sparse_coo, parts.values, rows, coalesced=parts.coalesced), values, shape)


@rule("squeeze")
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    parts, indices = _coo_parts("squeeze", input)
    rank = input.dim()
    wanted = (
        range(rank) if dim is None
        else [_wrap("squeeze", d, rank) for d in ([dim] if isinstance(dim, int) else dim)]
    )  # fmt: skip
    gone = {d for d in wanted if input.shape[d] == 1}
    count = indices.shape[0]
    kept = [d for d in range(count) if d not in gone]
    values = values_of(input)
    for d in sorted((d for d in gone if d >= count), reverse=True):
        values = values.squeeze(d - count + 1)
    shape = [size for d, size in enumerate(input.shape) if d not in gone]
    if not kept and count:
        return values.sum(0)
    rows = indices.index_select(0, _C.tensor(kept, dtype=_C.int64))
    return build(Parts(sparse_coo, parts.values, rows, coalesced=parts.coalesced), values, shape)


@rule("select")
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """Return one position of a dimension: sparse, or dense if no sparse dimension is left."""
    x = input if input.layout is sparse_coo else to_sparse(input)
    parts, indices = _coo_parts("select", x)
    d = _wrap("select", dim, x.dim())
    size, count = x.shape[d], indices.shape[0]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(x.shape)} at dimension "
            f"{d}"
        )
    place = index % size
    shape = [*x.shape[:d], *x.shape[d + 1 :]]
    values = values_of(x)
    if d >= count:
        return build(parts, values.select(d - count + 1, place), shape)
    kept = (indices[d] == place).nonzero().squeeze(1)
    chosen = values.index_select(0, kept)
    if count == 1:
        return chosen.sum(0).to(chosen.dtype)
    rows = _C.cat([indices[:d], indices[d + 1 :]]).index_select(1, kept)
    return build(Parts(sparse_coo, parts.values, rows, coalesced=parts.coalesced), chosen, shape)


@rule("index_select")
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    if not is_sparse(input):
        raise NotImplementedError(
            "index_select: a sparse index is not supported; call .to_dense() first"
        )
    if is_sparse(index):
        raise NotImplementedError(
            "index_select: a sparse index is not supported; call .to_dense() first"
        )
    x = input if input.layout is sparse_coo else to_sparse(input)
    parts, indices = _coo_parts("index_select", x)
    d = _wrap("index_select", dim, x.dim())
    if index.dim() > 1 or index.dtype not in (_C.int64, _C.int32):
        raise RuntimeError("index_select(): expected a vector of integers as the index")
    wanted = index.reshape(-1).to(_C.int64)
    size, count = x.shape[d], indices.shape[0]
    if wanted.numel() and (int(wanted.min()) < -size or int(wanted.max()) >= size):
        raise IndexError(f"index_select(): index out of range for dimension of size {size}")
    wanted = _C.where(wanted < 0, wanted + size, wanted)
    shape = [*x.shape[:d], wanted.shape[0], *x.shape[d + 1 :]]
    values = values_of(x)
    if d >= count:
        return build(parts, values.index_select(d - count + 1, wanted), shape)
    # Each element goes to every place where its index is wanted.
    starts, order = _C._counting_order(wanted, size)
    begins = starts.index_select(0, indices[d])
    counts = starts.index_select(0, indices[d] + 1) - begins
    term = _C.repeat_interleave(_C.arange(counts.shape[0]), counts)
    before = counts.cumsum(0) - counts
    place = order.index_select(
        0, _C.arange(term.shape[0]) + (begins - before).index_select(0, term)
    )
    rows = indices.index_select(1, term)
    rows = _C.cat([rows[:d], place.unsqueeze(0), rows[d + 1 :]])
    chosen = values.index_select(0, term)
    result = build(Parts(sparse_coo, chosen.detach(), rows, coalesced=False), chosen, shape)
    return coalesce(result) if parts.coalesced else result


@rule("narrow_copy")
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    d = _wrap("narrow_copy", dim, input.dim())
    start = start + input.shape[d] if start < 0 else start
    if start < 0 or length < 0 or start + length > input.shape[d]:
        raise RuntimeError(
            f"narrow_copy: start ({start}) + length ({length}) exceeds dimension size "
            f"({input.shape[d]})"
        )
    return index_select(input, d, _C.arange(start, start + length))


def get_item(x: Tensor, key: Any) -> Tensor:
    """Return ``x[key]`` for integers, full slices, None and an ellipsis."""
    keys = list(key) if isinstance(key, tuple) else [key]
    given = sum(1 for each in keys if each is not None and each is not ...)
    if given > x.dim():
        raise IndexError(f"too many indices for tensor of dimension {x.dim()}")
    for at, each in enumerate(keys):
        if each is ...:
            keys[at : at + 1] = [slice(None)] * (x.dim() - given)
            break
    dim, result = 0, x
    for each in keys:
        if each is None:
            result = unsqueeze(result, dim) if is_sparse(result) else result.unsqueeze(dim)
            dim += 1
        elif isinstance(each, int) and not isinstance(each, bool):
            result = result.select(dim, each)
        elif isinstance(each, slice) and each == slice(None):
            dim += 1
        else:
            raise NotImplementedError(
                "Tensor.__getitem__: of a sparse tensor, integers, None and : are supported; use "
                "index_select(), or call .to_dense() first"
            )
    return result


@rule("cat", "concat", "concatenate")
def cat(tensors: Sequence[Tensor], dim: int = 0, *, axis: int | None = None) -> Tensor:
    """Return sparse tensors joined along a dimension."""
    for position, x in enumerate(tensors):
        if not is_sparse(x):
            raise RuntimeError(
                "Concatenating sparse tensors, but a dense tensor was found at position "
                f"{position}."
            )
    first = tensors[0]
    d = _wrap("cat", dim if axis is None else axis, first.dim())
    all_parts = [_coo_parts("cat", x) for x in tensors]
    count = all_parts[0][1].shape[0]
    for x, (_, indices) in zip(tensors, all_parts, strict=True):
        others = [size for k, size in enumerate(x.shape) if k != d]
        if indices.shape[0] != count or others != [s for k, s in enumerate(first.shape) if k != d]:
            raise RuntimeError(
                "cat: all tensors must have the same sizes, except in the dimension that is "
                f"joined, and the same sparse dimensions, got {list(first.shape)} and "
                f"{list(x.shape)}"
            )
    dtype = first.dtype
    for x in tensors:
        dtype = _C.promote_types(dtype, x.dtype)
    shape = list(first.shape)
    shape[d] = sum(x.shape[d] for x in tensors)
    values = [values_of(x).to(dtype) for x in tensors]
    rows, widened, before = [], [], 0
    for x, (_, indices), each in zip(tensors, all_parts, values, strict=True):
        if d < count:
            shift = indices.new_zeros((count, 1))
            shift[d] = before
            rows.append(indices + shift)
            widened.append(each)
        else:
            k = d - count + 1
            left, right = list(each.shape), list(each.shape)
            left[k], right[k] = before, shape[d] - before - x.shape[d]
            widened.append(_C.cat([each.new_zeros(left), each, each.new_zeros(right)], k))
            rows.append(indices)
        before += x.shape[d]
    joined = _C.cat(widened)
    sorted_still = d == 0 and d < count and all(parts.coalesced for parts, _ in all_parts)
    parts = Parts(sparse_coo, joined.detach(), _C.cat(rows, 1), coalesced=sorted_still)
    return build(parts, joined, shape)


@rule("stack")
def stack(tensors: Sequence[Tensor], dim: int = 0, *, axis: int | None = None) -> Tensor:
    for position, x in enumerate(tensors):
        if not is_sparse(x):
            raise RuntimeError(
                "Concatenating sparse tensors, but a dense tensor was found at position "
                f"{position}."
            )
    d = _wrap("stack", dim if axis is None else axis, tensors[0].dim() + 1)
    return cat([unsqueeze(x, d) for x in tensors], d)


@rule("sparse_mask")
def sparse_mask(input: Tensor, mask: Tensor) -> Tensor:
    from tapegrad.sparse import _convert

    return _convert.sparse_mask(input, mask)


@rule("to_dense")
def dense(input: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    return to_dense(input, dtype, masked_grad=masked_grad)
