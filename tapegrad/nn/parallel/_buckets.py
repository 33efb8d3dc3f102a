"""Buckets of `DistributedDataParallel`: which gradients are combined as one, and their memory."""

from collections.abc import Sequence
from typing import Any

import tapegrad
from tapegrad._C import Tensor

__all__ = ["FIRST_BUCKET", "Bucket", "GradBucket", "divide", "pieces"]

FIRST_BUCKET = 1 << 20  # bytes: small, so that communication begins early
FEWEST = 16  # buckets of large models: nothing is left to do while the last is under way


class GradBucket:
    """Gradients of some parameters, one behind the other in one buffer."""

    def __init__(self, index: int, buffer: Tensor, params: list[Tensor], is_last: bool) -> None:
        self._index, self._buffer = index, buffer
        self._params, self._is_last = params, is_last

    def index(self) -> int:
        """Return the number of the bucket."""
        return self._index

    def buffer(self) -> Tensor:
        """Return all gradients as one tensor of one dimension."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the buffer.

        Args:
            buffer: one of the same size.
        """
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """Return the gradients, as views of the buffer."""
        return pieces(self._buffer, self._params)

    def parameters(self) -> list[Tensor]:
        """Return the parameters."""
        return list(self._params)

    def is_last(self) -> bool:
        """Return whether this is the last bucket of the backward."""
        return self._is_last


def pieces(buffer: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Return a buffer as views of the shapes of some tensors."""
    parts = buffer.split([each.numel() for each in like])
    return [part.view(each.shape) for part, each in zip(parts, like, strict=True)]


def divide(params: Sequence[Tensor], order: Sequence[int], cap: int) -> list[list[int]]:
    """Divide parameters into lists of one dtype and device, which are complete one after another.

    Args:
        params: the parameters.
        order: their numbers, in the order in which their gradients come.
        cap: the bytes from which on a list is full. The first of each kind is full earlier.

    Returns:
        Numbers of parameters, in the order of the last of each list.
    """
    nbytes = [param.numel() * param.element_size() for param in params]
    cap = min(cap, max(FIRST_BUCKET, sum(nbytes[i] for i in order) // FEWEST))
    done: list[list[int]] = []
    open_: dict[Any, tuple[list[int], int, int]] = {}  # by kind: what is in, its bytes, the limit
    for i in order:
        kind = params[i].dtype, params[i].device
        found, filled, limit = open_.get(kind, ([], 0, min(FIRST_BUCKET, cap)))
        found.append(i)
        filled += nbytes[i]
        if filled >= limit:
            done.append(found)
            found, filled, limit = [], 0, cap
        open_[kind] = found, filled, limit
    done.extend(found for found, _, _ in open_.values() if found)
    place = {i: number for number, i in enumerate(order)}
    return sorted(done, key=lambda found: max(place[i] for i in found))


class Bucket:
    """A place for the gradients of some parameters, while a backward runs and after it.

    Args:
        indices: the numbers of the parameters among all.
        params: the parameters.
        is_kept: whether the memory stays, and gradients are views of it.
    """

    def __init__(self, indices: list[int], params: list[Tensor], is_kept: bool) -> None:
        self.indices, self.params = indices, params
        self.views: list[Tensor] | None = None
        self.memory: Tensor | None = None
        if is_kept:
            first = params[0]
            count = sum(param.numel() for param in params)
            self.memory = tapegrad.zeros(count, dtype=first.dtype, device=first.device)
            self.views = pieces(self.memory, params)

    def gather(self, grads: Sequence[Tensor | None]) -> Tensor:
        """Return the gradients as one buffer, with zeros for those that are not there."""
        if self.memory is None or self.views is None:
            dense = [
                tapegrad.zeros_like(param) if grad is None else grad.detach()
                for grad, param in zip(grads, self.params, strict=True)
            ]
            return tapegrad.cat([grad.reshape(-1) for grad in dense])
        for view, grad in zip(self.views, grads, strict=True):
            if grad is None:
                view.zero_()
            elif grad.data_ptr() != view.data_ptr():
                view.copy_(grad.detach())
        return self.memory
