"""Mixtures whose components are one batch."""

from typing import Any, ClassVar

import tapegrad as torch
from tapegrad import Size, Tensor
from tapegrad.distributions import constraints
from tapegrad.distributions.categorical import Categorical
from tapegrad.distributions.constraints import MixtureSameFamilyConstraint
from tapegrad.distributions.distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture of the distributions along the last batch dimension of another one.

    Args:
        mixture_distribution: a `Categorical` that chooses among them.
        component_distribution: the batch of components.

    Example:
        >>> mix = torch.distributions.Categorical(torch.ones(2))
        >>> parts = torch.distributions.Normal(torch.tensor([-1.0, 1.0]), torch.ones(2))
        >>> torch.distributions.MixtureSameFamily(mix, parts).mean
        tensor(0.)
    """

    arg_constraints: ClassVar[Any] = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of "
                "torch.distributions.Distribution"
            )
        mixture_shape = mixture_distribution.batch_shape
        component_shape = component_distribution.batch_shape[:-1]
        for size1, size2 in zip(reversed(mixture_shape), reversed(component_shape), strict=False):
            if size1 != 1 and size2 != 1 and size1 != size2:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture_shape}) is not "
                    "compatible with `component_distribution."
                    f"batch_shape`({component_shape})"
                )
        km = mixture_distribution.logits.shape[-1]
        kc = component_distribution.batch_shape[-1]
        if km != kc:
            raise ValueError(
                f"`mixture_distribution component` ({km}) does not"
                f" equal `component_distribution.batch_shape[-1]` ({kc})"
            )
        self._num_component = km
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(
            batch_shape=component_shape, event_shape=event_shape, validate_args=validate_args
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        batch_shape = Size(batch_shape)
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        new._component_distribution = self._component_distribution.expand(
            batch_shape + Size((self._num_component,))
        )
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component = self._num_component
        new._event_ndims = self._event_ndims
        event_shape = new._component_distribution.event_shape
        super(MixtureSameFamily, new).__init__(
            batch_shape=batch_shape, event_shape=event_shape, validate_args=False
        )
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        return MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """What chooses among the components."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The batch of components."""
        return self._component_distribution

    def _over_components(self, values: Tensor) -> Tensor:
        """The mean over the components."""
        probs = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        return torch.sum(probs * values, dim=-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._over_components(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        within = self._over_components(self.component_distribution.variance)
        distances = self.component_distribution.mean - self._pad(self.mean)
        return within + self._over_components(distances.pow(2.0))

    def cdf(self, x: Tensor) -> Tensor:
        cdf = self.component_distribution.cdf(self._pad(x))
        return torch.sum(cdf * self.mixture_distribution.probs, dim=-1)

    def log_prob(self, x: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(x)
        log_prob = self.component_distribution.log_prob(self._pad(x))
        log_mix = torch.log_softmax(self.mixture_distribution.logits, dim=-1)
        return torch.logsumexp(log_prob + log_mix, dim=-1)

    def sample(self, sample_shape: Any = Size(())) -> Tensor:  # noqa: B008
        with torch.no_grad():
            sample_shape = Size(sample_shape)
            batch_shape, event_shape = self.batch_shape, self.event_shape
            gather_dim = len(sample_shape) + len(batch_shape)
            mix = self.mixture_distribution.sample(sample_shape)
            samples = self.component_distribution.sample(sample_shape)
            ones = (1,) * (len(event_shape) + 1)
            chosen = mix.reshape(mix.shape + ones)
            chosen = chosen.expand(sample_shape + batch_shape + Size((1,)) + event_shape)
            return torch.gather(samples, gather_dim, chosen).squeeze(gather_dim)

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Tensor) -> Tensor:
        missing = len(self.batch_shape) - len(self.mixture_distribution.batch_shape)
        shape = x.shape[:-1] + (1,) * missing + x.shape[-1:] + (1,) * self._event_ndims
        return x.reshape(shape)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
