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
    (2, 50_304),
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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_half(sizes, dtype):
    x, target, weight = operands(sizes)
    compare(loss_of(target, None), x.to(dtype), units=2)
    compare(loss_of(target, weight.to(dtype), label_smoothing=0.1), x.to(dtype), units=2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_leaves_half_logits_as_they_are(dtype):
    """The loss is float32 as if they had been cast, and no copy of them in float32 is made."""
    x, target, weight = operands((64, 5000))
    x, target, weight = x.to(dtype).cuda().requires_grad_(), target.cuda(), weight.cuda()
    wide = x.detach().float().requires_grad_()
    for of_classes in (None, weight):
        wanted = F.cross_entropy(wide, target, of_classes, label_smoothing=0.1)
        (wanted_grad,) = torch.autograd.grad(wanted, wide)
        del wanted
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        with torch.autocast("cuda", dtype):
            loss = F.cross_entropy(x, target, of_classes, label_smoothing=0.1)
        (grad,) = torch.autograd.grad(loss, x)
        assert torch.cuda.max_memory_allocated() - before < 1.2 * x.nbytes
        assert loss.dtype is torch.float32 and grad.dtype is dtype
        # Probabilities and what smoothing takes from them may cancel, and small numbers are coarse.
        facts = torch.finfo(dtype)
        allowed = facts.eps * wanted_grad.abs() + 1e-5 * wanted_grad.abs().mean()
        allowed += facts.eps * facts.smallest_normal
        assert ((grad.float() - wanted_grad).abs() <= allowed).all()


def test_second_derivative_under_autocast():
    x, target, _ = operands((5, 7))
    x = x.bfloat16()

    def squared_gradient(x):
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(x, target.to(x.device))
        (grad,) = torch.autograd.grad(loss, x, create_graph=True)
        return grad.float().square().sum()

    y = x.cuda().requires_grad_()
    (found,) = torch.autograd.grad(squared_gradient(y), y)
    exact = x.double().requires_grad_()
    (grad,) = torch.autograd.grad(F.cross_entropy(exact, target), exact, create_graph=True)
    (wanted,) = torch.autograd.grad(grad.square().sum(), exact)
    assert (found.double().cpu() - wanted).abs().max() < 0.02 * wanted.abs().max()


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
