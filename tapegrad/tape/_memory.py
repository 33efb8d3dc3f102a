"""Bytes of tensors, read and written unseen by versions and by the tape."""

import ctypes
from collections.abc import Sequence

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["bytes_of", "check_agreement", "dense_bytes", "put", "restore"]


def bytes_of(tensor: Tensor) -> bytes:
    """Return all bytes of the memory that a tensor shows."""
    storage = tensor.untyped_storage()
    return ctypes.string_at(storage._address(), storage.nbytes())


def restore(tensor: Tensor, content: bytes) -> None:
    """Put bytes back that `bytes_of` returned."""
    ctypes.memmove(tensor.untyped_storage()._address(), content, len(content))


def put(old: Tensor, new: Tensor) -> None:
    """Write the elements of a tensor over those of another, unseen by its version."""
    _write(old, new, old.untyped_storage()._address())


def _write(old: Tensor, new: Tensor, address: int) -> None:
    """Write elements to where those of `old` would be if its memory began at the address."""
    if old.numel() == 0:
        return
    if old.is_meta or new.is_meta:
        raise RuntimeError("replay: expected tensors with elements, got one on the meta device")
    size = old.element_size()
    if old.is_contiguous():
        source = new.detach().contiguous()
        start = address + old.storage_offset() * size
        ctypes.memmove(start, source.data_ptr(), source.numel() * size)
        return
    whole, shape, new = _elements(old, address), list(old.shape), new.detach()
    for dim, stride in enumerate(old.stride()):
        if stride == 0:  # one element stands for all of them
            shape[dim], new = 1, new.narrow(dim, 0, 1)
    whole.as_strided(shape, old.stride(), old.storage_offset()).copy_(new)
    ctypes.memmove(address, whole.data_ptr(), whole.numel() * size)


def _elements(old: Tensor, address: int) -> Tensor:
    """Return a copy of as many elements as the memory of `old` has, from an address on."""
    size = old.element_size()
    whole = _C.empty(old.untyped_storage().nbytes() // size, dtype=old.dtype, device="cpu")
    ctypes.memmove(whole.data_ptr(), address, whole.numel() * size)
    return whole


def dense_bytes(tensor: Tensor) -> bytes:
    """Return the bytes of a tensor's elements in order."""
    return bytes_of(tensor.detach().contiguous().clone())


def check_agreement(pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Refuse new contents that contradict each other where recorded inputs share elements."""
    by_storage: dict[int, list[tuple[Tensor, Tensor]]] = {}
    for pair in pairs:
        by_storage.setdefault(_C._storage_id(pair[0]), []).append(pair)
    for group in by_storage.values():
        if len(group) == 1 and (group[0][0].is_contiguous() or 0 not in group[0][0].stride()):
            continue
        scratch = ctypes.create_string_buffer(bytes_of(group[0][0]))
        address = ctypes.addressof(scratch)
        for old, new in group:
            _write(old, new, address)
        for old, new in group:
            found = _elements(old, address)
            found = found.as_strided(old.shape, old.stride(), old.storage_offset())
            if dense_bytes(found) != dense_bytes(new):
                raise ValueError(
                    "replay: recorded inputs share memory, and the new ones differ there: no "
                    f"tensor of shape {tuple(old.shape)} can hold what is given for it; pass one "
                    "of them, or record the block with inputs of their own"
                )
