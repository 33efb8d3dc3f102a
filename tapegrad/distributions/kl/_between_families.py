"""Divergences of distributions of different families: ``-H(p) - E_p[log q]``."""

import math
from typing import Any

import tapegrad as torch
from tapegrad import Tensor
from tapegrad.distributions.bernoulli import Bernoulli
from tapegrad.distributions.beta import Beta
from tapegrad.distributions.binomial import Binomial
from tapegrad.distributions.continuous_bernoulli import ContinuousBernoulli
from tapegrad.distributions.exponential import Exponential
from tapegrad.distributions.gamma import Gamma
from tapegrad.distributions.gumbel import Gumbel
from tapegrad.distributions.kl._registry import register_kl
from tapegrad.distributions.laplace import Laplace
from tapegrad.distributions.normal import Normal
from tapegrad.distributions.pareto import Pareto
from tapegrad.distributions.poisson import Poisson
from tapegrad.distributions.uniform import Uniform
from tapegrad.distributions.utils import _inf_where, euler_constant

# ---- where q has no density at values of p


def _infinite_like(tensor: Tensor) -> Tensor:
    return torch.full_like(tensor, math.inf)


def _infinity_of(parameter: str) -> Any:
    def kl(p: Any, q: Any) -> Tensor:
        return _infinite_like(getattr(p, parameter))

    return kl


_BOUNDED = (Beta, ContinuousBernoulli)
_ABOVE_ZERO = (Exponential, Gamma)
for _p, _parameter, _qs in (
    (Beta, "concentration1", (Pareto,)),
    (ContinuousBernoulli, "probs", (Pareto,)),
    (Exponential, "rate", (Uniform, Pareto, *_BOUNDED)),
    (Gamma, "concentration", (Uniform, Pareto, *_BOUNDED)),
    (Gumbel, "loc", (Uniform, Pareto, *_BOUNDED, *_ABOVE_ZERO)),
    (Laplace, "loc", (Uniform, Pareto, *_BOUNDED, *_ABOVE_ZERO)),
    (Normal, "loc", (Uniform, Pareto, *_BOUNDED, *_ABOVE_ZERO)),
    (Pareto, "scale", (Uniform, *_BOUNDED)),
    (Poisson, "rate", (Bernoulli, Binomial)),
):
    for _q in _qs:
        register_kl(_p, _q)(_infinity_of(_parameter))


# ---- what log q asks of p


def _cross_exponential(q: Exponential, mean: Tensor) -> Tensor:
    return q.rate * mean - q.rate.log()


def _cross_gamma(q: Gamma, mean: Tensor, mean_of_log: Any) -> Tensor:
    normalizer = q.concentration.lgamma() - q.concentration * q.rate.log()
    return normalizer - (q.concentration - 1) * mean_of_log + q.rate * mean


def _cross_gumbel(q: Gumbel, mean: Tensor, mean_of_exp: Tensor) -> Tensor:
    """`mean_of_exp` is the mean of ``exp(-(x - loc) / scale)``."""
    return q.scale.log() + (mean - q.loc) / q.scale + mean_of_exp


def _cross_normal(q: Normal, mean: Tensor, variance: Tensor) -> Tensor:
    squared = variance + (mean - q.loc).pow(2)
    return 0.5 * math.log(2 * math.pi) + q.scale.log() + squared / (2 * q.scale.pow(2))


def _cross_continuous_bernoulli(q: ContinuousBernoulli, mean: Tensor) -> Tensor:
    return -mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()


def _outside(q: Uniform, low: Any, high: Any) -> Tensor:
    return (q.low > low) | (q.high < high)


# ---- Bernoulli


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


# ---- beta


@register_kl(Beta, ContinuousBernoulli)
def _kl_beta_continuous_bernoulli(p: Beta, q: ContinuousBernoulli) -> Tensor:
    return -p.entropy() + _cross_continuous_bernoulli(q, p.mean)


@register_kl(Beta, Exponential)
def _kl_beta_exponential(p: Beta, q: Exponential) -> Tensor:
    return -p.entropy() + _cross_exponential(q, p.mean)


@register_kl(Beta, Gamma)
def _kl_beta_gamma(p: Beta, q: Gamma) -> Tensor:
    total = p.concentration1 + p.concentration0
    mean_of_log = p.concentration1.digamma() - total.digamma()
    return -p.entropy() + _cross_gamma(q, p.mean, mean_of_log)


@register_kl(Beta, Normal)
def _kl_beta_normal(p: Beta, q: Normal) -> Tensor:
    return -p.entropy() + _cross_normal(q, p.mean, p.variance)


@register_kl(Beta, Uniform)
def _kl_beta_uniform(p: Beta, q: Uniform) -> Tensor:
    return _inf_where(_outside(q, 0, 1), -p.entropy() + (q.high - q.low).log())


# ---- continuous Bernoulli


@register_kl(ContinuousBernoulli, Exponential)
def _kl_continuous_bernoulli_exponential(p: ContinuousBernoulli, q: Exponential) -> Tensor:
    return -p.entropy() + _cross_exponential(q, p.mean)


@register_kl(ContinuousBernoulli, Normal)
def _kl_continuous_bernoulli_normal(p: ContinuousBernoulli, q: Normal) -> Tensor:
    return -p.entropy() + _cross_normal(q, p.mean, p.variance)


@register_kl(ContinuousBernoulli, Uniform)
def _kl_continuous_bernoulli_uniform(p: ContinuousBernoulli, q: Uniform) -> Tensor:
    return _inf_where(_outside(q, 0, 1), -p.entropy() + (q.high - q.low).log())


# ---- exponential


@register_kl(Exponential, Gamma)
def _kl_exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    return -p.entropy() + _cross_gamma(q, p.mean, -euler_constant - p.rate.log())


@register_kl(Exponential, Gumbel)
def _kl_exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    product = p.rate * q.scale
    mean_of_exp = torch.exp(q.loc / q.scale) * product / (product + 1)
    return -p.entropy() + _cross_gumbel(q, p.mean, mean_of_exp)


@register_kl(Exponential, Normal)
def _kl_exponential_normal(p: Exponential, q: Normal) -> Tensor:
    return -p.entropy() + _cross_normal(q, p.mean, p.variance)


# ---- gamma


@register_kl(Gamma, Exponential)
def _kl_gamma_exponential(p: Gamma, q: Exponential) -> Tensor:
    return -p.entropy() + _cross_exponential(q, p.mean)


@register_kl(Gamma, Gumbel)
def _kl_gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    laplace = (1 + (p.rate * q.scale).reciprocal()).pow(-p.concentration)
    return -p.entropy() + _cross_gumbel(q, p.mean, torch.exp(q.loc / q.scale) * laplace)


@register_kl(Gamma, Normal)
def _kl_gamma_normal(p: Gamma, q: Normal) -> Tensor:
    return -p.entropy() + _cross_normal(q, p.mean, p.variance)


# ---- Gumbel, Laplace, normal


@register_kl(Gumbel, Normal)
def _kl_gumbel_normal(p: Gumbel, q: Normal) -> Tensor:
    return -p.entropy() + _cross_normal(q, p.mean, p.variance)


@register_kl(Laplace, Normal)
def _kl_laplace_normal(p: Laplace, q: Normal) -> Tensor:
    return -p.entropy() + _cross_normal(q, p.mean, p.variance)


@register_kl(Normal, Gumbel)
def _kl_normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    exponent = (q.loc - p.loc) / q.scale + 0.5 * (p.scale / q.scale).pow(2)
    return -p.entropy() + _cross_gumbel(q, p.mean, torch.exp(exponent))


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p: Normal, q: Laplace) -> Tensor:
    shift = p.loc - q.loc
    scaled = shift / (p.scale * math.sqrt(2))
    distance = math.sqrt(2 / math.pi) * p.scale * torch.exp(-scaled.pow(2))
    distance = distance + shift * torch.erf(scaled)
    return -p.entropy() + (2 * q.scale).log() + distance / q.scale


# ---- Pareto, whose moments are infinite for small alpha


@register_kl(Pareto, Exponential)
def _kl_pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    return _inf_where(p.alpha <= 1, -p.entropy() + _cross_exponential(q, p.mean))


@register_kl(Pareto, Gamma)
def _kl_pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    mean_of_log = p.scale.log() + p.alpha.reciprocal()
    return _inf_where(p.alpha <= 1, -p.entropy() + _cross_gamma(q, p.mean, mean_of_log))


@register_kl(Pareto, Normal)
def _kl_pareto_normal(p: Pareto, q: Normal) -> Tensor:
    return _inf_where(p.alpha <= 2, -p.entropy() + _cross_normal(q, p.mean, p.variance))


# ---- uniform


def _mean_of_log(low: Tensor, high: Tensor) -> Tensor:
    """The mean of ``log x`` between nonnegative bounds."""
    return (torch.xlogy(high, high) - torch.xlogy(low, low)) / (high - low) - 1


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p: Uniform, q: Beta) -> Tensor:
    c1, c0 = q.concentration1, q.concentration0
    normalizer = c1.lgamma() + c0.lgamma() - (c1 + c0).lgamma()
    logs = (c1 - 1) * _mean_of_log(p.low, p.high)
    logs = logs + (c0 - 1) * _mean_of_log(1 - p.high, 1 - p.low)
    return _inf_where((p.high > 1) | (p.low < 0), -p.entropy() + normalizer - logs)


@register_kl(Uniform, ContinuousBernoulli)
def _kl_uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    result = -p.entropy() + _cross_continuous_bernoulli(q, p.mean)
    return _inf_where((p.high > 1) | (p.low < 0), result)


@register_kl(Uniform, Exponential)
def _kl_uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    return _inf_where(p.low < 0, -p.entropy() + _cross_exponential(q, p.mean))


@register_kl(Uniform, Gamma)
def _kl_uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    result = -p.entropy() + _cross_gamma(q, p.mean, _mean_of_log(p.low, p.high))
    return _inf_where(p.low < 0, result)


@register_kl(Uniform, Gumbel)
def _kl_uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    low, high = (torch.exp((q.loc - end) / q.scale) for end in (p.low, p.high))
    mean_of_exp = q.scale * (low - high) / (p.high - p.low)
    return -p.entropy() + _cross_gumbel(q, p.mean, mean_of_exp)


@register_kl(Uniform, Normal)
def _kl_uniform_normal(p: Uniform, q: Normal) -> Tensor:
    return -p.entropy() + _cross_normal(q, p.mean, p.variance)


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    logs = (q.alpha + 1) * _mean_of_log(p.low, p.high)
    result = -p.entropy() - q.alpha.log() - q.alpha * q.scale.log() + logs
    return _inf_where(p.low < q.support.lower_bound, result)
