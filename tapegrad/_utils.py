"""Helpers that programs take from here."""

from collections.abc import Iterable, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import device as _device

__all__: list[str] = []


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """Return the elements of several tensors in one vector, which is a copy."""
    return _C.cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Return views of a vector of the shapes of tensors."""
    found, start = [], 0
    for tensor in tensors:
        found.append(flat.narrow(0, start, tensor.numel()).view_as(tensor))
        start += tensor.numel()
    return tuple(found)


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the number of a device.

    Args:
        device: a device, its name, its number, or None.
        optional: whether a device without a number is the current one.
        allow_cpu: whether the CPU, which is -1, is taken.
    """
    if isinstance(device, str):
        device = _device(device)
    index = device if isinstance(device, int) else None
    if isinstance(device, _device):
        if device.type == "cpu":
            if not allow_cpu:
                raise ValueError(f"Expected a non cpu device, but got: {device}")
            return -1
        index = device.index
    if index is None and not optional:
        raise ValueError(
            f"Expected a torch.device with a specified index or an integer, but got: {device}"
        )
    if index is None:
        from tapegrad import cuda  # which most programs do without

        return cuda.current_device()
    return index


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: Any,
    metadata: Any = None,
) -> Tensor:
    """Return a tensor over a storage, as pickles of PyTorch make one.

    Args:
        storage: a storage with a dtype, `TypedStorage`.
        storage_offset: which of its elements is the first.
        size: the sizes.
        stride: the strides.
        requires_grad: whether gradients are wanted.
        backward_hooks: accepted where there are none.
        metadata: the same.
    """
    if backward_hooks or metadata:
        raise NotImplementedError("_rebuild_tensor_v2: hooks and metadata are not supported")
    whole = storage._untyped_storage._elements(storage.dtype)
    made = _C.as_strided(whole, tuple(size), tuple(stride), storage_offset).detach()
    return made.requires_grad_(requires_grad)
