"""Where composed operations sign up to become public functions and Tensor methods.

`scripts/make_names.py` reads both dicts and writes `tapegrad/_names.py`, which publishes what is in
them. A function that is also a method carries both marks:

    @function
    @method
    def diff(input, n=1, dim=-1): ...
"""

from collections.abc import Callable
from typing import Any, TypeVar

from tapegrad._second_look import looks_again

__all__ = ["FUNCTIONS", "METHODS", "function", "method", "question"]

FUNCTIONS: dict[str, Callable[..., Any]] = {}
METHODS: dict[str, Callable[..., Any]] = {}

_Operation = TypeVar("_Operation", bound=Callable[..., Any])


def function(operation: _Operation) -> _Operation:
    """Publish an operation in the `tapegrad` namespace, under its own name."""
    name = operation.__name__
    FUNCTIONS[name] = published = looks_again(operation)
    if METHODS.get(name) is operation:
        METHODS[name] = published
    return published


def question(operation: _Operation) -> _Operation:
    """Publish a function that is asked of any object, so that no class answers in its place."""
    FUNCTIONS[operation.__name__] = operation
    return operation


def method(operation: _Operation) -> _Operation:
    """Publish an operation as a Tensor method; its first argument is the tensor."""
    METHODS[operation.__name__] = operation
    return operation
