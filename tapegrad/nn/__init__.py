"""Neural networks: modules, the functions below them, ways to begin, and helpers."""

from typing import Any

from tapegrad.nn import attention, functional, init, modules, parameter, utils
from tapegrad.nn.modules import *  # noqa: F403
from tapegrad.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "attention",
    "functional",
    "init",
    "modules",
    "parameter",
    "utils",
    *modules.__all__,
]


def __getattr__(name: str) -> Any:
    """Load the parts that many programs do without when they are first asked for."""
    from importlib import import_module

    if name in ("grad", "parallel"):
        return import_module(f"tapegrad.nn.{name}")
    if name == "DataParallel":
        return import_module("tapegrad.nn.parallel").DataParallel
    raise AttributeError(f"module 'tapegrad.nn' has no attribute {name!r}")
