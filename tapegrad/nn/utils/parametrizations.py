"""Parametrizations that are in common use: weights of a given length, of bounded spectral norm."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.nn import functional as F
from tapegrad.nn.modules.module import Module
from tapegrad.nn.utils.parametrize import is_parametrized, register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Refused: weights that stay orthogonal need matrix functions that are not there yet.

    Args:
        module: the module.
        name: the name of the weight.
        orthogonal_map: the matrix function.
        use_trivialization: whether to start from a base point.
    """
    raise NotImplementedError(
        "orthogonal: the exponential, Householder products and solutions of matrices are not "
        "supported; start from torch.nn.init.orthogonal_, or register a parametrization of your own"
    )


# ---- weight norm


def norm_except_dim(v: Tensor, dim: int) -> Tensor:
    """Return the 2-norms over all dimensions but one, which are kept; over all for -1."""
    if dim == -1:
        return v.norm(2)
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    return v.norm(2, others, keepdim=True) if others else v.abs()


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """Return vectors of the given directions and lengths."""
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return lengths and directions."""
        return norm_except_dim(weight, self.dim), weight.clone()


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Split a weight into lengths and directions, which are trained instead.

    Args:
        module: the module.
        name: the name of the weight.
        dim: the dimension that every index of has a length of its own; None for one length.

    Returns:
        The module. The lengths are ``parametrizations.weight.original0``, the directions
        ``parametrizations.weight.original1``; keys of the older kind are loaded, too.

    Example:
        >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 4))
        >>> layer.parametrizations.weight.original0.shape
        torch.Size([4, 1])
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename_older_keys(state_dict: Any, prefix: str, *rest: Any) -> None:
        for place, suffix in enumerate(("g", "v")):
            older = f"{prefix}{name}_{suffix}"
            if older in state_dict:
                key = f"{prefix}parametrizations.{name}.original{place}"
                state_dict[key] = state_dict.pop(older)

    module._register_load_state_dict_pre_hook(rename_older_keys)
    return module


# ---- spectral norm


def power_iteration(matrix: Tensor, u: Tensor, v: Tensor, rounds: int, eps: float) -> None:
    """Bring u and v nearer to the first singular vectors of a matrix, in place."""
    for _ in range(rounds):
        u.copy_(F.normalize(_C.mv(matrix, v), dim=0, eps=eps))
        v.copy_(F.normalize(_C.mv(matrix.t(), u), dim=0, eps=eps))


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """Return a weight with one dimension first and all others as one."""
    return (weight if dim == 0 else weight.transpose(0, dim)).flatten(1)


def default_dim(module: Module) -> int:
    """Return the dimension of outputs: the second of transposed convolutions."""
    names = {cls.__name__ for cls in type(module).__mro__}
    return 1 if names & {"ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"} else 0


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        dims = weight.dim()
        if not -dims <= dim < dims:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{dims}, {dims - 1}] but got "
                f"{dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % dims
        self.eps = eps
        if dims > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight.detach(), self.dim)
            for name, size in (("_u", matrix.shape[0]), ("_v", matrix.shape[1])):
                drawn = matrix.new_empty((size,)).normal_(0, 1)
                self.register_buffer(name, F.normalize(drawn, dim=0, eps=eps))
            with no_grad():
                power_iteration(matrix, self._u, self._v, 15, eps)

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight divided by its largest singular value."""
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            with no_grad():
                rounds = self.n_power_iterations
                power_iteration(matrix.detach(), self._u, self._v, rounds, self.eps)
        # Copies, because the next forward may write to them before the backward of this one.
        u, v = self._u.clone(), self._v.clone()
        return weight / _C.dot(u, _C.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return the value: what is of spectral norm 1 is kept."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value, which is estimated by power iteration.

    Args:
        module: the module.
        name: the name of the weight.
        n_power_iterations: the iterations of every forward while training.
        eps: the least length that vectors are divided by.
        dim: the dimension of outputs; 1 for transposed convolutions, else 0, if None.

    Returns:
        The module.

    Example:
        >>> layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(3, 4))
        >>> list(layer.state_dict())[1:]
        ['parametrizations.weight.original', 'parametrizations.weight.0._u', ...]
    """
    is_there = name in module._parameters or name in module._buffers
    if not is_there and not is_parametrized(module, name):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    weight = getattr(module, name)
    if dim is None:
        dim = default_dim(module)
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return register_parametrization(module, name, made)
