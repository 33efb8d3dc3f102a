"""The rules: which function computes an op where an operand is sparse.

`call` is what the native core hands such a call over to. A rule has the parameters of the public
function. What has none is refused by its name.
"""

from collections.abc import Callable
from typing import Any

from tapegrad.sparse._errors import refuse

__all__ = ["RULES", "call", "rule"]

RULES: dict[str, Callable[..., Any]] = {}


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate the rule for ops of these names."""

    def enlist(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            RULES[name] = function
        return function

    return enlist


def call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute an op where there is a rule for it."""
    function = RULES.get(name)
    if function is None:
        refuse(name)
    if kwargs.get("out") is not None:
        raise NotImplementedError(
            f"{name}: out= is not supported with sparse tensors; use the result"
        )
    kwargs.pop("out", None)
    return function(*args, **kwargs)


@rule("_tangent_levels")
def _tangent_levels(tensor: Any) -> list[int]:
    return []


@rule("_run_traces")
def _run_traces(traces: Any, args: Any, kwargs: Any, none_holds: Any, run_eagerly: Any) -> Any:
    return none_holds  # and making one will tell why


@rule("_is_unguarded")
def _is_unguarded(tensor: Any) -> bool:
    return False  # parts are replaced, not written to


@rule("_is_batched_at")
def _is_batched_at(tensor: Any, vmap: int) -> bool:
    return False
