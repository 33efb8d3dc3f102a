"""Softmax, normalisation, scans and gradient clipping on a CUDA device, against the CPU."""

import math

import pytest
from library import torch

from .comparing import assert_close, compare

F = torch.nn.functional
INF, NAN = math.inf, math.nan
DTYPES = [torch.float32, torch.float64]
HALVES = [torch.float16, torch.bfloat16]

# Lengths of rows: of less than a piece, of a warp, of a block, and too long for registers; some
# are not aligned.
LENGTHS = [1, 3, 8, 128, 129, 512, 1000, 1001, 4096, 5001, 17_000]


def drawn(*sizes, dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(sizes, dtype=dtype)


# ---- softmax


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("length", LENGTHS)
def test_softmax_of_rows(length, dtype):
    x = drawn(5 if length < 2000 else 2, length, dtype=dtype)
    compare(lambda x: torch.softmax(x, 1), x)
    compare(lambda x: torch.log_softmax(x, 1), x)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("length", LENGTHS)
def test_half_rows(length, dtype):
    """They are computed in float32, as the CPU does, and rounded once."""
    x = drawn(5 if length < 2000 else 2, length).to(dtype)
    weight, bias = drawn(length).to(dtype), (drawn(length) + 1).to(dtype)
    compare(lambda x: torch.softmax(x, 1), x, units=2)
    compare(lambda x: torch.log_softmax(x, 1), x, units=2)
    compare(lambda x, w, b: F.layer_norm(x, (length,), w, b), x, weight, bias, units=2)
    compare(lambda x, b: F.layer_norm(x, (length,), None, b), x, bias, units=2)
    compare(lambda x, w: F.rms_norm(x, (length,), w), x, weight, units=2)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_columns_and_many_rows(dtype):
    compare(lambda x: torch.softmax(x, 1), drawn(2, 30, 40).to(dtype), units=2)
    x, weight = drawn(700, 20).to(dtype), drawn(20).to(dtype)
    compare(lambda x, w, b: F.layer_norm(x, (20,), w, b), x, weight, weight + 1, units=2)


def test_statistics_of_half_rows_are_float32():
    """Of a bfloat16 the mean would have eight bits, and differences from it none."""
    x = (drawn(4, 256) * 0.01 + 100).bfloat16()
    exact = F.layer_norm(x.double(), (256,))
    assert_close(F.layer_norm(x.cuda(), (256,)), exact.bfloat16(), units=1)


def test_second_derivative_of_half_layer_norm():
    x = drawn(3, 16).bfloat16()

    def squared_gradient(x):
        (grad,) = torch.autograd.grad(
            (F.layer_norm(x, (16,)) ** 2)[:, :3].sum(), x, create_graph=True
        )
        return grad.square().sum()

    compare(squared_gradient, x, units=4)


def test_softmax_of_few_long_rows():
    """They are cut into parts."""
    for length in (70_004, 70_001):
        x = drawn(1, length)
        compare(lambda x: torch.softmax(x, 1), x)
        compare(lambda x: torch.log_softmax(x, 1), x, units=64)


@pytest.mark.parametrize(
    ("sizes", "dim"),
    [((4, 7), 0), ((3, 5, 2), 1), ((40, 5), 0), ((2, 30, 40), 1), ((20_000, 5), 0)],
    ids=str,
)
def test_softmax_of_columns(sizes, dim):
    compare(lambda x: torch.softmax(x, dim), drawn(*sizes))
    compare(lambda x: torch.log_softmax(x, dim), drawn(*sizes), units=64)


@pytest.mark.parametrize("row", [[-INF, -INF], [INF, 1.0], [NAN, 1.0], [-INF, 3.0], [1e30, -1e30]])
def test_softmax_of_infinities(row):
    x = torch.tensor([row])
    for function in (torch.softmax, torch.log_softmax):
        assert_close(function(x.cuda(), 1), function(x, 1))
        assert_close(function(x.t().cuda(), 0), function(x.t(), 0))
        long = x.repeat(1, 10_000)
        assert_close(function(long.cuda(), 1), function(long, 1))


def test_softmax_of_nothing():
    for sizes in ((0, 3), (3, 0)):
        compare(lambda x: torch.softmax(x, 1), torch.zeros(sizes))


# ---- normalisation


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("length", LENGTHS)
def test_layer_norm(length, dtype):
    x = drawn(5 if length < 2000 else 2, length, dtype=dtype) + 3
    weight, bias = drawn(length, dtype=dtype), drawn(length, dtype=dtype) + 1
    units = 16 * max(16, math.isqrt(length))
    compare(lambda x, w, b: F.layer_norm(x, (length,), w, b), x, weight, bias, units=units)
    compare(lambda x: F.layer_norm(x, (length,)), x, units=units)
    compare(lambda x, w: F.rms_norm(x, (length,), w), x, weight, units=units)


@pytest.mark.parametrize("rows", [700, 2000])
def test_layer_norm_of_many_rows(rows):
    """A group of threads takes several, and adds up the gradients of weight and bias."""
    x, weight = drawn(rows, 20), drawn(20)
    compare(lambda x, w, b: F.layer_norm(x, (20,), w, b), x, weight, weight + 1, units=256)
    compare(lambda w: F.layer_norm(x.to(w.device), (20,), w), weight, units=256)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "sizes", [(4, 3), (5, 4), (2, 3, 5), (2, 3, 4, 4), (3, 8, 7, 1), (100, 2, 300)], ids=str
)
def test_batch_norm(sizes, dtype):
    x = drawn(*sizes, dtype=dtype) + 2
    weight, bias = drawn(sizes[1], dtype=dtype), drawn(sizes[1], dtype=dtype) + 1
    mean, variance = drawn(sizes[1], dtype=dtype), drawn(sizes[1], dtype=dtype).square() + 0.5

    def given(x, w=None, b=None):
        return F.batch_norm(x, mean.to(x.device), variance.to(x.device), w, b)

    compare(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), x, weight, bias, units=256)
    compare(lambda x: F.batch_norm(x, None, None, None, None, True), x, units=256)
    compare(given, x, weight, bias, units=256)
    compare(lambda w: given(x.to(w.device), w), weight, units=256)


# ---- scans


SCANS = [((), 0), ((1,), 0), ((7,), 0), ((4, 128), 1), ((4, 129), 1), ((3, 520), 1), ((2, 5001), 1)]
SCANS += [((1, 9000), 1), ((1, 40_000), 1), ((2, 33_001), 1), ((5, 3), 0), ((2, 100, 5), 1)]
SCANS += [((3000, 2), 0)]


@pytest.mark.parametrize(("sizes", "dim"), SCANS, ids=str)
def test_scans(sizes, dim):
    x = drawn(*sizes)
    near_one = 1 + 0.01 * x
    compare(lambda x: torch.cumsum(x, dim), x, units=64)
    compare(lambda x: torch.cumprod(x, dim), near_one, units=64)
    compare(lambda x: torch.logcumsumexp(x, dim), x, units=64)
    for function in (torch.cummax, torch.cummin):
        with torch.no_grad():
            compare(lambda x, function=function: tuple(function(x.round(), dim)), x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64])
@pytest.mark.parametrize(("sizes", "dim"), [((3, 700), 1), ((3, 701), 1), ((70, 5), 0)], ids=str)
def test_scans_of_dtypes(sizes, dim, dtype):
    x = drawn(*sizes)
    x = x.to(dtype) if dtype.is_floating_point else (9 * x).to(dtype)
    functions = [torch.cumsum, torch.cummax, torch.cummin]
    if dtype.is_floating_point:
        functions.append(torch.logcumsumexp)
    for function in functions:
        found, wanted = function(x.cuda(), dim), function(x, dim)
        if not isinstance(wanted, tuple):
            found, wanted = (found,), (wanted,)
        for a, b in zip(found, wanted, strict=True):
            assert_close(a, b)
    small = x.clamp(-1, 1)
    assert_close(torch.cumprod(small.cuda(), dim), torch.cumprod(small, dim))


TILES = [(torch.float32, 2, 16_384), (torch.float32, 3, 20_001), (torch.float64, 1, 12_289)]
TILES += [(torch.float16, 2, 32_768), (torch.bfloat16, 1, 50_003), (torch.int64, 3, 8_200)]
TILES += [(torch.float32, 1, 70 * 8192 + 3), (torch.int64, 1, 135 * 4096 + 7)]


@pytest.mark.parametrize(("dtype", "rows", "length"), TILES, ids=str)
def test_scans_of_tiles(dtype, rows, length):
    """Of long rows: tiles that blocks hold, alone and in groups, forwards and in the derivative."""
    x = drawn(rows, length)
    x = x.to(dtype) if dtype.is_floating_point else (1e6 * x).to(dtype)
    assert_close(torch.cumsum(x.cuda(), 1), torch.cumsum(x, 1))
    near_one = (1 + 1e-5 * x) if dtype.is_floating_point else x | 1
    assert_close(torch.cumprod(near_one.cuda(), 1), torch.cumprod(near_one, 1), units=256)
    if dtype.is_floating_point:
        gradients = []
        for device in ("cpu", "cuda"):
            leaf = drawn(rows, length).to(dtype).to(device).requires_grad_()
            torch.cumsum(leaf, 1).backward(x.to(device))
            gradients.append(leaf.grad)
        assert_close(gradients[1], gradients[0])
    again = x.cuda()
    assert torch.equal(torch.cumsum(again, 1), torch.cumsum(again, 1))


def test_scans_of_infinities():
    x = torch.tensor([1.0, NAN, 2.0, NAN, 3.0, INF, -INF, 3.0, 3.0])
    for each in (x, x[4:], x[5:6], x.view(9, 1).expand(9, 2).contiguous()):
        for function in (torch.cumsum, torch.cumprod, torch.logcumsumexp):
            assert_close(function(each.cuda(), 0), function(each, 0))
        for function in (torch.cummax, torch.cummin):
            for a, b in zip(function(each.cuda(), 0), function(each, 0), strict=True):
                assert_close(a, b)


@pytest.mark.parametrize("length", [24, 1000, 40_000])
def test_sums_that_a_float_cannot_hold(length):
    """They come back, because they are added up as doubles."""
    x = drawn(length)
    x[4:8] = torch.tensor([3e38, 3e38, -3e38, -3e38])
    x[length - 9] = INF
    assert_close(torch.cumsum(x.cuda(), 0), torch.cumsum(x, 0))
    reverse = torch.cumsum(x.flip(0).cuda(), 0)
    assert_close(reverse, torch.cumsum(x.flip(0), 0))
    leaf = drawn(length).cuda().requires_grad_()
    torch.cumsum(leaf, 0).backward(x.cuda())
    assert_close(leaf.grad, torch.cumsum(x.flip(0), 0).flip(0))


def test_gradient_of_a_product_that_overflows():
    """A recurrence that meets infinities runs in the order of its line."""
    x = torch.tensor([[2.0, 1e30, 1e30, 0.0, 3.0], [INF, 1.0, 0.0, 2.0, 1.0]])
    for each in (x, x.repeat(1, 200), x.t().contiguous()):
        outcomes = []
        for device in ("cpu", "cuda"):
            leaf = each.detach().to(device).requires_grad_()
            torch.cumprod(leaf, 0 if each.shape == x.t().shape else 1).sum().backward()
            outcomes.append(leaf.grad.cpu())
        found, wanted = outcomes[1], outcomes[0]
        assert torch.equal(found.isnan(), wanted.isnan())
        assert torch.equal(found.isinf(), wanted.isinf())


# ---- many tensors


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("p", [1.0, 2.0, INF])
def test_clipping(p, dtype):
    """More tensors than a launch takes, small and large, one of them not aligned."""
    sizes = [1, 3, 5000, 40_001, 17] + [3] * 200
    values = [drawn(n, dtype=dtype) for n in sizes] + [drawn(1001, dtype=dtype)]
    outcomes = []
    for device in ("cpu", "cuda"):
        several = [torch.nn.Parameter(x.to(device)) for x in values]
        for parameter, x in zip(several, values, strict=True):
            parameter.grad = x.to(device) * 2
        several[-1].data, several[-1].grad = several[-1].data[1:], (values[-1].to(device) * 2)[1:]
        norm = torch.nn.utils.clip_grad_norm_(several, 1.0, p)
        outcomes.append([norm, *(each.grad for each in several)])
    for found, wanted in zip(outcomes[1], outcomes[0], strict=True):
        assert_close(found, wanted, units=256)


def test_clipping_of_small_gradients_changes_nothing():
    parameter = torch.nn.Parameter(torch.ones(5, device="cuda"))
    parameter.grad = torch.full((5,), 0.1, device="cuda")
    torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    assert torch.equal(parameter.grad.cpu(), torch.full((5,), 0.1))
