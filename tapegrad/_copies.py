"""Views as copies: `torch.permute_copy` is `torch.permute` in memory of its own.

Loaded when first used. Each function has the arguments of the view that it copies, and `out`.
"""

from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.arguments import expect_tensor, takes_out

__all__ = [
    "alias_copy",
    "as_strided_copy",
    "detach_copy",
    "diagonal_copy",
    "empty_permuted",
    "expand_copy",
    "narrow_copy",
    "permute_copy",
    "select_copy",
    "slice_copy",
    "split_copy",
    "split_with_sizes_copy",
    "squeeze_copy",
    "t_copy",
    "transpose_copy",
    "unbind_copy",
    "unfold_copy",
    "unsqueeze_copy",
    "view_as_complex_copy",
    "view_as_real_copy",
    "view_copy",
]


def _copied(view: Tensor) -> Tensor:
    return view.clone(memory_format=_contiguous())


def _contiguous() -> Any:
    from tapegrad._types import contiguous_format

    return contiguous_format


@takes_out()
def alias_copy(input: Tensor) -> Tensor:
    """Return a copy of a tensor."""
    expect_tensor("alias_copy", "input", input)
    return _copied(input)


@takes_out()
def as_strided_copy(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Return a copy of `torch.as_strided`."""
    return _copied(_C.as_strided(input, size, stride, storage_offset))


@takes_out()
def detach_copy(input: Tensor) -> Tensor:
    """Return a copy of a tensor that is not recorded."""
    return _copied(input.detach())


@takes_out()
def diagonal_copy(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return a copy of `torch.diagonal`."""
    return _copied(_C.diagonal(input, offset, dim1, dim2))


@takes_out()
def expand_copy(input: Tensor, size: Sequence[int], *, implicit: bool = False) -> Tensor:
    """Return a copy of `Tensor.expand`; `implicit` changes nothing."""
    return _copied(input.expand(size))


@takes_out()
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Return a copy of `torch.narrow`."""
    return _copied(_C.narrow(input, dim, start, length))


@takes_out()
def permute_copy(input: Tensor, dims: Sequence[int]) -> Tensor:
    """Return a copy of `torch.permute`.

    Example:
        >>> torch.permute_copy(torch.tensor([[1, 2]]), (1, 0))
        tensor([[1],
                [2]])
    """
    return _copied(_C.permute(input, dims))


@takes_out()
def select_copy(input: Tensor, dim: int, index: int) -> Tensor:
    """Return a copy of `torch.select`."""
    return _copied(_C.select(input, dim, index))


@takes_out()
def slice_copy(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """Return a copy of a part of a dimension, as `x[start:end:step]` takes it."""
    expect_tensor("slice_copy", "input", input)
    if input.dim() == 0:
        raise RuntimeError("slice_copy: slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise RuntimeError(f"slice_copy: slice step must be positive, got {step}")
    first, end, step = slice(start, end, step).indices(input.size(dim))
    part = _C.narrow(input, dim, first, max(end - first, 0))
    places = [slice(None)] * input.dim()
    places[dim] = slice(None, None, step)
    return _copied(part[tuple(places)])


def _into_outs(name: str, parts: Sequence[Tensor], out: Sequence[Tensor] | None) -> Any:
    if out is None:
        return tuple(map(_copied, parts))
    if len(out) != len(parts):
        raise RuntimeError(f"{name}: expected out of {len(parts)} tensors, got {len(out)}")
    for part, place in zip(parts, out, strict=True):
        alias_copy(part, out=place)
    return None


def split_copy(
    input: Tensor, split_size: int, dim: int = 0, *, out: Sequence[Tensor] | None = None
) -> Any:
    """Return copies of `torch.split`; nothing if they go into `out`."""
    return _into_outs("split_copy", _C.split(input, split_size, dim), out)


def split_with_sizes_copy(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0, *, out: Sequence[Tensor] | None = None
) -> Any:
    """Return copies of `torch.split_with_sizes`; nothing if they go into `out`."""
    parts = _C.split(input, list(split_sizes), dim)
    return _into_outs("split_with_sizes_copy", parts, out)


@takes_out()
def squeeze_copy(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Return a copy of `torch.squeeze`."""
    return _copied(_C.squeeze(input) if dim is None else _C.squeeze(input, dim))


@takes_out()
def t_copy(input: Tensor) -> Tensor:
    """Return a copy of `torch.t`."""
    return _copied(_C.t(input))


@takes_out()
def transpose_copy(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Return a copy of `torch.transpose`."""
    return _copied(_C.transpose(input, dim0, dim1))


def unbind_copy(input: Tensor, dim: int = 0, *, out: Sequence[Tensor] | None = None) -> Any:
    """Return copies of `torch.unbind`; nothing if they go into `out`."""
    return _into_outs("unbind_copy", _C.unbind(input, dim), out)


@takes_out()
def unfold_copy(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return a copy of `Tensor.unfold`."""
    return _copied(input.unfold(dimension, size, step))


@takes_out()
def unsqueeze_copy(input: Tensor, dim: int) -> Tensor:
    """Return a copy of `torch.unsqueeze`."""
    return _copied(_C.unsqueeze(input, dim))


@takes_out()
def view_as_complex_copy(input: Tensor) -> Tensor:
    """Return a copy of `torch.view_as_complex`."""
    return _copied(_C.view_as_complex(input))


@takes_out()
def view_as_real_copy(input: Tensor) -> Tensor:
    """Return a copy of `torch.view_as_real`."""
    return _copied(_C.view_as_real(input))


@takes_out()
def view_copy(input: Tensor, size: Any) -> Tensor:
    """Return a copy of `Tensor.view`: of another shape, or of another dtype."""
    return _copied(input.view(size) if isinstance(size, _C.dtype) else input.reshape(size))


def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return a tensor of undefined values whose dimensions lie in memory in a given order.

    Args:
        size: the sizes.
        physical_layout: the dimensions in the order in which they lie, the slowest first.
        dtype, layout, device, requires_grad, pin_memory: as in `torch.empty`.

    Example:
        >>> torch.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
        (12, 1, 3)
    """
    rank = len(size)
    if len(physical_layout) != rank:
        raise RuntimeError(
            f"empty_permuted: expected an order of {rank} dimensions, got {len(physical_layout)}"
        )
    if sorted(physical_layout) != list(range(rank)):
        raise RuntimeError(
            f"empty_permuted: expected each of the dimensions 0 to {rank - 1} once, got "
            f"{list(physical_layout)}"
        )
    laid = _C.empty(
        [size[d] for d in physical_layout],
        dtype=dtype,
        layout=layout,
        device=device,
        pin_memory=pin_memory,
    )
    order = [list(physical_layout).index(d) for d in range(rank)]
    return _C.permute(laid, order).requires_grad_(requires_grad)
