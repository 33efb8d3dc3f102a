"""Between dense tensors and sparse ones, and between sparse layouts."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import layout as _layout
from tapegrad._types import sparse_coo, sparse_csc, sparse_csr, strided
from tapegrad.sparse._errors import check_coo, check_not_blocks, layout_name
from tapegrad.sparse._history import build, chosen, is_sparse, parts_of, values_of
from tapegrad.sparse._order import coalescing, flat_places
from tapegrad.sparse._parts import Parts

__all__ = ["coalesce", "sparse_mask", "to_dense", "to_layout", "to_sparse"]


def to_dense(x: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """Return the elements as a dense tensor.

    Args:
        x: a sparse tensor.
        dtype: of the result; that of the tensor if None.
        masked_grad: whether the gradient is that of the elements that are stored alone; it is
            unless this is False, when every element has one.
    """
    if masked_grad is False and _C.is_grad_enabled() and x.requires_grad:
        raise NotImplementedError(
            "to_dense: masked_grad=False is not supported; the gradient is that of the elements "
            "that are stored"
        )
    parts = parts_of(x)
    values = values_of(x)
    shape, indices = x.shape, parts.coordinates(x.shape)
    count = indices.shape[0]
    rows = 1
    for size in shape[:count]:
        rows *= size
    merged = values.dtype is _C.bool
    if merged:
        values = values.to(_C.int64)
    if parts.coalesced or values.shape[0] == 0:
        flat = values.new_zeros((rows, *shape[count:])).index_copy(
            0, flat_places(indices, shape), values
        )
    else:
        flat = values.new_zeros((rows, *shape[count:])).index_add(
            0, flat_places(indices, shape), values
        )
    if merged:
        flat = flat != 0
    result = flat.reshape(shape)
    return result if dtype is None else result.to(dtype)


def coalesce(x: Tensor) -> Tensor:
    """Return the tensor with its indices sorted and each of them once."""
    check_coo("coalesce", x)
    parts = parts_of(x)
    if parts.coalesced:
        return x
    merged = coalescing(parts, x.shape)
    values = merged.sum(values_of(x))
    return build(Parts(sparse_coo, parts.values, merged.indices), values, x.shape)


def coalesced_parts(x: Tensor) -> tuple[Parts, Tensor]:
    """Return parts without repeated indices, and the values with their history."""
    parts = parts_of(x)
    if parts.coalesced:
        return parts, values_of(x)
    merged = coalescing(parts, x.shape)
    values = merged.sum(values_of(x))
    return Parts(sparse_coo, values.detach(), merged.indices), values


def to_sparse(
    x: Tensor, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None,
    dense_dim: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the elements of a tensor that are not zero, in a sparse layout."""
    if layout is not None and not isinstance(layout, _layout):
        raise TypeError(f"to_sparse(): argument 'layout' must be torch.layout, not {layout!r}")
    if sparse_dim is not None and (layout is not None or dense_dim is not None):
        raise RuntimeError(
            "to_sparse: conversion with sparse_dim argument given does not take layout or dense_dim"
        )
    wanted = sparse_coo if layout is None else layout
    check_not_blocks("to_sparse", wanted)
    if blocksize is not None:
        raise RuntimeError(
            f"to_sparse: conversion to {wanted} with blocksize argument given is not supported"
        )
    if wanted is strided:
        raise RuntimeError(
            "to_sparse: expected a sparse layout, got torch.strided; use .to_dense()"
        )
    if wanted is not sparse_coo:
        return to_layout(x, wanted, dense_dim)
    if is_sparse(x):
        return _as_coo(x, sparse_dim)
    count = x.dim() - (dense_dim or 0) if sparse_dim is None else sparse_dim
    if not (0 < count <= x.dim() or count == x.dim() == 0):
        raise RuntimeError(
            f"to_sparse: sparse_dim argument should be in >0 and <= {x.dim()}, got {count}"
        )
    return _from_dense(x, count)


def _from_dense(x: Tensor, count: int) -> Tensor:
    seen = x.detach() != 0
    if count < x.dim():
        seen = seen.flatten(count).any(-1)
    indices = seen.nonzero().t().contiguous()
    shape = x.shape
    rows = 1
    for size in shape[:count]:
        rows *= size
    flat = x.reshape(rows, *shape[count:])
    values = flat.index_select(0, flat_places(indices, shape))
    return build(Parts(sparse_coo, values.detach(), indices), values, shape)


def _as_coo(x: Tensor, sparse_dim: int | None) -> Tensor:
    parts = parts_of(x)
    if parts.layout is sparse_coo:
        if sparse_dim is not None and sparse_dim != parts.coordinates(x.shape).shape[0]:
            return _from_dense(to_dense(x), sparse_dim)
        return x
    if sparse_dim not in (None, 2):
        raise RuntimeError(
            f"to_sparse: conversion from {layout_name(parts.layout)} to Sparse with sparse_dim "
            f"{sparse_dim} is not supported"
        )
    indices, values = parts.coordinates(x.shape), values_of(x)
    if parts.layout is sparse_csc:
        merged = coalescing(Parts(sparse_coo, parts.values, indices, coalesced=False), x.shape)
        return build(Parts(sparse_coo, parts.values, merged.indices), merged.sum(values), x.shape)
    return build(Parts(sparse_coo, parts.values, indices, coalesced=_is_sorted(parts)), values,
                 x.shape)  # fmt: skip


def _is_sorted(parts: Parts) -> bool:
    """Return whether the columns of each row rise."""
    indices = parts.coordinates(())
    if indices.shape[1] < 2:
        return True
    same = indices[0, 1:] == indices[0, :-1]
    return not bool((same & (indices[1, 1:] <= indices[1, :-1])).any())


def to_layout(x: Tensor, wanted: Any, dense_dim: int | None = None) -> Tensor:
    """Return a matrix in layout sparse_csr or sparse_csc."""
    name = "to_sparse_csr" if wanted is sparse_csr else "to_sparse_csc"
    if dense_dim:
        raise NotImplementedError(
            f"{name}: dense_dim is not supported; use a hybrid tensor of layout torch.sparse_coo"
        )
    if is_sparse(x) and parts_of(x).layout is wanted:
        return x
    coo = to_sparse(x) if not is_sparse(x) or parts_of(x).layout is not sparse_coo else x
    if coo.dim() != 2 or parts_of(coo).coordinates(coo.shape).shape[0] != 2:
        raise RuntimeError(
            f"{name}: expected a matrix with two sparse dimensions, got shape {list(coo.shape)}; "
            "batches are not supported, use a list of matrices"
        )
    parts, values = coalesced_parts(coo)
    assert parts.indices is not None
    row, column = parts.indices.unbind(0)
    if wanted is sparse_csr:
        starts, _ = _C._counting_order(row, x.shape[0])
        return build(Parts(sparse_csr, values.detach(), None, starts, column.contiguous()), values,
                     x.shape)  # fmt: skip
    starts, order = _C._counting_order(column, x.shape[1])
    values = values.index_select(0, order)
    return build(Parts(sparse_csc, values.detach(), None, starts, row.index_select(0, order)),
                 values, x.shape)  # fmt: skip


def sparse_mask(x: Tensor, mask: Tensor) -> Tensor:
    """Return the elements of a tensor at the places of a sparse one."""
    if not is_sparse(mask):
        raise NotImplementedError(
            "sparse_mask: expected a sparse mask, got a dense one; use x * mask, or "
            "mask.to_sparse()"
        )
    if x.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(x.shape)} but "
            f"mask has size {list(mask.shape)}"
        )
    parts = parts_of(mask)
    values = chosen(x, parts, x.shape)
    return build(parts.with_values(values.detach()), values, x.shape)
