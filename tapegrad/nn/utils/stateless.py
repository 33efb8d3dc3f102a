"""An older place of functional_call."""

from contextlib import AbstractContextManager
from typing import Any

from tapegrad import func
from tapegrad._C import Tensor
from tapegrad.func.functional_call import replaced

__all__ = ["functional_call"]


def _reparametrize_module(
    module: Any,
    parameters_and_buffers: dict[str, Tensor],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> AbstractContextManager[None]:
    """Have a module use other parameters and buffers inside a ``with`` block.

    Args:
        module: the module.
        parameters_and_buffers: what it uses, by dotted names; is given what the module put there.
        tie_weights: whether replacing one name of a shared parameter replaces all of its names.
        strict: whether names that are missing or unknown are an error.
        stack_weights: has no effect: all are put back in the reverse order.
    """
    return replaced(
        module,
        parameters_and_buffers,
        parameters_and_buffers,
        tie_weights=tie_weights,
        strict=strict,
    )


def functional_call(
    module: Any,
    parameters_and_buffers: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """As torch.func.functional_call(), which took its place."""
    import warnings

    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be "
        "removed in a future version of PyTorch. Please use `torch.func.functional_call` instead "
        "which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return func.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
