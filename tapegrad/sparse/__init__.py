"""Sparse tensors: those of which only the elements that are not zero are stored.

>>> import tapegrad as torch
>>> graph = torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
>>> graph @ torch.ones(3, 1)
tensor([[3.],
        [4.]])
"""

from typing import TYPE_CHECKING, Any

from tapegrad._missing import missing as _missing
from tapegrad.sparse import _tensor  # noqa: F401
from tapegrad.sparse._construct import check_sparse_tensor_invariants
from tapegrad.sparse._diagonals import spdiags
from tapegrad.sparse._products import addmm as _addmm
from tapegrad.sparse._products import mm as _mm
from tapegrad.sparse._products import sampled_addmm
from tapegrad.sparse._reductions import log_softmax, softmax, sum

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
]


def mm(mat1: Any, mat2: Any, reduce: str | None = None) -> Any:
    """Return the product of matrices, of which the first is sparse.

    The product of two sparse matrices is sparse, all others are dense. Both operands have
    gradients; that of a sparse one has its places.

    Args:
        mat1: a sparse matrix.
        mat2: a matrix.
        reduce: ``"sum"``, as None; others are refused.

    Example:
        >>> a = torch.tensor([[0.0, 2.0], [1.0, 0.0]]).to_sparse().requires_grad_()
        >>> y = torch.sparse.mm(a, torch.eye(2))
        >>> y.sum().backward()
        >>> a.grad.to_dense()
        tensor([[0., 1.],
                [1., 0.]])
    """
    if reduce not in (None, "sum"):
        raise NotImplementedError(
            f"mm: reduce={reduce!r} is not supported; use 'sum', or scatter_reduce of rows"
        )
    return _mm(mat1, mat2)


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: Any = 1.0, alpha: Any = 1.0) -> Any:
    """Return ``beta * mat + alpha * (mat1 @ mat2)``, where `mat1` is sparse.

    Args:
        mat: a dense matrix.
        mat1: a sparse one.
        mat2: a dense one.
        beta: a factor for `mat`.
        alpha: a factor for the product.

    Example:
        >>> a = torch.eye(2).to_sparse()
        >>> torch.sparse.addmm(torch.ones(2, 2), a, torch.ones(2, 2), beta=2)
        tensor([[3., 3.],
                [3., 3.]])
    """
    return _addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def as_sparse_gradcheck(gradcheck: Any) -> Any:
    """Refused: `gradcheck` takes functions of dense tensors."""
    raise NotImplementedError(
        "as_sparse_gradcheck: check a function of the values, which makes the sparse tensor itself"
    )


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Make the classes for one dtype when they are first asked for."""
        from tapegrad._typed import DTYPES

        if name.endswith("Tensor") and name[:-6] in DTYPES:
            from tapegrad.sparse._legacy import tensor_type

            return tensor_type(name)
        raise _missing(__name__, name)
