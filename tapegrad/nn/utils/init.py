"""Modules without values of their own yet."""

from typing import Any

from tapegrad.nn.modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """Make a module whose parameters are about to be overwritten: their values are unspecified.

    There is no meta device to skip on, so the class makes its parameters as it always does.

    Args:
        module_cls: the class, which takes a `device`.
        args: its arguments.
        kwargs: its keyword arguments.

    Returns:
        The module.

    Example:
        >>> torch.nn.utils.skip_init(torch.nn.Linear, 3, 4).weight.shape
        torch.Size([4, 3])
    """
    import inspect  # Slow to load, and of no use elsewhere.

    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    return module_cls(*args, **kwargs)
