"""Systems of equations, inverses, determinants, least squares."""

import math
from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad._ops import runs
from tapegrad.linalg._arguments import (
    check_float,
    check_matrices,
    check_square,
    epsilon_of,
    into_out,
    into_outs,
    real_dtype_of,
    wrap_dims,
)
from tapegrad.linalg._results import (
    linalg_inv_ex,
    linalg_lstsq,
    linalg_slogdet,
    linalg_solve_ex,
)

__all__ = [
    "det",
    "inv",
    "inv_ex",
    "lstsq",
    "pinv",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "tensorinv",
    "tensorsolve",
]


@runs("linalg_det")
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Determinants.

    Args:
        A: square matrices.
        out: where to put the result.

    Returns:
        A number for each matrix. Its gradient exists for singular matrices too.

    Example:
        >>> torch.linalg.det(torch.tensor([[2.0, 1.0], [0.0, 3.0]]))
        tensor(6.)
    """
    return into_out("linalg.det", _C._linalg_det(A), out)


@runs("linalg_slogdet")
def slogdet(A: Tensor, *, out: Sequence[Tensor] | None = None) -> linalg_slogdet:
    """Return the signs of determinants, and the logarithms of their absolute values.

    The sign of a complex number is the one of its direction on the unit circle.

    Args:
        A: square matrices.
        out: where to put the results.

    Returns:
        ``(sign, logabsdet)``: 0 and -inf for singular matrices.

    Example:
        >>> torch.linalg.slogdet(torch.tensor([[0.0, 1.0], [1.0, 0.0]])).sign
        tensor(-1.)
    """
    return into_outs("linalg.slogdet", linalg_slogdet(*_C._linalg_slogdet(A)), out)


@runs("linalg_inv_ex")
@casts(cpu="float32", of="linalg_inv")
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverses. `solve` is faster, and more accurate, where they are only to be multiplied by.

    Args:
        A: square matrices.
        out: where to put the result.

    Returns:
        The inverses. LinAlgError names the first matrix that is singular.

    Example:
        >>> torch.linalg.inv(torch.tensor([[2.0, 1.0], [1.0, 1.0]]))
        tensor([[ 1., -1.],
                [-1.,  2.]])
    """
    return into_out("linalg.inv", _C._linalg_inv("linalg.inv", A, True)[0], out)


@runs("linalg_inv_ex")
@casts(cpu="float32", of="linalg_inv_ex")
def inv_ex(
    A: Tensor, *, check_errors: bool = False, out: Sequence[Tensor] | None = None
) -> linalg_inv_ex:
    """Invert matrices as `inv` does, and tell the outcome instead of raising.

    Args:
        A: square matrices.
        check_errors: raise LinAlgError after all.
        out: where to put the results.

    Returns:
        ``(inverse, info)``: info is 0, or the place of the first zero on U's diagonal.

    Example:
        >>> torch.linalg.inv_ex(torch.zeros(2, 2)).info
        tensor(1, dtype=torch.int32)
    """
    result = _C._linalg_inv("linalg.inv_ex", A, check_errors)
    return into_outs("linalg.inv_ex", linalg_inv_ex(*result), out)


def _solve(name: str, A: Any, B: Any, left: bool, check: bool) -> tuple[Tensor, Tensor]:
    short = name.removeprefix("torch.")
    check_square(short, A)
    if not isinstance(B, Tensor):
        raise TypeError(f"{short}: expected B to be a Tensor, got {type(B).__name__}")
    is_vector = B.dim() == 1 or (A.dim() - 1 == B.dim() and B.shape == A.shape[:-1])
    if is_vector:
        if not left:
            raise RuntimeError(
                f"{short}: Vector broadcasting of the left hand side is not supported for "
                "left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)"
            )
        result, info = _C._linalg_solve(name, A, B.unsqueeze(-1), check)
        return result.squeeze(-1), info
    if left:
        result, info = _C._linalg_solve(name, A, B, check)
        return result, info
    if A.shape[-1] != B.shape[-1]:
        raise RuntimeError(
            f"{short}: Incompatible shapes of A and B for the equation XA = B "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )
    result, info = _C._linalg_solve(name, A.mT, B.mT, check)
    return result.mT, info


@runs("linalg_solve_ex")
@casts(cpu="float32", of="linalg_solve")
def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """Solve ``A @ X = B``.

    Args:
        A: square matrices.
        B: right-hand sides, as columns, or one vector for each matrix.
        left: solve ``X @ A = B`` if false.
        out: where to put the result.

    Returns:
        The solutions. LinAlgError names the first matrix that is singular.

    Example:
        >>> torch.linalg.solve(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.ones(2))
        tensor([0.5000, 0.2500])
    """
    return into_out("linalg.solve", _solve("torch.linalg.solve", A, B, left, True)[0], out)


@runs("linalg_solve_ex")
def solve_ex(
    A: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    check_errors: bool = False,
    out: Sequence[Tensor] | None = None,
) -> linalg_solve_ex:
    """Solve equations as `solve` does, and tell the outcome instead of raising.

    Args:
        A: square matrices.
        B: right-hand sides.
        left: solve ``X @ A = B`` if false.
        check_errors: raise LinAlgError after all.
        out: where to put the results.

    Returns:
        ``(result, info)``.

    Example:
        >>> torch.linalg.solve_ex(torch.zeros(2, 2), torch.ones(2)).info
        tensor(1, dtype=torch.int32)
    """
    result = _solve("torch.linalg.solve_ex", A, B, left, check_errors)
    return into_outs("linalg.solve_ex", linalg_solve_ex(*result), out)


@runs("linalg_solve_triangular")
def solve_triangular(
    A: Tensor,
    B: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Solve ``A @ X = B`` for triangles A. Nothing is checked: zeros on the diagonal give inf.

    Args:
        A: square matrices, of which one triangle is read.
        B: right-hand sides, as columns.
        upper: which triangle.
        left: solve ``X @ A = B`` if false.
        unitriangular: take the diagonal for ones.
        out: where to put the result.

    Returns:
        The solutions.

    Example:
        >>> A = torch.tensor([[1.0, 1.0], [0.0, 2.0]])
        >>> torch.linalg.solve_triangular(A, torch.ones(2, 1), upper=True)
        tensor([[0.5000],
                [0.5000]])
    """
    result = _C._linalg_solve_triangular(A, B, upper, left, unitriangular)
    return into_out("linalg.solve_triangular", result, out)


# ---- least squares


def _as_tolerance(name: str, value: Any, A: Tensor) -> Tensor:
    """Return a tolerance as a tensor that broadcasts with the batch."""
    if isinstance(value, Tensor):
        if value.dtype.is_complex:
            raise RuntimeError(f"linalg.pinv: {name} tensor of complex type is not supported")
        return value.to(real_dtype_of(A))
    return _C.full((), float(value), dtype=real_dtype_of(A), device=A.device)


def tolerances(A: Tensor, atol: Any, rtol: Any) -> tuple[Tensor, Tensor]:
    """Return the absolute and the relative tolerance below which a singular value is zero.

    A relative one is implied unless one of them is given, other than an absolute one of zero.
    """
    absolute = _as_tolerance("atol", 0.0 if atol is None else atol, A)
    implied = max(A.shape[-2:]) * epsilon_of(A)
    if rtol is not None:
        relative = _as_tolerance("rtol", rtol, A)
    elif isinstance(atol, Tensor):
        relative = _C.where(atol > 0, 0.0, implied).to(real_dtype_of(A))
    else:
        relative = _as_tolerance("rtol", 0.0 if atol is not None and atol > 0 else implied, A)
    return absolute, relative


@runs("linalg_svd", "linalg_eigh")
def pinv(
    A: Tensor,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """Pseudoinverses, by singular values.

    Args:
        A: matrices.
        rcond: the same as `rtol`, as NumPy calls it.
        hermitian: the matrices are symmetric or Hermitian; only the lower triangle is read.
        atol: singular values up to this count as zero.
        rtol: singular values up to this part of the largest count as zero; by default the larger
            side times the dtype's epsilon if no `atol` is given, else 0.
        out: where to put the result.

    Returns:
        The pseudoinverses, whose gradient is that of matrices of constant rank.

    Example:
        >>> torch.linalg.pinv(torch.tensor([[3.0], [4.0]]))
        tensor([[0.1200, 0.1600]])
    """
    check_matrices("linalg.pinv", A, "input")
    check_float("linalg.pinv", A)
    absolute, relative = tolerances(A, atol, rcond if rtol is None else rtol)
    return into_out("linalg.pinv", _C._linalg_pinv(A, absolute, relative, hermitian), out)


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@casts(cpu="float32", of="linalg_lstsq")
def lstsq(
    input: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> linalg_lstsq:
    """Solve ``A @ X = B`` in the sense of least squares.

    Args:
        input: matrices A.
        b: right-hand sides, as columns, or one vector for each matrix.
        rcond: singular values up to this part of the largest count as zero; by default the larger
            side of A times the dtype's epsilon.
        driver: LAPACK's routine: ``"gelsy"`` (the default), ``"gelsd"``, ``"gelss"``, or
            ``"gels"`` for matrices of full rank.

    Returns:
        ``(solution, residuals, rank, singular_values)``. The residuals are sums of squares, where
        the matrices have full rank and more rows than columns; ``"gels"`` gives no rank, and the
        singular values come from ``"gelsd"`` and ``"gelss"`` only. The solution has a gradient.

    Example:
        >>> A = torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
        >>> torch.linalg.lstsq(A, torch.tensor([[1.0], [3.0], [5.0]])).solution
        tensor([[1.0000],
                [2.0000]])
    """
    name = "torch.linalg.lstsq"
    A, driver = input, driver or "gelsy"
    if driver not in _DRIVERS:
        raise RuntimeError(
            f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
        )
    check_matrices(name, A, "input")
    check_float(name, A)
    if not isinstance(b, Tensor) or b.dim() == 0:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    is_vector = A.dim() - 1 == b.dim() and A.shape[:-1] == b.shape
    B = b.unsqueeze(-1) if is_vector else b
    if B.dim() < 2:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and "
            "(input.dim() - other.dim()) <= 1"
        )
    m, n = A.shape[-2:]
    limit = epsilon_of(A) * max(m, n) if rcond is None else rcond
    found, rank, values = _C._linalg_lstsq(A, B, driver, limit, True)
    solution = found[..., :n, :]
    residuals = A.new_empty(0, dtype=real_dtype_of(A))
    if m > n and driver != "gelsy" and (driver == "gels" or bool((rank == n).all())):
        residuals = found[..., n:, :].abs().square().sum(-2)
    if _C._is_recorded(A) or _C._is_recorded(B):
        # The value is the routine's, the derivative that of the pseudoinverse.
        same = pinv(A, rtol=limit).matmul(B)
        solution = same + (solution - same).detach()
        if residuals.numel():
            rest = (B - A.matmul(same)).abs().square().sum(-2)
            residuals = rest + (residuals - rest).detach()
    return linalg_lstsq(
        solution.squeeze(-1) if is_vector else solution,
        residuals,
        A.new_empty(0, dtype=_C.int64) if driver == "gels" else rank,
        values if driver in ("gelsd", "gelss") else values.new_empty(0),
    )


# ---- tensors as matrices


@casts(cpu="float32", of="linalg_tensorinv")
def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """Invert a tensor as the map that `torch.tensordot` makes of it.

    Args:
        A: a tensor whose first `ind` sizes multiply to the same number as the others.
        ind: how many dimensions are the rows.
        out: where to put the result.

    Returns:
        A tensor of shape ``A.shape[ind:] + A.shape[:ind]``.

    Example:
        >>> torch.linalg.tensorinv(torch.eye(4).reshape(2, 2, 4)).shape
        torch.Size([4, 2, 2])
    """
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    rows, columns = A.shape[:ind], A.shape[ind:]
    if math.prod(rows) != math.prod(columns):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {math.prod(columns)} != {math.prod(rows)}"
        )
    result = inv(A.reshape(math.prod(columns), math.prod(rows)))
    return into_out("linalg.tensorinv", result.reshape(*columns, *rows), out)


@casts(cpu="float32", of="linalg_tensorsolve")
def tensorsolve(
    A: Tensor, B: Tensor, dims: Sequence[int] | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Solve ``torch.tensordot(A, X, dims=X.ndim) = B``.

    Args:
        A: a tensor whose first sizes are those of `B`.
        B: the right-hand side.
        dims: dimensions of `A` to be moved to its end first.
        out: where to put the result.

    Returns:
        The solution, of the remaining sizes of `A`.

    Example:
        >>> torch.linalg.tensorsolve(torch.eye(4).reshape(2, 2, 4), torch.ones(2, 2))
        tensor([1., 1., 1., 1.])
    """
    if dims is not None:
        moved = wrap_dims("linalg.tensorsolve", dims, A.dim())
        A = A.movedim(moved, tuple(range(A.dim() - len(moved), A.dim())))
    sizes = A.shape[B.dim() :]
    if math.prod(sizes) != math.prod(A.shape[: B.dim()]):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {math.prod(sizes)} != "
            f"{math.prod(A.shape[: B.dim()])}"
        )
    result = solve(A.reshape(-1, math.prod(sizes)), B.flatten())
    return into_out("linalg.tensorsolve", result.reshape(sizes), out)
