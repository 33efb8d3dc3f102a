"""Arguments that are one number or one for each dimension, and prefixes of state_dicts."""

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix off the names of a state_dict, in place, where they have it.

    Args:
        state_dict: the dict.
        prefix: the prefix, such as ``"module."``.

    Example:
        >>> from tapegrad.nn.modules.utils import consume_prefix_in_state_dict_if_present
        >>> state = {"module.weight": 1, "bias": 2}
        >>> consume_prefix_in_state_dict_if_present(state, "module.")
        >>> state
        {'bias': 2, 'weight': 1}
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    bare = prefix.rstrip(".")
    for key in [key for key in metadata if key and (key == bare or key.startswith(prefix))]:
        metadata[key[len(prefix) :]] = metadata.pop(key)
