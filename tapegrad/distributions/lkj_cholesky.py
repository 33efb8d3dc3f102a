"""LKJ distributions of correlation matrices, by their Cholesky factors."""

import math
from typing import Any, ClassVar

import tapegrad as torch
from tapegrad import Size, Tensor
from tapegrad.distributions import constraints
from tapegrad.distributions.beta import Beta
from tapegrad.distributions.distribution import Distribution
from tapegrad.distributions.utils import _multigammaln, broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Factors of correlation matrices, whose density is ``det ** (concentration - 1)``.

    Samples are made by the onion method of Lewandowski, Kurowicka and Joe (2009).

    Args:
        dim: of the matrices, at least 2.
        concentration: 1 for the uniform distribution; above it identity matrices are favored.
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive}
    support: Any = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        batch_shape = self.concentration.size()
        # The squared length of what a row has off the diagonal is a beta variable.
        dtype, device = self.concentration.dtype, self.concentration.device
        offset = torch.arange(dim, dtype=dtype, device=device).sub(1).clamp(min=0)
        marginal = self.concentration + 0.5 * (dim - 2)
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(batch_shape, Size((dim, dim)), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LKJCholesky, _instance)
        batch_shape = Size(batch_shape)
        new.dim = self.dim
        new.concentration = self.concentration.expand(batch_shape)
        new._beta = self._beta.expand((*batch_shape, self.dim))
        super(LKJCholesky, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def sample(self, sample_shape: Any = Size(())) -> Tensor:  # noqa: B008
        with torch.no_grad():
            y = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            normals = torch.randn(shape, dtype=y.dtype, device=y.device).tril(-1)
            directions = normals / normals.square().sum(-1, keepdim=True).sqrt()
            directions[..., 0, :].fill_(0.0)
            below = torch.sqrt(y) * directions
            tiny = torch.finfo(below.dtype).tiny
            diagonal = torch.clamp(1 - torch.sum(below**2, dim=-1), min=tiny).sqrt()
            return below + torch.diag_embed(diagonal)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = torch.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalized = torch.sum(order * diagonal.log(), dim=-1)
        # the normalizing constant of page 1999 of the article
        rows = self.dim - 1
        alpha = self.concentration + 0.5 * rows
        normalizer = (
            0.5 * rows * math.log(math.pi)
            + _multigammaln(alpha - 0.5, rows)
            - torch.lgamma(alpha) * rows
        )
        return unnormalized - normalizer
