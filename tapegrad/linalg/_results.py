"""The named tuples that linear algebra returns, under the names PyTorch gives them."""

from typing import Any, NamedTuple

from tapegrad._C import Tensor

__all__ = [
    "geqrf",
    "linalg_cholesky_ex",
    "linalg_eig",
    "linalg_eigh",
    "linalg_inv_ex",
    "linalg_ldl_factor",
    "linalg_ldl_factor_ex",
    "linalg_lstsq",
    "linalg_lu",
    "linalg_lu_factor",
    "linalg_lu_factor_ex",
    "linalg_qr",
    "linalg_slogdet",
    "linalg_solve_ex",
    "linalg_svd",
    "lu_unpack",
    "qr",
    "slogdet",
    "svd",
    "triangular_solve",
]


def _repr(self: Any) -> str:
    fields = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"torch.return_types.{type(self).__name__}(\n{fields})"


class linalg_cholesky_ex(NamedTuple):
    """A Cholesky factor, and the order of the first minor that is not positive."""

    L: Tensor
    info: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class linalg_lu_factor(NamedTuple):
    """L and U in one matrix, and which rows were exchanged."""

    LU: Tensor
    pivots: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class linalg_lu_factor_ex(NamedTuple):
    """L and U in one matrix, which rows were exchanged, and where U's diagonal is zero."""

    LU: Tensor
    pivots: Tensor
    info: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class linalg_lu(NamedTuple):
    """The factors of a matrix: a permutation, a lower and an upper triangle."""

    P: Tensor
    L: Tensor
    U: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class lu_unpack(NamedTuple):
    """The factors of a matrix: a permutation, a lower and an upper triangle."""

    P: Tensor
    L: Tensor
    U: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class linalg_qr(NamedTuple):
    """A matrix with orthonormal columns, and an upper triangle."""

    Q: Tensor
    R: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class qr(NamedTuple):
    """A matrix with orthonormal columns, and an upper triangle."""

    Q: Tensor
    R: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class geqrf(NamedTuple):
    """An upper triangle with reflectors below it, and their scales."""

    a: Tensor
    tau: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class linalg_eig(NamedTuple):
    """Eigenvalues and eigenvectors, both complex."""

    eigenvalues: Tensor
    eigenvectors: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class linalg_eigh(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class linalg_svd(NamedTuple):
    """Left singular vectors as columns, singular values, right singular vectors as rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class svd(NamedTuple):
    """Left singular vectors, singular values, right singular vectors, the vectors as columns."""

    U: Tensor
    S: Tensor
    V: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class linalg_inv_ex(NamedTuple):
    """An inverse, and the place of the first zero on the diagonal of U."""

    inverse: Tensor
    info: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class linalg_solve_ex(NamedTuple):
    """A solution, and the place of the first zero on the diagonal of U."""

    result: Tensor
    info: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class linalg_slogdet(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Tensor
    logabsdet: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class slogdet(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Tensor
    logabsdet: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class linalg_lstsq(NamedTuple):
    """A solution of least squares, what remains, the rank of the matrix, its singular values."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class linalg_ldl_factor(NamedTuple):
    """L and D in one matrix, and which rows were exchanged."""

    LD: Tensor
    pivots: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class linalg_ldl_factor_ex(NamedTuple):
    """L and D in one matrix, which rows were exchanged, and the outcome."""

    LD: Tensor
    pivots: Tensor
    info: Tensor

    def __repr__(self) -> str:
        return _repr(self)


class triangular_solve(NamedTuple):
    """A solution, and a copy of the matrix."""

    solution: Tensor
    cloned_coefficient: Tensor

    def __repr__(self) -> str:
        return _repr(self)
