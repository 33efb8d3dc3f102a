"""Factorizations: Cholesky, LU, QR, LDL."""

from collections.abc import Sequence

from tapegrad import _C, broadcast_shapes
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad._ops import runs
from tapegrad.linalg._arguments import (
    check_matrices,
    check_square,
    into_out,
    into_outs,
)
from tapegrad.linalg._results import (
    linalg_cholesky_ex,
    linalg_ldl_factor,
    linalg_ldl_factor_ex,
    linalg_lu,
    linalg_lu_factor,
    linalg_lu_factor_ex,
    linalg_qr,
)

__all__ = [
    "cholesky",
    "cholesky_ex",
    "householder_product",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "multiply_reflectors",
    "qr",
    "unpack",
]


@runs("linalg_cholesky_ex")
@casts(cpu="float32", of="linalg_cholesky")
def cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """Factor positive-definite matrices into triangles: ``A = L @ L.mH``.

    Args:
        A: symmetric or Hermitian positive-definite matrices; only one triangle is read.
        upper: return the upper factor U of ``A = U.mH @ U``, read from the upper triangle.
        out: where to put the result.

    Returns:
        The factors. LinAlgError names the first matrix that is not positive-definite.

    Example:
        >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
        tensor([[2., 0.],
                [1., 2.]])
    """
    factor = _C._linalg_cholesky("linalg.cholesky", A, upper, True)[0]
    return into_out("linalg.cholesky", factor, out)


@runs("linalg_cholesky_ex")
@casts(cpu="float32", of="linalg_cholesky_ex")
def cholesky_ex(
    A: Tensor,
    *,
    upper: bool = False,
    check_errors: bool = False,
    out: Sequence[Tensor] | None = None,
) -> linalg_cholesky_ex:
    """Factor matrices as `cholesky` does, and tell the outcome instead of raising.

    Args:
        A: symmetric or Hermitian positive-definite matrices.
        upper: return the upper factors.
        check_errors: raise LinAlgError after all.
        out: where to put the results.

    Returns:
        ``(L, info)``: info is 0, or the order of the first minor that is not positive.

    Example:
        >>> torch.linalg.cholesky_ex(-torch.eye(2)).info
        tensor(1, dtype=torch.int32)
    """
    result = _C._linalg_cholesky("linalg.cholesky_ex", A, upper, check_errors)
    return into_outs("linalg.cholesky_ex", linalg_cholesky_ex(*result), out)


def _expect_pivoting(name: str, pivot: bool) -> None:
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU")


@runs("linalg_lu_factor_ex")
def lu_factor(
    A: Tensor, *, pivot: bool = True, out: Sequence[Tensor] | None = None
) -> linalg_lu_factor:
    """Factor matrices into triangles with rows exchanged, as `lu_solve` takes them.

    Args:
        A: matrices.
        pivot: exchange rows; must be true on the CPU.
        out: where to put the results.

    Returns:
        ``(LU, pivots)``: U on and above the diagonal, L below it, whose diagonal is ones.

    Example:
        >>> torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [2.0, 4.5]])).pivots
        tensor([2, 2], dtype=torch.int32)
    """
    check_matrices("linalg.lu_factor", A)
    _expect_pivoting("linalg.lu_factor", pivot)
    result = _C._linalg_lu_factor("torch.linalg.lu_factor", A, True)[:2]
    return into_outs("linalg.lu_factor", linalg_lu_factor(*result), out)


@runs("linalg_lu_factor_ex")
def lu_factor_ex(
    A: Tensor,
    *,
    pivot: bool = True,
    check_errors: bool = False,
    out: Sequence[Tensor] | None = None,
) -> linalg_lu_factor_ex:
    """Factor matrices as `lu_factor` does, and tell the outcome instead of raising.

    Args:
        A: matrices.
        pivot: exchange rows; must be true on the CPU.
        check_errors: raise if a factor U has a zero on its diagonal.
        out: where to put the results.

    Returns:
        ``(LU, pivots, info)``: info is 0, or the place of the first zero on U's diagonal.

    Example:
        >>> torch.linalg.lu_factor_ex(torch.zeros(2, 2)).info
        tensor(1, dtype=torch.int32)
    """
    check_matrices("linalg.lu_factor_ex", A)
    _expect_pivoting("linalg.lu_factor_ex", pivot)
    result = _C._linalg_lu_factor("torch.linalg.lu_factor_ex", A, check_errors)
    return into_outs("linalg.lu_factor_ex", linalg_lu_factor_ex(*result), out)


def lu(A: Tensor, *, pivot: bool = True, out: Sequence[Tensor] | None = None) -> linalg_lu:
    """Factor matrices into a permutation and triangles: ``A = P @ L @ U``.

    Args:
        A: matrices.
        pivot: exchange rows; must be true on the CPU.
        out: where to put the results.

    Returns:
        ``(P, L, U)``.

    Example:
        >>> P, L, U = torch.linalg.lu(torch.tensor([[1.0, 2.0], [2.0, 4.5]]))
        >>> U
        tensor([[ 2.0000,  4.5000],
                [ 0.0000, -0.2500]])
    """
    check_matrices("linalg.lu", A)
    _expect_pivoting("linalg.lu", pivot)
    factors, pivots, _ = _C._linalg_lu_factor("linalg.lu", A, False)
    return into_outs("linalg.lu", linalg_lu(*unpack(factors, pivots)), out)


def unpack(LU: Tensor, pivots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return P, L and U."""
    return permutation_matrix(LU, pivots), *triangles(LU)


def triangles(LU: Tensor) -> tuple[Tensor, Tensor]:
    """Return L and U."""
    m, n = LU.shape[-2:]
    k = min(m, n)
    lower = LU[..., :k].tril(-1) + _C.eye(m, k, dtype=LU.dtype, device=LU.device)
    return lower, LU[..., :k, :].triu()


def permutation_matrix(LU: Tensor, pivots: Tensor) -> Tensor:
    """Return the matrices that undo the exchanges of rows."""
    order = _C._lu_permutation(pivots, LU.shape[-2], False)
    rows = _C.arange(LU.shape[-2], device=LU.device).unsqueeze(-1)
    return (rows == order.unsqueeze(-2)).to(LU.dtype)


def lu_solve(
    LU: Tensor,
    pivots: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Solve ``A @ X = B`` by the factors that `lu_factor` gave of A.

    Args:
        LU: the factors.
        pivots: which rows were exchanged.
        B: right-hand sides, as columns.
        left: solve ``X @ A = B`` if false.
        adjoint: solve with ``A.mH`` in the place of A.
        out: where to put the result.

    Returns:
        The solutions.

    Example:
        >>> A, B = torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.ones(2, 1)
        >>> torch.linalg.lu_solve(*torch.linalg.lu_factor(A), B)
        tensor([[0.5000],
                [0.2500]])
    """
    name = "linalg.lu_solve"
    check_square(name, LU, "LU")
    check_matrices(name, B, "B")
    if not left:
        return into_out(name, lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH, out)
    if _C._is_recorded(LU) or _C._is_recorded(B):
        _C._linalg_lu_solve(LU.detach(), pivots, B.detach(), False)  # its checks
        result = _lu_solve_recorded(LU, pivots, B, adjoint)
    elif adjoint:  # the kernel solves with the transpose
        result = _C._linalg_lu_solve(LU, pivots, B.conj(), True).conj()
    else:
        result = _C._linalg_lu_solve(LU, pivots, B, False)
    return into_out(name, result, out)


def _lu_solve_recorded(LU: Tensor, pivots: Tensor, B: Tensor, adjoint: bool) -> Tensor:
    n = LU.shape[-1]
    order = _C._lu_permutation(pivots, n, adjoint)
    solve = _C._linalg_solve_triangular
    if adjoint:
        half = solve(LU.mH, B, False, True, False)
        return _take_rows(solve(LU.mH, half, True, True, True), order)
    half = solve(LU, _take_rows(B, order), False, True, True)
    return solve(LU, half, True, True, False)


def _take_rows(x: Tensor, order: Tensor) -> Tensor:
    shape = broadcast_shapes(x.shape[:-2], order.shape[:-1])
    x = x.expand(*shape, *x.shape[-2:])
    return x.gather(-2, order.unsqueeze(-1).expand(*shape, order.shape[-1], x.shape[-1]))


@runs("linalg_qr")
@casts(cpu="float32", of="linalg_qr")
def qr(A: Tensor, mode: str = "reduced", *, out: Sequence[Tensor] | None = None) -> linalg_qr:
    """Factor matrices into orthonormal columns and an upper triangle: ``A = Q @ R``.

    Args:
        A: matrices.
        mode: ``"reduced"``, ``"complete"`` (Q is square) or ``"r"`` (Q is not computed).
        out: where to put the results.

    Returns:
        ``(Q, R)``. There is no derivative with mode ``"r"``, nor with ``"complete"`` of matrices
        with more rows than columns.

    Example:
        >>> Q, R = torch.linalg.qr(torch.tensor([[3.0], [4.0]]))
        >>> R
        tensor([[-5.]])
    """
    q, r = _C._linalg_qr("linalg.qr", A, mode)
    if mode == "r":
        q = A.new_empty(0)
    return into_outs("linalg.qr", linalg_qr(q, r), out)


@runs("linalg_householder_product")
@casts(cpu="float32", of="linalg_householder_product")
def householder_product(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the first columns of a product of reflectors, as `torch.geqrf` leaves them.

    Args:
        A: matrices with the reflectors below the diagonal.
        tau: the scales of the reflectors.
        out: where to put the result.

    Returns:
        Matrices of the shape of `A`.

    Example:
        >>> A = torch.tensor([[3.0], [4.0]])
        >>> torch.linalg.householder_product(*torch.geqrf(A))
        tensor([[-0.6000],
                [-0.8000]])
    """
    name = "linalg.householder_product"
    check_matrices(name, A, "input")
    m, n = A.shape[-2:]
    if m < n:
        raise RuntimeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if tau.dim() == 0 or n < tau.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    if _C._is_recorded(A) or _C._is_recorded(tau):
        identity = _C.eye(m, n, dtype=A.dtype, device=A.device).expand(A.shape)
        result = multiply_reflectors(A, tau, identity, backwards=True)
    else:
        result = _C._linalg_householder_product(A, tau)
    return into_out(name, result, out)


def multiply_reflectors(A: Tensor, tau: Tensor, x: Tensor, *, backwards: bool) -> Tensor:
    """Apply reflectors to `x` one by one, with recorded ops."""
    count = tau.shape[-1]
    ones = _C.eye(A.shape[-2], A.shape[-1], dtype=A.dtype, device=A.device)
    vectors = A.tril(-1) + ones
    for k in reversed(range(count)) if backwards else range(count):
        v = vectors[..., k : k + 1]
        x = x - tau[..., k, None, None] * v.matmul(v.mH.matmul(x))
    return x


@runs("linalg_ldl_factor_ex")
def ldl_factor_ex(
    A: Tensor,
    *,
    hermitian: bool = False,
    check_errors: bool = False,
    out: Sequence[Tensor] | None = None,
) -> linalg_ldl_factor_ex:
    """Factor symmetric matrices as `ldl_factor` does, and tell the outcome.

    Args:
        A: symmetric matrices; only the lower triangle is read.
        hermitian: complex matrices are Hermitian, not symmetric.
        check_errors: raise if a block of the diagonal is singular.
        out: where to put the results.

    Returns:
        ``(LD, pivots, info)``.

    Example:
        >>> torch.linalg.ldl_factor_ex(torch.eye(2)).info
        tensor(0, dtype=torch.int32)
    """
    result = _C._linalg_ldl_factor("torch.linalg.ldl_factor_ex", A, hermitian, check_errors)
    return into_outs("linalg.ldl_factor_ex", linalg_ldl_factor_ex(*result), out)


@runs("linalg_ldl_factor_ex")
def ldl_factor(
    A: Tensor, *, hermitian: bool = False, out: Sequence[Tensor] | None = None
) -> linalg_ldl_factor:
    """Factor symmetric matrices, definite or not, as `ldl_solve` takes them. It has no derivative.

    Args:
        A: symmetric matrices; only the lower triangle is read.
        hermitian: complex matrices are Hermitian, not symmetric.
        out: where to put the results.

    Returns:
        ``(LD, pivots)``.

    Example:
        >>> torch.linalg.ldl_factor(torch.eye(2)).pivots
        tensor([1, 2], dtype=torch.int32)
    """
    result = _C._linalg_ldl_factor("torch.linalg.ldl_factor", A, hermitian, True)[:2]
    return into_outs("linalg.ldl_factor", linalg_ldl_factor(*result), out)


@runs("linalg_ldl_solve")
def ldl_solve(
    LD: Tensor,
    pivots: Tensor,
    B: Tensor,
    *,
    hermitian: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Solve ``A @ X = B`` by the factors that `ldl_factor` gave of A. It has no derivative.

    Args:
        LD: the factors.
        pivots: which rows were exchanged.
        B: right-hand sides, as columns.
        hermitian: as it was told to `ldl_factor`.
        out: where to put the result.

    Returns:
        The solutions.

    Example:
        >>> LD, pivots = torch.linalg.ldl_factor(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
        >>> torch.linalg.ldl_solve(LD, pivots, torch.tensor([[1.0], [2.0]]))
        tensor([[2.],
                [1.]])
    """
    return into_out("linalg.ldl_solve", _C._linalg_ldl_solve(LD, pivots, B, hermitian), out)
