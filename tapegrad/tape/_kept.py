"""Values that stay in memory inside a block of saved-tensor hooks.

The tape checks what it holds itself: a value that was overwritten since is an error that names
both lines. Of what a pack hook returns it knows nothing. So a value that a hook wants to keep is
given to an entry of its own, which is in no graph: it is then guarded as it would be without hooks,
writes to other parts of its memory do it no harm, and it is counted among the tape's saved bytes.

Note [What is kept is kept whole]
Whoever keeps a value may know it by its storage, whose number is used again once nobody holds it.
So the entry holds the tensor itself, never codes of it: no coding policy is in force while it is
made. That is also what `compress` promises of values that hooks take.
"""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["Hooks", "Kept"]

_NAME = "saved value"


class Hooks:
    """A pair of hooks on saved values that can be lifted for a moment; one for each block."""

    def __init__(self) -> None:
        self.marker: Tensor | None = None
        self.alone = True  # whether there are no other hooks outside of these

    def pack(self, tensor: Tensor) -> Any:
        """Return what stands for a value on the tape."""
        raise NotImplementedError

    def unpack(self, packed: Any) -> Tensor:
        """Return the value."""
        raise NotImplementedError

    def push(self) -> None:
        """Begin to pack on this thread."""
        self.alone = not _is_packing()
        _C._push_saved_hooks(self.pack, self.unpack)
        self.marker = _C.empty(0, requires_grad=True)

    def pop(self) -> None:
        """End what `push` began."""
        _C._pop_saved_hooks()
        self.marker = None


def _is_packing() -> bool:
    try:
        previous = _C._disable_saved_hooks("")
    except RuntimeError:  # refused while there are hooks
        return True
    _C._disable_saved_hooks(previous)
    return False


class _NoContext:
    """An entry of a custom function has a context; these need none."""

    __slots__ = ()


_no_context = _NoContext()


class Kept:
    """A tensor that a pack hook leaves in memory; `get` checks that it was not overwritten.

    Args:
        tensor: what the pack hook got.
        hooks: the hooks it is called from.
    """

    __slots__ = ("_entry", "_tensor", "_version")

    def __init__(self, tensor: Tensor, hooks: Hooks) -> None:
        self._entry = _save_outside_graphs(tensor, hooks) if hooks.alone else None
        # Under other hooks an entry of ours would be packed by them: only the version is left.
        self._tensor = tensor if self._entry is None else None
        self._version = tensor._version

    def get(self) -> Tensor:
        """Return the tensor."""
        if self._entry is not None:
            try:
                found: Tensor = self._entry._saved_tensors0
            except RuntimeError as error:
                text = str(error).replace(f"{_NAME}: ", "", 1).replace(f"by {_NAME} at", "at")
                raise RuntimeError(text) from None
            return found
        tensor = self._tensor
        assert tensor is not None
        if tensor._version != self._version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an "
                f"inplace operation: a tensor of shape {list(tensor.shape)} is at version "
                f"{tensor._version}; expected version {self._version} instead; use an out-of-place "
                "op there, or give the op that saves it a .clone()"
            )
        return tensor


def _save_outside_graphs(tensor: Tensor, hooks: Hooks) -> Any:
    marker = hooks.marker
    assert marker is not None
    grad_enabled = _C.is_grad_enabled()
    _C._pop_saved_hooks()
    coding = _C._set_coding(None)
    try:
        _C.set_grad_enabled(True)
        (result,) = _C._record_function(
            _no_context,
            _NAME,
            _C._EntryLink(),
            [marker],
            [_C.empty(0)],
            [True],
            [],
            [tensor],
        )
        return result.grad_fn
    finally:
        _C._set_coding(coding)
        _C.set_grad_enabled(grad_enabled)
        _C._push_saved_hooks(hooks.pack, hooks.unpack)
