"""What packages import to write symbolic functions for PyTorch's older exporter."""

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["parse_args"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def parse_args(*arg_descriptors: str) -> Callable[[_Function], _Function]:
    """Return a decorator that leaves a symbolic function as it is: `export` calls none.

    Args:
        arg_descriptors: of what kinds the arguments are.
    """

    def same(function: _Function) -> _Function:
        return function

    return same
