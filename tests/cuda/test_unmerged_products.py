"""Products that are held and meet nobody, or that must not be held: see cuda/merge.cpp.

On the emulator test_blas.py runs these with a stand-in for cuBLASLt.
"""

import pytest
from library import torch

from .test_merged_products import gelu, layer, merges, normal, small_products  # noqa: F401


@pytest.mark.parametrize("count", [1, 3])
def test_products_whose_results_are_dropped_run_all_the_same(count):
    """Into memory of their own, which is what can be seen of it."""
    a, b = normal(24, 16), normal(16, 32)
    (a @ b).cpu()

    def allocations(keeps):
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        kept = [a @ b for _ in range(count)]
        if keeps:
            torch.cuda.synchronize()
        del kept
        return torch.cuda.memory_stats()["allocation.all.allocated"] - before

    assert allocations(keeps=True) == count
    assert allocations(keeps=False) == 2 * count


def test_deterministic_algorithms_give_the_bits_of_single_calls():
    linear, x = layer(), normal(10, 16).requires_grad_()

    def run():
        y = gelu(linear(x))
        return [y.detach(), *torch.autograd.grad(y.sum(), [x, *linear.parameters()])]

    torch.backends.cuda.enable_merged_calls(False)
    wanted = run()
    torch.backends.cuda.enable_merged_calls(True)
    torch.use_deterministic_algorithms(True)
    try:
        found, count = merges(run)
        with torch.tape.budget("1 MiB"):
            under_budget = run()
    finally:
        torch.use_deterministic_algorithms(False)
    assert count == 0
    for a, b, c in zip(found, wanted, under_budget, strict=True):
        assert torch.equal(a, b) and torch.equal(a, c)
