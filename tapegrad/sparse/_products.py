"""Products of matrices of which one is sparse, or both."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import sparse_coo, sparse_csr
from tapegrad.sparse._convert import coalesce, coalesced_parts, to_layout, to_sparse
from tapegrad.sparse._elementwise import add
from tapegrad.sparse._history import build, is_sparse, parts_of, values_of
from tapegrad.sparse._order import elements_of_product, rows_times
from tapegrad.sparse._parts import Parts, Rows
from tapegrad.sparse._table import rule

__all__ = ["addmm", "mm", "sampled_addmm"]


def _check_matrices(name: str, a: Any, b: Any) -> None:
    for x in (a, b):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}(): expected Tensors, got {type(x).__name__}")
        if x.dim() != 2:
            raise RuntimeError(f"{name}: expected matrices, got {x.dim()}D tensor")
        if is_sparse(x) and parts_of(x).coordinates(x.shape).shape[0] != 2:
            raise NotImplementedError(
                f"{name}: hybrid matrices, with a dense dimension, are not supported; call "
                ".to_dense() first"
            )
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"{name}: mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"{name}: expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}"
        )


@rule("mm")
def mm(input: Tensor, mat2: Tensor, out_dtype: Any = None) -> Tensor:
    """Return the product: dense, or sparse where both operands are."""
    if not is_sparse(input) and not is_sparse(mat2):
        return _C.mm(input, mat2)
    if out_dtype is not None:
        raise NotImplementedError("mm: out_dtype is not supported with sparse tensors")
    _check_matrices("mm", input, mat2)
    if is_sparse(input) and is_sparse(mat2):
        return _of_sparse(input, mat2)
    if is_sparse(input):
        return rows_times(parts_of(input).rows(input.shape), values_of(input), mat2)
    # (a @ s).T is s.T @ a.T.
    rows = parts_of(mat2).rows(mat2.shape)
    return rows_times(rows.transposed(), values_of(mat2), input.t()).t()


def _of_sparse(a: Tensor, b: Tensor) -> Tensor:
    """Return a sparse product: each element of a meets a row of b."""
    layout = a.layout if a.layout is b.layout else sparse_coo
    left = a if a.layout is sparse_coo else to_sparse(a)
    right = b if b.layout is sparse_coo else to_sparse(b)
    ours, x = coalesced_parts(left)
    theirs, y = coalesced_parts(right)
    assert ours.indices is not None
    row, middle = ours.indices.unbind(0)
    rows = theirs.rows(b.shape)
    begins = rows.starts.index_select(0, middle)
    counts = rows.starts.index_select(0, middle + 1) - begins
    term = _C.repeat_interleave(_C.arange(counts.shape[0]), counts)
    before = counts.cumsum(0) - counts
    place = _C.arange(term.shape[0]) + (begins - before).index_select(0, term)
    values = x.index_select(0, term) * y.index_select(0, place)
    indices = _C.stack([row.index_select(0, term), rows.columns.index_select(0, place)])
    parts = Parts(sparse_coo, values.detach(), indices, coalesced=False)
    result = coalesce(build(parts, values, (a.shape[0], b.shape[1])))
    return result if layout is sparse_coo else to_layout(result, layout)


def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of two matrices, of which one may be sparse: `mm`."""
    return mm(input, mat2)


dsmm = spmm


@rule("mv")
def mv(input: Tensor, vec: Tensor) -> Tensor:
    if is_sparse(vec):
        raise NotImplementedError("mv: a sparse vector is not supported; call .to_dense() first")
    if vec.dim() != 1:
        raise RuntimeError(f"mv: vector must be 1D, got {vec.dim()}D")
    return mm(input, vec.unsqueeze(1)).squeeze(1)


@rule("matmul", "__matmul__")
def matmul(input: Tensor, other: Tensor) -> Tensor:
    if is_sparse(input) and input.dim() == 2 and other.dim() == 1:
        return mv(input, other)
    if is_sparse(other) and other.dim() == 2 and not is_sparse(input) and input.dim() == 1:
        return mm(input.unsqueeze(0), other).squeeze(0)
    if input.dim() != 2 or other.dim() != 2:
        raise NotImplementedError(
            f"matmul: a sparse operand is multiplied as a matrix, got shapes {list(input.shape)} "
            f"and {list(other.shape)}; call .to_dense() first"
        )
    return mm(input, other)


@rule("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if is_sparse(weight):
        lead = input.shape[:-1]
        if is_sparse(input):
            raise NotImplementedError("linear: one operand must be dense; call .to_dense() first")
        result = mm(input.reshape(-1, input.shape[-1]), weight.t())
        result = result.reshape(*lead, weight.shape[0])
    else:
        result = mm(input, weight.t())
    return result if bias is None else result + bias


@rule("addmm")
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Return ``beta * input + alpha * (mat1 @ mat2)``."""
    product = mm(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    if is_sparse(product):
        if not is_sparse(input):
            return add(input * beta, product)
        return add(product, input * beta)
    if is_sparse(input):
        raise NotImplementedError(
            "addmm: a sparse input is added to a sparse product alone; call .to_dense() first"
        )
    if beta == 0:
        return product
    return product + (input if beta == 1 else input * beta)


@rule("addmm_")
def addmm_(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    if is_sparse(input):
        raise NotImplementedError("addmm_: a sparse tensor is not written to; use addmm")
    source = input.clone() if input.requires_grad and _C.is_grad_enabled() else input
    return input.copy_(addmm(source, mat1, mat2, beta=beta, alpha=alpha))


@rule("addmv")
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    product = mv(mat, vec) * alpha
    return product if beta == 0 else product + input * beta


@rule("bmm")
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    if not is_sparse(input) or is_sparse(mat2) or input.dim() != 3 or mat2.dim() != 3:
        raise NotImplementedError(
            "bmm: expected a sparse batch times a dense one; call .to_dense() first"
        )
    from tapegrad.sparse._shape import select

    return _C.stack([mm(select(input, 0, i), mat2[i]) for i in range(input.shape[0])])


def smm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of a sparse matrix with a dense one, in layout sparse_coo."""
    product = mm(input, mat2)
    indices = parts_of(input).coordinates(input.shape)
    rows = indices[0].unique()
    columns = product.shape[1]
    values = product.index_select(0, rows).reshape(-1)
    places = _C.stack([rows.repeat_interleave(columns), _C.arange(columns).repeat(rows.shape[0])])
    return build(Parts(sparse_coo, values.detach(), places), values, product.shape)


def hspmm(mat1: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """Return the product of a sparse matrix with a dense one, as rows of a hybrid tensor."""
    if out is not None:
        raise NotImplementedError("hspmm: out= is not supported; use the result")
    product = mm(mat1, mat2)
    rows = parts_of(mat1).coordinates(mat1.shape)[0].unique()
    values = product.index_select(0, rows)
    return build(Parts(sparse_coo, values.detach(), rows.unsqueeze(0)), values, product.shape)


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0,
    out: Any = None,
) -> Tensor:  # fmt: skip
    """Return ``alpha * (mat1 @ mat2)`` at the places of a sparse matrix, plus it times `beta`.

    Args:
        input: a matrix of layout sparse_csr.
        mat1: a dense matrix.
        mat2: another one.
        beta: a factor for `input`.
        alpha: a factor for the product.
        out: refused.

    Example:
        >>> places = torch.eye(2).to_sparse_csr()
        >>> torch.sparse.sampled_addmm(places, torch.ones(2, 3), torch.ones(3, 2), beta=0).values()
        tensor([3., 3.])
    """
    if out is not None:
        raise NotImplementedError("sampled_addmm: out= is not supported; use the result")
    if not is_sparse(input) or input.layout is not sparse_csr:
        raise RuntimeError(
            f"sampled_addmm: Expected self to have sparse csr layout, but got {input.layout}"
        )
    if mat1.dim() != 2 or mat2.dim() != 2 or mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied ({list(mat1.shape)} and "
            f"{list(mat2.shape)})"
        )
    if tuple(input.shape) != (mat1.shape[0], mat2.shape[1]):
        raise RuntimeError(
            f"sampled_addmm: expected a matrix of shape {[mat1.shape[0], mat2.shape[1]]}, got "
            f"{list(input.shape)}"
        )
    parts = parts_of(input)
    rows: Rows = parts.rows(input.shape)
    values = elements_of_product(rows, mat1, mat2.t()) * alpha
    if beta != 0:
        values = values + values_of(input) * beta
    return build(parts, values, input.shape)
