"""Norms, condition numbers, ranks."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad.linalg._arguments import (
    check_float,
    check_matrices,
    into_out,
    real_dtype_of,
    wrap_dims,
)
from tapegrad.linalg._solve import inv_ex, tolerances
from tapegrad.linalg._spectrum import eigvalsh, svdvals

__all__ = ["cond", "matrix_norm", "matrix_rank", "norm", "vector_norm"]

_INFINITY = float("inf")


def _check_norm(name: str, x: Any, dtype: Any) -> Tensor:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: expected a Tensor, got {type(x).__name__}")
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {x.dtype}; "
            "call .float() first"
        )
    if dtype is None or dtype == x.dtype:
        return x
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name}: dtype should be floating point or complex, got {dtype}")
    if dtype.is_complex != x.dtype.is_complex:
        kind = "complex" if x.dtype.is_complex else "real"
        raise RuntimeError(f"{name}: dtype should be {kind} for {kind} inputs, got {dtype}")
    if _C.promote_types(x.dtype, dtype) != dtype:
        raise RuntimeError(
            f"{name}: the dtype of the input {x.dtype} should be convertible without narrowing to "
            f"the specified dtype {dtype}"
        )
    return x.to(dtype)


def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return norms of vectors; a tensor of any shape counts as one.

    Args:
        x: a tensor.
        ord: the order: any number, inf or -inf; 0 counts what is not zero.
        dim: the dimensions that make up a vector; all by default.
        keepdim: keep these dimensions with size 1.
        dtype: convert the tensor to this dtype first.
        out: where to put the result.

    Returns:
        A number for each vector.

    Example:
        >>> torch.linalg.vector_norm(torch.tensor([3.0, -4.0]))
        tensor(5.)
    """
    name = "linalg.vector_norm"
    if isinstance(ord, str):
        raise TypeError(f"{name}: expected ord to be a number, got {ord!r}")
    x = _check_norm(name, x, dtype)
    dims = tuple(range(x.dim())) if dim is None else wrap_dims(name, dim, x.dim())
    dims = dims or tuple(range(x.dim()))
    is_empty = any(x.shape[d] == 0 for d in dims if x.dim())
    if is_empty and (ord < 0 or ord == _INFINITY):
        raise RuntimeError(
            f"{name} cannot compute the {ord} norm on an empty tensor because the operation does "
            "not have an identity"
        )
    result = x.norm(ord, dims, keepdim) if dims else x.norm(ord)
    return into_out(name, result, out)


_MATRIX_ORDERS = (2, -2, 1, -1, _INFINITY, -_INFINITY)


def matrix_norm(
    A: Tensor,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return norms of matrices.

    Args:
        A: matrices.
        ord: ``"fro"``, ``"nuc"``, inf, -inf, 1, -1 (sums of rows or columns), 2 or -2 (the largest
            and the smallest singular value).
        dim: the dimensions of rows and columns.
        keepdim: keep these dimensions with size 1.
        dtype: convert the matrices to this dtype first.
        out: where to put the result.

    Returns:
        A number for each matrix.

    Example:
        >>> torch.linalg.matrix_norm(torch.tensor([[1.0, -2.0], [3.0, 4.0]]), 1)
        tensor(6.)
    """
    name = "linalg.matrix_norm"
    A = _check_norm(name, A, dtype)
    if A.dim() < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if isinstance(dim, int) or len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {dim}")
    rows, columns = wrap_dims(name, dim, A.dim())
    if isinstance(ord, str):
        if ord not in ("fro", "nuc"):
            raise RuntimeError(f"{name}: Order {ord} not supported.")
        if ord == "fro":
            return into_out(name, vector_norm(A, 2, (rows, columns), keepdim), out)
    elif ord not in _MATRIX_ORDERS:
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    if (
        not isinstance(ord, str) and ord > 0 and A.numel() == 0
    ):  # matrices without elements have norm 0
        return into_out(name, A.abs().sum((rows, columns), keepdim), out)
    if ord == "nuc" or abs(ord) == 2:
        result = _spectral(A.movedim((rows, columns), (-2, -1)), ord)
        if keepdim:
            for each in sorted((rows, columns)):
                result = result.unsqueeze(each)
        return into_out(name, result, out)
    first, second = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = vector_norm(A, 1, first, keepdim=True)
    result = (sums.amax if ord > 0 else sums.amin)(second, keepdim=True)
    if not keepdim:
        result = result.squeeze((rows, columns))
    return into_out(name, result, out)


def _spectral(A: Tensor, ord: Any) -> Tensor:
    values = svdvals(A)
    if ord == "nuc":
        return values.sum(-1)
    return values.amax(-1) if ord > 0 else values.amin(-1)


def norm(
    A: Tensor,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
) -> Tensor:
    """Return norms of vectors or of matrices, whichever `dim` and `ord` ask for.

    Args:
        A: a tensor.
        ord: as `vector_norm` or `matrix_norm` takes it; by default the root of the sum of squares.
        dim: one dimension for vectors, two for matrices; by default the whole tensor, as a matrix
            if `ord` is given and it has two dimensions.
        keepdim: keep these dimensions with size 1.
        out: where to put the result.
        dtype: convert the tensor to this dtype first.

    Returns:
        A number for each vector or matrix.

    Example:
        >>> torch.linalg.norm(torch.tensor([[3.0, 0.0], [0.0, -4.0]]), "nuc")
        tensor(7.)
    """
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype, out=out)
    count = None if dim is None else 1 if isinstance(dim, int) else len(dim)
    if count not in (None, 1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}"
        )
    if count is None and A.dim() not in (1, 2):
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{A.dim()}D."
        )
    if count == 2 or (count is None and A.dim() == 2):
        return matrix_norm(A, ord, (0, 1) if dim is None else dim, keepdim, dtype=dtype, out=out)
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.norm: Order {ord} not supported for vectors; expected a number")
    return vector_norm(A, ord, dim, keepdim, dtype=dtype, out=out)


@casts(cpu="float32", of="linalg_cond")
def cond(A: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Condition numbers: how much a solution may change with the matrix.

    Args:
        A: matrices.
        p: the norm: None or 2 (ratio of the extreme singular values), -2, or another one of
            `matrix_norm` for square matrices.
        out: where to put the result.

    Returns:
        A number for each matrix; inf for singular ones.

    Example:
        >>> torch.linalg.cond(torch.tensor([[4.0, 0.0], [0.0, 2.0]]))
        tensor(2.)
    """
    name = "linalg.cond"
    check_matrices(name, A)
    check_float(name, A)
    if isinstance(p, str):
        if p not in ("fro", "nuc"):
            raise RuntimeError(f"{name} got an invalid norm type: {p}")
    elif p is not None and p not in _MATRIX_ORDERS:
        raise RuntimeError(f"{name} got an invalid norm type: {p}")
    if p in (None, 2, -2):
        if A.numel() == 0:
            return into_out(name, A.new_zeros(A.shape[:-2], dtype=real_dtype_of(A)), out)
        values = svdvals(A)
        first, last = values[..., 0], values[..., -1]
        return into_out(name, last / first if p == -2 else first / last, out)
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"{name} with frobenius or nuclear norm types requires square matrices"
            if isinstance(p, str)
            else f"{name} with norm order {p} requires square matrices"
        )
    if A.numel() == 0:
        return into_out(name, A.new_zeros(A.shape[:-2], dtype=real_dtype_of(A)), out)
    inverse, info = inv_ex(A)
    if p == "nuc":
        broken = (info != 0).unsqueeze(-1).unsqueeze(-1)
        inverse = inverse.masked_fill(broken, 0.0)
    result = matrix_norm(A, p) * matrix_norm(inverse, p)
    result = result.masked_fill(info != 0, _INFINITY)
    return into_out(name, result, out)


@casts(cpu="float32", of="linalg_matrix_rank")
def matrix_rank(
    A: Tensor,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """Count the singular values that are not zero.

    Args:
        A: matrices.
        tol: an absolute tolerance that stands for itself, as NumPy calls it.
        hermitian: the matrices are symmetric or Hermitian; only the lower triangle is read.
        atol: singular values up to this count as zero.
        rtol: singular values up to this part of the largest count as zero; by default the larger
            side times the dtype's epsilon if no `atol` is given, else 0.
        out: where to put the result.

    Returns:
        A count for each matrix.

    Example:
        >>> torch.linalg.matrix_rank(torch.ones(2, 2))
        tensor(1)
    """
    name = "linalg.matrix_rank"
    check_matrices(name, A, "input")
    check_float(name, A)
    if tol is not None:
        atol, rtol = tol, 0.0
    if A.numel() == 0:
        return into_out(name, A.new_zeros(A.shape[:-2], dtype=_C.int64), out)
    A = A.detach()
    absolute, relative = tolerances(A, atol, rtol)
    values = eigvalsh(A).abs() if hermitian else svdvals(A)
    largest = values.amax(-1)
    limit = _C.maximum(absolute, relative * largest)
    return into_out(name, (values > limit.unsqueeze(-1)).sum(-1), out)
