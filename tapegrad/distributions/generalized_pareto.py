"""Generalized Pareto distributions."""

import math
from typing import Any, ClassVar

import tapegrad as torch
from tapegrad import Size, Tensor
from tapegrad.distributions import constraints
from tapegrad.distributions.distribution import Distribution
from tapegrad.distributions.utils import broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """The generalized Pareto distribution: of excesses over a threshold.

    Args:
        loc: the threshold.
        scale: the scale.
        concentration: the shape; negative ones bound the values, 0 is an exponential distribution.
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expand_parameters(
            GeneralizedPareto, batch_shape, _instance, ("loc", "scale", "concentration")
        )

    @property
    def mean(self) -> Tensor:
        finite = self.loc + self.scale / (1 - self.concentration)
        return torch.where(self.concentration < 1, finite, math.nan)

    @property
    def variance(self) -> Tensor:
        k = self.concentration
        finite = self.scale.pow(2) / ((1 - k).pow(2) * (1 - 2 * k))
        return torch.where(k < 0.5, finite, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, torch.where(self.concentration < 0, end, math.inf))

    def _nonzero_concentration(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is zero, and one to divide by, which is not."""
        is_zero = self.concentration == 0
        return is_zero, torch.where(is_zero, 1.0, self.concentration)

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    def rsample(self, sample_shape: Any = Size(())) -> Tensor:  # noqa: B008
        shape = self._extended_shape(sample_shape)
        u = torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.icdf(u)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        is_zero, k = self._nonzero_concentration()
        z = self._z(value)
        exponent = torch.where(is_zero, z, (1 + 1 / k) * torch.log1p(k * z))
        return -exponent - self.scale.log()

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of larger values."""
        if self._validate_args:
            self._validate_sample(value)
        is_zero, k = self._nonzero_concentration()
        z = self._z(value)
        return -torch.where(is_zero, z, torch.log1p(k * z) / k)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Return the logarithm of the cumulative distribution function."""
        if self._validate_args:
            self._validate_sample(value)
        return torch.log(-torch.expm1(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return torch.exp(self.log_cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        is_zero, k = self._nonzero_concentration()
        log_survival = torch.log1p(-value)
        z = torch.where(is_zero, -log_survival, torch.expm1(-k * log_survival) / k)
        return self.loc + self.scale * z

    def entropy(self) -> Tensor:
        return (self.scale.log() + self.concentration + 1).expand(self._batch_shape)
