"""Checks of arguments, made before anything happens."""

from collections.abc import Iterable
from typing import Any

from tapegrad._C import Tensor
from tapegrad.nn.modules.module import Module

__all__ = ["expect_count", "expect_model", "expect_type", "tensors_with_history"]


def expect_type(who: str, name: str, value: Any, kind: type | tuple[type, ...], words: str) -> None:
    """Raise a TypeError unless a value is an instance of a type."""
    if not isinstance(value, kind):
        raise TypeError(f"{who}: expected {name} to be {words}, got {type(value).__name__}")


def expect_count(who: str, name: str, value: Any, least: int) -> None:
    """Raise unless a value is an int of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{who}: expected {name} to be an int, got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{who}: expected {name} to be at least {least}, got {value}")


def expect_model(who: str, model: Any) -> None:
    """Raise unless a model is a module, or None."""
    expect_type(who, "model", model, (Module, type(None)), "a Module")


def tensors_with_history(who: str, tensors: Any) -> list[Tensor]:
    """Return one tensor or several as a list, after making sure that gradients flow from each."""
    if not isinstance(tensors, Tensor) and not isinstance(tensors, Iterable):
        raise TypeError(f"{who}: expected tensors, got {type(tensors).__name__}")
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for root in roots:
        if not isinstance(root, Tensor):
            raise TypeError(f"{who}: expected tensors, got {type(root).__name__}")
        if not root.requires_grad:
            raise RuntimeError(
                f"{who}: expected a tensor that requires grad, got one of shape "
                f"{tuple(root.shape)} that has no history; was it computed under no_grad, or "
                "from inputs without requires_grad?"
            )
    return roots
