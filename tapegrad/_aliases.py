"""Second names. Each is the very object of the first: no wrapper, no cost.

`install` gives every name to the module and, where the operation is also a Tensor method, to the
class, together with its in-place form.
"""

from typing import Any

__all__ = ["ALIASES", "install"]

ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "divide": "div",
    "fix": "trunc",
    "ger": "outer",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "moveaxis": "movedim",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "row_stack": "vstack",
    "split_with_sizes": "split",
    "subtract": "sub",
    "swapdims": "transpose",
    "trapz": "trapezoid",
    "true_divide": "div",
}


def install(namespace: dict[str, Any], tensor_class: type) -> None:
    """Add the second names to a module's namespace and to the Tensor class.

    Args:
        namespace: the dict of the module, holding the first names already.
        tensor_class: the Tensor class, holding the methods already.
    """
    for alias, name in ALIASES.items():
        namespace[alias] = namespace[name]
        for suffix in ("", "_"):
            if hasattr(tensor_class, name + suffix):
                setattr(tensor_class, alias + suffix, getattr(tensor_class, name + suffix))
