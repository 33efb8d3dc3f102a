"""The few names of PyTorch's `torch._dynamo` that programs use."""

from collections.abc import Callable
from typing import Any

from tapegrad._C import Tensor
from tapegrad._dynamo import config, eval_frame
from tapegrad.compiler import (
    allow_in_graph,
    assume_constant_result,
    compile,
    disable,
    is_compiling,
    list_backends,
    reset,
    set_stance,
)
from tapegrad.compiler._compiled import OptimizedModule

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "disallow_in_graph",
    "eval_frame",
    "graph_break",
    "is_compiling",
    "is_dynamo_supported",
    "is_inductor_supported",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "optimize",
    "reset",
    "reset_code_caches",
    "set_stance",
]

reset_code_caches = reset


def graph_break(msg: str = "") -> None:
    """Do nothing: a trace goes on through what breaks PyTorch's graphs."""


def is_dynamo_supported() -> bool:
    """Return True."""
    return True


is_inductor_supported = is_dynamo_supported


def optimize(
    backend: str | Callable[..., Any] = "inductor",
    *,
    nopython: bool = False,
    dynamic: bool | None = None,
    disable: bool = False,
) -> Callable[..., Any]:
    """Return a decorator that compiles.

    Args:
        backend, dynamic, disable: those of `tapegrad.compile`.
        nopython: its ``fullgraph``.
    """
    decorator: Callable[..., Any] = compile(
        backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable
    )
    return decorator


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


def mark_unbacked(t: Tensor, index: Any, **options: Any) -> None:
    """Do nothing: every size has a trace of its own."""


def mark_static_address(t: Tensor, guard: bool = False) -> None:
    """Do nothing but check the type: traces find parameters and states where they are.

    Args:
        t: a tensor.
        guard: not used.
    """
    if not isinstance(t, Tensor):
        raise TypeError(f"mark_static_address expects a tensor but received {type(t)}")
