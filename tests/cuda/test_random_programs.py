"""Random programs on a CUDA device do what they do on the CPU; see autograd/random_programs.py."""

import warnings

import pytest
from autograd.random_programs import check

FEW, BATCHES, PROGRAMS_IN_BATCH = 2, 20, 50


def run(seeds):
    """Compare values to rounding, dtypes, layouts, versions, views, hooks and refusals."""
    sweeps = 0
    for seed in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome, report = check(seed, device="cuda")
        assert report is None, report
        assert not outcome.unsteady, f"{seed}: rounding decides too much"
        sweeps += outcome.sweeps
    assert sweeps > len(seeds)


def test_a_few_programs():
    run(range(FEW))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_programs(batch):
    run(range(batch * PROGRAMS_IN_BATCH, (batch + 1) * PROGRAMS_IN_BATCH))
