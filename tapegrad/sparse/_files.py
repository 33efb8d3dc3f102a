"""Sparse tensors in checkpoints: what is written of one, and how it is made again."""

from typing import Any

from tapegrad._C import Tensor
from tapegrad._types import sparse_csc, sparse_csr
from tapegrad.sparse._construct import sparse_compressed_tensor, sparse_coo_tensor
from tapegrad.sparse._history import parts_of

__all__ = ["described", "made_of"]


def described(x: Any) -> list[Any]:
    """Return the layout, marks, shape and parts of a tensor."""
    parts = parts_of(x)
    marks = [str(x.layout), parts.coalesced, x.requires_grad, tuple(x.shape)]
    return [*marks, *parts._places(), parts.values]


def made_of(layout: Any, coalesced: Any, requires_grad: Any, shape: Any, *parts: Any) -> Any:
    """Return the tensor that a file describes. The file may be anybody's: all is checked."""
    if type(shape) is not tuple or not all(type(size) is int for size in shape):
        raise ValueError("a sparse tensor without a shape")
    if not all(isinstance(part, Tensor) for part in parts):
        raise ValueError("a sparse tensor of something that is no tensor")
    options: dict[str, Any] = {"check_invariants": True, "requires_grad": requires_grad is True}
    try:
        if layout == "torch.sparse_coo" and len(parts) == 2:
            flag = True if coalesced is True else None
            return sparse_coo_tensor(*parts, shape, is_coalesced=flag, **options)
        for known in (sparse_csr, sparse_csc):
            if layout == str(known) and len(parts) == 3:
                return sparse_compressed_tensor(*parts, shape, layout=known, **options)
    except (RuntimeError, IndexError, TypeError) as error:
        raise ValueError(f"a sparse tensor that is damaged: {error}") from error
    raise ValueError(f"a sparse tensor of layout {layout!r:.40}")
