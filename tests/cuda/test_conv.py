"""Convolution on a CUDA device, against the CPU."""

import pytest
from library import torch

from .comparing import compare

F = torch.nn.functional
CASES = {
    1: [
        ((2, 3, 11), (5, 3, 3), {}),
        ((2, 4, 11), (6, 2, 4), {"stride": 2, "padding": 3, "groups": 2}),
        ((1, 1, 9), (1, 1, 3), {"dilation": 2, "padding": 1}),
    ],
    2: [
        ((2, 3, 7, 8), (5, 3, 3, 3), {}),
        ((2, 3, 7, 8), (5, 3, 3, 3), {"stride": 2, "padding": 1}),
        ((2, 3, 9, 8), (4, 3, 3, 2), {"stride": (1, 2), "padding": (2, 0), "dilation": (2, 1)}),
        ((2, 6, 7, 8), (6, 1, 3, 3), {"padding": 1, "groups": 6}),
        ((2, 3, 7, 8), (6, 1, 3, 3), {"padding": 1, "groups": 3}),
        ((2, 8, 6, 5), (8, 4, 3, 3), {"padding": 1, "groups": 2}),
        ((2, 5, 6, 7), (7, 5, 1, 1), {}),
        ((2, 6, 6, 7), (4, 3, 1, 1), {"groups": 2}),
        ((2, 3, 8, 8), (5, 3, 1, 1), {"stride": 2}),
        ((1, 20, 9, 9), (40, 20, 3, 3), {"padding": 1}),
    ],
    3: [
        ((1, 2, 5, 4, 6), (3, 2, 3, 2, 3), {"padding": 1}),
        ((1, 4, 5, 4, 6), (4, 1, 2, 2, 2), {"stride": 2, "groups": 4}),
    ],
}


def conv(rank):
    return {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]


def transposed(rank):
    return {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[rank]


CALLS = [(rank, *case) for rank, cases in CASES.items() for case in cases]


@pytest.mark.parametrize(("rank", "x", "w", "options"), CALLS, ids=str)
@pytest.mark.parametrize("biased", [False, True])
def test_conv(rank, x, w, options, biased):
    torch.manual_seed(0)
    bias = torch.randn(w[0]) if biased else None
    compare(
        lambda x, w, b: conv(rank)(x, w, b, **options),
        torch.randn(x),
        torch.randn(w),
        bias,
        units=128,
    )


@pytest.mark.parametrize(("rank", "x", "w", "options"), CALLS, ids=str)
@pytest.mark.parametrize("biased", [False, True])
def test_transposed(rank, x, w, options, biased):
    torch.manual_seed(0)
    x = (x[0], w[0], *x[2:])
    bias = torch.randn(w[1] * options.get("groups", 1)) if biased else None
    compare(
        lambda x, w, b: transposed(rank)(x, w, b, **options),
        torch.randn(x),
        torch.randn(w),
        bias,
        units=128,
    )


def test_output_padding():
    x, w = torch.randn(1, 3, 4, 5), torch.randn(3, 2, 3, 3)
    compare(
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
        x,
        w,
        units=128,
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_dtypes(dtype):
    x, w = torch.randn(2, 3, 6, 6).to(dtype), torch.randn(5, 3, 3, 3).to(dtype)
    compare(lambda x, w: F.conv2d(x, w, padding=1), x, w, units=32)


def test_sum_in_parts():
    """The gradient of the weights adds up so many places that blocks share the sum."""
    x, w = torch.randn(2, 3, 20, 20), torch.randn(6, 3, 3, 3)
    compare(lambda x, w: F.conv2d(x, w, padding=1), x, w, units=256)


def test_no_images():
    compare(lambda x, w: F.conv2d(x, w), torch.randn(0, 3, 5, 5), torch.randn(4, 3, 3, 3))


def test_second_derivative():
    def second(x, w):
        return torch.autograd.grad(
            F.conv2d(x, w, stride=2, padding=1),
            (x, w),
            torch.ones(1, 4, 3, 3).to(x.device),
            create_graph=True,
        )

    compare(second, torch.randn(1, 3, 6, 6), torch.randn(4, 3, 3, 3), units=128)
