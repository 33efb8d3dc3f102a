"""Continuous Bernoulli distributions."""

import math
from typing import Any, ClassVar

import tapegrad as torch
from tapegrad import Size, Tensor
from tapegrad.distributions import constraints
from tapegrad.distributions.exp_family import ExponentialFamily
from tapegrad.distributions.utils import (
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from tapegrad.nn.functional import binary_cross_entropy_with_logits

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ExponentialFamily):
    """A distribution over the unit interval with density in proportion to ``p**x (1-p)**(1-x)``.

    Args:
        probs: ``p``, which is not the mean.
        logits: its log odds, instead.
        lims: between these, formulas that divide by ``p - 1/2`` give way to series.
    """

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support: Any = constraints.unit_interval
    _mean_carrier_measure = 0
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
            # Checked before it is clamped.
            if (
                validate_args is not None
                and not self.arg_constraints["probs"].check(self.probs).all()
            ):
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        else:
            (self.logits,) = broadcast_all(logits)
        self._param = self.probs if probs is not None else self.logits
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = ("probs", "logits", "_param")
        new = self._expand_parameters(ContinuousBernoulli, batch_shape, _instance, names)
        new._lims = self._lims
        return new

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        """The probabilities, away from a half."""
        return torch.where(self._outside_unstable_region(), self.probs, self._lims[0])

    def _log_odds(self) -> Tensor:
        cut = self._cut_probs()
        return torch.log(cut) - torch.log1p(-cut)

    def _cont_bern_log_norm(self) -> Tensor:
        """The logarithm of the normalizing constant."""
        x = torch.pow(self.probs - 0.5, 2)
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        # atanh(w) / w is even in w = 1 - 2 p
        ratio = self._log_odds() / (2.0 * self._cut_probs() - 1.0)
        return torch.where(self._outside_unstable_region(), torch.log(ratio), series)

    @property
    def mean(self) -> Tensor:
        cut = self._cut_probs()
        mean = cut / (2.0 * cut - 1.0) - 1.0 / self._log_odds()
        x = self.probs - 0.5
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * torch.pow(x, 2)) * x
        return torch.where(self._outside_unstable_region(), mean, series)

    @property
    def stddev(self) -> Tensor:
        return torch.sqrt(self.variance)

    @property
    def variance(self) -> Tensor:
        cut = self._cut_probs()
        variance = cut * (cut - 1.0) / torch.pow(1.0 - 2.0 * cut, 2) + self._log_odds().pow(-2)
        x = torch.pow(self.probs - 0.5, 2)
        series = 1.0 / 12.0 - (1.0 / 15.0 + 128.0 / 945.0 * x) * x
        return torch.where(self._outside_unstable_region(), variance, series)

    @lazy_property
    def logits(self) -> Tensor:  # type: ignore[override]
        """The log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:  # type: ignore[override]
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.size()

    def sample(self, sample_shape: Any = Size(())) -> Tensor:  # noqa: B008
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = Size(())) -> Tensor:  # noqa: B008
        shape = self._extended_shape(sample_shape)
        return self.icdf(torch.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        log_density = -binary_cross_entropy_with_logits(logits, value, reduction="none")
        return log_density + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        cut = self._cut_probs()
        powers = torch.pow(cut, value) * torch.pow(1.0 - cut, 1.0 - value)
        cdf = (powers + cut - 1.0) / (2.0 * cut - 1.0)
        cdf = torch.where(self._outside_unstable_region(), cdf, value)
        cdf = torch.where(value <= 0.0, 0.0, cdf)
        return torch.where(value >= 1.0, 1.0, cdf)

    def icdf(self, value: Tensor) -> Tensor:
        cut = self._cut_probs()
        icdf = torch.log1p(-cut + value * (2.0 * cut - 1.0)) - torch.log1p(-cut)
        return torch.where(self._outside_unstable_region(), icdf / self._log_odds(), value)

    def entropy(self) -> Tensor:
        log_zero, log_one = torch.log1p(-self.probs), torch.log(self.probs)
        return self.mean * (log_zero - log_one) - self._cont_bern_log_norm() - log_zero

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (torch.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """``log((exp(x) - 1) / x)``."""
        low, high = (limit - 0.5 for limit in self._lims)
        outside = (x <= low) | (x > high)
        cut = torch.where(outside, x, low)
        ratio = torch.log(torch.abs(torch.expm1(cut))) - torch.log(torch.abs(cut))
        series = 0.5 * x + torch.pow(x, 2) / 24.0 - torch.pow(x, 4) / 2880.0
        return torch.where(outside, ratio, series)
