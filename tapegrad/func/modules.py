"""Modules and functions brought into a form that transforms take."""

import functools
from collections.abc import Callable
from typing import Any

from tapegrad.nn.modules.module import Module

__all__ = ["functionalize", "replace_all_batch_norm_modules_"]


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let the batch norms in a module forget what they have seen: they use each batch's own mean.

    Their running statistics are buffers that every call writes, which `vmap` cannot follow.

    Args:
        root: the module, which is changed and returned.

    Example:
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        >>> torch.func.replace_all_batch_norm_modules_(net)[1].running_mean is None
        True
    """
    from tapegrad.nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = None
            module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return a function that does the same; PyTorch's makes no writes on the way, for its tracers.

    What programs can see of it is the same: results, and what arguments hold afterwards. Traces
    here take writes as they are, so that there is nothing to remove.

    Args:
        func: the function.
        remove: "mutations" or "mutations_and_views".
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. "
            "Valid options are:\n     remove='mutations': all inplace and out= operators will be "
            "removed\n     remove='mutations_and_views': all view operators will be removed"
        )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapped
