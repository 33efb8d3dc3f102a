"""What is said where a layout is not the one expected."""

from typing import Any, NoReturn

from tapegrad._types import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr

__all__ = ["check_coo", "check_not_blocks", "layout_name", "refuse"]

_NAMES = {
    sparse_coo: "Sparse", sparse_csr: "SparseCsr", sparse_csc: "SparseCsc", sparse_bsr: "SparseBsr",
    sparse_bsc: "SparseBsc",
}  # fmt: skip


def layout_name(layout: Any) -> str:
    """Return what PyTorch's messages call a layout."""
    return _NAMES.get(layout, "Strided")


def check_coo(name: str, x: Any) -> None:
    """Raise PyTorch's error unless a tensor is of layout sparse_coo."""
    if x.layout is not sparse_coo:
        raise RuntimeError(
            f"{name} expected sparse coordinate tensor layout but got {layout_name(x.layout)}"
        )


def check_not_blocks(name: str, layout: Any) -> None:
    """Refuse layouts of blocks."""
    if layout in (sparse_bsr, sparse_bsc):
        other = "torch.sparse_csr" if layout is sparse_bsr else "torch.sparse_csc"
        raise NotImplementedError(f"{name}: {layout} is not supported; use {other}")


def refuse(name: str) -> NoReturn:
    """Refuse an op that has no rule for sparse tensors."""
    raise NotImplementedError(f"{name}: sparse tensors are not supported; call .to_dense() first")
