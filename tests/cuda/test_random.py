"""Random numbers on CUDA: those of the CPU for the same seed."""

import pytest
from library import torch

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# None, one, part of a tile, a tile, several blocks of 1024 and of 512 elements with a rest.
SIZES = (0, 1, 17, 64, 2051)


def both(draw, seed=7):
    """Return what a function of a device draws on the CPU and on CUDA from one seed."""
    torch.manual_seed(seed)
    wanted = draw("cpu")
    torch.manual_seed(seed)
    found = draw("cuda")
    assert found.device.type == "cuda"
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    return wanted, found.cpu()


def assert_equal(draw, seed=7):
    wanted, found = both(draw, seed)
    assert torch.equal(found, wanted), f"{found} and {wanted}"


def assert_close(draw, units=4):
    """Check that numbers differ by a few roundings at most: log, sin and cos are not the same."""
    wanted, found = both(draw)
    finite = wanted.isfinite()
    assert torch.equal(found[~finite], wanted[~finite])
    a, b = found[finite].double(), wanted[finite].double()
    bound = units * torch.finfo(wanted.dtype).eps
    assert torch.all((a - b).abs() <= bound * b.abs().clamp(min=1.0)), (a - b).abs().max()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_uniform(dtype, size):
    assert_equal(lambda device: torch.rand(size, dtype=dtype, device=device))
    assert_equal(lambda device: torch.empty(size, dtype=dtype, device=device).uniform_(-3, 5))
    # So narrow that sums round up to the open end.
    assert_equal(lambda device: torch.empty(size, dtype=dtype, device=device).uniform_(1, 1.001))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "name, parameters",
    [
        ("normal_", (0, 1)),
        ("normal_", (-2, 3)),
        ("log_normal_", (0.5, 0.25)),
        ("exponential_", (2,)),
        ("cauchy_", (1, 2)),
    ],
    ids=str,
)
def test_continuous(name, parameters, dtype, size):
    def draw(device):
        return getattr(torch.empty(size, dtype=dtype, device=device), name)(*parameters)

    assert_close(draw, units=16)


@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS), ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_geometric(dtype, size):
    assert_equal(lambda device: torch.empty(size, dtype=dtype, device=device).geometric_(0.3))


@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS, torch.bool), ids=str)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("p", (0.0, 0.25, 0.001, 1.0))
def test_bernoulli(dtype, size, p):
    assert_equal(lambda device: torch.empty(size, dtype=dtype, device=device).bernoulli_(p))


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.float16), ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_bernoulli_of_probabilities(dtype, size):
    p = torch.linspace(0, 1, size, dtype=torch.float64).to(dtype)
    assert_equal(lambda device: torch.bernoulli(p.to(device)))
    assert_equal(
        lambda device: torch.empty(3, size, dtype=torch.bool, device=device).bernoulli_(
            p.to(device)
        )
    )


@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS, torch.bool), ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_integers(dtype, size):
    assert_equal(lambda device: torch.empty(size, dtype=dtype, device=device).random_())
    assert_equal(lambda device: torch.randint(0, 2, (size,), dtype=dtype, device=device))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bounds", [(-5, 100), (0, 2**24 + 1), (-(2**62), 2**62)], ids=str)
def test_integers_of_a_range(bounds, size):
    assert_equal(lambda device: torch.randint(*bounds, (size,), device=device))


def test_all_integers():
    least = torch.iinfo(torch.int64).min
    assert_equal(
        lambda device: torch.empty(70, dtype=torch.int64, device=device).random_(least, None)
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_poisson(dtype, size):
    rates = torch.linspace(0, 60, size, dtype=torch.float64).to(dtype)
    assert_equal(lambda device: torch.poisson(rates.to(device)))


@pytest.mark.parametrize(
    "dtype", (torch.int64, torch.int32, torch.int16, torch.float32, torch.float64), ids=str
)
@pytest.mark.parametrize("size", (0, 1, 2, 1000, 20000))
def test_permutation(dtype, size):
    assert_equal(lambda device: torch.randperm(size, dtype=dtype, device=device))


@pytest.mark.parametrize("replacement", (True, False))
@pytest.mark.parametrize("count", (1, 5, 30))
@pytest.mark.parametrize("shape", [(30,), (3, 40), (2, 700), (4, 0)], ids=str)
def test_multinomial(shape, count, replacement):
    torch.manual_seed(1)
    p = torch.rand(*shape)
    if p.numel() == 0:
        p = torch.rand(0, 30)
    p[..., ::3] = 0
    if not replacement:
        count = min(count, 20)
    wanted, found = both(lambda device: torch.multinomial(p.to(device), count, replacement))
    assert torch.equal(found, wanted)


def test_multinomial_of_more_than_there_are():
    """The shapes tell, so that nobody waits; categories without a chance come last."""
    p = torch.tensor([0.0, 0.5, 0.0, 0.5], device="cuda")
    with pytest.raises(RuntimeError, match="cannot sample 5 of 4 categories"):
        torch.multinomial(p, 5)
    drawn = torch.multinomial(p, 3).tolist()
    assert {*drawn[:2]} == {1, 3} and drawn[2] in (0, 2)


@pytest.mark.parametrize("count", (100, 2500))
def test_multinomial_sorts_many(count):
    """Rows that are longer than what one block sorts."""
    p = torch.rand(2, 2500)
    assert_equal(lambda device: torch.multinomial(p.to(device), count))


def test_draws_of_zero_probability_do_not_come():
    p = torch.zeros(1000, device="cuda")
    p[500:510] = 1e-3
    drawn = torch.multinomial(p, 3000, replacement=True).cpu()
    assert drawn.min().item() >= 500 and drawn.max().item() < 510


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_non_contiguous_and_shifted_memory(dtype):
    def transposed(device):
        x = torch.zeros(33, 41, dtype=dtype, device=device)
        x.t().uniform_()
        return x

    def shifted(device):
        x = torch.zeros(1501, dtype=dtype, device=device)
        x[1:].uniform_()
        return x

    assert_equal(transposed)
    assert_equal(shifted)


def test_streams_go_on():
    """A second call draws other numbers, and as many counters are used up as on the CPU."""

    def draw(device):
        torch.rand(100, device=device)
        torch.randn(33, device=device)
        return torch.rand(5, device=device)

    assert_equal(draw)


def test_generator_of_the_device():
    generator = torch.Generator(device="cuda").manual_seed(3)
    found = torch.rand(10, generator=generator, device="cuda")
    other = torch.Generator().manual_seed(3)
    assert torch.equal(found.cpu(), torch.rand(10, generator=other))
    with pytest.raises(RuntimeError, match="Expected a 'cuda"):
        torch.rand(10, generator=other, device="cuda")
    state = generator.get_state()
    first = torch.randn(7, generator=generator, device="cuda").cpu()
    generator.set_state(state)
    assert torch.equal(torch.randn(7, generator=generator, device="cuda").cpu(), first)


def test_generators_of_devices_are_apart():
    torch.manual_seed(5)
    torch.rand(100)
    first = torch.rand(10, device="cuda").cpu()
    torch.manual_seed(5)
    assert torch.equal(torch.rand(10, device="cuda").cpu(), first)


def test_normal_of_tensors():
    means, stds = torch.arange(50.0), torch.linspace(0.5, 2, 50)
    assert_close(lambda device: torch.normal(means.to(device), stds.to(device)), units=16)
    assert_close(lambda device: torch.normal(means.to(device), 2.0), units=16)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_dropout(dtype):
    x = torch.linspace(-1, 1, 1500, dtype=torch.float64).to(dtype)

    def draw(device):
        leaf = x.detach().to(device, copy=True).requires_grad_()
        y = torch.nn.functional.dropout(leaf, 0.4)
        y.backward(torch.ones_like(y))
        return y.detach() + 2 * leaf.grad

    assert_equal(draw)


def test_dropout_of_channels():
    x = torch.ones(2, 6, 5, 5)
    assert_equal(lambda device: torch.nn.functional.dropout2d(x.to(device), 0.5))
    assert_equal(lambda device: torch.nn.functional.alpha_dropout(x.to(device), 0.5))


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=str)
def test_nextafter_of_halves(dtype):
    values = [0.0, -0.0, 1.0, -1.0, 65504.0, 6e-8, float("inf"), -float("inf"), float("nan")]
    a = torch.tensor(values, dtype=dtype)
    x, y = a[:, None].expand(9, 9), a[None, :].expand(9, 9)
    wanted = torch.nextafter(x, y)
    found = torch.nextafter(x.cuda(), y.cuda()).cpu()
    assert torch.equal(found.isnan(), wanted.isnan())
    bits = wanted.view(torch.int16)[~wanted.isnan()]
    assert torch.equal(found.view(torch.int16)[~wanted.isnan()], bits)


def test_a_checkpoint_draws_the_same_numbers_again():
    """The second run of a function sees what the first one drew; the stream goes on as it would."""
    from tapegrad.utils.checkpoint import checkpoint

    def function(x):
        return torch.nn.functional.dropout(x * x, 0.5)

    def run(wrap):
        torch.manual_seed(9)
        leaf = torch.arange(1.0, 301.0, device="cuda").requires_grad_()
        y = wrap(leaf)
        torch.rand(5, device="cuda")
        y.backward(torch.ones_like(y))
        return leaf.grad.cpu(), torch.rand(5, device="cuda").cpu()

    plain = run(function)
    again = run(lambda leaf: checkpoint(function, leaf, use_reentrant=False))
    assert torch.equal(again[0], plain[0])
    assert torch.equal(again[1], plain[1])


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.rand(100, device="cuda"),
        lambda: torch.randint(0, 5, (100,), device="cuda"),
        lambda: torch.randperm(100, device="cuda"),
        lambda: torch.multinomial(torch.ones(2, 50, device="cuda"), 20),
        lambda: torch.multinomial(torch.ones(2, 50, device="cuda"), 60, replacement=True),
        lambda: torch.bernoulli(torch.full((9,), 0.5, device="cuda")),
        lambda: torch.nn.functional.dropout(torch.ones(9, device="cuda"), 0.5),
    ],
    ids=["rand", "randint", "randperm", "multinomial", "replacement", "bernoulli", "dropout"],
)
def test_draws_do_not_wait(draw, emulator):
    """Work that was there before is still to be done afterwards."""
    draw()  # which compiles
    torch.cuda.synchronize()
    event = torch.cuda.current_stream().record_event()
    draw()
    assert not event.query()
