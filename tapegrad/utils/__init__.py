"""Helpers that other parts share, and parts that are loaded when first asked for."""

from typing import TYPE_CHECKING, Any

from tapegrad.utils import hooks

if TYPE_CHECKING:
    from tapegrad.utils import checkpoint, data

__all__ = ["checkpoint", "data", "hooks"]

_LOADED_ON_USE = ("checkpoint", "data")  # import tapegrad stays fast


def __getattr__(name: str) -> Any:
    if name in _LOADED_ON_USE:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
