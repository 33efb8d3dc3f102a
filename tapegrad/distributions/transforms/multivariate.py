"""Transforms of vectors and matrices."""

import math
from typing import Any

import tapegrad as torch
from tapegrad import Tensor
from tapegrad.distributions import constraints
from tapegrad.distributions.transforms.base import Transform
from tapegrad.distributions.transforms.elementwise import _clipped_sigmoid, _OneOfAKind
from tapegrad.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from tapegrad.nn.functional import logsigmoid, pad, softplus


class SoftmaxTransform(_OneOfAKind):
    """``y = exp(x)``, normalized: from vectors to the simplex, not injective.

    Its inverse is the logarithm. It is for optimization over all coordinates alike; HMC and
    densities need `StickBreakingTransform`.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return torch.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        return self.forward_shape(shape)


class StickBreakingTransform(_OneOfAKind):
    """From vectors to the simplex of one dimension more, by breaking off parts of a stick.

    Example:
        >>> t = torch.distributions.transforms.StickBreakingTransform()
        >>> t(torch.zeros(3))
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _offset(self, x: Tensor) -> Tensor:
        """How many parts follow the one that is broken off."""
        return torch.arange(x.shape[-1], 0, -1, dtype=x.dtype, device=x.device)

    def _call(self, x: Tensor) -> Tensor:
        z = _clipped_sigmoid(x - self._offset(x).log())
        left = (1 - z).cumprod(-1)
        return pad(z, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = y[..., :-1]
        left = torch.clamp(1 - parts.cumsum(-1), min=torch.finfo(y.dtype).tiny)
        return parts.log() - left.log() + self._offset(parts).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offset(x).log()
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return (*shape[:-1], shape[-1] - 1)


class CorrCholeskyTransform(Transform):
    """From ``D (D - 1) / 2`` numbers to the Cholesky factor of a correlation matrix.

    Partial correlations ``tanh(x)`` fill the lower triangle; each row is then scaled to length
    one.

    Example:
        >>> t = torch.distributions.transforms.CorrCholeskyTransform()
        >>> t(torch.zeros(3))
        tensor([[1., 0., 0.],
                [0., 1., 0.],
                [0., 0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = torch.finfo(x.dtype).eps
        x = torch.tanh(x).clamp(min=-1 + eps, max=1 - eps)
        r = vec_to_tril_matrix(x, diag=-1)
        left = (1 - r * r).sqrt().cumprod(-1)
        r = r + torch.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = pad((1 - torch.cumsum(y * y, dim=-1))[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        left = 1 - (y * y).cumsum(dim=-1)
        # Neither the last column nor the one at the diagonal, which scales nothing, counts.
        left = tril_matrix_to_vec(left, diag=-2)
        scaling = 0.5 * left.log().sum(-1)
        tanh = -2 * (x + softplus(-2 * x) - math.log(2.0)).sum(dim=-1)
        return scaling + tanh

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        length = shape[-1]
        n = round((0.25 + 2 * length) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != length:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        n = shape[-1]
        return (*shape[:-2], n * (n - 1) // 2)


class LowerCholeskyTransform(_OneOfAKind):
    """From matrices to lower triangular ones with a positive diagonal, by its exponential."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_OneOfAKind):
    """From matrices to positive definite ones, by way of their Cholesky factors."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        x = LowerCholeskyTransform()(x)
        return x @ x.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(torch.linalg.cholesky(y))
