"""Values that stay in memory inside a block of saved-tensor hooks.

The tape checks what it holds itself: a value that was overwritten since is an error that names
both lines. Of what a pack hook returns it knows nothing. So a value that a hook wants to keep is
given to an entry of its own, which is in no graph: it is then guarded as it would be without hooks,
writes to other parts of its memory do it no harm, it is counted among the tape's saved bytes, and a
budget may evict it.

Note [What is kept is kept whole]
A kept value may be known by its storage, whose number is reused once nothing holds it.
So the entry holds the tensor itself, never codes of it, nor what other hooks make of it: neither a
coding policy nor hooks are in force while it is made. That is also what `compress` promises of
values that hooks take.
"""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["Hooks", "Kept"]

_NAME = "saved value"


class Hooks:
    """A pair of hooks on saved values; one for each block."""

    def pack(self, tensor: Tensor) -> Any:
        """Return what stands for a value on the tape."""
        raise NotImplementedError

    def unpack(self, packed: Any) -> Tensor:
        """Return the value."""
        raise NotImplementedError

    def push(self) -> None:
        """Begin to pack on this thread."""
        _C._push_saved_hooks(self.pack, self.unpack)

    def pop(self) -> None:
        """End what `push` began."""
        _C._pop_saved_hooks()


class _NoContext:
    """An entry of a custom function has a context; these need none."""

    __slots__ = ()


_no_context = _NoContext()


class Kept:
    """A tensor that a pack hook leaves in memory; `get` checks that it was not overwritten.

    Args:
        tensor: what the pack hook got.
    """

    __slots__ = ("_entry",)

    def __init__(self, tensor: Tensor) -> None:
        self._entry = _save_outside_graphs(tensor)

    def get(self) -> Tensor:
        """Return the tensor."""
        try:
            found: Tensor = self._entry._saved_tensors0
        except RuntimeError as error:
            text = str(error).replace(f"{_NAME}: ", "", 1).replace(f"by {_NAME} at", "at")
            raise RuntimeError(text) from None
        return found


def _save_outside_graphs(tensor: Tensor) -> Any:
    # Record, and save the tensor itself: see Note [What is kept is kept whole].
    grad_enabled = _C.is_grad_enabled()
    packing = _C._set_packing(False)
    coding = _C._set_coding(None)
    try:
        _C.set_grad_enabled(True)
        marker = _C.empty(0, requires_grad=True)
        (result,) = _C._record_function(
            _no_context, _NAME, _C._EntryLink(), [marker], [_C.empty(0)], [True], [], [tensor]
        )
        return result.grad_fn
    finally:
        _C.set_grad_enabled(grad_enabled)
        _C._set_coding(coding)
        _C._set_packing(packing)
