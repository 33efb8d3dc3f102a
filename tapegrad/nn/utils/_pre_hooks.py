"""Forward pre-hooks of which a module has at most one for each tensor: found, and removed."""

from typing import Any

from tapegrad.nn.modules.module import Module

__all__ = ["find_hook", "pop_hook"]


def find_hook(module: Module, kind: type, name: str, attribute: str = "name") -> Any:
    """Return the key and the hook of a kind for a tensor, or None."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and getattr(hook, attribute) == name:
            return key, hook
    return None


def pop_hook(module: Any, key: int) -> None:
    """Remove a hook; the last one gives the module its plain calls back."""
    del module._forward_pre_hooks[key]
    module._any_hooks.pop(key, None)
