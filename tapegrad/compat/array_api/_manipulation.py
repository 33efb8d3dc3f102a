"""Functions that change shapes, and those that take elements by index."""

from collections.abc import Sequence

import tapegrad as torch
from tapegrad import Tensor
from tapegrad.compat.array_api._dtypes import promoted

Axes = int | tuple[int, ...]


def axis_of(x: Tensor, axis: int, name: str) -> int:
    """Return an axis counted from the front, or raise ``IndexError`` where there is none."""
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(f"{name}: expected an axis of a {x.ndim}-d tensor, got {axis}")
    return axis % x.ndim


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Return tensors, each expanded to the shape they have in common."""
    return tuple(torch.broadcast_tensors(*arrays))


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """Return a tensor expanded to a shape."""
    return torch.broadcast_to(x, shape)


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Return tensors joined along an axis; flat and in a row if the axis is None."""
    same = promoted(*arrays)
    if axis is None:
        return torch.cat([each.flatten() for each in same])
    for each in same:
        axis_of(each, axis, "concat")
    # An empty 1-d tensor goes with any shape in PyTorch.
    if any(each.ndim != same[0].ndim for each in same):
        raise ValueError("concat: expected tensors of as many dimensions each")
    return torch.cat(same, axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Return tensors joined along an axis of their own."""
    return torch.stack(promoted(*arrays), axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the parts of a tensor along an axis, which they are without."""
    return tuple(torch.unbind(x, axis_of(x, axis, "unstack")))


def expand_dims(x: Tensor, /, axis: int) -> Tensor:
    """Return a tensor with one more axis, of size one."""
    return torch.unsqueeze(x, axis)


def squeeze(x: Tensor, /, axis: Axes) -> Tensor:
    """Return a tensor without some of its axes of size one."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(axis_of(x, each, "squeeze") for each in axes)
    for each in axes:
        if x.shape[each] != 1:
            raise ValueError(f"squeeze: expected axis {each} of size 1, got {x.shape[each]}")
    return torch.squeeze(x, axes)


def flip(x: Tensor, /, *, axis: Axes | None = None) -> Tensor:
    """Return a tensor with the order of elements along axes, or along all, reversed."""
    axes = tuple(range(x.ndim)) if axis is None else axis
    return torch.flip(x, (axes,) if isinstance(axes, int) else axes)


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Tensor:
    """Return a tensor with axes moved to other places."""
    return torch.movedim(x, source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Return a tensor with its axes in another order."""
    return torch.permute(x, axes)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Return a tensor with each element repeated, along an axis or of all that are there."""
    flat, axis = (x.flatten(), 0) if axis is None else (x, axis_of(x, axis, "repeat"))
    return torch.repeat_interleave(flat, repeats, dim=axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Return a tensor of the same elements and another shape.

    Args:
        x: the tensor.
        shape: that of the result; one size may be -1.
        copy: whether memory is copied: always, never (which raises if it must be), or if needed.
    """
    if copy is False:
        try:
            return x.view(shape)
        except RuntimeError as error:
            raise ValueError("reshape: this shape takes a copy; leave copy=False out") from error
    return x.clone().reshape(shape) if copy else x.reshape(shape)


def roll(x: Tensor, /, shift: Axes, *, axis: Axes | None = None) -> Tensor:
    """Return a tensor with elements moved along axes, those at the end to the front."""
    if axis is not None and isinstance(shift, int) and not isinstance(axis, int):
        shift = (shift,) * len(axis)
    return torch.roll(x, shift, axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """Return a tensor repeated as a whole along its axes."""
    return torch.tile(x, repetitions)


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Return the parts of a tensor along an axis that indices name; negative ones from the end."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: expected an axis for a {x.ndim}-d tensor; only 1-d need none")
        axis = 0
    axis = axis_of(x, axis, "take")
    flat = _from_front(indices.flatten(), x.shape[axis])
    taken = torch.index_select(x, axis, flat)
    return taken.unflatten(axis, indices.shape) if indices.ndim != 1 else taken


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return elements of a tensor along an axis, each place of the others by its own indices."""
    axis = axis_of(x, axis, "take_along_axis")
    return torch.take_along_dim(x, _from_front(indices, x.shape[axis]), axis)


def _from_front(indices: Tensor, size: int) -> Tensor:
    wide = indices.to(torch.int64)
    return torch.where(wide < 0, wide + size, wide)
