"""What a tensor is called in texts: its dtype, its shape, and its device if that is not the CPU."""

from collections.abc import Mapping
from typing import Any

__all__ = ["type_text"]


def type_text(value: Mapping[str, Any]) -> str:
    """Return the type of an output of a tape's document.

    Example:
        >>> type_text({"dtype": "float32", "shape": [2, 3], "device": "cuda:0"})
        'float32[2, 3] on cuda:0'
    """
    text = f"{value['dtype']}[{', '.join(map(str, value['shape']))}]"
    device = value.get("device") or "cpu"
    return text if device == "cpu" else f"{text} on {device}"
