"""Products that cuBLASLt computes together with GELU or its derivative: see cuda/merge.cpp.

On the emulator test_blas.py runs these with a stand-in for the library.
"""

import gc

import pytest
from library import torch

from tapegrad import _C

from .conftest import DEVICE

F = torch.nn.functional
HALVES = [torch.bfloat16, torch.float16]
ROWS, NEAR, FAR = 10, 16, 32


@pytest.fixture(autouse=True)
def small_products():
    """Hold products of any size, and leave none behind."""
    if not _C._cuda_blas_version():
        pytest.skip("there is no cuBLASLt")
    before = _C._cuda_least_held_product()
    _C._cuda_set_least_held_product(1)
    yield
    gc.collect()
    assert _C._cuda_held_calls() == 0
    _C._cuda_set_least_held_product(before)
    torch.backends.cuda.enable_merged_calls(True)


def normal(*sizes, dtype=torch.bfloat16):
    return torch.randn(sizes).to(dtype).cuda()


def merges(function):
    before = _C._cuda_merged_calls()
    found = function()
    return found, _C._cuda_merged_calls() - before


def check(function, wanted, units=2):
    """Run without merging, and with: within roundings, with the same bits in each run."""
    torch.backends.cuda.enable_merged_calls(False)
    plain, none = merges(function)
    assert none == 0
    torch.backends.cuda.enable_merged_calls(True)
    first, count = merges(function)
    assert count == wanted
    again, count = merges(function)
    assert count == wanted
    for a, b, c in zip(first, again, plain, strict=True):
        assert (a.dtype, a.shape, a.stride()) == (c.dtype, c.shape, c.stride())
        assert torch.equal(a.cpu(), b.cpu())
        a, c = a.cpu().double(), c.cpu().double()
        eps = max(torch.finfo(each.dtype).eps for each in plain)
        assert (a - c).abs().max().item() <= units * eps * max(1.0, c.abs().max().item())


def layer(near=NEAR, far=FAR, dtype=torch.bfloat16):
    torch.manual_seed(0)
    return torch.nn.Linear(near, far).cuda().to(dtype)


def gelu(x):
    return F.gelu(x, approximate="tanh")


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("sizes", [(ROWS,), (2, 5)])
def test_linear_and_gelu(dtype, sizes):
    linear, x = layer(dtype=dtype), normal(*sizes, NEAR, dtype=dtype).requires_grad_()

    def run():
        y = gelu(linear(x))
        grads = torch.autograd.grad(y.float().square().sum(), [x, *linear.parameters()])
        return [y.detach(), *grads]

    check(run, 1, units=8)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("rows", "far"), [(200, 1032), (1, 9000), (40, 264)])
def test_derivatives_and_sums_of_columns(approximate, dtype, rows, far):
    """The gradients of a linear layer's result and of its bias; sums go in another order."""
    torch.manual_seed(0)
    x, weight = normal(rows, 1, dtype=dtype), normal(far, 1, dtype=dtype)
    bias, g = normal(far, dtype=dtype), normal(rows, far, dtype=dtype)
    leaves = [each.requires_grad_() for each in (bias, weight, x)]

    def run(enabled):
        # The forward run is the same one.
        torch.backends.cuda.enable_merged_calls(False)
        y = F.gelu(F.linear(x, weight, bias), approximate=approximate)
        torch.backends.cuda.enable_merged_calls(enabled)
        return torch.autograd.grad(y, leaves, g)

    wanted = run(False)
    found, count = merges(lambda: run(True))
    assert count == 1
    again = run(True)
    assert torch.equal(found[2].cpu(), wanted[2].cpu())  # of what has the same bits
    for a, b, c in zip(found, wanted, again, strict=True):
        assert torch.equal(a.cpu(), c.cpu())
        a, b = a.cpu().double(), b.cpu().double()
        allowed = torch.finfo(dtype).eps * max(1.0, b.abs().max().item())
        assert (a - b).abs().max().item() <= allowed


def test_what_gelu_was_applied_to_is_there():
    linear, x = layer(), normal(ROWS, NEAR)
    with torch.no_grad():
        torch.backends.cuda.enable_merged_calls(False)
        wanted = linear(x)
        torch.backends.cuda.enable_merged_calls(True)
        before = linear(x)
        after, count = merges(lambda: gelu(before))
    assert count == 1
    assert torch.equal(before.cpu(), wanted.cpu())
    assert (after - gelu(wanted)).abs().max().item() < 0.05


@pytest.mark.parametrize("sizes", [(ROWS,), (2, 5)])
def test_a_chain_of_layers(sizes):
    """The gradient of the second layer's input is the one that GELU's derivative is applied to."""
    first, second, x = layer(), layer(FAR, NEAR), normal(*sizes, NEAR).requires_grad_()

    def run():
        y = second(gelu(first(x)))
        leaves = [x, *first.parameters(), *second.parameters()]
        return [y.detach(), *torch.autograd.grad(y.float().square().sum(), leaves)]

    check(run, 2, units=16)


@pytest.mark.parametrize("sizes", [(ROWS,), (2, 5)])
def test_under_autocast(sizes):
    first, second = layer(dtype=torch.float32), layer(FAR, NEAR, dtype=torch.float32)
    x = normal(*sizes, NEAR, dtype=torch.float32).requires_grad_()

    def run():
        with torch.autocast("cuda", torch.bfloat16):
            y = second(gelu(first(x)))
        leaves = [x, *first.parameters(), *second.parameters()]
        grads = torch.autograd.grad(y.float().square().sum(), leaves)
        return [y.detach(), *(grad.bfloat16() for grad in grads)]

    check(run, 2, units=16)


@pytest.mark.parametrize("what", ["erf", "no bias", "columns", "rows", "float32", "part", "read"])
def test_what_is_not_merged(what):
    """The erf form, products that the library has not, and results that somebody looks at."""
    if what == "rows" and DEVICE == "gpu":
        pytest.skip("cuBLASLt has products of any number of rows; the stand-in refuses seven")
    near, far, rows = NEAR, 12 if what == "columns" else FAR, 7 if what == "rows" else ROWS
    dtype = torch.float32 if what == "float32" else torch.bfloat16
    linear, x = layer(near, far, dtype), normal(rows, near, dtype=dtype)

    def run():
        with torch.no_grad():
            z = F.linear(x, linear.weight, None if what == "no bias" else linear.bias)
            if what == "read":
                z * 1
            if what == "part":
                z = z[1:]
            return [F.gelu(z) if what == "erf" else gelu(z)]

    torch.backends.cuda.enable_merged_calls(False)
    (wanted,) = run()
    torch.backends.cuda.enable_merged_calls(True)
    (found,), count = merges(run)
    assert count == 0
    assert torch.equal(found.cpu(), wanted.cpu())


def test_gradients_that_somebody_keeps():
    """What GELU's derivative is applied to is computed if it is asked for."""
    first, second, x = layer(), layer(FAR, NEAR), normal(2, 5, NEAR)
    kept = []

    def run():
        kept.clear()
        hidden = gelu(first(x))
        hidden.register_hook(kept.append)
        loss = second(hidden).float().square().sum()
        (grad,) = torch.autograd.grad(loss, [first.weight])
        return [grad, *kept]

    check(run, 2, units=16)
    kept.clear()


def test_second_derivatives():
    linear, x = layer(), normal(ROWS, NEAR).requires_grad_()

    def run():
        y = gelu(linear(x))
        (first,) = torch.autograd.grad(y.float().square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.float().square().sum(), linear.weight)
        return [first.detach(), second]

    check(run, 1, units=32)


def test_a_write_between():
    """Of what the product reads, and of the product."""
    linear, x = layer(), normal(ROWS, NEAR)
    with torch.no_grad():
        wanted = linear(x).cpu()
        z = linear(x)
        assert _C._cuda_held_calls() == 1
        x.zero_()
        _, count = merges(lambda: gelu(z))
        assert count == 0
        assert torch.equal(z.cpu(), wanted)
        x.copy_(normal(ROWS, NEAR))
        wanted = linear(x).cpu()
        twice = linear(x)
        twice.mul_(2)
        assert torch.equal(twice.cpu(), wanted * 2)


def test_a_product_that_fails_is_not_lost():
    """Its error says where it was called, and it runs when there is room for it."""
    if DEVICE == "gpu":
        pytest.skip("small products of cuBLASLt take no memory; those of the stand-in do")
    linear, x = layer(NEAR, 24), normal(ROWS, NEAR)
    with torch.no_grad():
        wanted = linear(x).cpu()
        torch.cuda.empty_cache()
        z = linear(x)
        assert _C._cuda_held_calls() == 1
        torch.cuda.set_per_process_memory_fraction(1e-9)
        try:
            with pytest.raises(torch.cuda.OutOfMemoryError, match="matmul, which was called at"):
                z.cpu()
            assert _C._cuda_held_calls() == 1
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        assert torch.equal(z.cpu(), wanted)


def test_checkpoints_give_the_same_bits():
    first, second, x = layer(), layer(FAR, NEAR), normal(ROWS, NEAR).requires_grad_()

    def part(x):
        return second(gelu(first(x)))

    def grads(function):
        leaves = [x, *first.parameters(), *second.parameters()]
        return torch.autograd.grad(function(x).float().square().sum(), leaves)

    def again(x):
        return torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)

    for a, b in zip(grads(part), grads(again), strict=True):
        assert torch.equal(a.cpu(), b.cpu())


def test_a_graph_gives_the_same_bits():
    first, second, x = layer(), layer(FAR, NEAR), normal(ROWS, NEAR)

    def run():
        with torch.no_grad():
            return second(gelu(first(x)))

    wanted = run().cpu()
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph, stream=stream):
        y, count = merges(run)
    assert count == 1
    graph.replay()
    assert torch.equal(y.cpu(), wanted)


def test_small_products_are_not_held():
    _C._cuda_set_least_held_product(1 << 20)
    linear, x = layer(), normal(ROWS, NEAR)
    y, count = merges(lambda: gelu(linear(x)))
    assert count == 0
    assert y.shape == (ROWS, FAR)
