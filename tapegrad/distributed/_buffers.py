"""Between tensors of users and buffers of engines.

`reading` gives an engine the elements of a tensor, `Landing` a place to write those of another: the
tensor's own memory where that is contiguous, else memory that is copied when the engine is done.
"""

from typing import Any

import tapegrad
from tapegrad._C import Tensor

__all__ = [
    "Landing",
    "check_list",
    "check_same_device",
    "check_same_dtype",
    "check_single",
    "check_writable",
    "fresh",
    "hand_out",
    "reading",
]


def check_single(value: Any, name: str) -> None:
    """Refuse what is no tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor, but got "
            f"{type(value)} instead."
        )


def check_list(values: Any, name: str) -> None:
    """Refuse what is no list of tensors."""
    head = f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]"
    if not isinstance(values, list):
        raise TypeError(f"{head}, but got {type(values)} instead.")
    if not all(isinstance(value, Tensor) for value in values):
        kinds = [type(value) for value in values]
        raise TypeError(f"{head}, but got {type(values)} with elements of type {kinds}.")


def check_same_dtype(*tensors: Tensor) -> None:
    """Refuse tensors of several dtypes."""
    for other in tensors[1:]:
        if other.dtype != tensors[0].dtype:
            raise ValueError(
                "Invalid usage of tensors with different dtypes. Found "
                f"{tensors[0].dtype} and {other.dtype}"
            )


def check_same_device(name: str, *tensors: Tensor) -> None:
    """Refuse tensors on several devices."""
    for other in tensors[1:]:
        if other.device != tensors[0].device:
            raise RuntimeError(
                f"{name}: expected tensors on one device, got {tensors[0].device} and "
                f"{other.device}"
            )


def _flat(tensor: Tensor) -> Tensor:
    """Return a contiguous tensor without history as real numbers in one dimension."""
    if tensor.is_complex():
        tensor = tapegrad.view_as_real(tensor)
    return tensor.view(-1)


def reading(tensor: Tensor) -> Tensor:
    """Return the elements of a tensor in order."""
    return _flat(tensor.detach().contiguous())


def fresh(count: int, like: Tensor) -> Tensor:
    """Return a buffer for a number of tensors of the kind of another."""
    parts = 2 if like.is_complex() else 1
    dtype = tapegrad.view_as_real(like.detach()).dtype if like.is_complex() else like.dtype
    return tapegrad.empty(count * like.numel() * parts, dtype=dtype, device=like.device)


def hand_out(buffer: Tensor, tensors: list[Tensor]) -> None:
    """Copy the parts of a buffer into tensors of users."""
    start = 0
    for tensor in tensors:
        size = tensor.numel() * (2 if tensor.is_complex() else 1)
        part = buffer[start : start + size]
        start += size
        if tensor.is_complex():
            part = tapegrad.view_as_complex(part.view(*tensor.shape, 2))
        tensor.detach().copy_(part.view(tensor.shape))


class Landing:
    """Where an engine writes what belongs into a tensor.

    Args:
        tensor: the tensor.
        keeps: whether the engine reads the elements first.
    """

    def __init__(self, tensor: Tensor, keeps: bool = False) -> None:
        self.tensor = tensor
        bare = tensor.detach()
        self._own = bare if bare.is_contiguous() else None
        if self._own is not None:
            self._memory = self._own
        elif keeps:
            self._memory = bare.contiguous()
        else:
            self._memory = tapegrad.empty(bare.shape, dtype=bare.dtype, device=bare.device)
        self.buffer = _flat(self._memory)

    def finish(self) -> None:
        """Copy to the tensor what did not land there."""
        if self._own is None:
            self.tensor.detach().copy_(self._memory)


def check_writable(name: str, *tensors: Tensor) -> None:
    """Refuse to write a leaf that requires grad while operations are recorded."""
    if not tapegrad.is_grad_enabled():
        return
    for tensor in tensors:
        if tensor.requires_grad:
            what = (
                "a leaf Variable that requires grad" if tensor.is_leaf else "a tensor with history"
            )
            raise RuntimeError(
                f"{name}: {what} is being used in an in-place operation: results cannot be written "
                "into it; pass a .detach() of it, or use torch.distributed.nn.functional"
            )
