"""A short run of the allocator's stress, whose long one is `stress_allocator.py`."""

import pytest
from library import torch

from . import stress_allocator

KIB = 1 << 10


def test_contents_stay():
    stress, wrong = stress_allocator.run(300, largest=3 << 20, limit=16 << 20)
    assert wrong == 0 and stress.allocations == 300
    assert stress.shared > 10 and stress.flushes > 0 and stress.out_of_memory > 0
    assert not stress.live and torch.cuda.memory_allocated() <= 4 * 512


def test_what_is_handed_out_too_early_is_found(emulator):
    """On the emulator, whose streams run when they are waited for, that is certain."""
    _, wrong = stress_allocator.run(400, seed=1, largest=2 * KIB, forgets=True)
    assert wrong > 0
    _, wrong = stress_allocator.run(400, seed=1, largest=2 * KIB)
    assert wrong == 0


@pytest.mark.parametrize("seed", range(3))
def test_small_ones(seed):
    _, wrong = stress_allocator.run(300, seed=seed, largest=4 * KIB)
    assert wrong == 0
