"""Neural networks: modules, the functions below them, ways to begin, and helpers."""

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
