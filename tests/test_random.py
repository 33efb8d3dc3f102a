"""Random ops: reproducible, in range, with the right moments, and independent of how work is cut.

Streams are not compared with PyTorch's: the generator is another one. Statistical bounds are set
at five standard errors or more, and the seeds are fixed, so a pass is a pass in every run.
"""

import numpy as np
import pytest
from library import torch
from scipy import stats

COUNT = 200_000
FLOATS = ("float32", "float64", "float16", "bfloat16")
STANDARD_ERRORS = 5.0


def seeded(seed=1234):
    generator = torch.Generator()
    generator.manual_seed(seed)
    return generator


def numbers(tensor):
    return tensor.to(torch.float64).numpy()


def assert_moments(sample, mean, variance, *, rounding=0.0):
    """Check mean and variance within standard errors; ``rounding`` is the dtype's grain."""
    error = STANDARD_ERRORS * np.sqrt(variance / sample.size) + rounding
    assert abs(sample.mean() - mean) <= error, f"mean {sample.mean()}, wanted {mean} within {error}"
    fourth = np.mean((sample - sample.mean()) ** 4)
    spread = STANDARD_ERRORS * np.sqrt(max(fourth - variance**2, 0) / sample.size) + 4 * rounding
    assert abs(sample.var() - variance) <= spread, f"variance {sample.var()}, wanted {variance}"


DRAWS = {
    "rand": lambda **k: torch.rand(64, **k),
    "randn": lambda **k: torch.randn(64, **k),
    "randint": lambda **k: torch.randint(0, 1000, (64,), **k),
    "randperm": lambda **k: torch.randperm(64, **k),
    "normal": lambda **k: torch.normal(torch.zeros(64), torch.ones(64), **k),
    "bernoulli": lambda **k: torch.bernoulli(torch.full((64,), 0.5), **k),
    "multinomial": lambda **k: torch.multinomial(torch.ones(64), 32, **k),
    "uniform_": lambda **k: torch.empty(64).uniform_(**k),
    "normal_": lambda **k: torch.empty(64).normal_(**k),
    "exponential_": lambda **k: torch.empty(64).exponential_(**k),
    "bernoulli_": lambda **k: torch.empty(64).bernoulli_(0.5, **k),
}
each_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)


@each_draw
def test_seed_repeats_the_stream(draw):
    torch.manual_seed(7)
    first, second = draw(), draw()
    torch.manual_seed(7)
    assert np.array_equal(draw().numpy(), first.numpy())
    assert np.array_equal(draw().numpy(), second.numpy())
    assert not np.array_equal(first.numpy(), second.numpy()), "the stream goes on"


@each_draw
def test_seeds_differ(draw):
    torch.manual_seed(1)
    first = draw()
    torch.manual_seed(2)
    assert not np.array_equal(draw().numpy(), first.numpy())


@each_draw
def test_generator_is_separate(draw):
    """A generator of one's own repeats by its own seed and leaves the global stream alone."""
    torch.manual_seed(3)
    wanted = draw()
    torch.manual_seed(3)
    first = draw(generator=seeded(11))
    assert np.array_equal(draw().numpy(), wanted.numpy()), "the global stream has not moved"
    assert np.array_equal(draw(generator=seeded(11)).numpy(), first.numpy())
    assert not np.array_equal(draw(generator=seeded(12)).numpy(), first.numpy())


def test_generator_methods():
    generator = seeded(99)
    assert generator.initial_seed() == 99
    assert generator.manual_seed(5) is generator
    state = generator.get_state()
    first = torch.rand(8, generator=generator)
    generator.set_state(state)
    assert np.array_equal(torch.rand(8, generator=generator).numpy(), first.numpy())


def test_manual_seed_returns_the_generator():
    assert isinstance(torch.manual_seed(3), torch.Generator)
    assert torch.initial_seed() == 3


@pytest.mark.parametrize("seed", [0, 1, -1, 2**32, 2**63 - 1])
def test_seed_range(seed):
    torch.manual_seed(seed)
    first = torch.rand(4)
    torch.manual_seed(seed)
    assert np.array_equal(torch.rand(4).numpy(), first.numpy())


@pytest.mark.parametrize("seed", [2**64, 2**80, -(2**63) - 1, "text"])
def test_seed_out_of_range(seed):
    with pytest.raises((RuntimeError, ValueError, TypeError, OverflowError)):
        torch.manual_seed(seed)


@pytest.mark.parametrize("dtype", FLOATS)
def test_rand(dtype):
    sample = numbers(torch.rand(COUNT, dtype=getattr(torch, dtype), generator=seeded()))
    assert sample.min() >= 0.0
    assert sample.max() < 1.0, "one is never drawn, in any dtype"
    grain = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype, 0.0)
    assert_moments(sample, 0.5, 1 / 12, rounding=grain)


@pytest.mark.parametrize("dtype", FLOATS)
def test_randn(dtype):
    sample = numbers(torch.randn(COUNT, dtype=getattr(torch, dtype), generator=seeded()))
    assert np.isfinite(sample).all()
    assert_moments(sample, 0.0, 1.0, rounding={"bfloat16": 2.0**-8}.get(dtype, 0.0))
    assert abs(stats.skew(sample)) < STANDARD_ERRORS * np.sqrt(6 / COUNT)
    assert abs(stats.kurtosis(sample)) < STANDARD_ERRORS * np.sqrt(24 / COUNT) + 0.02
    assert 3.5 < np.abs(sample).max() < 7.0, "the tails reach where they should"


@pytest.mark.parametrize(
    ("draw", "cumulative"),
    [
        (lambda g: torch.rand(COUNT, dtype=torch.float64, generator=g), stats.uniform.cdf),
        (lambda g: torch.randn(COUNT, dtype=torch.float64, generator=g), stats.norm.cdf),
        (
            lambda g: torch.empty(COUNT, dtype=torch.float64).exponential_(2.0, generator=g),
            stats.expon(scale=0.5).cdf,
        ),
        (
            lambda g: torch.empty(COUNT, dtype=torch.float64).uniform_(-2.0, 5.0, generator=g),
            stats.uniform(-2.0, 7.0).cdf,
        ),
        (
            lambda g: torch.empty(COUNT, dtype=torch.float64).normal_(3.0, 2.0, generator=g),
            stats.norm(3.0, 2.0).cdf,
        ),
    ],
    ids=["rand", "randn", "exponential_", "uniform_", "normal_"],
)
def test_distribution(draw, cumulative):
    """Kolmogorov and Smirnov's test of the whole distribution, at one in a million."""
    sample = draw(seeded()).numpy()
    assert stats.kstest(sample, cumulative).pvalue > 1e-6


@pytest.mark.parametrize(("low", "high"), [(0, 10), (-5, 5), (3, 4), (0, 2**40), (-(2**62), 2**62)])
def test_randint(low, high):
    sample = torch.randint(low, high, (20_000,), generator=seeded()).numpy()
    assert sample.min() >= low
    assert sample.max() < high
    width = float(high - low)
    scaled = (sample.astype(np.float64) - low) / width
    if width > 1:
        error = STANDARD_ERRORS * np.sqrt(1 / 12 / sample.size)
        assert abs(scaled.mean() - (0.5 - 0.5 / width)) < error
    if 1 < width <= 10:
        counts = np.bincount(sample - low, minlength=high - low)
        assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("size", [0, 1, 2, 10, 1000])
def test_randperm(size):
    sample = torch.randperm(size, generator=seeded()).numpy()
    assert np.array_equal(np.sort(sample), np.arange(size))


def test_randperm_is_uniform():
    """All orders of three come equally often."""
    generator = seeded()
    orders = [tuple(torch.randperm(3, generator=generator).tolist()) for _ in range(3000)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-6


def test_normal_of_tensors():
    mean = torch.tensor([[-100.0], [0.0], [100.0]]).expand(3, COUNT // 4)
    std = torch.tensor([[1.0], [0.0], [10.0]]).expand(3, COUNT // 4)
    sample = numbers(torch.normal(mean, std, generator=seeded()))
    assert_moments(sample[0], -100.0, 1.0, rounding=1e-5)
    assert np.all(sample[1] == 0.0)
    assert_moments(sample[2], 100.0, 100.0, rounding=1e-5)


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 1.0])
def test_bernoulli(probability):
    sample = numbers(torch.bernoulli(torch.full((COUNT,), probability), generator=seeded()))
    assert set(np.unique(sample)) <= {0.0, 1.0}
    assert_moments(sample, probability, probability * (1 - probability), rounding=1e-7)


def test_multinomial_with_replacement():
    weights = torch.tensor([1.0, 0.0, 3.0, 6.0])
    sample = torch.multinomial(weights, 20_000, replacement=True, generator=seeded()).numpy()
    counts = np.bincount(sample, minlength=4)
    assert counts[1] == 0, "a weight of zero is never drawn"
    wanted = np.array([0.1, 0.3, 0.6]) * sample.size
    assert stats.chisquare(counts[[0, 2, 3]], wanted).pvalue > 1e-6


def test_multinomial_without_replacement():
    weights = torch.ones(500, 5)
    sample = torch.multinomial(weights, 5, generator=seeded()).numpy()
    assert np.array_equal(np.sort(sample, axis=1), np.tile(np.arange(5), (500, 1)))
    assert stats.chisquare(np.bincount(sample[:, 0], minlength=5)).pvalue > 1e-6


def test_exponential_is_positive():
    for dtype in FLOATS:
        sample = numbers(
            torch.empty(COUNT, dtype=getattr(torch, dtype)).exponential_(generator=seeded())
        )
        assert np.isfinite(sample).all()
        assert sample.min() >= 0.0


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_do_not_change_the_stream(threads):
    """Which thread fills which piece of a large tensor is not seen in the values."""
    before = torch.get_num_threads()
    wanted = torch.randn(300_001, generator=seeded()).numpy().copy()
    try:
        torch.set_num_threads(threads)
        assert np.array_equal(torch.randn(300_001, generator=seeded()).numpy(), wanted)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["rand", "randn"])
def test_neighbours_are_independent(name):
    """No correlation between draws at small distances, nor between two consecutive calls."""
    generator = seeded()
    make = getattr(torch, name)
    first = make(COUNT, dtype=torch.float64, generator=generator).numpy()
    second = make(COUNT, dtype=torch.float64, generator=generator).numpy()
    bound = STANDARD_ERRORS / np.sqrt(COUNT)
    for lag in (1, 2, 3, 4, 8, 16, 256, 1024, 4096):
        assert abs(np.corrcoef(first[:-lag], first[lag:])[0, 1]) < bound, f"lag {lag}"
    assert abs(np.corrcoef(first, second)[0, 1]) < bound


def test_adjacent_seeds_are_independent():
    first = torch.randn(COUNT, generator=seeded(1)).numpy()
    second = torch.randn(COUNT, generator=seeded(2)).numpy()
    assert abs(np.corrcoef(first, second)[0, 1]) < STANDARD_ERRORS / np.sqrt(COUNT)


def test_values_are_rarely_repeated():
    """float64 draws use more than 32 random bits."""
    sample = torch.rand(COUNT, dtype=torch.float64, generator=seeded()).numpy()
    assert np.unique(sample).size == COUNT


def test_in_place_fills_views():
    base = torch.zeros(10, 10)
    base[:, ::2].uniform_(1.0, 2.0)
    filled = base.numpy()
    assert np.all(filled[:, ::2] >= 1.0)
    assert np.all(filled[:, 1::2] == 0.0)


def test_random_ops_are_not_recorded():
    x = torch.ones(3, requires_grad=True)
    assert not torch.rand_like(x).requires_grad
    assert not torch.randn(3).requires_grad
    with pytest.raises(RuntimeError):
        x.normal_()


@pytest.mark.parametrize(("dtype", "least"), [("float16", 5000), ("bfloat16", 1000)])
def test_uniform_of_half_comes_in_all_its_steps(dtype, least):
    x = torch.empty(100_000, dtype=getattr(torch, dtype))
    for low, high in ((0, 1), (-1, 1), (-0.0625, 0.0625)):
        x.uniform_(low, high)
        assert len(x.unique()) > least
        assert low <= x.min().item() and x.max().item() < high
    assert len(torch.rand(100_000, dtype=x.dtype).unique()) > least
