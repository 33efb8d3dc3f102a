"""Contents of tensors, read and written unseen by versions and by the tape, on any device."""

from collections.abc import Sequence

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.compare import equal

__all__ = ["check_agreement", "content_of", "put", "restore", "same_elements"]

_INTEGERS = {1: _C.uint8, 2: _C.int16, 4: _C.int32, 8: _C.int64}


def content_of(tensor: Tensor) -> Tensor:
    """Return a copy of all bytes of the memory that a tensor shows."""
    whole = _whole(tensor)
    copy = _C.empty(whole.shape, dtype=_C.uint8, device=tensor.device)
    _C._copy_unseen(copy, whole)
    return copy


def restore(tensor: Tensor, content: Tensor) -> None:
    """Put a content back that `content_of` returned."""
    _C._copy_unseen(_whole(tensor), content)


def put(old: Tensor, new: Tensor) -> None:
    """Write the elements of a tensor over those of another, unseen by its version."""
    _put(old, old, new)


def same_elements(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of one dtype and shape have the same bytes."""
    return equal(_as_integers(one), _as_integers(other))


def check_agreement(pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Refuse new contents that contradict each other where recorded inputs share elements."""
    by_storage: dict[int, list[tuple[Tensor, Tensor]]] = {}
    for pair in pairs:
        by_storage.setdefault(_C._storage_id(pair[0]), []).append(pair)
    for group in by_storage.values():
        if len(group) == 1 and (group[0][0].is_contiguous() or 0 not in group[0][0].stride()):
            continue
        scratch = content_of(group[0][0])
        for old, new in group:
            _put(scratch, old, new)
        for old, new in group:
            found = _C._tensor_at(scratch, old.dtype, old.shape, old.stride(), old.storage_offset())
            if not same_elements(found, new):
                raise ValueError(
                    "replay: recorded inputs share memory, and the new ones differ there: no "
                    f"tensor of shape {tuple(old.shape)} can hold what is given for it; pass one "
                    "of them, or record the block with inputs of their own"
                )


def _whole(tensor: Tensor) -> Tensor:
    """Return all bytes of the memory that a tensor shows, as a tensor on it."""
    nbytes = tensor.untyped_storage().nbytes()
    return _C._tensor_at(tensor, _C.uint8, [nbytes], [1], 0)


def _put(memory: Tensor, old: Tensor, new: Tensor) -> None:
    """Write elements to where those of `old` would be if its memory were that of another tensor."""
    if old.numel() == 0:
        return
    shape, new = list(old.shape), new.detach()
    for dim, stride in enumerate(old.stride()):
        if stride == 0:  # one element stands for all of them
            shape[dim], new = 1, new.narrow(dim, 0, 1)
    place = _C._tensor_at(memory, old.dtype, shape, old.stride(), old.storage_offset())
    _C._copy_unseen(place, new)


def _as_integers(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().view(_INTEGERS[tensor.element_size()])
