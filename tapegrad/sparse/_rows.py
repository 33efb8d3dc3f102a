"""Rows of a table, whose gradient is sparse."""

from typing import Any

from tapegrad._C import Tensor
from tapegrad._types import sparse_coo
from tapegrad.autograd.function import Function
from tapegrad.sparse._history import build
from tapegrad.sparse._parts import Parts

__all__ = ["SparseEmbedding"]


class SparseEmbedding(Function):
    """Rows that indices name. The gradient of the table has a term for each of them."""

    @staticmethod
    def forward(
        ctx: Any, table: Tensor, index: Tensor, padding: int | None, by_frequency: bool
    ) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape, ctx.padding, ctx.by_frequency = table.shape, padding, by_frequency
        return table.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        if ctx.by_frequency:
            raise RuntimeError(
                "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
            )
        (index,) = ctx.saved_tensors
        if ctx.padding is not None:
            kept = (index != ctx.padding).nonzero().squeeze(1)
            index, grad = index.index_select(0, kept), grad.index_select(0, kept)
        else:
            index = index.clone()  # the caller's own may be written to
        parts = Parts(sparse_coo, grad.detach(), index.unsqueeze(0), coalesced=len(index) < 2)
        return build(parts, grad, ctx.shape), None, None, None
