"""The error for NumPy arrays in place of tensors, of functions that are made of others."""

from typing import Any

from tapegrad._C import Tensor

__all__ = ["refuse_arrays"]


def refuse_arrays(operation: str, **arguments: Any) -> None:
    """Raise TypeError for the first argument that is an array, a number or a list.

    A function asks only where an argument is no tensor. Objects of other classes may compute as
    tensors do, so they pass.

    Args:
        operation: the name of the function.
        arguments: its arguments that must be tensors, in their order.
    """
    for position, (name, value) in enumerate(arguments.items(), 1):
        kind = type(value)
        is_array = hasattr(value, "__array_interface__")
        if isinstance(value, Tensor) or not (is_array or isinstance(value, (list, int, float))):
            continue
        own = kind.__module__ == "builtins"
        came = kind.__name__ if own else f"{kind.__module__}.{kind.__name__}"
        remedy = "torch.from_numpy()" if came == "numpy.ndarray" else "torch.tensor()"
        raise TypeError(
            f"{operation}(): argument '{name}' (position {position}) must be Tensor, not {came}; "
            f"use {remedy}"
        )
