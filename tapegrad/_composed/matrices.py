"""The linear algebra that stands in the package itself; most of it is in `tapegrad.linalg`.

That module is loaded when the first of these functions is called.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad._composed.arguments import expect_count
from tapegrad._composed.registry import function, method
from tapegrad._ops import runs

if TYPE_CHECKING:
    from tapegrad import return_types

__all__ = [
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "det",
    "geqrf",
    "inverse",
    "lobpcg",
    "logdet",
    "lu",
    "lu_solve",
    "lu_unpack",
    "matrix_exp",
    "matrix_power",
    "orgqr",
    "ormqr",
    "pca_lowrank",
    "pinverse",
    "qr",
    "slogdet",
    "svd",
    "svd_lowrank",
    "symeig",
    "triangular_solve",
]


@function
@method
@runs("linalg_det")
def det(input: Tensor) -> Tensor:
    """Determinants: another name of `torch.linalg.det`.

    Args:
        input: square matrices.

    Returns:
        A number for each matrix.

    Example:
        >>> torch.det(torch.tensor([[2.0, 1.0], [0.0, 3.0]]))
        tensor(6.)
    """
    return _C._linalg_det(input)


@function
@method
def logdet(input: Tensor) -> Tensor:
    """Logarithms of determinants: -inf where one is zero, nan where a real one is negative.

    Args:
        input: square matrices.

    Returns:
        A number for each matrix.

    Example:
        >>> torch.logdet(torch.eye(2))
        tensor(0.)
    """
    sign, logabsdet = _C._linalg_slogdet(input)
    if input.is_complex():
        return logabsdet + sign.log()
    return _C.where(sign < 0, float("nan"), logabsdet)


@function
@method
@runs("linalg_slogdet")
def slogdet(input: Tensor, *, out: Sequence[Tensor] | None = None) -> "return_types.slogdet":
    """Return signs and logarithms of determinants: `torch.linalg.slogdet` by its older name.

    Args:
        input: square matrices.
        out: where to put the results.

    Returns:
        ``(sign, logabsdet)``.

    Example:
        >>> torch.slogdet(torch.eye(2)).logabsdet
        tensor(0.)
    """
    from tapegrad.linalg import _arguments, _results

    return _arguments.into_outs("slogdet", _results.slogdet(*_C._linalg_slogdet(input)), out)


@function
@method
@runs("linalg_inv_ex")
@casts(cpu="float32")
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverses: another name of `torch.linalg.inv`.

    Args:
        input: square matrices.
        out: where to put the result.

    Returns:
        The inverses.

    Example:
        >>> torch.inverse(torch.tensor([[2.0]]))
        tensor([[0.5000]])
    """
    result: Tensor = _C._linalg_inv("linalg.inv", input, True)[0]
    return result if out is None else _C._into_out("inverse", result, out)


@function
@method
@casts(cpu="float32")
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Pseudoinverses: `torch.linalg.pinv` by its older name.

    Args:
        input: matrices.
        rcond: singular values up to this part of the largest count as zero.

    Returns:
        The pseudoinverses.

    Example:
        >>> torch.pinverse(torch.tensor([[3.0], [4.0]]))
        tensor([[0.1200, 0.1600]])
    """
    from tapegrad import linalg

    return linalg.pinv(input, rtol=rcond)


@function
@method
@runs("linalg_matrix_exp")
def matrix_exp(input: Tensor) -> Tensor:
    """Exponentials of matrices: another name of `torch.linalg.matrix_exp`.

    Args:
        input: square matrices.

    Returns:
        Matrices of the same shape.

    Example:
        >>> torch.matrix_exp(torch.zeros(1, 1))
        tensor([[1.]])
    """
    if input.dtype in (_C.float16, _C.bfloat16):
        return _C._linalg_matrix_exp(input.float()).to(input.dtype)
    return _C._linalg_matrix_exp(input)


@function
@method
def matrix_power(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """Powers of matrices: another name of `torch.linalg.matrix_power`.

    Args:
        input: square matrices.
        n: the exponent.
        out: where to put the result.

    Returns:
        The powers.

    Example:
        >>> torch.matrix_power(torch.tensor([[2.0]]), 3)
        tensor([[8.]])
    """
    from tapegrad import linalg

    return linalg.matrix_power(input, n, out=out)


# ---- factorizations by their older names


@function
@method
@runs("linalg_cholesky_ex")
@casts(cpu="float32")
def cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Factor positive-definite matrices: `torch.linalg.cholesky` by its older name.

    Args:
        input: symmetric positive-definite matrices.
        upper: return the upper factors, read from the upper triangle.
        out: where to put the result.

    Returns:
        The factors.

    Example:
        >>> torch.cholesky(torch.tensor([[4.0]]))
        tensor([[2.]])
    """
    result: Tensor = _C._linalg_cholesky("cholesky", input, upper, True)[0]
    return result if out is None else _C._into_out("cholesky", result, out)


@function
@method
@runs("linalg_solve_triangular")
@casts(cpu="float32")
def cholesky_solve(
    input: Tensor, input2: Tensor, upper: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Solve ``A @ X = B`` by the Cholesky factor of A.

    Args:
        input: right-hand sides B, as columns.
        input2: triangular factors of the matrices.
        upper: whether the factors are upper triangles.
        out: where to put the result.

    Returns:
        The solutions.

    Example:
        >>> torch.cholesky_solve(torch.tensor([[8.0]]), torch.tensor([[2.0]]))
        tensor([[2.]])
    """
    from tapegrad.linalg._arguments import check_matrices, check_square, into_out

    check_matrices("cholesky_solve", input, "B")
    check_square("cholesky_solve", input2)
    lower = input2.mH if upper else input2
    half = _C._linalg_solve_triangular(lower, input, False, True, False)
    result = _C._linalg_solve_triangular(lower.mH, half, True, True, False)
    return into_out("cholesky_solve", result, out)


@function
@method
@runs("linalg_solve_triangular")
@casts(cpu="float32")
def cholesky_inverse(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Invert matrices by their Cholesky factors.

    Args:
        input: triangular factors of the matrices.
        upper: whether the factors are upper triangles.
        out: where to put the result.

    Returns:
        The inverses.

    Example:
        >>> torch.cholesky_inverse(torch.tensor([[2.0]]))
        tensor([[0.2500]])
    """
    from tapegrad.linalg._arguments import check_square, into_out

    check_square("cholesky_inverse", input)
    identity = _C.eye(input.shape[-1], dtype=input.dtype, device=input.device)
    identity = identity.expand(input.shape)
    return into_out("cholesky_inverse", cholesky_solve(identity, input, upper), out)


@function
@method
@runs("linalg_qr")
@casts(cpu="float32")
def qr(
    input: Tensor, some: bool = True, *, out: Sequence[Tensor] | None = None
) -> "return_types.qr":
    """Factor matrices into orthonormal columns and an upper triangle, as `torch.linalg.qr`.

    Args:
        input: matrices.
        some: reduced factors; complete ones if false.
        out: where to put the results.

    Returns:
        ``(Q, R)``.

    Example:
        >>> torch.qr(torch.tensor([[3.0], [4.0]])).R
        tensor([[-5.]])
    """
    from tapegrad.linalg import _arguments, _results

    factors = _C._linalg_qr("linalg.qr", input, "reduced" if some else "complete")
    return _arguments.into_outs("qr", _results.qr(*factors), out)


@function
@method
@runs("linalg_svd")
@casts(cpu="float32")
def svd(
    input: Tensor,
    some: bool = True,
    compute_uv: bool = True,
    *,
    out: Sequence[Tensor] | None = None,
) -> "return_types.svd":
    """Singular values and vectors: `torch.linalg.svd` by its older name, with V in place of Vh.

    Args:
        input: matrices.
        some: reduced matrices; complete ones if false.
        compute_uv: without, U and V are zeros.
        out: where to put the results.

    Returns:
        ``(U, S, V)``.

    Example:
        >>> torch.svd(torch.tensor([[3.0, 0.0], [0.0, -4.0]])).S
        tensor([4., 3.])
    """
    from tapegrad.linalg import _arguments, _results

    u, s, vh = _C._linalg_svd("linalg.svd", input, not some, compute_uv)
    if compute_uv:
        v = vh.mH
    else:
        batch, (m, n) = input.shape[:-2], input.shape[-2:]
        u, v = input.new_zeros((*batch, m, m)), input.new_zeros((*batch, n, n))
    return _arguments.into_outs("svd", _results.svd(u, s, v), out)


@function
@method
@runs("geqrf")
@casts(cpu="float32")
def geqrf(input: Tensor, *, out: Sequence[Tensor] | None = None) -> "return_types.geqrf":
    """Factor matrices as LAPACK's geqrf does. It has no derivative; `torch.linalg.qr` has.

    Args:
        input: matrices.
        out: where to put the results.

    Returns:
        ``(a, tau)``: R on and above the diagonal, reflectors below it, and their scales.

    Example:
        >>> torch.geqrf(torch.tensor([[3.0], [4.0]])).a
        tensor([[-5.0000],
                [ 0.5000]])
    """
    from tapegrad.linalg import _arguments, _results

    return _arguments.into_outs("geqrf", _results.geqrf(*_C._geqrf(input)), out)


@function
@method
@runs("linalg_householder_product")
@casts(cpu="float32")
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """Products of reflectors: another name of `torch.linalg.householder_product`.

    Args:
        input: matrices with the reflectors below the diagonal.
        input2: their scales.

    Returns:
        Matrices of the shape of `input`.

    Example:
        >>> torch.orgqr(*torch.geqrf(torch.tensor([[3.0], [4.0]])))
        tensor([[-0.6000],
                [-0.8000]])
    """
    from tapegrad import linalg

    return linalg.householder_product(input, input2)


@function
@method
@casts(cpu="float32")
def ormqr(
    input: Tensor,
    input2: Tensor,
    input3: Tensor,
    left: bool = True,
    transpose: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Multiply matrices by the square unitary matrix that `geqrf` gave as reflectors.

    Args:
        input: matrices with the reflectors below the diagonal.
        input2: their scales.
        input3: the matrices to multiply.
        left: multiply from the left.
        transpose: multiply with the adjoint, which is the transpose if it is real.
        out: where to put the result.

    Returns:
        Matrices of the shape of `input3`.

    Example:
        >>> a, tau = torch.geqrf(torch.tensor([[3.0], [4.0]]))
        >>> torch.ormqr(a, tau, torch.tensor([[3.0], [4.0]]), transpose=True)[0]
        tensor([-5.])
    """
    from tapegrad.linalg._arguments import check_matrices, into_out
    from tapegrad.linalg._factor import multiply_reflectors

    for name, x in (("input", input), ("input3", input3)):
        check_matrices("ormqr", x, name)
    if any(_C._is_recorded(x) for x in (input, input2, input3)):
        x, adjoint = (input3, transpose) if left else (input3.mH, not transpose)
        scales = input2.conj() if adjoint else input2
        x = multiply_reflectors(input, scales, x, backwards=not adjoint)
        return into_out("ormqr", x if left else x.mH, out)
    return into_out("ormqr", _C._ormqr(input, input2, input3, left, transpose), out)


@function
@method
@runs("linalg_lu_factor_ex")
def lu(
    A: Tensor,
    pivot: bool = True,
    get_infos: bool = False,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """Factor matrices into triangles: `torch.linalg.lu_factor` by its older name.

    Args:
        A: matrices.
        pivot: exchange rows; must be true on the CPU.
        get_infos: return the outcomes too, instead of raising.
        out: where to put the results.

    Returns:
        ``(LU, pivots)``, and the outcomes if asked for.

    Example:
        >>> torch.lu(torch.eye(2))[1]
        tensor([1, 2], dtype=torch.int32)
    """
    from tapegrad.linalg._arguments import into_outs
    from tapegrad.linalg._factor import lu_factor_ex

    if get_infos:
        return into_outs("lu", tuple(lu_factor_ex(A, pivot=pivot)), out)
    lu_factor_ex(A[..., :0, :0], pivot=pivot)  # its checks
    return into_outs("lu", tuple(_C._linalg_lu_factor("torch.lu", A, True)[:2]), out)


@function
@method
def lu_solve(
    input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """Solve equations by LU factors: `torch.linalg.lu_solve` with the right-hand side first.

    Args:
        input: right-hand sides, as columns.
        LU_data: the factors.
        LU_pivots: which rows were exchanged.
        out: where to put the result.

    Returns:
        The solutions.

    Example:
        >>> torch.lu_solve(torch.ones(2, 1), *torch.lu(2 * torch.eye(2)))
        tensor([[0.5000],
                [0.5000]])
    """
    from tapegrad import linalg

    return linalg.lu_solve(LU_data, LU_pivots, input, out=out)


@function
def lu_unpack(
    LU_data: Tensor,
    LU_pivots: Tensor,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
    *,
    out: Sequence[Tensor] | None = None,
) -> "return_types.lu_unpack":
    """Return the permutation and the triangles that `torch.linalg.lu_factor` gave.

    Args:
        LU_data: the factors.
        LU_pivots: which rows were exchanged.
        unpack_data: without, L and U have no elements.
        unpack_pivots: without, P has no elements.
        out: where to put the results.

    Returns:
        ``(P, L, U)`` with ``A = P @ L @ U``.

    Example:
        >>> torch.lu_unpack(*torch.linalg.lu_factor(torch.tensor([[2.0]]))).U
        tensor([[2.]])
    """
    from tapegrad.linalg import _arguments, _factor, _results

    _arguments.check_matrices("lu_unpack", LU_data, "LU_data")
    nothing = LU_data.new_empty(0)
    p, low, up = nothing, nothing, nothing
    if unpack_data and unpack_pivots:
        p, low, up = _factor.unpack(LU_data, LU_pivots)
    elif unpack_data:
        low, up = _factor.triangles(LU_data)
    elif unpack_pivots:
        p = _factor.permutation_matrix(LU_data, LU_pivots)
    return _arguments.into_outs("lu_unpack", _results.lu_unpack(p, low, up), out)


@function
@method
@casts(cpu="float32")
def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    out: Sequence[Tensor] | None = None,
) -> "return_types.triangular_solve":
    """Solve ``A @ X = B`` for triangles: `torch.linalg.solve_triangular` by its older name.

    Args:
        input: right-hand sides, as columns.
        A: square matrices, of which one triangle is read.
        upper: which triangle.
        transpose: solve with the transpose.
        unitriangular: take the diagonal for ones.
        out: where to put the results.

    Returns:
        ``(solution, cloned_coefficient)``.

    Example:
        >>> torch.triangular_solve(torch.tensor([[4.0]]), torch.tensor([[2.0]])).solution
        tensor([[2.]])
    """
    from tapegrad.linalg import _arguments, _results

    _arguments.check_square("triangular_solve", A)
    matrix, side = (A.mT, not upper) if transpose else (A, upper)
    solution = _C._linalg_solve_triangular(matrix, input, side, True, unitriangular)
    batch = solution.shape[:-2]
    copy = A.expand(*batch, *A.shape[-2:]).clone()
    results = _results.triangular_solve(solution, copy)
    return _arguments.into_outs("triangular_solve", results, out)


@function
def symeig(input: Tensor, *args: Any, **kwargs: Any) -> NoReturn:
    """Refused, as in PyTorch: `torch.linalg.eigh` took its place.

    Args:
        input: symmetric matrices.
        *args: further arguments.
        **kwargs: further arguments.

    Returns:
        Nothing.

    Example:
        >>> try:
        ...     torch.symeig(torch.eye(2))
        ... except RuntimeError as error:
        ...     print(str(error)[-18:])
        torch.linalg.eigh.
    """
    raise RuntimeError(
        "This function was deprecated since version 1.9 and is now removed. The default behavior "
        "has changed from using the upper triangular portion of the matrix by default to using the "
        "lower triangular portion. torch.symeig is deprecated in favor of torch.linalg.eigh."
    )


# ---- the largest singular values


def _random_basis(A: Tensor, q: int, niter: int) -> Tensor:
    """Return q orthonormal columns that nearly span those of A (Halko et al., 2009)."""
    start = _C.randn((*A.shape[:-2], A.shape[-1], q), dtype=A.dtype, device=A.device)
    basis = _C._linalg_qr("linalg.qr", A.matmul(start), "reduced")[0]
    for _ in range(niter):
        basis = _C._linalg_qr("linalg.qr", A.mH.matmul(basis), "reduced")[0]
        basis = _C._linalg_qr("linalg.qr", A.matmul(basis), "reduced")[0]
    return basis


@function
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the largest singular values and their vectors, nearly: by a random projection.

    Args:
        A: matrices.
        q: how many.
        niter: iterations, each of which makes the answer more accurate.
        M: matrices to be subtracted from `A` first.

    Returns:
        ``(U, S, V)``, the vectors as columns.

    Example:
        >>> U, S, V = torch.svd_lowrank(torch.diag(torch.tensor([4.0, 3.0, 0.0])), q=2)
        >>> torch.allclose(S, torch.tensor([4.0, 3.0]))
        True
    """
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    expect_count("svd_lowrank", niter, "iterations", 64)
    if M is not None:
        A = A - M
    is_wide = A.shape[-2] < A.shape[-1]
    if is_wide:
        A = A.mH
    basis = _random_basis(A, q, niter)
    u, s, vh = _C._linalg_svd("linalg.svd", basis.mH.matmul(A), False, True)
    u, v = basis.matmul(u), vh.mH
    return (v, s, u) if is_wide else (u, s, v)


@function
def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the largest principal components, nearly: by a random projection.

    Args:
        A: matrices with a row for each observation.
        q: how many; by default 6, or the shorter side if that is less.
        center: subtract the mean of each column first.
        niter: iterations, each of which makes the answer more accurate.

    Returns:
        ``(U, S, V)``, the vectors as columns.

    Example:
        >>> U, S, V = torch.pca_lowrank(torch.tensor([[1.0, 1.0], [-1.0, -1.0]]), q=1)
        >>> torch.allclose(S, torch.tensor([2.0]))
        True
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center:
        A = A - A.mean(-2, keepdim=True)
    return svd_lowrank(A, q, niter=niter)


@function
def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return a few extreme eigenpairs of large symmetric matrices, by products with them alone.

    With B it solves ``A @ x = e * B @ x``. Pairs are found by the locally optimal block
    preconditioned conjugate gradient method.

    Args:
        A: symmetric matrices, float32 or float64, with at least 3 n rows.
        k: how many pairs; by default the number of columns of `X`, or 1.
        B: symmetric positive-definite matrices; the identity by default.
        X: where to start: n columns for each matrix; random ones by default.
        n: the number of columns that are iterated, where there is no `X`; k by default.
        iK: preconditioners: rough inverses of A.
        niter: the largest number of steps, 1000 by default; -1 for no limit.
        tol: pairs have converged when their residual, relative to A, is below; by default the
            root of the dtype's epsilon.
        largest: look for the largest values, descending; else for the smallest, ascending.
        method: ``"ortho"``, which is robust, or ``"basic"``, whose steps cost less and may fail.
        tracker: called with the state after each step.
        ortho_iparams: parameters of the orthogonalisation: ``i_max`` and ``j_max``, its passes.
        ortho_fparams: ``tol``, to which columns are orthogonal, and ``tol_drop``, below which one
            counts as dependent.
        ortho_bparams: accepted for PyTorch's sake: dependent columns are always dropped.

    Returns:
        ``(E, X)``: values of shape ``(..., k)`` and vectors as columns. They have the gradient of
        the exact pairs with respect to A, which is made symmetric; there is none with B.

    Example:
        >>> A = torch.diag(torch.arange(1.0, 10.0))
        >>> E, X = torch.lobpcg(A, k=2)
        >>> torch.allclose(E, torch.tensor([9.0, 8.0]))
        True
    """
    from tapegrad.linalg import _lobpcg

    return _lobpcg.lobpcg(
        A, k, B, X, n, iK, niter, tol, largest, method, tracker,
        ortho_iparams, ortho_fparams, ortho_bparams,
    )  # fmt: skip
