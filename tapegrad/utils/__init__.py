"""Helpers that other parts share, and parts that are loaded when first asked for."""

from typing import TYPE_CHECKING, Any

from tapegrad._missing import missing as _missing
from tapegrad.utils import hooks

if TYPE_CHECKING:
    from tapegrad.utils import benchmark, checkpoint, data, dlpack, progress, tensorboard
    from tapegrad.utils.model_summary import summary

__all__ = [
    "benchmark",
    "checkpoint",
    "data",
    "dlpack",
    "hooks",
    "progress",
    "set_module",
    "summary",
    "tensorboard",
]

# import tapegrad stays fast
_LOADED_ON_USE = ("benchmark", "checkpoint", "data", "dlpack", "progress", "tensorboard")


def set_module(obj: Any, mod: str) -> None:
    """Set the name of the module that a class or a function is shown with."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name == "summary":
            return import_module(f"{__name__}.model_summary").summary
        if name in _LOADED_ON_USE:
            return import_module(f"{__name__}.{name}")
        raise _missing(__name__, name)
