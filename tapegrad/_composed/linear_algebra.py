"""Products and diagonals of matrices, made of matmul, views and sums."""

from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad._composed.arguments import as_sequence, expect_tensor, takes_out, wrap_dim
from tapegrad._composed.registry import function, method
from tapegrad._ops import runs

__all__ = [
    "addbmm",
    "addr",
    "chain_matmul",
    "cross",
    "diag_embed",
    "diagflat",
    "inner",
    "kron",
    "tensordot",
    "trace",
    "vander",
]


@function
@method
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Make matrices, zero elsewhere, whose diagonal is the last dimension of a tensor.

    Args:
        input: a tensor of at least one dimension.
        offset: which diagonal: 0 the main one, above 0 above it, below 0 below it.
        dim1: where the dimension of the rows goes in the result.
        dim2: where the dimension of the columns goes in the result.

    Returns:
        A tensor with one dimension more than `input`.

    Example:
        >>> torch.diag_embed(torch.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
    """
    expect_tensor("diag_embed", "input", input)
    rank = input.dim() + 1
    first = wrap_dim("diag_embed", dim1, rank)
    second = wrap_dim("diag_embed", dim2, rank)
    if first == second:
        raise RuntimeError(f"diag_embed: diagonal dimensions cannot be identical {dim1}, {dim2}")
    length, shift = input.shape[-1], abs(offset)
    size = length + shift
    on_diagonal = _C.eye(length, dtype=_C.bool, device=input.device)
    # where, not a product with the identity: 0 * inf off the diagonal would be nan.
    square = _C.where(on_diagonal, input.unsqueeze(-1), input.new_zeros(()))
    if shift:
        # The square sits against one corner; zeros fill the other sides.
        wide = input.new_zeros((*input.shape, shift))
        tall = input.new_zeros((*input.shape[:-1], shift, size))
        side = [wide, square] if offset > 0 else [square, wide]
        body = _C.cat(side, dim=-1)
        square = _C.cat([body, tall] if offset > 0 else [tall, body], dim=-2)
    return square.movedim((-2, -1), (first, second)).contiguous()


@function
@method
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """Make a square matrix whose diagonal holds all elements of a tensor.

    Args:
        input: a tensor of any shape.
        offset: which diagonal: 0 the main one, above 0 above it, below 0 below it.

    Returns:
        A matrix, zero elsewhere.

    Example:
        >>> torch.diagflat(torch.tensor([[1, 2]]), 1)
        tensor([[0, 1, 0],
                [0, 0, 2],
                [0, 0, 0]])
    """
    expect_tensor("diagflat", "input", input)
    return diag_embed(input.reshape(-1), offset)


@function
@method
@runs("sum")
@casts(cpu="float32")
def trace(input: Tensor) -> Tensor:
    """Sum the diagonal of a matrix.

    Args:
        input: a matrix.

    Returns:
        A 0-d tensor.

    Example:
        >>> torch.trace(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor(5.)
    """
    expect_tensor("trace", "input", input)
    if input.dim() != 2:
        raise RuntimeError(f"trace: expected a matrix, got shape {tuple(input.shape)}")
    return input.diagonal().sum()


@function
@takes_out(exact=True)
@runs("matmul")
@casts(cuda="widest", transparent=True)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Contract dimensions of two tensors, as one matrix product.

    Args:
        a: the left tensor.
        b: the right tensor.
        dims: how many of the last dimensions of `a` meet the first of `b`; or two lists, the
            dimensions of `a` and those of `b` that meet.

    Returns:
        A tensor with the remaining dimensions of `a`, then those of `b`.

    Example:
        >>> a = torch.arange(6.0).reshape(2, 3)
        >>> torch.tensordot(a, a, dims=([1], [1]))
        tensor([[ 5., 14.],
                [14., 50.]])
    """
    expect_tensor("tensordot", "a", a)
    expect_tensor("tensordot", "b", b)
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"tensordot: both inputs should have same dtype, got {a.dtype} and {b.dtype}; convert "
            "one with .to()"
        )
    dims_a, dims_b = _read_contracted_dims(a, b, dims)
    free_a = [d for d in range(a.dim()) if d not in dims_a]
    free_b = [d for d in range(b.dim()) if d not in dims_b]
    # A dimension of size 1 meets any size, as in PyTorch: the other side is summed.
    for index, (da, db) in enumerate(zip(dims_a, dims_b, strict=True)):
        if a.shape[da] == b.shape[db]:
            continue
        if a.shape[da] == 1:
            b = b.sum(db, keepdim=True, dtype=b.dtype)
        elif b.shape[db] == 1:
            a = a.sum(da, keepdim=True, dtype=a.dtype)
        else:
            raise RuntimeError(
                f"tensordot: expected contracted dimensions of equal size, got {a.shape[da]} and "
                f"{b.shape[db]} for pair {index} of dims"
            )
    contracted = 1
    for d in dims_a:
        contracted *= a.shape[d]
    shape_a, shape_b = [a.shape[d] for d in free_a], [b.shape[d] for d in free_b]
    rows, columns = 1, 1
    for size in shape_a:
        rows *= size
    for size in shape_b:
        columns *= size
    left = a.permute((*free_a, *dims_a)).reshape(rows, contracted)
    right = b.permute((*dims_b, *free_b)).reshape(contracted, columns)
    if rows == columns == 1:  # autocast leaves a dot as it is
        return left.reshape(-1).dot(right.reshape(-1)).reshape(shape_a + shape_b)
    return left.mm(right).reshape(shape_a + shape_b)


def _read_contracted_dims(a: Tensor, b: Tensor, dims: Any) -> tuple[list[int], list[int]]:
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.dim(), b.dim()):
            raise RuntimeError(
                f"tensordot expects dims >= 0, but got dims={dims}"
                if dims < 0
                else f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims} for "
                f"{a.dim()} and {b.dim()} dimensions"
            )
        return list(range(a.dim() - dims, a.dim())), list(range(dims))
    first, second = ([x] if isinstance(x, int) else list(x) for x in dims)
    if len(first) != len(second):
        raise RuntimeError(
            f"tensordot: expected as many dims of a as of b, got {len(first)} and {len(second)}"
        )
    dims_a = [wrap_dim("tensordot", d, a.dim()) for d in first]
    dims_b = [wrap_dim("tensordot", d, b.dim()) for d in second]
    for wrapped in (dims_a, dims_b):
        if len(set(wrapped)) < len(wrapped):
            raise RuntimeError(f"tensordot: expected each dimension once, got {dims}")
    return dims_a, dims_b


@function
@method
@takes_out(exact=True)
@runs("matmul")
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Dot product along the last dimensions; a plain product where one side is 0-d.

    Args:
        input: the left tensor.
        other: the right tensor, of the same last size.

    Returns:
        A tensor with the other dimensions of `input`, then those of `other`.

    Example:
        >>> torch.inner(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
        tensor(11.)
    """
    expect_tensor("inner", "input", input)
    expect_tensor("inner", "other", other)
    if input.dim() == 0 or other.dim() == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner: expected tensors of the same last size, got shapes {tuple(input.shape)} and "
            f"{tuple(other.shape)}"
        )
    return tensordot(input, other, dims=([-1], [-1]))


@function
@method
@takes_out()
@runs("mul")
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Kronecker product: every element of `input` times the whole of `other`, as blocks.

    Args:
        input: the tensor of the outer structure.
        other: the tensor of the blocks; the one with fewer dimensions gets leading ones.

    Returns:
        A tensor whose sizes are the products of theirs.

    Example:
        >>> torch.kron(torch.tensor([[1, 2]]), torch.tensor([[1], [10]]))
        tensor([[ 1,  2],
                [10, 20]])
    """
    expect_tensor("kron", "input", input)
    expect_tensor("kron", "other", other)
    rank = max(input.dim(), other.dim())
    outer = [1] * (rank - input.dim()) + list(input.shape)
    block = [1] * (rank - other.dim()) + list(other.shape)
    interleaved_outer = [size for pair in zip(outer, [1] * rank, strict=True) for size in pair]
    interleaved_block = [size for pair in zip([1] * rank, block, strict=True) for size in pair]
    product = input.reshape(interleaved_outer) * other.reshape(interleaved_block)
    return product.reshape([m * n for m, n in zip(outer, block, strict=True)])


@function
@method
@takes_out(exact=True)
@casts(cuda="widest")
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Cross product of vectors of three elements.

    Args:
        input: the left vectors.
        other: the right vectors, of a shape that broadcasts.
        dim: the dimension of size 3; by default the first of that size.

    Returns:
        The vectors perpendicular to both.

    Example:
        >>> torch.cross(torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0]), dim=0)
        tensor([0, 0, 1])
    """
    expect_tensor("cross", "input", input)
    expect_tensor("cross", "other", other)
    if input.dim() != other.dim():
        raise RuntimeError(
            f"cross: expected tensors with the same number of dimensions, got shapes "
            f"{tuple(input.shape)} and {tuple(other.shape)}"
        )
    if dim is None:
        threes = [d for d, size in enumerate(input.shape) if size == 3]
        if not threes:
            raise RuntimeError(
                "cross: inputs dimension -1 must have length 3, or another one, got shape "
                f"{tuple(input.shape)}"
            )
        dim = threes[0]
    dim = wrap_dim("cross", dim, input.dim())
    if input.dim() == 0 or input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"cross: expected size 3 in dimension {dim}, got shapes {tuple(input.shape)} and "
            f"{tuple(other.shape)}"
        )
    return input.roll(-1, dim) * other.roll(-2, dim) - input.roll(-2, dim) * other.roll(-1, dim)


@function
@takes_out()
@runs("matmul")
@casts(cuda="lower", transparent=True)
def chain_matmul(*matrices: Any) -> Tensor:
    """Multiply matrices in the order that takes the fewest multiplications.

    Args:
        *matrices: matrices whose sizes chain.

    Returns:
        The product.

    Example:
        >>> a = torch.ones(2, 5)
        >>> torch.chain_matmul(a, a.t(), a).shape == (2, 5)
        True
    """
    chain = as_sequence("chain_matmul", matrices)
    if not chain:
        raise RuntimeError("chain_matmul: expected at least one matrix, got none")
    for index, matrix in enumerate(chain):
        if matrix.dim() != 2:
            raise RuntimeError(
                f"chain_matmul: expected matrices, got shape {tuple(matrix.shape)} at position "
                f"{index}"
            )
        if index and matrix.shape[0] != chain[index - 1].shape[1]:
            raise RuntimeError(
                f"chain_matmul: expected {chain[index - 1].shape[1]} rows at position {index}, "
                f"got shape {tuple(matrix.shape)}"
            )
    split = _best_splits([chain[0].shape[0], *(matrix.shape[1] for matrix in chain)])

    def product(first: int, last: int) -> Tensor:
        if first == last:
            return chain[first]
        middle = split[first, last]
        return product(first, middle).mm(product(middle + 1, last))

    return product(0, len(chain) - 1)


def _best_splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return, for every run of matrices, after which one its cheapest product splits."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            cost[first, last], split[first, last] = min(
                (
                    cost[first, middle]
                    + cost[middle + 1, last]
                    + sizes[first] * sizes[middle + 1] * sizes[last + 1],
                    middle,
                )
                for middle in range(first, last)
            )
    return split


def _add_scaled(input: Tensor, product: Tensor, beta: complex, alpha: complex) -> Tensor:
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        # By definition nan and inf of an input with factor 0 do not propagate.
        return scaled
    return (input if beta == 1 else input * beta) + scaled


@function
@method
@takes_out()
@casts(cuda="lower")
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: complex = 1, alpha: complex = 1
) -> Tensor:
    """Return ``beta * input + alpha * outer(vec1, vec2)``.

    Args:
        input: the matrix to add; it broadcasts. With `beta` 0 its values are ignored.
        vec1: a vector, one element for each row.
        vec2: a vector, one element for each column.
        beta: factor of `input`.
        alpha: factor of the outer product.

    Returns:
        A matrix.

    Example:
        >>> torch.addr(torch.zeros(2, 2), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
        tensor([[3., 4.],
                [6., 8.]])
    """
    expect_tensor("addr", "input", input)
    product = vec1.outer(vec2)
    dtype = _C.result_type(input, product)
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if isinstance(factor, float) and not dtype.is_floating_point:
            raise RuntimeError(
                f"addr: For integral input tensors, argument {name} must not be a floating point "
                f"number, got {factor}; call .float() first"
            )
    if dtype == _C.bool:
        # Sums of bools are disjunctions, products conjunctions.
        return (input & bool(beta)) | (product & bool(alpha))
    return _add_scaled(input, product, beta, alpha)


@function
@method
@takes_out(exact=True)
@casts(cpu="lower", cuda="lower")
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: complex = 1, alpha: complex = 1
) -> Tensor:
    """Return ``beta * input`` plus `alpha` times the sum of the products of two batches.

    Args:
        input: the matrix to add; it broadcasts. With `beta` 0 its values are ignored.
        batch1: a batch of matrices, of shape (B, N, K).
        batch2: a batch of matrices, of shape (B, K, M).
        beta: factor of `input`.
        alpha: factor of the sum.

    Returns:
        A matrix of shape (N, M).

    Example:
        >>> torch.addbmm(torch.zeros(1, 1), torch.ones(4, 1, 3), torch.ones(4, 3, 1))
        tensor([[12.]])
    """
    for name, batch in (("batch1", batch1), ("batch2", batch2)):
        expect_tensor("addbmm", name, batch)
        if batch.dim() != 3:
            raise RuntimeError(
                f"addbmm: expected {name} to have 3 dimensions, got shape {tuple(batch.shape)}"
            )
    if batch1.shape[0] != batch2.shape[0] or batch1.shape[2] != batch2.shape[1]:
        raise RuntimeError(
            f"addbmm: expected shapes (B, N, K) and (B, K, M), got {tuple(batch1.shape)} and "
            f"{tuple(batch2.shape)}"
        )
    # Summing over the batch is one long contraction: a single matrix product.
    count, rows, inner = batch1.shape
    left = batch1.transpose(0, 1).reshape(rows, count * inner)
    right = batch2.reshape(count * inner, batch2.shape[2])
    return _C.addmm(input, left, right, beta=beta, alpha=alpha)


@function
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Vandermonde matrix: the powers of a vector as columns.

    Args:
        x: a vector.
        N: the number of columns; by default the length of `x`.
        increasing: powers from 0 upwards instead of down to 0.

    Returns:
        A matrix with one row for each element.

    Example:
        >>> torch.vander(torch.tensor([1, 2, 3]), increasing=True)
        tensor([[1, 1, 1],
                [1, 2, 4],
                [1, 3, 9]])
    """
    expect_tensor("vander", "x", x)
    if x.dim() != 1:
        raise RuntimeError(
            f"vander: x must be a one-dimensional tensor, got shape {tuple(x.shape)}"
        )
    columns = x.numel() if N is None else N
    if columns < 0:
        raise RuntimeError(f"vander: N must be non-negative, got {columns}")
    dtype = x.dtype if x.is_floating_point() or x.is_complex() else _C.int64
    ones = _C.ones((x.numel(), min(columns, 1)), dtype=dtype, device=x.device)
    repeated = x.to(dtype).unsqueeze(1).expand(x.numel(), max(columns - 1, 0))
    powers = _C.cat([ones, repeated], dim=1).cumprod(dim=1)
    return powers if increasing else powers.flip((1,))
