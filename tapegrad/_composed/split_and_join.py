"""Cutting tensors into pieces and laying them side by side."""

from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.arguments import (
    as_sequence,
    expect_count,
    expect_tensor,
    takes_out,
    wrap_dim,
)
from tapegrad._composed.registry import function, method
from tapegrad._composed.shape import atleast_1d, atleast_2d, atleast_3d
from tapegrad._ops import runs

__all__ = [
    "block_diag",
    "column_stack",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "tensor_split",
    "vsplit",
    "vstack",
]


def _nonempty(operation: str, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    sequence = as_sequence(operation, (tensors,))
    if not sequence:
        raise RuntimeError(f"{operation}: expected at least one tensor, got none")
    return sequence


@function
@takes_out(error=TypeError)
@runs("cat")
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate side by side: along the first dimension of vectors, otherwise the second.

    Args:
        tensors: the tensors; 0-d ones count as vectors of one element.

    Returns:
        The concatenation.

    Example:
        >>> torch.hstack((torch.tensor([1, 2]), torch.tensor([3])))
        tensor([1, 2, 3])
    """
    sequence = atleast_1d(_nonempty("hstack", tensors))
    return _C.cat(sequence, dim=0 if sequence[0].dim() == 1 else 1)


@function
@takes_out(error=TypeError)
@runs("cat")
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Stack as rows: concatenate along the first dimension after making vectors into rows.

    Args:
        tensors: the tensors.

    Returns:
        The concatenation.

    Example:
        >>> torch.vstack((torch.tensor([1, 2]), torch.tensor([3, 4])))
        tensor([[1, 2],
                [3, 4]])
    """
    return _C.cat(atleast_2d(_nonempty("vstack", tensors)), dim=0)


@function
@takes_out(error=TypeError)
@runs("cat")
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Stack in depth: concatenate along the third dimension.

    Args:
        tensors: the tensors; vectors and matrices get the missing dimensions (`atleast_3d`).

    Returns:
        The concatenation.

    Example:
        >>> torch.dstack((torch.tensor([1, 2]), torch.tensor([3, 4])))
        tensor([[[1, 3],
                 [2, 4]]])
    """
    return _C.cat(atleast_3d(_nonempty("dstack", tensors)), dim=2)


@function
@takes_out(error=TypeError)
@runs("cat")
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Stack as columns: vectors become columns, the others are laid side by side.

    Args:
        tensors: the tensors.

    Returns:
        The concatenation along the second dimension.

    Example:
        >>> torch.column_stack((torch.tensor([1, 2]), torch.tensor([3, 4])))
        tensor([[1, 3],
                [2, 4]])
    """
    sequence = _nonempty("column_stack", tensors)
    columns = [t.reshape(-1, 1) if t.dim() < 2 else t for t in sequence]
    return _C.cat(columns, dim=1)


@function
@runs("cat")
def block_diag(*tensors: Any) -> Tensor:
    """Place matrices along the diagonal of one matrix that is zero elsewhere.

    Args:
        *tensors: tensors of at most 2 dimensions; vectors and scalars count as rows.

    Returns:
        A matrix whose sizes are the sums of those of the blocks, in the promoted dtype.

    Example:
        >>> torch.block_diag(torch.tensor([[1, 2]]), torch.tensor([3]))
        tensor([[1, 2, 0],
                [0, 0, 3]])
    """
    sequence = as_sequence("block_diag", tensors)
    for index, tensor in enumerate(sequence):
        if tensor.dim() > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {index} "
                f"has {tensor.dim()} dimensions"
            )
    if not sequence:
        return _C.zeros((1, 0))
    blocks = atleast_2d(list(sequence))
    width = sum(block.shape[1] for block in blocks)
    rows, start = [], 0
    for block in blocks:
        height, own = block.shape
        before = block.new_zeros((height, start))
        after = block.new_zeros((height, width - start - own))
        rows.append(_C.cat([before, block, after], dim=1))
        start += own
    return _C.cat(rows, dim=0)


@function
@method
def tensor_split(
    input: Tensor,
    indices_or_sections: int | Sequence[int] | Tensor | None = None,
    dim: int = 0,
    *,
    indices: Sequence[int] | None = None,
    sections: int | None = None,
) -> tuple[Tensor, ...]:
    """Split into views, at given indices or into parts that differ by at most one in size.

    Args:
        input: a tensor of at least one dimension.
        indices_or_sections: the number of parts, or the indices at which to cut.
        dim: the dimension to split.
        indices: the indices, as a keyword.
        sections: the number of parts, as a keyword.

    Returns:
        The parts.

    Example:
        >>> torch.tensor_split(torch.arange(5), 2)
        (tensor([0, 1, 2]), tensor([3, 4]))
        >>> torch.tensor_split(torch.arange(5), (1, 4))
        (tensor([0]), tensor([1, 2, 3]), tensor([4]))
    """
    expect_tensor("tensor_split", "input", input)
    given = [x for x in (indices_or_sections, indices, sections) if x is not None]
    if len(given) != 1:
        raise TypeError(
            "tensor_split: expected one of indices_or_sections, indices and sections, "
            f"got {len(given)} of them"
        )
    if input.dim() == 0:
        raise RuntimeError("tensor_split: expected at least 1 dimension, got a 0-d tensor")
    dim = wrap_dim("tensor_split", dim, input.dim())
    where = given[0].tolist() if isinstance(given[0], Tensor) else given[0]
    size = input.shape[dim]
    cuts = _even_cuts(size, where) if isinstance(where, int) else [_clip(i, size) for i in where]
    starts, ends = [0, *cuts], [*cuts, size]
    return tuple(
        input.narrow(dim, start, max(end - start, 0))
        for start, end in zip(starts, ends, strict=True)
    )


def _even_cuts(size: int, sections: int) -> list[int]:
    if sections <= 0:
        raise RuntimeError(f"tensor_split: expected at least 1 section, got {sections}")
    expect_count("tensor_split", sections, "tensors", bytes_each=256)
    small, larger = divmod(size, sections)
    return [small * i + min(i, larger) for i in range(1, sections)]


def _clip(index: int, size: int) -> int:
    return max(index + size, 0) if index < 0 else min(index, size)


def _split_along(
    operation: str, input: Tensor, given: tuple[Any, ...], dim: int, least_rank: int
) -> tuple[Tensor, ...]:
    expect_tensor(operation, "input", input)
    *places, indices, sections = given
    if len(places) > 1:  # the indices one by one
        places = [places]
    chosen = [where for where in (*places, indices, sections) if where is not None]
    if len(chosen) != 1:
        raise TypeError(
            f"{operation}: expected one of indices_or_sections, indices and sections, "
            f"got {len(chosen)} of them"
        )
    where = chosen[0]
    if input.dim() < least_rank:
        raise RuntimeError(
            f"{operation}: expected at least {least_rank} dimension(s), "
            f"got shape {tuple(input.shape)}"
        )
    if isinstance(where, int) and (where <= 0 or input.shape[dim] % where):
        raise RuntimeError(
            f"{operation}: expected a number of sections that divides {input.shape[dim]}, the "
            f"size of dimension {dim}, got {where}"
        )
    return tensor_split(input, where, dim)


@function
@method
def hsplit(
    input: Tensor,
    *indices_or_sections: Any,
    indices: Sequence[int] | None = None,
    sections: int | None = None,
) -> tuple[Tensor, ...]:
    """Split side by side: along the first dimension of a vector, otherwise the second.

    Args:
        input: a tensor of at least one dimension.
        *indices_or_sections: the number of equal parts, or the indices at which to cut.
        indices: the indices, as a keyword.
        sections: the number of parts, as a keyword.

    Returns:
        The parts, as views.

    Example:
        >>> torch.hsplit(torch.arange(4), 2)
        (tensor([0, 1]), tensor([2, 3]))
    """
    dim = 0 if isinstance(input, Tensor) and input.dim() == 1 else 1
    return _split_along("hsplit", input, (*indices_or_sections, indices, sections), dim, 1)


@function
@method
def vsplit(
    input: Tensor,
    *indices_or_sections: Any,
    indices: Sequence[int] | None = None,
    sections: int | None = None,
) -> tuple[Tensor, ...]:
    """Split into groups of rows: along the first dimension.

    Args:
        input: a tensor of at least two dimensions.
        *indices_or_sections: the number of equal parts, or the indices at which to cut.
        indices: the indices, as a keyword.
        sections: the number of parts, as a keyword.

    Returns:
        The parts, as views.

    Example:
        >>> torch.vsplit(torch.tensor([[1, 2], [3, 4]]), 2)
        (tensor([[1, 2]]), tensor([[3, 4]]))
    """
    return _split_along("vsplit", input, (*indices_or_sections, indices, sections), 0, 2)


@function
@method
def dsplit(
    input: Tensor,
    *indices_or_sections: Any,
    indices: Sequence[int] | None = None,
    sections: int | None = None,
) -> tuple[Tensor, ...]:
    """Split in depth: along the third dimension.

    Args:
        input: a tensor of at least three dimensions.
        *indices_or_sections: the number of equal parts, or the indices at which to cut.
        indices: the indices, as a keyword.
        sections: the number of parts, as a keyword.

    Returns:
        The parts, as views.

    Example:
        >>> torch.dsplit(torch.tensor([[[1, 2]]]), 2)
        (tensor([[[1]]]), tensor([[[2]]]))
    """
    return _split_along("dsplit", input, (*indices_or_sections, indices, sections), 2, 3)
