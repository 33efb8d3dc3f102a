"""The few names of PyTorch's `torch._dynamo` that programs use."""

from typing import Any

from tapegrad._C import Tensor
from tapegrad._dynamo import config
from tapegrad.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
)
from tapegrad.compiler._compiled import OptimizedModule

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "disallow_in_graph",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "reset",
]


def graph_break(msg: str = "") -> None:
    """Do nothing: a trace goes on through what breaks PyTorch's graphs."""


def disallow_in_graph(fn: Any) -> Any:
    """Return the function: its ops are captured as they run, like all others."""
    return fn


def mark_dynamic(t: Tensor, index: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Do nothing: every size has a trace of its own.

    Args:
        t: a tensor.
        index: of an axis, or several.
        min, max: sizes to expect.
    """


def maybe_mark_dynamic(t: Tensor, index: Any) -> None:
    """Do nothing: every size has a trace of its own."""


def mark_static(t: Tensor, index: Any = None) -> None:
    """Do nothing: every size has a trace of its own."""


def mark_static_address(t: Tensor, guard: bool = False) -> None:
    """Do nothing but check the type: traces find parameters and states where they are.

    Args:
        t: a tensor.
        guard: not used.
    """
    if not isinstance(t, Tensor):
        raise TypeError(f"mark_static_address expects a tensor but received {type(t)}")
