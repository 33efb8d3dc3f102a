"""2,000 random programs give what they give in PyTorch; see `random_programs`."""

import re
import warnings

import pytest
from library import torch

from .random_programs import (
    LONGEST,
    REASON,
    SHORTEST,
    Comparison,
    check,
    generate,
    pytorch,
    shrink,
    source,
)

if pytorch is None:
    pytest.skip(REASON, allow_module_level=True)

BATCHES, PROGRAMS_IN_BATCH = 20, 100
INPUTS = 6
MOST_EXCUSED, MOST_UNVERIFIED, MOST_UNSTEADY = 10, 1, 1


@pytest.fixture(autouse=True)
def quiet_pytorch():
    """PyTorch on one thread, without its warnings: what is compared is what happens."""
    threads = pytorch.get_num_threads()
    pytorch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    pytorch.set_num_threads(threads)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_programs(batch):
    """Of the differences that are intended there may be a few, nearly all of them verified."""
    outcomes = []
    for seed in range(batch * PROGRAMS_IN_BATCH, (batch + 1) * PROGRAMS_IN_BATCH):
        outcome, report = check(seed)
        assert report is None, report
        outcomes.append(outcome)
    assert sum(outcome.sweeps for outcome in outcomes) > PROGRAMS_IN_BATCH
    assert sum(outcome.refused for outcome in outcomes) > PROGRAMS_IN_BATCH / 5
    assert sum(outcome.excused for outcome in outcomes) <= MOST_EXCUSED
    assert sum(outcome.unverified for outcome in outcomes) <= MOST_UNVERIFIED
    assert sum(outcome.unsteady for outcome in outcomes) <= MOST_UNSTEADY


def test_programs_are_varied():
    """Long and short ones, many ops, writes, views, hooks, modes, sweeps and sweeps of sweeps."""
    programs = [generate(seed) for seed in range(100)]
    lengths = [len(lines) - INPUTS for lines in programs]
    text = "\n".join(source(lines) for lines in programs)
    assert SHORTEST <= min(lengths) < 20
    assert max(lengths) >= LONGEST  # Without the sweeps at the end.
    assert len(set(re.findall(r"[.](\w+)\(", text))) > 120
    for sign in (
        "no_grad",
        "requires_grad_(",
        "register_hook",
        "create_graph",
        "retain_graph",
        "retain_grad",
        ".backward(",
        ".backward(create_graph=True)",
        ".unbind(",
        "apart(",
        "AddInPlace.apply(",
        "index_copy_(",
        "masked_scatter_(",
        "cumprod_(",
        "del v",
        "(torch.ones((), requires_grad=True))",
        "] = ",
        "] += ",
        "float32",
        "int64",
        "bool",
    ):
        assert sign in text, f"no program has {sign}"


def test_the_same_seed_gives_the_same_program():
    assert generate(3) == generate(3)
    assert generate(3) != generate(4)


def test_a_difference_is_found_and_shrunk():
    """A program that looks at what differs on purpose is cut down to the lines that matter."""
    if torch is pytorch:
        pytest.skip("PyTorch does not differ from itself")
    lines = [
        "v0 = torch.tensor([1.0, 2.0])",
        "v1 = v0 * 2",
        "v2 = v1 + (1 if 'tapegrad' in torch.__name__ else 2)",
        "v3 = v2 * v1",
    ]
    outcome = Comparison(lines).run()
    assert outcome.step == 2
    assert outcome.mismatch.startswith("v2: [3.0, 5.0] here, [4.0, 6.0] there")
    assert shrink(lines) == lines[:3]
