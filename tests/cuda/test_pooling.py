"""Pooling on a CUDA device, against the CPU."""

import pytest
from library import torch

from .comparing import assert_close, compare

F = torch.nn.functional
SIZES = {1: (2, 3, 17), 2: (2, 2, 9, 11), 3: (1, 2, 5, 6, 7)}
WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 1, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 4, "stride": 3},
    {"kernel_size": 5, "stride": 1, "padding": 2},
]


def max_pool(rank):
    return {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[rank]


def avg_pool(rank):
    return {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[rank]


def repeated(*sizes, dtype=torch.float32):
    """Few different numbers, so that many are equal."""
    return torch.randint(0, 4, sizes).to(dtype)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_max(rank, windows):
    for x in (torch.randn(SIZES[rank]), repeated(*SIZES[rank])):
        compare(lambda x: max_pool(rank)(x, **windows), x)
        compare(lambda x: max_pool(rank)(x, **windows, return_indices=True), x)


def test_max_with_dilation():
    x = torch.randn(2, 3, 12, 13)
    compare(lambda x: F.max_pool2d(x, 3, stride=2, padding=1, dilation=2, return_indices=True), x)
    compare(lambda x: F.max_pool2d(x, (2, 3), stride=(1, 2), dilation=(3, 1)), x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_dtypes(dtype):
    x = torch.randn(2, 2, 8, 8).to(dtype)
    compare(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x)
    compare(lambda x: F.avg_pool2d(x, 3, 2, 1), x)


def test_integers():
    x = torch.randint(-9, 9, (2, 2, 8, 8))
    compare(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x)
    compare(lambda x: F.avg_pool2d(x, 3, 2, 1), x)


def test_nan_and_infinity():
    x = torch.randn(1, 1, 6, 6)
    x[0, 0, 1, 1] = float("nan")
    x[0, 0, 2, 2] = float("nan")
    x[0, 0, 4, 4] = float("inf")
    found = F.max_pool2d(x.cuda(), 3, 1, return_indices=True)
    for a, b in zip(found, F.max_pool2d(x, 3, 1, return_indices=True), strict=True):
        assert torch.equal(a.cpu().nan_to_num(), b.nan_to_num())
    lowest = torch.full((1, 1, 4, 4), -float("inf"))
    found = F.max_pool2d(lowest.cuda(), 2, return_indices=True)[1]
    assert torch.equal(found.cpu(), F.max_pool2d(lowest, 2, return_indices=True)[1])


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
@pytest.mark.parametrize("count_include_pad", [True, False])
def test_avg(rank, windows, count_include_pad):
    x = torch.randn(SIZES[rank])
    compare(lambda x: avg_pool(rank)(x, **windows, count_include_pad=count_include_pad), x)


def test_avg_with_a_divisor():
    compare(lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5), torch.randn(2, 2, 7, 8))


@pytest.mark.parametrize("size", [1, 2, 5, (3, 7), (9, 11), (12, 4)], ids=str)
def test_adaptive(size):
    for x in (torch.randn(SIZES[2]), repeated(*SIZES[2])):
        compare(lambda x: F.adaptive_avg_pool2d(x, size), x)
        compare(lambda x: F.adaptive_max_pool2d(x, size, return_indices=True), x)


@pytest.mark.parametrize("size", [(20, 20), (1, 300), (300, 1)], ids=str)
def test_large_windows(size):
    """So large that a warp shares one."""
    for x in (torch.randn(1, 3, *size), repeated(1, 3, *size)):
        compare(lambda x: F.adaptive_avg_pool2d(x, 1), x)
        compare(lambda x: F.adaptive_max_pool2d(x, 1, return_indices=True), x)
    x = torch.randn(1, 2, *size)
    x[0, 0, 0, 0] = float("nan")
    x[0, 0, -1, -1] = float("nan")
    wanted = F.adaptive_max_pool2d(x, 1, return_indices=True)[1]
    assert torch.equal(F.adaptive_max_pool2d(x.cuda(), 1, return_indices=True)[1].cpu(), wanted)


@pytest.mark.parametrize("deterministic", [False, True])
def test_scatter_without_windows(deterministic):
    """The derivative of the gather that is the derivative of the scatter of a gradient."""

    def gather(stride):
        def function(x, grad, other):
            y = F.max_pool2d(x, 3, stride)
            (scattered,) = torch.autograd.grad(y, x, grad, create_graph=True)
            return torch.autograd.grad(scattered, grad, other, create_graph=True)

        return function

    torch.use_deterministic_algorithms(deterministic)
    try:
        compare(
            gather(2), torch.randn(1, 2, 6, 6), torch.randn(1, 2, 2, 2), torch.randn(1, 2, 6, 6)
        )
        x, other = torch.randn(1, 2, 30, 30), torch.randn(1, 2, 30, 30)
        compare(gather(1), x, torch.randn(1, 2, 28, 28), other)
    finally:
        torch.use_deterministic_algorithms(False)


def test_unpool():
    x, places = F.max_pool2d(torch.randn(2, 3, 8, 8), 2, return_indices=True)
    compare(lambda x, places: F.max_unpool2d(x, places, 2), x, places)
    # Of several that go to one place the last stays.
    places = torch.randint(0, 16, (1, 2, 4, 4))
    x = torch.randn(1, 2, 4, 4)
    found = F.max_unpool2d(x.cuda(), places.cuda(), 2, output_size=(8, 8))
    assert_close(found, F.max_unpool2d(x, places, 2, output_size=(8, 8)))


def test_no_batch():
    compare(lambda x: F.max_pool2d(x, 2), torch.randn(0, 3, 4, 4))
    compare(lambda x: F.avg_pool2d(x, 2), torch.randn(0, 3, 4, 4))
    compare(lambda x: F.adaptive_avg_pool2d(x, (0, 2)), torch.randn(2, 3, 4, 4))


def test_several_blocks():
    compare(lambda x: F.max_pool2d(x, 2, return_indices=True), torch.randn(3, 5, 20, 22))
    compare(lambda x: F.avg_pool2d(x, 3, 2, 1), torch.randn(3, 5, 20, 22))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("channels", [3, 8])
@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.avg_pool2d(x, 2, 1, 1, count_include_pad=False),
        lambda x: F.adaptive_avg_pool2d(x, (1, 2)),
        lambda x: F.adaptive_max_pool2d(x, 3),
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    ],
    ids=["max", "avg", "adaptive_avg", "adaptive_max", "unpool"],
)
def test_channels_last(pool, channels, dtype):
    """Several channels are taken at a time where there are four of them."""
    torch.manual_seed(0)
    x = torch.randn(2, channels, 8, 6).to(dtype).contiguous(memory_format=torch.channels_last)
    compare(pool, x, units=4)
    assert pool(x.cuda()).is_contiguous(memory_format=torch.channels_last)
