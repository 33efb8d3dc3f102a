"""Matrices from their diagonals."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import sparse_coo, sparse_csc, sparse_csr
from tapegrad.sparse._convert import to_layout
from tapegrad.sparse._history import build
from tapegrad.sparse._parts import Parts

__all__ = ["spdiags"]


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """Return a sparse matrix with the rows of a matrix on its diagonals.

    Element ``k`` of a row stands in column ``k``.

    Args:
        diagonals: a row for each diagonal.
        offsets: which diagonal each is: 0 the main one, above it positive, all distinct.
        shape: of the result.
        layout: of the result; `torch.sparse_coo` if None.

    Example:
        >>> torch.sparse.spdiags(torch.tensor([[1, 2, 3]]), torch.tensor([1]), (3, 3)).to_dense()
        tensor([[0, 2, 0],
                [0, 0, 3],
                [0, 0, 0]])
    """
    rows = diagonals.unsqueeze(0) if diagonals.dim() == 1 else diagonals
    steps = offsets.reshape(-1)
    if rows.dim() != 2:
        raise RuntimeError("spdiags: Diagonals must be vector or matrix")
    if len(shape) != 2:
        raise RuntimeError("spdiags: Output shape must be 2d")
    if offsets.dtype is not _C.int64:
        raise RuntimeError(f"spdiags: Offset Tensor must have dtype Long but got {offsets.dtype}")
    if steps.shape[0] != rows.shape[0]:
        raise RuntimeError(
            f"spdiags: Number of diagonals ({rows.shape[0]}) does not match the number of offsets "
            f"({steps.shape[0]})"
        )
    if steps.unique().shape[0] != steps.shape[0]:
        raise RuntimeError("spdiags: Offset tensor contains duplicate values")
    if layout not in (None, sparse_coo, sparse_csr, sparse_csc):
        raise RuntimeError(
            "spdiags: Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got "
            f"{layout}"
        )
    height, width = shape
    column = _C.arange(rows.shape[1]).expand(rows.shape)
    row = column - steps.unsqueeze(1)
    inside = (row >= 0) & (row < height) & (column < width)
    place = inside.reshape(-1).nonzero().squeeze(1)
    indices = _C.stack([row.reshape(-1), column.reshape(-1)]).index_select(1, place)
    values = rows.reshape(-1).index_select(0, place)
    result = build(
        Parts(sparse_coo, values.detach(), indices, coalesced=False), values, (height, width)
    )
    return result if layout in (None, sparse_coo) else to_layout(result, layout)
