"""Inverse gamma distributions."""

import math
from typing import Any, ClassVar

import tapegrad as torch
from tapegrad import Tensor
from tapegrad.distributions import constraints
from tapegrad.distributions.gamma import Gamma
from tapegrad.distributions.transformed_distribution import TransformedDistribution
from tapegrad.distributions.transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """The distribution of one over a gamma variable.

    Args:
        concentration: the shape.
        rate: the rate of the gamma variable, and the scale of this one.
    """

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support: Any = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base_dist = Gamma(concentration, rate, validate_args=validate_args)
        transform = PowerTransform(exponent=-base_dist.rate.new_ones(()))
        super().__init__(base_dist, transform, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(InverseGamma, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def concentration(self) -> Tensor:
        """The shape."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate of the gamma variable."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        finite = self.rate / (self.concentration - 1)
        return torch.where(self.concentration > 1, finite, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        above = self.concentration - 1
        finite = self.rate.square() / (above.square() * (above - 1))
        return torch.where(self.concentration > 2, finite, math.inf)

    def entropy(self) -> Tensor:
        return (
            self.concentration
            + self.rate.log()
            + self.concentration.lgamma()
            - (1 + self.concentration) * self.concentration.digamma()
        )
