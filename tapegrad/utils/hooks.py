"""The handle that a registered hook is removed by."""

import warnings
import weakref
from collections.abc import Callable, MutableMapping
from typing import Any

__all__ = ["RemovableHandle", "unserializable_hook"]


class RemovableHandle:
    """Removes the hook it was returned for.

    It refers to the hooks weakly, so a handle keeps neither tensor nor graph alive. As a context
    manager it removes the hook at the end of the block.

    Example:
        >>> x = torch.tensor(1.0, requires_grad=True)
        >>> handle = x.register_hook(lambda grad: grad * 10)
        >>> handle.remove()
        >>> (2 * x).backward()
        >>> x.grad
        tensor(2.)
    """

    next_id = 0

    def __init__(self, hooks_dict: MutableMapping[int, Any], *, extra_dict: Any = None) -> None:
        self._hooks = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extra = extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self._extra = tuple(weakref.ref(entry) for entry in extra if entry is not None)

    def remove(self) -> None:
        """Take the hook out. A second call does nothing."""
        for reference in (self._hooks, *self._extra):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, int]:
        return self._hooks(), self.id

    def __setstate__(self, state: tuple[Any, int]) -> None:
        hooks, self.id = state
        self._hooks = weakref.ref(_EmptyHooks() if hooks is None else hooks)
        self._extra = ()
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class _EmptyHooks(dict[int, Any]):
    """What a handle refers to whose hooks are gone: plain dicts have no weak references."""


def register(hooks: MutableMapping[int, Any], hook: Callable[..., Any]) -> RemovableHandle:
    """Add a hook to a mapping of hooks and return its handle."""
    if not callable(hook):
        raise TypeError(f"register_hook: expected a function, got {type(hook).__name__}")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def warn_if_has_hooks(tensor: Any) -> None:
    """Warn of hooks of a tensor that will not go with it where it is sent or stored.

    A hook marked with ``hook.__torch_unserializable__ = True`` is left out in silence.
    """
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized; mark it with "
                "hook.__torch_unserializable__ = True if that is intended",
                stacklevel=2,
            )


def unserializable_hook(f: Any) -> Any:
    """Mark a hook that is left out, without a warning, when a tensor with it is saved."""
    f.__torch_unserializable__ = True
    return f
