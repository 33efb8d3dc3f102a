"""Divergences of distributions of one family."""

from typing import Any

import tapegrad as torch
from tapegrad import Tensor
from tapegrad.distributions.bernoulli import Bernoulli
from tapegrad.distributions.beta import Beta
from tapegrad.distributions.binomial import Binomial
from tapegrad.distributions.categorical import Categorical
from tapegrad.distributions.cauchy import Cauchy
from tapegrad.distributions.continuous_bernoulli import ContinuousBernoulli
from tapegrad.distributions.dirichlet import Dirichlet
from tapegrad.distributions.exp_family import ExponentialFamily
from tapegrad.distributions.exponential import Exponential
from tapegrad.distributions.gamma import Gamma
from tapegrad.distributions.geometric import Geometric
from tapegrad.distributions.gumbel import Gumbel
from tapegrad.distributions.half_normal import HalfNormal
from tapegrad.distributions.independent import Independent
from tapegrad.distributions.kl._registry import kl_divergence, register_kl
from tapegrad.distributions.laplace import Laplace
from tapegrad.distributions.lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    _batch_lowrank_mahalanobis,
)
from tapegrad.distributions.multivariate_normal import (
    MultivariateNormal,
    _batch_mahalanobis,
    _half_log_det,
)
from tapegrad.distributions.normal import Normal
from tapegrad.distributions.one_hot_categorical import OneHotCategorical
from tapegrad.distributions.pareto import Pareto
from tapegrad.distributions.poisson import Poisson
from tapegrad.distributions.transformed_distribution import TransformedDistribution
from tapegrad.distributions.uniform import Uniform
from tapegrad.distributions.utils import _inf_where, _sum_rightmost, euler_constant
from tapegrad.nn.functional import softplus


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    ones = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    ones = torch.where(p.probs == 0, 0.0, _inf_where(q.probs == 0, ones))
    zeros = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    zeros = torch.where(p.probs == 1, 0.0, _inf_where(q.probs == 1, zeros))
    return ones + zeros


@register_kl(Beta, Beta)
def _kl_beta_beta(p: Beta, q: Beta) -> Tensor:
    p1, p0, q1, q0 = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    return (
        (q1.lgamma() + q0.lgamma() - (q1 + q0).lgamma())
        - (p1.lgamma() + p0.lgamma() - (p1 + p0).lgamma())
        + (p1 - q1) * torch.digamma(p1)
        + (p0 - q0) * torch.digamma(p0)
        + (q1 + q0 - p1 - p0) * torch.digamma(p1 + p0)
    )


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p: Binomial, q: Binomial) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    per_trial = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return _inf_where(p.total_count > q.total_count, p.total_count * per_trial)


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = _inf_where((q.probs == 0).expand(terms.shape), terms)
    return torch.where((p.probs == 0).expand(terms.shape), 0.0, terms).sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(
    p: ContinuousBernoulli, q: ContinuousBernoulli
) -> Tensor:
    return (
        p.mean * (p.logits - q.logits)
        + p._cont_bern_log_norm()
        + torch.log1p(-p.probs)
        - q._cont_bern_log_norm()
        - torch.log1p(-q.probs)
    )


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    p_total, q_total = p.concentration.sum(-1), q.concentration.sum(-1)
    normalizers = p_total.lgamma() - q_total.lgamma()
    parts = (q.concentration.lgamma() - p.concentration.lgamma()).sum(-1)
    logs = p.concentration.digamma() - p_total.digamma().unsqueeze(-1)
    return normalizers + parts + ((p.concentration - q.concentration) * logs).sum(-1)


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: ExponentialFamily, q: ExponentialFamily) -> Any:
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot "
            "be computed using Bregman divergences"
        )
    p_params = [each.detach().requires_grad_() for each in p._natural_params]
    q_params = q._natural_params
    log_normalizer = p._log_normalizer(*p_params)
    gradients = torch.autograd.grad(log_normalizer.sum(), p_params, create_graph=True)
    result = q._log_normalizer(*q_params) - log_normalizer
    for p_param, q_param, gradient in zip(p_params, q_params, gradients, strict=True):
        term = (q_param - p_param) * gradient
        # One number per distribution, whatever the shape of its parameter.
        result = result - _sum_rightmost(term, term.dim() - result.dim())
    return result


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    return (
        q.concentration * (p.rate / q.rate).log()
        + torch.lgamma(q.concentration)
        - torch.lgamma(p.concentration)
        + (p.concentration - q.concentration) * torch.digamma(p.concentration)
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    shift = (p.loc - q.loc) / q.scale
    return (
        -ratio.log()
        + shift
        + ratio * euler_constant
        + torch.exp((1 + ratio).lgamma() - shift)
        - (1 + euler_constant)
    )


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio = p.scale / q.scale
    distance = (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * torch.exp(-distance / p.scale) - 1


@register_kl(Normal, Normal)
def _kl_normal_normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    shift = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + shift - 1 - ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    scale_ratio = p.scale / q.scale
    alpha_ratio = q.alpha / p.alpha
    result = q.alpha * scale_ratio.log() - alpha_ratio.log() + alpha_ratio - 1
    return _inf_where(p.support.lower_bound < q.support.lower_bound, result)


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return _inf_where((q.low > p.low) | (q.high < p.high), result)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    distance = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return distance.log() - (4 * p.scale * q.scale).log()


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms:
        raise NotImplementedError
    if p.event_shape != q.event_shape:
        raise NotImplementedError
    base = kl_divergence(p.base_dist, q.base_dist)
    return _sum_rightmost(base, len(p.event_shape) - len(p.base_dist.event_shape))


@register_kl(Independent, Independent)
def _kl_independent_independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    result = kl_divergence(p.base_dist, q.base_dist)
    return _sum_rightmost(result, p.reinterpreted_batch_ndims)


# ---- normal vectors: log det(Q) - log det(P) + tr(Q^-1 P) + |L_Q^-1 (m_Q - m_P)|^2 - n, halved


def _check_events(p: Any, q: Any, kind: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two {kind}Multivariate Normals with"
            "                          different event shapes cannot be computed"
        )


def _half_log_det_of(d: Any) -> Tensor:
    if isinstance(d, LowRankMultivariateNormal):
        return 0.5 * d._log_det()
    return _half_log_det(d._unbroadcasted_scale_tril)


def _columns(d: Any) -> list[Tensor]:
    """Matrices whose products with their transposes sum to the covariance."""
    if isinstance(d, LowRankMultivariateNormal):
        return [d._unbroadcasted_cov_factor, torch.diag_embed(d._unbroadcasted_cov_diag.sqrt())]
    return [d._unbroadcasted_scale_tril]


def _squared_length(d: Any, x: Tensor) -> Tensor:
    """``x^T C^-1 x`` for the covariance ``C``."""
    if isinstance(d, LowRankMultivariateNormal):
        return _batch_lowrank_mahalanobis(
            d._unbroadcasted_cov_factor, d._unbroadcasted_cov_diag, x, d._capacitance_tril
        )
    return _batch_mahalanobis(d._unbroadcasted_scale_tril, x)


def _trace_of_ratio(p: Any, q: Any) -> Tensor:
    """``tr(Q^-1 P)``: what the columns of P are long to Q, squared and summed."""
    total: Any = 0
    for matrix in _columns(p):
        total = total + _matrix_squared_length(q, matrix)
    return total


def _matrix_squared_length(q: Any, matrix: Tensor) -> Tensor:
    if isinstance(q, LowRankMultivariateNormal):
        diag = q._unbroadcasted_cov_diag
        plain = (matrix.square() / diag.unsqueeze(-1)).sum((-2, -1))
        projected = torch.matmul(q._unbroadcasted_cov_factor.mT / diag.unsqueeze(-2), matrix)
        return plain - _solved_square(q._capacitance_tril, projected)
    return _solved_square(q._unbroadcasted_scale_tril, matrix)


def _solved_square(factor: Tensor, matrix: Tensor) -> Tensor:
    batch = torch.broadcast_shapes(factor.shape[:-2], matrix.shape[:-2])
    solved = torch.linalg.solve_triangular(
        factor.expand(batch + factor.shape[-2:]),
        matrix.expand(batch + matrix.shape[-2:]),
        upper=False,
    )
    return solved.square().sum((-2, -1))


def _kl_normal_vectors(p: Any, q: Any) -> Tensor:
    log_dets = _half_log_det_of(q) - _half_log_det_of(p)
    distance = _squared_length(q, q.loc - p.loc)
    return log_dets + 0.5 * (_trace_of_ratio(p, q) + distance - p.event_shape[0])


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariatenormal_multivariatenormal(p: Any, q: Any) -> Tensor:
    _check_events(p, q, "")
    return _kl_normal_vectors(p, q)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_lowrankmultivariatenormal_lowrankmultivariatenormal(p: Any, q: Any) -> Tensor:
    _check_events(p, q, "Low Rank ")
    return _kl_normal_vectors(p, q)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _kl_multivariatenormal_lowrankmultivariatenormal(p: Any, q: Any) -> Tensor:
    _check_events(p, q, "(Low Rank) ")
    return _kl_normal_vectors(p, q)


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _kl_lowrankmultivariatenormal_multivariatenormal(p: Any, q: Any) -> Tensor:
    _check_events(p, q, "(Low Rank) ")
    return _kl_normal_vectors(p, q)
