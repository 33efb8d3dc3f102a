"""What the functions of `tapegrad.masked` make of their arguments."""

import math
from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import iinfo

__all__ = ["data_and_mask", "dims_of", "fill", "filled", "highest", "in_dtype", "lowest"]


def data_and_mask(name: str, input: Any, mask: Any) -> tuple[Tensor, Tensor | None]:
    """Return the elements of an operand and which of them count, of the same shape; None is all.

    Args:
        name: the function, for messages.
        input: a Tensor or a MaskedTensor.
        mask: a mask for it, or None; beside that of a MaskedTensor, what both leave counts.
    """
    own = None
    if hasattr(input, "get_mask"):
        input, own = input.get_data(), input.get_mask()
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}: expected a Tensor or a MaskedTensor, got {type(input).__name__}")
    if mask is None:
        return input, own
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name}: expected mask to be a Tensor, got {type(mask).__name__}")
    if mask.dim() > input.dim():
        raise IndexError(
            f"{name}: expected a mask that broadcasts to the shape of the input, {input.dim()} "
            f"dimensions, got one of {mask.dim()}"
        )
    mask = mask.bool().expand(input.shape)
    return input, mask if own is None else mask & own


def in_dtype(x: Tensor, dtype: Any) -> Tensor:
    """Return a tensor in the dtype that was asked for, if one was."""
    return x if dtype is None else x.to(dtype)


def fill(x: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    """Return a tensor with a number where elements do not count; their gradient is zero."""
    return x if mask is None else filled(x, mask, value)


def filled(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """The same where there is a mask."""
    return _C.where(mask, x, _C.full((), value, dtype=x.dtype, device=x.device))


def lowest(name: str, dtype: Any) -> Any:
    """Return the number that no maximum is smaller than."""
    if dtype.is_floating_point:
        return -math.inf
    if dtype is _C.bool or dtype.is_complex:
        raise NotImplementedError(f"identity of {name} on {dtype} input")
    return iinfo(dtype).min


def highest(name: str, dtype: Any) -> Any:
    """Return the number that no minimum is greater than."""
    if dtype.is_floating_point:
        return math.inf
    if dtype is _C.bool or dtype.is_complex:
        raise NotImplementedError(f"identity of {name} on {dtype} input")
    return iinfo(dtype).max


def dims_of(name: str, dim: Any, rank: int) -> tuple[int, ...]:
    """Return the dimensions that are reduced, each once and not negative; all for None and ()."""
    if dim is None or (isinstance(dim, Sequence) and len(dim) == 0):
        return tuple(range(rank))
    found: list[int] = []
    for each in dim if isinstance(dim, Sequence) else (dim,):
        limit = max(rank, 1)
        if not -limit <= each < limit:
            raise IndexError(
                f"{name}: Dimension out of range (expected to be in range of [{-limit}, "
                f"{limit - 1}], but got {each})"
            )
        if each % limit in found:
            raise RuntimeError(
                f"{name}: dim={each % limit} appears multiple times in the list of dims"
            )
        found.append(each % limit)
    return tuple(found) if rank else ()
