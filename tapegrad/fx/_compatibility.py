"""The mark of how stable a name is, which packages put on functions of their own."""

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["compatibility"]

_Marked = TypeVar("_Marked")


def compatibility(is_backward_compatible: bool) -> Callable[[_Marked], _Marked]:
    """Return a decorator that leaves what it marks as it is.

    Args:
        is_backward_compatible: taken as PyTorch's.
    """

    def mark(function: Any) -> Any:
        return function

    return mark
