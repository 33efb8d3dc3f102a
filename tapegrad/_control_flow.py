"""Branches as functions."""

from collections.abc import Callable
from typing import Any

from tapegrad._C import Tensor
from tapegrad.utils._pytree import tree_all

__all__ = ["cond"]


def cond(
    pred: bool | int | float | Tensor,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple[Any, ...] | list[Any] = (),
) -> Any:
    """Call one of two functions.

    It is ``true_fn(*operands) if pred else false_fn(*operands)``, which `torch.compile` and
    `torch.jit.trace` take as it is written: a look at a value is a guard of the trace.

    Args:
        pred: a number, or a tensor with one element.
        true_fn: called if it is not zero.
        false_fn: called if it is.
        operands: the arguments: tensors, in tuples, lists and dicts.

    Example:
        >>> x = torch.tensor([1.0, -2.0])
        >>> torch.cond(x.sum() > 0, torch.sin, torch.abs, (x,))
        tensor([1., 2.])
    """
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, tuple | list) or not tree_all(
        lambda leaf: isinstance(leaf, Tensor), operands
    ):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists "
            f"of tensor leaves, but got {operands}."
        )
    return true_fn(*operands) if pred else false_fn(*operands)
