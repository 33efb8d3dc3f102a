"""Weight norm of the older kind, by a hook; parametrizations.weight_norm took its place."""

from typing import Any, TypeVar

from tapegrad._C import Tensor
from tapegrad.nn.modules.module import Module
from tapegrad.nn.parameter import Parameter
from tapegrad.nn.utils._pre_hooks import find_hook, pop_hook
from tapegrad.nn.utils.parametrizations import norm_except_dim

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]

_M = TypeVar("_M", bound=Module)


class WeightNorm:
    """Computes a weight from its lengths and directions before every forward.

    Args:
        name: the name of the weight.
        dim: the dimension that every index of has a length of its own.
    """

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """Return the weight."""
        lengths: Tensor = getattr(module, self.name + "_g")
        directions: Tensor = getattr(module, self.name + "_v")
        return directions * (lengths / norm_except_dim(directions, self.dim))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: _M, name: str = "weight", dim: int | None = 0) -> _M:
    """Split a weight into lengths, ``weight_g``, and directions, ``weight_v``.

    Args:
        module: the module.
        name: the name of the weight.
        dim: the dimension that every index of has a length of its own; None for one length.

    Returns:
        The module.
    """
    import warnings

    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of "
        "`torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    if find_hook(module, WeightNorm, name):
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    del module._parameters[name]
    lengths = norm_except_dim(weight.detach(), hook.dim)
    module.register_parameter(name + "_g", Parameter(lengths))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: _M, name: str = "weight") -> _M:
    """Make the weight one parameter again.

    Args:
        module: the module.
        name: the name of the weight.

    Returns:
        The module.
    """
    found = find_hook(module, WeightNorm, name)
    if found is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    key, hook = found
    weight = hook.compute_weight(module).detach()
    delattr(module, name)
    del module._parameters[name + "_g"]
    del module._parameters[name + "_v"]
    setattr(module, name, Parameter(weight))
    pop_hook(module, key)
    return module
