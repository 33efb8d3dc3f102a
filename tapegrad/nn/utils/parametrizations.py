"""Parametrizations in common use: orthogonal weights, of a given length, of bounded norm."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import finfo
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.nn import functional as F
from tapegrad.nn.modules.module import Module
from tapegrad.nn.utils.parametrize import is_parametrized, register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


# ---- orthogonal matrices


def _orthonormalized(A: Tensor) -> Tensor:
    """Return Q of the QR decomposition whose R has a positive diagonal."""
    q, r = _C._linalg_qr("orthogonal", A, "reduced")
    return q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


def _is_orthogonal(Q: Tensor) -> bool:
    rounding = 10 * Q.shape[-2] * finfo(Q.dtype).eps
    identity = _C.eye(Q.shape[-1], dtype=Q.dtype, device=Q.device)
    return bool(((Q.mT @ Q - identity).abs() <= rounding + 1e-5 * identity).all())


class _Orthogonal(Module):
    base: Tensor

    def __init__(
        self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        """Return matrices with orthonormal columns, or rows where those are fewer."""
        is_wide = X.shape[-2] < X.shape[-1]
        if is_wide:
            X = X.mT
        Q = self._reflected(X) if self.orthogonal_map == "householder" else self._rotated(X)
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if is_wide else Q

    def _rotated(self, X: Tensor) -> Tensor:
        """Return columns of the rotation that belongs to a skew-symmetric matrix."""
        n, k = X.shape[-2:]
        X = X.tril()
        if n != k:
            X = _C.cat([X, X.new_zeros((*X.shape[:-2], n, n - k))], dim=-1)
        A = X - X.mT
        if self.orthogonal_map == "matrix_exp":
            return _C._linalg_matrix_exp(A)[..., :k]
        identity = _C.eye(n, dtype=A.dtype, device=A.device)
        half = 0.5 * A
        Q: Tensor = _C._linalg_solve("torch.linalg.solve", identity - half, identity + half, True)[
            0
        ]
        return Q[..., :k]

    def _reflected(self, X: Tensor) -> Tensor:
        """Return a product of reflections, with signs that the diagonal gives."""
        from tapegrad.linalg import householder_product

        A = X.tril(-1)
        tau = 2.0 / (1.0 + (A * A).sum(-2))
        return householder_product(A, tau) * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        """Return what forward() makes this matrix of, once its columns are orthonormal."""
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {Q.shape}."
            )
        start = Q
        is_wide = Q.shape[-2] < Q.shape[-1]
        if is_wide:
            Q = Q.mT
        if not hasattr(self, "base"):
            reflectors = self._reflectors_of(Q)
            return reflectors.mT if is_wide else reflectors
        n, k = Q.shape[-2:]
        if n != k:
            drawn = Q.new_empty((*Q.shape[:-2], n, n - k)).normal_(0, 1)
            Q = _orthonormalized(_C.cat([Q, drawn], dim=-1))
        else:
            Q = Q.clone() if _is_orthogonal(Q) else _orthonormalized(Q)
        self.base = Q
        # From here forward() gives the base itself.
        negative = _C.zeros_like(start)
        negative.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return negative

    def _reflectors_of(self, Q: Tensor) -> Tensor:
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        A, tau = _C._geqrf(Q)
        signs = A.diagonal(dim1=-2, dim2=-1).sign()
        signs = _C.where(tau == 0.0, -signs, signs)
        on_diagonal = _C.eye(*A.shape[-2:], dtype=_C.bool, device=A.device)
        return _C.where(on_diagonal, signs.unsqueeze(-2), A)


_ORTHOGONAL_MAPS = ("matrix_exp", "cayley", "householder")


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a weight orthogonal: its columns orthonormal, or its rows where those are fewer.

    Args:
        module: the module.
        name: the name of the weight.
        orthogonal_map: how: ``"matrix_exp"`` (the default for square weights), ``"cayley"``, or
            ``"householder"`` (the default for others).
        use_trivialization: start from a base point, to which weights can be set; without, only
            ``"householder"`` can be set.

    Returns:
        The module.

    Example:
        >>> layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 3))
        >>> torch.allclose(layer.weight @ layer.weight.mT, torch.eye(3), atol=1e-5)
        True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if orthogonal_map is None:
        is_square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if is_square else "householder"
    if orthogonal_map not in _ORTHOGONAL_MAPS:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
            f"{orthogonal_map}"
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    register_parametrization(module, name, made, unsafe=True)
    return module


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
