"""The standard's extension ``linalg``: linear algebra."""

from typing import Any, NamedTuple

import tapegrad as torch
from tapegrad import Tensor
from tapegrad.compat.array_api import _reductions
from tapegrad.compat.array_api._dtypes import promoted
from tapegrad.compat.array_api._manipulation import Axes, axis_of
from tapegrad.compat.array_api._products import matmul, matrix_transpose, tensordot, vecdot

__all__ = [
    "EighResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


class EighResult(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """What `qr` returns."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """What `slogdet` returns."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """What `svd` returns."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """Return triangular factors of positive definite matrices."""
    return torch.linalg.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return cross products of vectors with three elements along an axis."""
    x1, x2 = torch.broadcast_tensors(*promoted(x1, x2))
    return torch.linalg.cross(x1, x2, dim=axis)


def det(x: Tensor, /) -> Tensor:
    """Return the determinants of matrices."""
    return torch.linalg.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Return the diagonals of matrices."""
    return torch.diagonal(x, offset, -2, -1)


def eigh(x: Tensor, /) -> EighResult:
    """Return eigenvalues and eigenvectors of symmetric or Hermitian matrices."""
    return EighResult(*torch.linalg.eigh(x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Return eigenvalues of symmetric or Hermitian matrices."""
    return torch.linalg.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """Return the inverses of matrices."""
    return torch.linalg.inv(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Return norms of matrices."""
    return torch.linalg.matrix_norm(x, "fro" if ord is None else ord, (-2, -1), keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Return integer powers of square matrices."""
    return torch.linalg.matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Return the ranks of matrices: how many singular values are above a part of the largest."""
    return torch.linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Return the products of each element of a vector and each of another."""
    return torch.outer(*promoted(x1, x2))


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Return the pseudo-inverses of matrices."""
    return torch.linalg.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> QRResult:
    """Return orthogonal and triangular factors of matrices."""
    return QRResult(*torch.linalg.qr(x, mode))


def slogdet(x: Tensor, /) -> SlogdetResult:
    """Return signs of determinants and logarithms of their absolute values."""
    return SlogdetResult(*torch.linalg.slogdet(x))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Return the solutions of linear systems; ``x2`` is a vector only if it has one dimension."""
    x1, x2 = promoted(x1, x2)
    if x2.ndim == 1:
        return torch.linalg.solve(x1, x2.unsqueeze(-1).expand(*x1.shape[:-1], 1)).squeeze(-1)
    # Fewer dimensions than those of x1 would be read as a batch of vectors.
    missing = max(0, x1.ndim - x2.ndim)
    return torch.linalg.solve(x1, x2.reshape((1,) * missing + tuple(x2.shape)))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """Return singular values of matrices, and their vectors."""
    return SVDResult(*torch.linalg.svd(x, full_matrices=full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """Return singular values of matrices."""
    return torch.linalg.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: torch.dtype | None = None) -> Tensor:
    """Return the sums of the diagonals of matrices; those of integers are int64."""
    return _reductions.sum(torch.diagonal(x, offset, -2, -1), axis=-1, dtype=dtype)


def vector_norm(
    x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """Return norms of vectors along axes, or of all elements as one vector."""
    if axis is not None and not isinstance(axis, int):
        axis = tuple(axis_of(x, each, "vector_norm") for each in axis)
        if not axis:
            return torch.linalg.vector_norm(x.unsqueeze(-1), ord, -1)
    return torch.linalg.vector_norm(x, ord, axis, keepdims)
