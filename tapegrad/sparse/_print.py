"""How a sparse tensor prints: character for character as PyTorch prints it."""

from typing import Any

from tapegrad import _C
from tapegrad._tensor_str import _body, _with_suffixes, get_printoptions
from tapegrad._types import sparse_coo, sparse_csr
from tapegrad.sparse._history import parts_of

__all__ = ["sparse_str"]


def sparse_str(x: Any) -> str:
    """Return what ``repr(x)`` shows."""
    parts = parts_of(x)
    indent = len("tensor(")
    if parts.layout is sparse_coo:
        pieces = [("indices", parts.indices)]
    elif parts.layout is sparse_csr:
        pieces = [("crow_indices", parts.starts), ("col_indices", parts.plain)]
    else:
        pieces = [("ccol_indices", parts.starts), ("row_indices", parts.plain)]
    texts = [f"{name}={_piece(part, indent + len(name) + 8)}" for name, part in pieces]
    texts.append(f"values={_piece(parts.values, indent + 14)}")
    gap = ",\n" + " " * indent
    suffixes = [f"size={tuple(x.shape)}", f"nnz={parts.values.shape[0]}"]
    if x.dtype not in _evident(parts):
        suffixes.append(f"dtype={x.dtype}")
    suffixes.append(f"layout={x.layout}")
    if x.grad_fn is not None:
        suffixes.append(f"grad_fn=<{x.grad_fn.name()}>")
    elif x.requires_grad:
        suffixes.append("requires_grad=True")
    text = "tensor(" + gap.join(texts)
    if parts.layout is not sparse_coo:
        return _with_suffixes(text, suffixes, indent) + ")"
    return text + gap + _wrapped(suffixes, indent) + ")"


def _wrapped(suffixes: list[str], indent: int) -> str:
    text, column = suffixes[0], indent + len(suffixes[0])
    for suffix in suffixes[1:]:
        if column + len(suffix) + 2 > get_printoptions()["linewidth"]:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text


def _evident(parts: Any) -> list[Any]:
    default = _C.get_default_dtype()
    complex_default = _C.complex128 if default is _C.float64 else _C.complex64
    return [default, complex_default, _C.int64, _C.bool]


def _piece(part: Any, indent: int) -> str:
    text = "tensor(" + _body(part, indent)
    if part.numel() == 0:
        text += f", size={tuple(part.shape)}"
    return text + ")"
