"""How sparse tensors take part in gradients.

Two recorded functions lead from dense tensors to sparse ones and back, `build` and `values_of`;
every rule is made of them and of dense ops, so it has gradients of any order. The gradient of a
sparse tensor is sparse or dense. It is one of the *matrix*: an element that is stored in two terms
has one gradient, and each term gets it.
"""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import sparse_coo
from tapegrad.autograd.function import Function
from tapegrad.sparse._order import coalescing, flat_places, places_among
from tapegrad.sparse._parts import Parts, make

__all__ = ["build", "parts_of", "values_of"]

parts_of = _C._sparse_parts


def is_sparse(x: Any) -> bool:
    """Return whether something is a sparse tensor, of any layout."""
    return isinstance(x, _C._SparseBase)


def build(parts: Parts, values: Tensor, shape: Any) -> Tensor:
    """Return a sparse tensor with the places of parts and values that may have a history."""
    if _C._tangent_levels(values):
        raise NotImplementedError(
            "forward mode: sparse tensors have no tangents; use .to_dense(), or reverse mode"
        )
    if _C.is_grad_enabled() and values.requires_grad:
        return SparseBuild.apply(values, parts, shape)
    return make(parts.with_values(values.detach() if values.requires_grad else values), shape)


def values_of(x: Tensor) -> Tensor:
    """Return the values of a sparse tensor, with its history."""
    if _C.is_grad_enabled() and x.requires_grad:
        return SparseValues.apply(x)
    return parts_of(x).values.detach()


def chosen(grad: Tensor, parts: Parts, shape: Any) -> Tensor:
    """Return the elements of a gradient at the places of parts, in their order."""
    if is_sparse(grad):
        theirs = parts_of(grad)
        if theirs.same_places(parts):
            return values_of(grad)
        return _sparse_elements(grad, parts, shape)
    count = parts.coordinates(shape).shape[0]
    flat = flat_places(parts.coordinates(shape), shape)
    rows = 1
    for size in shape[:count]:
        rows *= size
    return grad.reshape(rows, *shape[count:]).index_select(0, flat)


def _sparse_elements(grad: Tensor, parts: Parts, shape: Any) -> Tensor:
    theirs = parts_of(grad)
    wanted = parts.coordinates(shape)
    indices = theirs.coordinates(shape)
    if indices.shape[0] != wanted.shape[0]:
        from tapegrad.sparse._convert import to_dense

        return chosen(to_dense(grad), parts, shape)
    values = values_of(grad)
    if not theirs.coalesced:
        indices, values = _coalesced_values(theirs, values, shape)
    found, place = places_among(flat_places(indices, shape), flat_places(wanted, shape))
    if indices.shape[1] == 0:
        return values.new_zeros((wanted.shape[1], *values.shape[1:]))
    picked = values.index_select(0, place)
    return picked * found.to(picked.dtype).reshape(-1, *[1] * (picked.dim() - 1))


def _coalesced_values(parts: Parts, values: Tensor, shape: Any) -> tuple[Tensor, Tensor]:
    merged = coalescing(parts, shape)
    return merged.indices, merged.sum(values)


class SparseBuild(Function):
    """Values become those of a sparse tensor."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, parts: Parts, shape: Any) -> Tensor:
        ctx.set_materialize_grads(False)
        result = make(parts.with_values(values.detach()), shape)
        ctx.parts, ctx.shape = parts, shape
        ctx.save_for_backward(*parts._places())  # so that writes to them are noticed
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> Any:
        _ = ctx.saved_tensors  # checked
        return None if grad is None else chosen(grad, ctx.parts, ctx.shape), None, None


class SparseValues(Function):
    """The values of a sparse tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        parts = parts_of(x)
        ctx.parts = parts.with_values(parts.values.new_empty(0))
        ctx.shape = x.shape
        ctx.save_for_backward(*parts._places())
        return parts.values.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> Tensor | None:
        _ = ctx.saved_tensors  # checked
        if grad is None:
            return None
        if ctx.parts.coalesced:
            return build(ctx.parts, grad, ctx.shape)
        # Terms of one element have the same gradient: that of the first stands for all.
        merged = coalescing(ctx.parts, ctx.shape)
        parts = Parts(sparse_coo, grad, merged.indices)
        return build(parts, grad.index_select(0, merged.firsts()), ctx.shape)
