"""Eigenvalues and singular values."""

from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad._ops import runs
from tapegrad.linalg._arguments import into_out, into_outs
from tapegrad.linalg._results import linalg_eig, linalg_eigh, linalg_svd

__all__ = ["eig", "eigh", "eigvals", "eigvalsh", "svd", "svdvals"]


def _is_upper(UPLO: Any) -> bool:
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper() == "U"


@runs("linalg_eigh")
@casts(cpu="float32", of="linalg_eigh")
def eigh(A: Tensor, UPLO: str = "L", *, out: Sequence[Tensor] | None = None) -> linalg_eigh:
    """Eigenvalues and eigenvectors of symmetric or Hermitian matrices.

    Args:
        A: symmetric or Hermitian matrices, of which one triangle is read.
        UPLO: which triangle: ``"L"`` or ``"U"``.
        out: where to put the results.

    Returns:
        ``(eigenvalues, eigenvectors)``: ascending, and as columns. The gradient of a loss that
        depends on the vectors' signs, or on the choice among those of equal values, is undefined;
        one that depends on the phases of complex vectors is refused.

    Example:
        >>> torch.linalg.eigh(torch.tensor([[3.0, 0.0], [0.0, 1.0]])).eigenvalues
        tensor([1., 3.])
    """
    result = _C._linalg_eigh("linalg.eigh", A, _is_upper(UPLO), True)
    return into_outs("linalg.eigh", linalg_eigh(*result), out)


@runs("linalg_eigh")
@casts(cpu="float32", of="linalg_eigvalsh")
def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:
    """Eigenvalues of symmetric or Hermitian matrices, in ascending order.

    Args:
        A: symmetric or Hermitian matrices, of which one triangle is read.
        UPLO: which triangle: ``"L"`` or ``"U"``.
        out: where to put the result.

    Returns:
        The eigenvalues. Their gradient is stable also where some are equal.

    Example:
        >>> torch.linalg.eigvalsh(torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
        tensor([1., 3.])
    """
    values = _C._linalg_eigh("linalg.eigh", A, _is_upper(UPLO), False)[0]
    return into_out("linalg.eigvalsh", values, out)


@runs("linalg_eig")
@casts(cpu="float32", of="linalg_eig")
def eig(A: Tensor, *, out: Sequence[Tensor] | None = None) -> linalg_eig:
    """Eigenvalues and eigenvectors of square matrices: ``A @ V = V * L``.

    Args:
        A: square matrices, real or complex.
        out: where to put the results.

    Returns:
        ``(eigenvalues, eigenvectors)``, complex: in no order, and as columns of length one. A loss
        that depends on the phases of the vectors has no gradient, and says so; the gradient of one
        that depends on the choice among those of equal values is undefined.

    Example:
        >>> torch.linalg.eig(torch.tensor([[0.0, -1.0], [1.0, 0.0]])).eigenvalues
        tensor([0.+1.j, 0.-1.j])
    """
    result = _C._linalg_eig("linalg.eig", A, True)
    return into_outs("linalg.eig", linalg_eig(*result), out)


@runs("linalg_eig")
@casts(cpu="float32", of="linalg_eigvals")
def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Eigenvalues of square matrices, in no order.

    Args:
        A: square matrices, real or complex.
        out: where to put the result.

    Returns:
        The eigenvalues, complex.

    Example:
        >>> torch.linalg.eigvals(torch.tensor([[0.0, -1.0], [1.0, 0.0]]))
        tensor([0.+1.j, 0.-1.j])
    """
    values = _C._linalg_eig("linalg.eigvals", A, False)[0]
    return into_out("linalg.eigvals", values, out)


def _expect_no_driver(name: str, driver: str | None) -> None:
    if driver is not None:
        raise RuntimeError(
            f"torch.{name}: keyword argument `driver=` is only supported on CUDA inputs with "
            "cuSOLVER backend."
        )


@runs("linalg_svd")
@casts(cpu="float32", of="linalg_svd")
def svd(
    A: Tensor,
    full_matrices: bool = True,
    *,
    driver: str | None = None,
    out: Sequence[Tensor] | None = None,
) -> linalg_svd:
    """Singular values and vectors: ``A = U @ diag(S) @ Vh``.

    Args:
        A: matrices.
        full_matrices: complete U and Vh to square matrices.
        driver: a choice on CUDA devices only.
        out: where to put the results.

    Returns:
        ``(U, S, Vh)``, the values descending. The gradient of a loss that depends on the vectors'
        signs, or on the choice among those of equal values, is undefined; one that depends on the
        phases of complex vectors is refused.

    Example:
        >>> torch.linalg.svd(torch.tensor([[3.0, 0.0], [0.0, -4.0]])).S
        tensor([4., 3.])
    """
    _expect_no_driver("linalg.svd", driver)
    result = _C._linalg_svd("linalg.svd", A, full_matrices, True)
    return into_outs("linalg.svd", linalg_svd(*result), out)


@runs("linalg_svd")
@casts(cpu="float32", of="linalg_svdvals")
def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """Singular values, in descending order.

    Args:
        A: matrices.
        driver: a choice on CUDA devices only.
        out: where to put the result.

    Returns:
        The singular values. Their gradient is stable also where some are equal.

    Example:
        >>> torch.linalg.svdvals(torch.tensor([[3.0, 0.0], [0.0, -4.0]]))
        tensor([4., 3.])
    """
    _expect_no_driver("linalg.svdvals", driver)
    values = _C._linalg_svd("linalg.svd", A, False, False)[1]
    return into_out("linalg.svdvals", values, out)
