"""Spectral norm of the older kind, by a hook; parametrizations.spectral_norm took its place."""

from typing import Any, TypeVar

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.nn import functional as F
from tapegrad.nn.modules.module import Module
from tapegrad.nn.parameter import Parameter
from tapegrad.nn.utils._pre_hooks import find_hook, pop_hook
from tapegrad.nn.utils.parametrizations import as_matrix, default_dim, power_iteration

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]

_M = TypeVar("_M", bound=Module)


class SpectralNorm:
    """Divides a weight by its largest singular value before every forward.

    Args:
        name: the name of the weight.
        n_power_iterations: the iterations of every forward while training.
        dim: the dimension of outputs.
        eps: the least length that vectors are divided by.
    """

    def __init__(
        self,
        name: str = "weight",
        n_power_iterations: int = 1,
        dim: int = 0,
        eps: float = 1e-12,
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the weight, after iterations that write to u and v."""
        weight: Tensor = getattr(module, self.name + "_orig")
        u: Tensor = getattr(module, self.name + "_u")
        v: Tensor = getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                power_v_first(matrix.detach(), u, v, self.n_power_iterations, self.eps)
            # The next forward may write to them before the backward of this one.
            u, v = u.clone(), v.clone()
        return weight / _C.dot(u, _C.mv(matrix, v))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def power_v_first(matrix: Tensor, u: Tensor, v: Tensor, rounds: int, eps: float) -> None:
    """Iterate as power_iteration() does, from u to v to u."""
    power_iteration(matrix.t(), v, u, rounds, eps)


class _VersionHook:
    """Notes in a state dict which version of spectral norm wrote it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, module: Any, state_dict: Any, prefix: str, local_metadata: Any) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = 1


def spectral_norm(
    module: _M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> _M:
    """Divide a weight by its largest singular value, which is estimated by power iteration.

    Args:
        module: the module; its parameter becomes ``weight_orig``, beside buffers ``weight_u`` and
            ``weight_v``.
        name: the name of the weight.
        n_power_iterations: the iterations of every forward while training.
        eps: the least length that vectors are divided by.
        dim: the dimension of outputs; 1 for transposed convolutions, else 0, if None.

    Returns:
        The module.

    Example:
        >>> layer = torch.nn.utils.spectral_norm(torch.nn.Linear(3, 4))
        >>> list(layer.state_dict())
        ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    if find_hook(module, SpectralNorm, name):
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    hook = SpectralNorm(name, n_power_iterations, default_dim(module) if dim is None else dim, eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    with no_grad():
        matrix = as_matrix(weight.detach(), hook.dim)
        u = F.normalize(matrix.new_empty((matrix.shape[0],)).normal_(0, 1), dim=0, eps=eps)
        v = F.normalize(matrix.new_empty((matrix.shape[1],)).normal_(0, 1), dim=0, eps=eps)
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    # A plain attribute, for those who look before the first forward; no parameter, no buffer.
    setattr(module, name, weight.detach())
    module.register_buffer(name + "_u", u)
    module.register_buffer(name + "_v", v)
    module.register_forward_pre_hook(hook)
    module._register_state_dict_hook(_VersionHook(name))
    return module


def remove_spectral_norm(module: _M, name: str = "weight") -> _M:
    """Make the weight one parameter again, with its value of now.

    Args:
        module: the module.
        name: the name of the weight.

    Returns:
        The module.
    """
    found = find_hook(module, SpectralNorm, name)
    if found is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    key, hook = found
    with no_grad():
        weight = hook.compute_weight(module, do_power_iteration=False)
    for attribute in (name, name + "_u", name + "_v", name + "_orig"):
        delattr(module, attribute)
    module.register_parameter(name, Parameter(weight.detach()))
    pop_hook(module, key)
    hooks: Any = module._state_dict_hooks
    for place, other in list(hooks.items()):
        if isinstance(other, _VersionHook) and other.name == name:
            del hooks[place]
    return module
