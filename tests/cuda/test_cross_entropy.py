"""Cross entropy on a CUDA device, against the CPU: each way that its kernels have."""

import math

import pytest
from library import torch

from .comparing import compare

F = torch.nn.functional

# By one block; rows by warps, aligned and not; rows by blocks; rows too long for registers; lines
# that are not rows, by blocks and by threads; so many that several blocks add them up.
SIZES = [
    (10,),
    (32, 10),
    (2, 5, 3),
    (300, 10),
    (260, 33),
    (3, 2048),
    (2, 1501),
    (2, 17_000),
    (2, 1100, 3),
    (2, 3, 8500),
    (8500, 3),
]


def operands(sizes, dtype=torch.float32):
    torch.manual_seed(0)
    x = torch.randn(sizes, dtype=dtype)
    dim = min(len(sizes) - 1, 1)
    target = torch.randint(sizes[dim], sizes[:dim] + sizes[dim + 1 :])
    if target.numel() > 3:
        target.view(-1)[1::3] = -100
    return x, target, torch.rand(sizes[dim], dtype=dtype) + 0.5


def loss_of(target, weight, **options):
    """A function of the input alone: the others go along to its device."""
    return lambda x: F.cross_entropy(
        x, target.to(x.device), None if weight is None else weight.to(x.device), **options
    )


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_loss_and_gradient(sizes, reduction):
    x, target, _ = operands(sizes)
    compare(loss_of(target, None, reduction=reduction), x, units=32)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_weights_and_smoothing(sizes, smoothing):
    x, target, weight = operands(sizes, torch.float64)
    compare(loss_of(target, weight, label_smoothing=smoothing), x, units=256)
    compare(loss_of(target, None, label_smoothing=0.1, reduction="sum"), x, units=256)


@pytest.mark.parametrize("row", [[-math.inf] * 2, [math.inf, 1.0], [math.nan, 1.0], [-math.inf, 3]])
def test_infinities(row):
    for times in (1, 1000, 9000):
        x = torch.tensor([row] * 2).repeat(1, times)
        compare(loss_of(torch.tensor([0, 1]), None, reduction="none"), x)


def test_nothing_counts():
    x = torch.randn(3, 4)
    compare(loss_of(torch.full((3,), -100), None), x)
    compare(loss_of(torch.zeros(0, dtype=torch.int64), None), torch.randn(0, 4))
    compare(loss_of(torch.zeros(0, dtype=torch.int64), None, reduction="sum"), torch.randn(0, 4))


def test_large_numbers():
    """Probabilities have all their digits, however large the greatest element is."""
    x, target, _ = operands((4, 50))
    compare(loss_of(target, None), 1e4 + 8 * x)


def test_half():
    x, target, _ = operands((6, 9))
    compare(loss_of(target, None), x.half(), units=2)


def test_second_derivative():
    x, target, weight = operands((5, 7), torch.float64)

    def squared_gradient(x):
        loss = loss_of(target, weight, label_smoothing=0.1)(x)
        (grad,) = torch.autograd.grad(loss, x, create_graph=True)
        return grad.square().sum()

    compare(squared_gradient, x)


@pytest.mark.parametrize("sizes", [(4, 5), (300, 5), (3, 2048)], ids=str)
def test_a_target_out_of_range(sizes):
    x, target, _ = operands(sizes)
    target[2] = sizes[1]
    F.cross_entropy(x.cuda(), target.cuda())
    with pytest.raises(IndexError, match=f"Target {sizes[1]} is out of bounds. There are"):
        torch.cuda.synchronize()
    torch.cuda.synchronize()
