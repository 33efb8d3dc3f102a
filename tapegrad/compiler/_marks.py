"""Marks for PyTorch's compiler that change nothing here."""

from typing import Any

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "cudagraph_mark_step_begin",
    "is_exporting",
    "nested_compile_region",
]


def allow_in_graph(fn: Any) -> Any:
    """Return a function that PyTorch's compiler is not to look into: calls are captured below it.

    Args:
        fn: a function, or a list of them.
    """
    if isinstance(fn, list | tuple):
        return [allow_in_graph(each) for each in fn]
    if not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Return a function that is said to return the same always: what it reads is compared anyway.

    Args:
        fn: the function.
    """
    return fn


def cudagraph_mark_step_begin() -> None:
    """Do nothing: results of compiled calls have memory of their own."""


def nested_compile_region(fn: Any = None, *, options: Any = None) -> Any:
    """Return a function that PyTorch's compiler compiles once for all its calls: here, as it is.

    Args:
        fn: the function; without it, a decorator is returned.
        options: accepted for PyTorch's sake.
    """
    return (lambda function: function) if fn is None else fn


def is_exporting() -> bool:
    """Return whether a model is run to be exported."""
    from sys import modules

    export = modules.get("tapegrad.onnx._export")
    return bool(export and export._exporting)
