"""The base class of exponential families."""

from typing import Any

import tapegrad as torch
from tapegrad import Tensor
from tapegrad.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Distributions with the density ``exp(<t(x), theta> - F(theta) + k(x))``.

    ``theta`` are the natural parameters, ``t`` the sufficient statistic, ``F`` the log normalizer
    and ``k`` the carrier measure. Entropy and divergence follow from the derivatives of ``F``.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy, a Bregman divergence of the log normalizer."""
        result = -self._mean_carrier_measure
        params = [p.detach().requires_grad_() for p in self._natural_params]
        log_normal = self._log_normalizer(*params)
        grads = torch.autograd.grad(log_normal.sum(), params, create_graph=True)
        result = result + log_normal
        for param, grad in zip(params, grads, strict=True):
            result = result - (param * grad).reshape((*self._batch_shape, -1)).sum(-1)
        return result
