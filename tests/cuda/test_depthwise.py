"""Depthwise convolutions by kernels of our own, against the CPU in float64."""

import pytest
from library import torch

from .test_conv_cudnn import check, tensors

F = torch.nn.functional
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
LAST = torch.channels_last
# Channels that fill no block, one and several; rows of a part of a strip, of one and of several.
SHAPES = [(2, 2, 7, 5), (1, 34, 9, 8), (3, 64, 4, 17), (1, 16, 1, 1), (2, 18, 20, 11)]
# Few channels are not laid out anew.
LAYOUTS = [*((s, True) for s in SHAPES), *((s, False) for s in SHAPES if s[1] >= 16)]


@pytest.fixture(autouse=True)
def nothing_else():
    """Check that cuDNN has computed nothing; what it would is not in these tests."""
    before = torch._C._cuda_dnn_convolutions()
    yield
    assert torch._C._cuda_dnn_convolutions() == before


def in_format(operands, is_last):
    form = {"memory_format": LAST if is_last else torch.contiguous_format}
    return [t.contiguous(**form) if t.dim() == 4 else t for t in operands]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", [3, 5, 7])
@pytest.mark.parametrize(("shape", "is_last"), LAYOUTS, ids=str)
def test_sizes(shape, size, dtype, is_last):
    channels = shape[1]
    for padding in sorted({0, size // 2, size - 1}):
        if min(shape[2:]) + 2 * padding < size:
            continue
        for biased in (False, True):
            operands = tensors(shape, (channels, 1, size, size), channels if biased else None)
            options = {"padding": padding, "groups": channels}
            found = check(
                lambda *given, o=options: F.conv2d(*given, **o), in_format(operands, is_last), dtype
            )
            form = LAST if is_last else torch.contiguous_format
            if shape[2:] != (1, 1):  # which lies in both formats
                assert all(t.is_contiguous(memory_format=form) for t in found[:2])


@pytest.mark.parametrize("biased", [False, True])
def test_transposed(biased):
    operands = tensors((2, 18, 6, 9), (18, 1, 5, 5), 18 if biased else None)
    check(
        lambda *given: F.conv_transpose2d(*given, padding=2, groups=18),
        in_format(operands, True),
        torch.float32,
    )


def test_second_derivative():
    def second(x, w):
        y = F.conv2d(x, w, padding=1, groups=16)
        grads = torch.autograd.grad(y.square().sum(), (x, w), create_graph=True)
        return grads[0].square().mean() + grads[1].square().mean()

    x, w = in_format(tensors((1, 16, 6, 6), (16, 1, 3, 3)), True)
    outcomes = []
    for device, dtype in (("cpu", torch.float64), ("cuda", torch.float32)):
        leaves = [t.to(device, dtype).requires_grad_() for t in (x, w)]
        outcomes.append(torch.autograd.grad(second(*leaves), leaves))
    for ours, exact in zip(outcomes[1], outcomes[0], strict=True):
        assert torch.allclose(ours.cpu().double(), exact, rtol=1e-3, atol=1e-4 * exact.abs().max())


def test_many_rows():
    """So many that blocks take several each, and their sums of weights are added up."""
    operands = in_format(tensors((8, 32, 40, 9), (32, 1, 3, 3)), True)
    check(lambda x, w: F.conv2d(x, w, padding=1, groups=32), operands, torch.float32)


def test_the_same_bits_in_every_run():
    x, w = (
        t.cuda().requires_grad_() for t in in_format(tensors((4, 32, 9, 9), (32, 1, 7, 7)), True)
    )
    runs = []
    for _ in range(2):
        y = F.conv2d(x, w, padding=3, groups=32)
        runs.append([y, *torch.autograd.grad(y.sum(), (x, w))])
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
