"""Samples: their distributions, and how they follow the parameters."""

import numpy as np
import pytest
from library import torch
from scipy import special, stats

d = torch.distributions
N = 20000


def f64(*values):
    return torch.tensor(values, dtype=torch.float64)


def scalar(value):
    return torch.tensor(value, dtype=torch.float64)


CONTINUOUS = [
    ("Beta", (0.5, 2.5), stats.beta(0.5, 2.5)),
    ("Beta", (0.2, 0.3), stats.beta(0.2, 0.3)),
    ("Cauchy", (1.0, 2.0), stats.cauchy(1, 2)),
    ("Chi2", (3.0,), stats.chi2(3)),
    ("Exponential", (2.0,), stats.expon(scale=0.5)),
    ("FisherSnedecor", (3.0, 5.0), stats.f(3, 5)),
    ("Gamma", (0.01, 1.0), stats.gamma(0.01)),
    ("Gamma", (0.7, 2.0), stats.gamma(0.7, scale=0.5)),
    ("Gamma", (30.0, 2.0), stats.gamma(30, scale=0.5)),
    ("GeneralizedPareto", (1.0, 2.0, 0.3), stats.genpareto(0.3, 1, 2)),
    ("GeneralizedPareto", (1.0, 2.0, -0.3), stats.genpareto(-0.3, 1, 2)),
    ("GeneralizedPareto", (1.0, 2.0, 0.0), stats.genpareto(0.0, 1, 2)),
    ("Gumbel", (1.0, 2.0), stats.gumbel_r(1, 2)),
    ("HalfCauchy", (2.0,), stats.halfcauchy(scale=2)),
    ("HalfNormal", (2.0,), stats.halfnorm(scale=2)),
    ("InverseGamma", (5.0, 2.0), stats.invgamma(5, scale=2)),
    ("Laplace", (1.0, 2.0), stats.laplace(1, 2)),
    ("LogNormal", (1.0, 0.5), stats.lognorm(0.5, scale=np.e)),
    ("Normal", (1.0, 2.0), stats.norm(1, 2)),
    ("Pareto", (2.0, 3.0), stats.pareto(3, scale=2)),
    ("StudentT", (5.0, 1.0, 2.0), stats.t(5, 1, 2)),
    ("Uniform", (1.0, 3.0), stats.uniform(1, 2)),
    ("VonMises", (0.3, 2.0), stats.vonmises(2, loc=0.3)),
    ("Weibull", (2.0, 1.5), stats.weibull_min(1.5, scale=2)),
]
IDS = [f"{name}{arguments}" for name, arguments, _ in CONTINUOUS]


@pytest.mark.parametrize("name, arguments, reference", CONTINUOUS, ids=IDS)
def test_continuous_samples(name, arguments, reference):
    sample = getattr(d, name)(*map(scalar, arguments)).sample((N,)).numpy()
    if name == "VonMises":  # SciPy's angles go round its location
        sample = (sample - 0.3 + np.pi) % (2 * np.pi) - np.pi + 0.3
    assert stats.kstest(sample, reference.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name, arguments, reference", CONTINUOUS, ids=IDS)
def test_against_scipy(name, arguments, reference):
    ours = getattr(d, name)(*map(scalar, arguments))
    if name == "VonMises":
        x = np.linspace(-2.5, 2.5, 9)
    else:
        x = reference.ppf(np.linspace(0.05, 0.95, 9))
    value = torch.tensor(x.tolist(), dtype=torch.float64)
    close = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(ours.log_prob(value).numpy(), reference.logpdf(x), **close)
    for method, argument, expected in (
        ("cdf", value, reference.cdf(x)),
        ("icdf", value.new_tensor(np.linspace(0.05, 0.95, 9).tolist()), x),
    ):
        try:
            found = getattr(ours, method)(argument)
        except NotImplementedError:
            continue
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-7, atol=1e-9, err_msg=method)
    if name not in ("Cauchy", "HalfCauchy", "VonMises"):
        np.testing.assert_allclose(float(ours.mean), reference.mean(), rtol=1e-7)
        np.testing.assert_allclose(float(ours.variance), reference.var(), rtol=1e-7)
    if name not in ("FisherSnedecor", "VonMises"):
        np.testing.assert_allclose(float(ours.entropy()), reference.entropy(), rtol=1e-6)


DISCRETE = [
    ("Bernoulli", (0.3,), stats.bernoulli(0.3)),
    ("Geometric", (0.3,), stats.geom(0.3, loc=-1)),
    ("Poisson", (3.5,), stats.poisson(3.5)),
    ("Poisson", (40.0,), stats.poisson(40)),
    ("NegativeBinomial", (2.5, 0.4), stats.nbinom(2.5, 0.6)),
    ("Binomial", (7.0, 0.3), stats.binom(7, 0.3)),
    ("Binomial", (50.0, 0.9), stats.binom(50, 0.9)),
    ("Binomial", (1000.0, 0.4), stats.binom(1000, 0.4)),
    ("Binomial", (100000.0, 0.5), stats.binom(100000, 0.5)),
]


@pytest.mark.parametrize("name, arguments, reference", DISCRETE)
def test_discrete_samples(name, arguments, reference):
    ours = getattr(d, name)(*map(scalar, arguments))
    sample = ours.sample((N,)).numpy().astype(int)
    k = np.arange(sample.max() + 2)
    expected = reference.pmf(k) * N
    counts = np.bincount(sample, minlength=len(k))
    common = expected > 5
    observed = np.append(counts[common], counts[~common].sum())
    rest = N - expected[common].sum()
    p = stats.chisquare(observed, np.append(expected[common], rest), sum_check=False).pvalue
    assert p > 1e-3
    value = torch.tensor(k[common].tolist(), dtype=torch.float64)
    np.testing.assert_allclose(
        ours.log_prob(value).numpy(), reference.logpmf(k[common]), rtol=1e-8, atol=1e-8
    )


def test_binomial_at_the_ends():
    count = f64(0.0, 5.0, 5.0, 1e6)
    prob = f64(0.5, 0.0, 1.0, 1.0)
    assert torch.binomial(count, prob).tolist() == [0.0, 0.0, 5.0, 1e6]
    with pytest.raises(ValueError, match="only supports floating-point dtypes for count"):
        torch.binomial(torch.ones(1, dtype=torch.int64), torch.ones(1))


def test_vectors():
    concentration = f64(0.5, 1.5, 3.0)
    sample = d.Dirichlet(concentration).sample((N,))
    assert stats.kstest(sample[:, 0].numpy(), stats.beta(0.5, 4.5).cdf).pvalue > 1e-3
    covariance = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=torch.float64)
    normal = d.MultivariateNormal(torch.zeros(2, dtype=torch.float64), covariance)
    np.testing.assert_allclose(
        torch.cov(normal.sample((N,)).T).numpy(), covariance.numpy(), atol=0.1
    )
    wishart = d.Wishart(scalar(5.0), covariance)
    sample = wishart.sample((N,))
    np.testing.assert_allclose(sample.mean(0).numpy(), wishart.mean.numpy(), rtol=0.05)
    np.testing.assert_allclose(sample.var(0).numpy(), wishart.variance.numpy(), rtol=0.1)
    factor = d.LKJCholesky(3, scalar(1.5)).sample((N,))
    correlation = (factor @ factor.mT)[:, 0, 1]
    # one correlation of three variables: (r + 1) / 2 is a beta variable
    assert stats.kstest((correlation.numpy() + 1) / 2, stats.beta(2.0, 2.0).cdf).pvalue > 1e-3
    counts = d.Multinomial(10, f64(0.2, 0.3, 0.5)).sample((N,))
    assert bool((counts.sum(-1) == 10).all())
    np.testing.assert_allclose(counts.mean(0).numpy(), [2, 3, 5], rtol=0.03)


# ---- how samples follow parameters


def gamma_slope(a, x):
    """The slope of the quantile, by differences."""
    h = 1e-4 * a
    q = special.gammainc(a, x)
    return (special.gammaincinv(a + h, q) - special.gammaincinv(a - h, q)) / (2 * h)


@pytest.mark.parametrize("a", [0.3, 1.0, 2.5, 8.0, 40.0, 1e3])
def test_gamma_samples_follow_the_concentration(a):
    x = stats.gamma(a).ppf(np.linspace(0.05, 0.95, 7))
    found = torch._standard_gamma_grad(torch.full((7,), a, dtype=torch.float64), f64(*x))
    np.testing.assert_allclose(found.numpy(), gamma_slope(a, x), rtol=1e-5)


def test_slopes_against_high_precision():
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 40
    h = mpmath.mpf(10) ** -14
    for a in (0.01, 0.5, 3, 100):
        for q in (1e-3, 0.5, 0.999):
            x = stats.gamma(a).ppf(q)

            def cdf(b):
                return mpmath.gammainc(b, 0, x, regularized=True)  # noqa: B023

            density = mpmath.mpf(x) ** (a - 1) * mpmath.exp(-x) / mpmath.gamma(a)
            expected = float(-(cdf(a + h) - cdf(a - h)) / (2 * h) / density)
            found = float(torch._standard_gamma_grad(scalar(float(a)), scalar(x)))
            assert abs(found / expected - 1) < 1e-10
            single = torch._standard_gamma_grad(torch.tensor(float(a)), torch.tensor(x).float())
            if x > 1e-20:
                assert abs(float(single) / expected - 1) < 1e-3 if a < 100 else 1e-2


@pytest.mark.parametrize("a, b", [(0.3, 0.2), (1.0, 3.0), (20.0, 4.0), (300.0, 500.0)])
def test_beta_samples_follow_the_concentration(a, b):
    x = stats.beta(a, b).ppf(np.linspace(0.1, 0.9, 7))
    h = 1e-4 * a
    q = special.betainc(a, b, x)
    slope = (special.betaincinv(a + h, b, q) - special.betaincinv(a - h, b, q)) / (2 * h)
    total = torch.full((7,), a + b, dtype=torch.float64)
    found = torch._dirichlet_grad(f64(*x), torch.full((7,), a, dtype=torch.float64), total)
    np.testing.assert_allclose(found.numpy() * (1 - x), slope, rtol=1e-5)


def test_slopes_beside_pytorch():
    """PyTorch's approximations are good to some thousandths."""
    pytorch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.1, 20, 200), rng.uniform(0.1, 20, 200)
    x = rng.gamma(a) + 1e-9
    y = rng.beta(a, b).clip(1e-9, 1 - 1e-6)
    pairs = [
        (torch._standard_gamma_grad(f64(*a), f64(*x)), pytorch._standard_gamma_grad, (a, x)),
        (
            torch._dirichlet_grad(f64(*y), f64(*a), f64(*(a + b))),
            pytorch._dirichlet_grad,
            (y, a, a + b),
        ),
    ]
    for found, function, arguments in pairs:
        expected = function(*[pytorch.tensor(v) for v in arguments]).numpy()
        np.testing.assert_allclose(found.numpy(), expected, rtol=5e-3)


PATHWISE = [
    ("Gamma", (2.0, 1.5)),
    ("Beta", (2.0, 1.5)),
    ("Chi2", (3.0,)),
    ("StudentT", (7.0, 0.5, 1.5)),
    ("InverseGamma", (6.0, 2.0)),
    ("FisherSnedecor", (5.0, 14.0)),
    ("Normal", (0.5, 1.5)),
    ("Laplace", (0.5, 1.5)),
    ("Exponential", (1.5,)),
    ("Gumbel", (0.5, 1.5)),
    ("Weibull", (1.5, 2.0)),
    ("Kumaraswamy", (2.0, 1.5)),
    ("LogNormal", (0.5, 0.5)),
    ("Uniform", (0.5, 1.5)),
    ("ContinuousBernoulli", (0.3,)),
    ("GeneralizedPareto", (0.5, 1.5, 0.1)),
]


@pytest.mark.parametrize("name, arguments", PATHWISE)
def test_gradients_of_means(name, arguments):
    """The mean of the gradients of samples is the gradient of the mean."""
    n = 50000
    leaves = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arguments]
    rows = [leaf.expand(n).detach().clone().requires_grad_() for leaf in leaves]
    sample = getattr(d, name)(*rows).rsample()
    each = torch.autograd.grad(sample.sum(), rows)
    expected = torch.autograd.grad(getattr(d, name)(*leaves).mean, leaves, allow_unused=True)
    for found, wanted in zip(each, expected, strict=True):
        error = float(found.std()) / n**0.5
        wanted = 0.0 if wanted is None else float(wanted)
        assert abs(float(found.mean()) - wanted) < 5 * error + 1e-9


def test_dirichlet_gradients():
    n = 50000
    rows = torch.tensor([0.7, 2.0, 3.0], dtype=torch.float64).repeat(n, 1).requires_grad_()
    weights = f64(1.0, -2.0, 0.5)
    value = (d.Dirichlet(rows).rsample() * weights).sum()
    [found] = torch.autograd.grad(value, [rows])
    leaf = f64(0.7, 2.0, 3.0).requires_grad_()
    [expected] = torch.autograd.grad((d.Dirichlet(leaf).mean * weights).sum(), [leaf])
    error = found.std(0) / n**0.5
    assert bool(((found.mean(0) - expected).abs() < 5 * error).all())


def test_second_derivatives_are_refused():
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    for distribution, name in (
        (d.Gamma(a, 1.0), "_standard_gamma"),
        (d.Dirichlet(a), "_dirichlet"),
    ):
        [g] = torch.autograd.grad(distribution.rsample()[0], [a], create_graph=True)
        with pytest.raises(RuntimeError, match=f"{name}_grad: the derivative is not implemented"):
            g.sum().backward()


def test_seeds():
    for name, arguments in (("Gamma", (0.5, 1.0)), ("Beta", (0.5, 1.0)), ("Binomial", (30.0, 0.4))):
        samples = []
        for _ in range(2):
            torch.manual_seed(7)
            samples.append(getattr(d, name)(*map(torch.tensor, arguments)).sample((100,)))
        assert torch.equal(*samples)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dtypes_and_extremes(dtype):
    dtype = getattr(torch, dtype)
    concentration = torch.tensor([1e-3, 0.1, 1.0, 100.0], dtype=dtype)
    sample = d.Gamma(concentration, torch.ones((), dtype=dtype)).sample((100,))
    assert sample.dtype == dtype and bool((sample > 0).all()) and bool(sample.isfinite().all())
    sample = d.Dirichlet(concentration).sample((100,))
    assert sample.dtype == dtype and bool(sample.isfinite().all())
    assert d.Gamma(torch.ones(0, 3), 1.0).rsample((2,)).shape == (2, 0, 3)
    odd = torch._standard_gamma(torch.tensor([float("nan"), float("inf"), -1.0]))
    assert bool(odd.isnan().all())
