"""Products and powers of matrices and vectors."""

import operator
from collections.abc import Sequence
from typing import Any

import tapegrad
from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.linear_algebra import _best_splits
from tapegrad._ops import runs
from tapegrad.linalg._arguments import check_square, into_out
from tapegrad.linalg._solve import inv

__all__ = [
    "cross",
    "diagonal",
    "matmul",
    "matrix_exp",
    "matrix_power",
    "multi_dot",
    "vander",
    "vecdot",
]


@runs("matmul")
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Products of matrices: another name of `torch.matmul`.

    Args:
        input: the left matrices.
        other: the right matrices.
        out: where to put the result.

    Example:
        >>> torch.linalg.matmul(torch.eye(2), torch.ones(2))
        tensor([1., 1.])
    """
    return _C.matmul(input, other, out=out)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return a view of the diagonals of matrices: `torch.diagonal` of the last two dimensions.

    Args:
        A: matrices.
        offset: which diagonal: 0 the main one, above 0 above it, below 0 below it.
        dim1: the dimension of rows.
        dim2: the dimension of columns.

    Example:
        >>> torch.linalg.diagonal(torch.eye(2))
        tensor([1., 1.])
    """
    return _C.diagonal(A, offset, dim1, dim2)


def cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Cross products of vectors of three elements.

    Args:
        input: the left vectors.
        other: the right vectors, of as many dimensions and a shape that broadcasts.
        dim: the dimension of size 3.
        out: where to put the result.

    Example:
        >>> torch.linalg.cross(torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0]))
        tensor([0, 0, 1])
    """
    for name, value in (("input", input), ("other", other)):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"linalg.cross: expected {name} to be a Tensor, got {type(value).__name__}"
            )
    if input.dim() != other.dim():
        raise RuntimeError(
            "linalg.cross: inputs must have the same number of dimensions, got "
            f"{input.dim()} and {other.dim()}"
        )
    return into_out("linalg.cross", tapegrad.cross(input, other, dim), out)


def vander(x: Tensor, N: int | None = None) -> Tensor:
    """Vandermonde matrices: the powers of vectors, from 0 upwards, as columns.

    Args:
        x: vectors.
        N: the number of columns; by default the length of the vectors.

    Example:
        >>> torch.linalg.vander(torch.tensor([1, 2, 3]))
        tensor([[1, 1, 1],
                [1, 2, 4],
                [1, 3, 9]])
    """
    if x.dtype == _C.bool:
        raise RuntimeError("linalg.vander: expected numbers, got bool; call .long() first")
    if x.dim() == 0:
        x = x.unsqueeze(0)
    if N is not None and N <= 1:
        raise RuntimeError(f"linalg.vander: N must be greater than 1, got {N}")
    columns = x.shape[-1] if N is None else N
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        x = x.to(_C.int64)
    ones = _C.ones((*x.shape, 1), dtype=x.dtype, device=x.device)
    powers = x.unsqueeze(-1).expand(*x.shape, max(columns - 1, 0)).cumprod(-1)
    return _C.cat([ones, powers], dim=-1)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Inner products of vectors: sums of ``x.conj() * y``.

    Args:
        x: the left vectors.
        y: the right vectors, of a shape that broadcasts.
        dim: the dimension that is summed.
        out: where to put the result.

    Example:
        >>> torch.linalg.vecdot(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0]))
        tensor([3., 7.])
    """
    if x.dtype != y.dtype:
        raise RuntimeError(
            "linalg.vecdot: Expected x and y to have the same dtype, but found x of type "
            f"{x.dtype} and y of type {y.dtype} instead"
        )
    x = x.conj()
    if dim in (-1, max(x.dim(), y.dim()) - 1) and x.dim() and y.dim() and x.dtype != _C.bool:
        if x.shape[-1] != y.shape[-1]:
            x, y = tapegrad.broadcast_tensors(x, y)
        product = x.unsqueeze(-2).matmul(y.unsqueeze(-1)).squeeze(-1).squeeze(-1)
    else:
        product = (x * y).sum(dim)
    return into_out("linalg.vecdot", product, out)


def matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """Multiply matrices with themselves, by repeated squaring.

    Args:
        A: square matrices.
        n: the exponent; the inverse is multiplied where it is negative.
        out: where to put the result.

    Returns:
        The powers.

    Example:
        >>> torch.linalg.matrix_power(torch.tensor([[1, 1], [0, 1]]), 5)
        tensor([[1, 5],
                [0, 1]])
    """
    name = "linalg.matrix_power"
    check_square(name, A)
    if not isinstance(n, int):
        try:
            n = operator.index(n)
        except TypeError:
            raise TypeError(f"{name}: expected n to be an int, got {type(n).__name__}") from None
    return into_out(name, _power(A, n), out)


def _power(A: Tensor, n: int) -> Tensor:
    if n == 0:
        return A.clone().copy_(_C.eye(A.shape[-1], dtype=A.dtype, device=A.device))
    if n < 0:
        A, n = inv(A), -n
    if n == 1:
        return A.clone()
    result = None
    while True:
        if n & 1:
            result = A if result is None else result.matmul(A)
        n >>= 1
        if not n:
            break
        A = A.matmul(A)
    assert result is not None
    return result


@runs("linalg_matrix_exp")
def matrix_exp(A: Tensor) -> Tensor:
    """Exponentials of matrices: the sum of their powers, each divided by its factorial.

    Args:
        A: square matrices.

    Returns:
        Matrices of the same shape.

    Example:
        >>> torch.linalg.matrix_exp(torch.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    if A.dtype in (_C.float16, _C.bfloat16):
        return _C._linalg_matrix_exp(A.float()).to(A.dtype)
    return _C._linalg_matrix_exp(A)


def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Multiply matrices in the order that takes the fewest multiplications.

    Args:
        tensors: two or more matrices whose sizes chain; the first and the last may be vectors.
        out: where to put the result.

    Returns:
        The product.

    Example:
        >>> a = torch.ones(2, 5)
        >>> torch.linalg.multi_dot([a, a.mT, a]).shape
        torch.Size([2, 5])
    """
    chain: list[Any] = list(tensors)
    if len(chain) < 2:
        raise RuntimeError("multi_dot(): expected at least 2 tensors but got " + str(len(chain)))
    first_is_vector, last_is_vector = chain[0].dim() == 1, chain[-1].dim() == 1
    if first_is_vector:
        chain[0] = chain[0].unsqueeze(0)
    if last_is_vector:
        chain[-1] = chain[-1].unsqueeze(-1)
    for index, matrix in enumerate(chain):
        if matrix.dim() != 2:
            kind = "1D or 2D" if index in (0, len(chain) - 1) else "2D"
            raise RuntimeError(
                f"multi_dot(): tensor {index} must be {kind} but got {tensors[index].dim()}D"
            )
        if matrix.dtype != chain[0].dtype:
            raise RuntimeError(
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{chain[0].dtype} and tensor {index} {matrix.dtype}"
            )
        if index and matrix.shape[0] != chain[index - 1].shape[1]:
            raise RuntimeError(
                f"multi_dot(): tensors {index - 1} and {index} with shapes "
                f"{list(chain[index - 1].shape)} and {list(matrix.shape)} cannot be multiplied"
            )
    split = _best_splits([chain[0].shape[0], *(matrix.shape[1] for matrix in chain)])

    def product(first: int, last: int) -> Tensor:
        if first == last:
            only: Tensor = chain[first]
            return only
        middle = split[first, last]
        return product(first, middle).mm(product(middle + 1, last))

    result = product(0, len(chain) - 1)
    if first_is_vector:
        result = result.squeeze(0)
    if last_is_vector:
        result = result.squeeze(-1)
    return into_out("multi_dot", result, out)
