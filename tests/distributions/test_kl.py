"""Divergences: beside PyTorch's, and beside the definition."""

import numpy as np
import pytest
from library import pytorch_for_parity, torch

from distributions.families import Draws, families

pytorch, REASON = pytorch_for_parity()
if pytorch is None:
    pytest.skip(REASON, allow_module_level=True)


def parameters(library, name, seed):
    d = Draws(library, seed)
    if name == "Uniform":
        return {"low": -d.positive(3), "high": 3 + d.positive(3)}
    if name == "Binomial":
        return {"total_count": 4, "probs": d.probs(3)}
    found = dict(reversed([(n, a) for n, a in families(library, (3,), (3,))]))[name]
    shapes = {k: v.shape for k, v in found.items() if isinstance(v, library.Tensor)}
    draw = {"loc": d.real, "logits": d.real, "cov_factor": d.real, "probs": d.probs}
    made = {}
    for key, shape in shapes.items():
        if key in ("covariance_matrix", "precision_matrix"):
            made[key] = d.definite(*shape[:-1])
        else:
            made[key] = draw.get(key, d.positive)(*shape)
        if key in ("df", "alpha"):
            made[key] = made[key] + 3
    return {**found, **made}


def pairs():
    registry = pytorch.distributions.kl._KL_REGISTRY
    skipped = {"TransformedDistribution", "Independent", "ExponentialFamily"}
    named = [(p.__name__, q.__name__) for p, q in registry]
    extra = [("Chi2", "Chi2"), ("LogNormal", "LogNormal")]
    return [pair for pair in named if not skipped & set(pair)] + extra


def divergence(library, p, q, given=None):
    p_arguments = parameters(library, p, 5)
    q_arguments = parameters(library, q, 6)
    if given:
        p_arguments, q_arguments = given(library, p_arguments, q_arguments)
    leaves = []
    for arguments in (p_arguments, q_arguments):
        for key, value in arguments.items():
            if isinstance(value, library.Tensor) and key != "total_count":
                leaves.append(value.requires_grad_())
    d = library.distributions
    kl = d.kl_divergence(getattr(d, p)(**p_arguments), getattr(d, q)(**q_arguments))
    gradients = []
    if kl.requires_grad:
        gradients = library.autograd.grad(kl.sum(), leaves, allow_unused=True)
        gradients = [
            library.zeros_like(x) if g is None else g
            for x, g in zip(leaves, gradients, strict=True)
        ]
    return kl.detach().numpy(), [g.numpy() for g in gradients]


def inside(library, p_arguments, q_arguments):
    """Keep a uniform variable within the unit interval."""
    for arguments in (p_arguments,):
        if "low" in arguments:
            arguments["low"] = library.full((3,), 0.25, dtype=library.float64)
            arguments["high"] = library.full((3,), 0.75, dtype=library.float64)
    if "scale" in q_arguments and "alpha" in q_arguments:
        q_arguments["scale"] = q_arguments["scale"] * 0.01
    return p_arguments, q_arguments


@pytest.mark.parametrize("p, q", pairs(), ids=str)
def test_values_and_gradients(p, q):
    for given in (None, inside):
        ours, our_gradients = divergence(torch, p, q, given)
        theirs, their_gradients = divergence(pytorch, p, q, given)
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7)
        if np.isfinite(theirs).all() and all(np.isfinite(g).all() for g in their_gradients):
            for mine, other in zip(our_gradients, their_gradients, strict=True):
                np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-6)


# A batch of Wishart distributions is not among the former: PyTorch sums over the batch.
SAMPLED = [
    ("Beta", "ContinuousBernoulli"),
    ("Gamma", "Gumbel"),
    ("Gumbel", "Normal"),
    ("Laplace", "Normal"),
    ("Normal", "Gumbel"),
    ("Normal", "Laplace"),
    ("Pareto", "Gamma"),
    ("Uniform", "Gumbel"),
    ("MultivariateNormal", "LowRankMultivariateNormal"),
    ("Wishart", "Wishart"),
]


@pytest.mark.parametrize("p, q", SAMPLED, ids=str)
def test_definition(p, q):
    d = torch.distributions
    first = getattr(d, p)(**parameters(torch, p, 5))
    second = getattr(d, q)(**parameters(torch, q, 6))
    x = first.sample((20000,))
    ratios = first.log_prob(x) - second.log_prob(x)
    error = ratios.std(0) / 20000**0.5
    distance = ratios.mean(0) - d.kl_divergence(first, second)
    assert bool((distance.abs() < 5 * error + 1e-6).all())


def test_supports_that_meet_at_both_ends():
    d = torch.distributions
    p = d.ContinuousBernoulli(torch.tensor(0.3, dtype=torch.float64))
    q = d.Uniform(torch.tensor(0.0, dtype=torch.float64), 1.0)
    assert abs(float(d.kl_divergence(p, q) + p.entropy())) < 1e-12
    grid = torch.linspace(0.0005, 0.9995, 1000, dtype=torch.float64)
    assert abs(float(d.kl_divergence(q, p) + p.log_prob(grid).mean())) < 1e-5


def test_structures():
    d = torch.distributions
    p = d.Normal(torch.zeros(2, 3), torch.ones(2, 3))
    q = d.Normal(torch.ones(2, 3), torch.ones(2, 3))
    assert torch.equal(
        d.kl_divergence(d.Independent(p, 1), d.Independent(q, 1)), torch.full((2,), 1.5)
    )
    exp = [d.ExpTransform()]
    transformed = [d.TransformedDistribution(x, exp) for x in (p, q)]
    assert torch.equal(d.kl_divergence(*transformed), torch.full((2, 3), 0.5))
