"""A short form of ``python tests/bad_calls.py``: bad calls to every public callable, seeded."""

import pytest
from bad_calls import run_calls
from library import IS_SANITIZED, IS_TORCH

COUNT = 6_000 if IS_SANITIZED else 40_000


@pytest.mark.skipif(IS_TORCH, reason="PyTorch crashes in some of these calls")
def test_bad_calls_are_refused_or_answered():
    found = [f"{problem}\n    {call}" for _, problem, call in run_calls(0, 0, COUNT)]
    assert not found, "\n".join(found[:20])
