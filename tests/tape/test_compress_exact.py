"""Codings that lose nothing: gradients are those without, bit by bit."""

import warnings

import numpy as np
import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape as an object is tapegrad's own", allow_module_level=True)

F = torch.nn.functional
CODECS = ["int8", "int4", "bf16", "exact"]


def gradients(function, *shapes, codec=None, scale=1.0, dtype=torch.float32, **options):
    """Return a function's gradients at random inputs, and what `compress` made of what it saved.

    The inputs are not leaves: those would be kept as they are.
    """
    torch.manual_seed(11)
    leaves = [(torch.randn(*s, dtype=dtype) * scale).requires_grad_() for s in shapes]
    with torch.tape.compress(codec, min_bytes=0, **options) as c:
        y = function(*[leaf + 0 for leaf in leaves])
    weights = torch.linspace(-1, 2, y.numel(), dtype=dtype).reshape(y.shape)
    return torch.autograd.grad((y * weights).sum(), leaves), c


def same_bits(a, b):
    pairs = zip(a, b, strict=True)
    return all(torch.equal(x.signbit(), y.signbit()) and torch.equal(x, y) for x, y in pairs)


TESTED = {
    "relu": torch.relu,
    "relu6": F.relu6,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "leaky_relu of slope 1": lambda x: F.leaky_relu(x, 1.0),
    "threshold": lambda x: F.threshold(x, 0.3, 5.0),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.7),
    "hardsigmoid": lambda x: F.hardsigmoid(x * 4),
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "clamp": lambda x: x.clamp(-0.4, 0.4),
    "clamp_min": lambda x: x.clamp(min=0.1),
    "clamp_max": lambda x: x.clamp(max=0.1),
    "nan_to_num": lambda x: x.nan_to_num(),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", TESTED)
def test_what_is_only_tested_becomes_bits(name, codec, dtype):
    plain, _ = gradients(TESTED[name], (37, 53), dtype=dtype)
    coded, c = gradients(TESTED[name], (37, 53), codec=codec, dtype=dtype)
    assert same_bits(plain, coded)
    counts = c.by_codec()
    assert counts["bits"]["saved_bytes"] == -(-37 * 53 // 8)
    assert list(counts) == ["bits"]


def test_relu_of_special_values():
    """NaN passes the gradient on, zeros of both signs and -inf do not."""
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-45, -1e-45])
    results = []
    for codec in (None, "int8"):
        x = special.repeat(50).requires_grad_()
        with torch.tape.compress(codec, min_bytes=0):
            y = torch.relu(x + 0)
        results.append(torch.autograd.grad(y, x, torch.full_like(y, 3.0)))
    assert same_bits(*results)
    assert results[1][0][:7].tolist() == [3.0, 3.0, 0.0, 0.0, 0.0, 3.0, 0.0]


@pytest.mark.parametrize("codec", CODECS)
def test_relu_in_place_and_of_odd_layouts(codec):
    def function(x):
        y = F.relu(x.transpose(0, 1), inplace=True)
        z = torch.relu(y[:, ::2])
        return torch.relu(z.unsqueeze(0).expand(3, -1, -1))

    plain, _ = gradients(function, (20, 30))
    coded, c = gradients(function, (20, 30), codec=codec)
    assert same_bits(plain, coded)
    assert list(c.by_codec()) == ["bits"]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize(
    "dropout", ["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"]
)
def test_dropout_masks_become_bits(dropout, p, codec):
    shape = {"dropout1d": (30, 20, 9), "dropout3d": (30, 20, 2, 3, 2)}.get(dropout, (30, 20, 4, 4))

    def function(x):
        torch.manual_seed(3)
        return getattr(F, dropout)(x, p, training=True)

    plain, _ = gradients(function, shape)
    coded, c = gradients(function, shape, codec=codec)
    assert same_bits(plain, coded)
    assert list(c.by_codec()) == ["bits"]


POOLS = {
    "2 x 2": ((3, 4, 12, 14), lambda x: F.max_pool2d(x, 2)),
    "3 x 3, stride 2, padded": ((3, 4, 13, 11), lambda x: F.max_pool2d(x, 3, 2, 1)),
    "dilated": ((2, 3, 20, 21), lambda x: F.max_pool2d(x, (3, 2), (1, 2), 1, (2, 3))),
    "ceil mode": ((2, 3, 11, 12), lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True)),
    "overlapping": ((2, 3, 30, 31), lambda x: F.max_pool2d(x, 5, 1, 2)),
    "wide image": ((1, 2, 9, 1000), lambda x: F.max_pool2d(x, 3, 2, 1)),
    "16 x 16, all places": ((2, 2, 64, 64), lambda x: F.max_pool2d(x, 16)),
    "1d": ((4, 5, 60), lambda x: F.max_pool1d(x, 7, 3, 2)),
    "3d": ((2, 3, 8, 9, 10), lambda x: F.max_pool3d(x, (2, 3, 2), 2, (1, 1, 0))),
    "adaptive": ((3, 4, 13, 17), lambda x: F.adaptive_max_pool2d(x, (5, 6))),
    "adaptive, evenly": ((3, 4, 12, 18), lambda x: F.adaptive_max_pool2d(x, (4, 6))),
    "one plane": ((4, 12, 14), lambda x: F.max_pool2d(x, 2)),
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", POOLS)
def test_places_of_maxima_become_bytes(name, codec):
    shape, function = POOLS[name]
    plain, _ = gradients(function, shape)
    coded, c = gradients(function, shape, codec=codec)
    assert same_bits(plain, coded)
    counts = c.by_codec()
    outputs = function(torch.zeros(shape)).numel()
    assert counts == {"places": {"values": 1, "saved_bytes": outputs}}


def test_windows_of_more_than_256_places_are_narrowed():
    function = lambda x: F.max_pool2d(x, 17)  # noqa: E731
    plain, _ = gradients(function, (4, 8, 60, 60))
    coded, c = gradients(function, (4, 8, 60, 60), codec="int8")
    assert same_bits(plain, coded)
    assert c.by_codec()["narrow"]["saved_bytes"] == 4 * 8 * 3 * 3 * 2


def test_places_of_equal_and_infinite_maxima():
    for value in (0.0, -float("inf"), float("nan")):
        results = []
        for codec in (None, "int8"):
            x = torch.full((2, 3, 9, 9), value, requires_grad=True)
            with torch.tape.compress(codec, min_bytes=0):
                y = F.max_pool2d(x + 0, 3, 2, 1)
            results.append(torch.autograd.grad(y, x, torch.ones_like(y)))
        assert same_bits(*results)


def test_maxima_twice_differentiated_and_unpooled():
    def function(x):
        y, places = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(y, places, 2)

    plain, _ = gradients(function, (3, 4, 12, 14))
    coded, c = gradients(function, (3, 4, 12, 14), codec="int8")
    assert same_bits(plain, coded)
    assert "places" in c.by_codec()


EXACT = {
    "amax": lambda x: x.amax(1),
    "max": lambda x: x.max(1).values,
    "max of all": lambda x: x.max().reshape(1),
    "sort": lambda x: x.sort(1).values,
    "topk": lambda x: x.topk(3, 1).values,
    "median": lambda x: x.median(1).values,
    "cummax": lambda x: x.cummax(1).values,
    "maximum": lambda x: torch.maximum(x, x.flip(0)),
    "fmin": lambda x: torch.fmin(x, x.flip(0)),
    "norm inf": lambda x: x.norm(float("inf"), 1),
    "prod": lambda x: x.prod(1),
    "cumprod": lambda x: x.cumprod(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "scatter_reduce": lambda x: x.scatter_reduce(1, (x > 0).long(), x, "amax"),
    "gather": lambda x: x.gather(1, (x > 0).long()),
    "index": lambda x: x[torch.arange(40) % 7],
    "index_select": lambda x: x.index_select(0, torch.arange(40) % 9),
    "masked_fill": lambda x: x.masked_fill(x > 0.3, 2.0),
    "masked_select": lambda x: x[x > 0],
    "where": lambda x: torch.where(x > 0, x, -x),
}


@pytest.mark.parametrize("name", EXACT)
def test_what_must_be_exact_is(name):
    plain, _ = gradients(EXACT[name], (40, 30))
    coded, _ = gradients(EXACT[name], (40, 30), codec="int4")
    assert same_bits(plain, coded)


@pytest.mark.parametrize("codec", CODECS)
def test_masks_of_attention_are_exact(codec):
    """Values and sums are quantised by the lossy codecs, the mask never is."""
    mask = torch.zeros(10, 10).masked_fill(torch.ones(10, 10).triu(1) > 0, -float("inf"))

    def function(x):
        heads = x[:10, :4].reshape(1, 1, 10, 4)
        return F.scaled_dot_product_attention(heads, heads, heads, mask)

    plain, _ = gradients(function, (40, 30))
    coded, c = gradients(function, (40, 30), codec=codec)
    assert c.by_codec()["bits"]["values"] == 1
    if codec == "exact":
        assert same_bits(plain, coded)
    assert torch.isfinite(coded[0]).all()


# ---- random programs

STEPS = {
    "relu": torch.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "clamp": lambda x: x.clamp(-1.5, 1.5),
    "hardtanh": lambda x: F.hardtanh(x, -1.2, 2.0),
    "softshrink": lambda x: F.softshrink(x, 0.05),
    "dropout": lambda x: F.dropout(x, 0.2),
    "dropout1d": lambda x: F.dropout1d(x, 0.2),
    "pool": lambda x: F.max_pool1d(x, 3, 1, 1),
    "pool 2d": lambda x: F.max_pool2d(x.unsqueeze(0), 3, 1, 1).squeeze(0),
    "flip": lambda x: x.flip(1),
    "transpose": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "where": lambda x: torch.where(x > 0.1, x, x * 0.5),
    "masked_fill": lambda x: x.masked_fill(x > 1.0, 0.75),
    "gather": lambda x: x.gather(2, (x[:, :, :1] > 0).long().expand(x.shape)),
    "index": lambda x: x[torch.randperm(x.shape[0])],
    "sort": lambda x: x.sort(2).values,
    "add": lambda x: x + 0.25,
    "residual": lambda x: x + torch.relu(x),
    "scale": lambda x: x * 0.75,
    "neg": lambda x: -x,
    "cumsum": lambda x: x.cumsum(1) * 0.2,
    "inplace": lambda x: (x + 0.1).relu_(),
    "amax": lambda x: x - x.amax(2, keepdim=True),
    "roll": lambda x: x.roll(3, 2),
}


def run_program(names, codec):
    torch.manual_seed(19)
    x = torch.randn(3, 12, 20, requires_grad=True)
    with torch.tape.compress(codec, min_bytes=0) as c:
        y = x + 0
        for name in names:
            y = STEPS[name](y)
    out = y.sum() * 1.5
    (grad,) = torch.autograd.grad(out, x)
    return (grad, y.detach()), c


@pytest.mark.parametrize("batch", range(8))
def test_random_programs_of_exact_codings(batch):
    """Programs of ops whose values are coded without loss: the same gradients in every codec."""
    random = np.random.default_rng(batch)
    coded = 0
    for _ in range(25):
        names = [str(name) for name in random.choice(list(STEPS), random.integers(2, 12))]
        plain, _ = run_program(names, None)
        for codec in CODECS:
            found, c = run_program(names, codec)
            assert same_bits(plain, found), (names, codec)
            coded += "bits" in c.by_codec()
    assert coded > 50


def test_random_programs_of_all_ops():
    """Programs with views, writes and sweeps of sweeps, in the lossless codec."""
    from autograd import random_programs as programs

    if programs.pytorch is None:
        pytest.skip(programs.REASON)
    threads = programs.pytorch.get_num_threads()
    programs.pytorch.set_num_threads(1)
    compared = 0
    try:
        for seed in range(3000, 3120):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                lines = programs.generate(seed)
                compared += compare_program(programs, lines)
    finally:
        programs.pytorch.set_num_threads(threads)
    assert compared > 100


def compare_program(programs, lines):
    """Run a program with and without codings; return 1 if it came to its end in both."""
    plain, coded = programs.Machine(torch), programs.Machine(torch)
    try:
        return compare_machines(programs, lines, plain, coded)
    finally:
        plain.clear()
        coded.clear()


def compare_machines(programs, lines, plain, coded):
    for line in lines:
        first = plain.run(line)
        with torch.tape.compress("exact", min_bytes=0):
            second = coded.run(line)
        if first is not None and second is None:
            assert "modified by an inplace" in str(first), (line, first)
            return 0  # Codes are not overwritten with the value: the sweep goes through.
        assert type(first) is type(second), (line, first, second)
        for name, value in plain.tensors().items():
            other = coded.variables[name]
            assert torch.equal(value.detach(), other.detach()), (name, lines)
            lost = not programs.has_history(value)
            if not lost and value.is_leaf and value.grad is not None:
                assert same_bits([value.grad], [other.grad]), (name, lines)
    return 1
