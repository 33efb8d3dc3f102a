"""Distributions in programs: training, pickling, vmap, validation, lazy parts."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from library import torch

from distributions.families import COUNT, IDS, families

d = torch.distributions
each = pytest.mark.parametrize("index", range(COUNT), ids=IDS)


def made(index, batch=(3,), **options):
    name, arguments = families(torch, batch, batch)[index]
    return getattr(d, name)(**arguments, **options)


@each
def test_pickle_and_copy(index):
    distribution = made(index)
    value = distribution.sample()
    expected = distribution.log_prob(value).numpy()
    for again in (pickle.loads(pickle.dumps(distribution)), copy.deepcopy(distribution)):
        assert repr(again) == repr(distribution)
        np.testing.assert_allclose(again.log_prob(value).numpy(), expected)


@each
def test_vmap_over_log_prob(index):
    distribution = made(index, validate_args=False)
    distribution = copy.deepcopy(distribution)
    if type(distribution).__name__ in ("Wishart",):
        values = distribution.sample((2,))
    else:
        values = distribution.sample((4,))
    for part in vars(distribution).values():
        if isinstance(part, d.Distribution):
            part._validate_args = False
    expected = distribution.log_prob(values)
    found = torch.vmap(distribution.log_prob)(values)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=1e-9)


@each
def test_expand_without_copies(index):
    distribution = made(index)
    shape = (2, *distribution.batch_shape)
    wide = distribution.expand(shape)
    assert wide.batch_shape == shape and wide.event_shape == distribution.event_shape
    assert wide.sample((4,)).shape == (4, *shape, *distribution.event_shape)
    value = distribution.sample()
    np.testing.assert_allclose(
        wide.log_prob(value.expand(2, *value.shape)).numpy()[1],
        distribution.log_prob(value).numpy(),
        rtol=1e-9,
    )


def test_independent_and_mixture():
    base = d.Normal(torch.zeros(2, 3), torch.ones(2, 3))
    joint = d.Independent(base, 1)
    x = torch.randn(5, 2, 3)
    assert torch.allclose(joint.log_prob(x), base.log_prob(x).sum(-1))
    assert joint.expand((4, 2)).batch_shape == (4, 2)
    mix = d.Categorical(torch.tensor([0.25, 0.75]))
    parts = d.Independent(d.Normal(torch.tensor([[0.0, 0.0], [4.0, 4.0]]), torch.ones(2, 2)), 1)
    mixture = d.MixtureSameFamily(mix, parts)
    assert torch.allclose(mixture.mean, torch.tensor([3.0, 3.0]))
    assert torch.allclose(mixture.variance, torch.tensor([4.0, 4.0]))
    sample = mixture.sample((20000,))
    assert torch.allclose(sample.mean(0), mixture.mean, atol=0.1)
    expected = torch.logsumexp(parts.log_prob(sample[:5, None]) + mix.logits, -1)
    assert torch.allclose(mixture.log_prob(sample[:5]), expected)
    assert mixture.expand((3,)).sample((2,)).shape == (2, 3, 2)
    flat = d.MixtureSameFamily(mix, d.Normal(torch.tensor([0.0, 4.0]), torch.ones(2)))
    assert abs(float(flat.cdf(torch.tensor(100.0))) - 1) < 1e-6


def test_flow_of_two_transforms():
    base = d.Normal(torch.zeros(3), torch.ones(3))
    scale = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    flow = d.TransformedDistribution(base, [d.AffineTransform(0.5, scale), d.TanhTransform(1)])
    x = flow.rsample((4,))
    flow.log_prob(x).sum().backward()
    assert scale.grad is not None and bool(scale.grad.isfinite().all())
    level = torch.tensor([0.2, 0.5, 0.9])
    assert torch.allclose(flow.cdf(flow.icdf(level)), level, atol=1e-5)


def test_validation_can_be_turned_off():
    default = d.Distribution._validate_args
    try:
        d.Distribution.set_default_validate_args(False)
        d.Normal(0.0, -1.0)
        d.Distribution.set_default_validate_args(True)
        with pytest.raises(ValueError, match="Expected parameter scale"):
            d.Normal(0.0, -1.0)
    finally:
        d.Distribution.set_default_validate_args(default)


def test_lazy_parameters():
    bernoulli = d.Bernoulli(logits=torch.zeros(2))
    assert "probs" not in vars(bernoulli)
    recorded = d.Bernoulli(logits=torch.zeros(2, requires_grad=True))
    with torch.no_grad():
        probs = recorded.probs
    assert probs.requires_grad
    assert isinstance(d.Bernoulli.probs, property)
    assert bernoulli.probs is bernoulli.probs


def test_import_is_late():
    code = "import sys, tapegrad; assert not any('distributions' in m for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_relaxed_gradients():
    logits = torch.tensor([0.5, -0.5], requires_grad=True)
    for relaxed in (
        d.RelaxedBernoulli(torch.tensor(0.5), logits=logits),
        d.RelaxedOneHotCategorical(torch.tensor(0.5), logits=logits),
        d.OneHotCategoricalStraightThrough(logits=logits),
    ):
        [grad] = torch.autograd.grad(
            (relaxed.rsample((3,)) * torch.tensor([1.0, 2.0])).sum(), logits
        )
        assert bool((grad != 0).all())


def test_a_variational_autoencoder_learns():
    nn = torch.nn
    points = torch.rand(256, 1) * 6.0
    data = torch.cat([points.sin(), points.cos(), 0.3 * points], 1)
    encoder = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 4))
    decoder = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    losses = []
    for _ in range(150):
        loc, log_scale = encoder(data).chunk(2, -1)
        q = d.Normal(loc, log_scale.exp())
        likelihood = d.Normal(decoder(q.rsample()), 0.1).log_prob(data).sum(-1)
        divergence = d.kl_divergence(q, d.Normal(0.0, 1.0)).sum(-1)
        loss = (divergence - likelihood).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 10 < losses[0] / 4


def test_reinforce_learns():
    logits = torch.zeros(4, requires_grad=True)
    rewards = torch.tensor([0.0, 0.2, 1.0, 0.4])
    optimizer = torch.optim.Adam([logits], lr=0.1)
    for _ in range(100):
        policy = d.Categorical(logits=logits)
        actions = policy.sample((64,))
        advantage = rewards[actions] - rewards[actions].mean()
        loss = -(policy.log_prob(actions) * advantage).mean() - 0.01 * policy.entropy()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(d.Categorical(logits=logits).probs[2].detach()) > 0.8
