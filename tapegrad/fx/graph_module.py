"""The class of modules that are rewritten as Python code, of which there are none."""

from typing import Any

from tapegrad.fx import _WHY, GraphModule
from tapegrad.nn import Module

__all__ = ["GraphModule"]

# What packages that rewrite such modules import.
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


class _CodeOnlyModule(Module):
    """Refuses to be made."""

    def __init__(self, body: Any) -> None:
        raise NotImplementedError(f"_CodeOnlyModule: {_WHY}")


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Put what one module has under a path into another one, with the modules on the way."""
    *path, name = target.split(".")
    for part in path:
        if not hasattr(to_module, part):
            setattr(to_module, part, Module())
        from_module, to_module = getattr(from_module, part), getattr(to_module, part)
    setattr(to_module, name, getattr(from_module, name))
