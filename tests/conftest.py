"""Fixtures shared by all tests."""

import pytest
from library import torch


@pytest.fixture(autouse=True)
def fresh_state():
    """Start every test from the same seed, with recording on and the usual default dtype."""
    torch.manual_seed(0)
    yield
    assert torch.is_grad_enabled(), "a test left gradient recording off"
    assert torch.get_default_dtype() is torch.float32, "a test left another default dtype"
