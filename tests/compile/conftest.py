"""Small models stand for large ones: what pays only for those is tested all the same."""

import pytest
from library import IS_TORCH


@pytest.fixture(autouse=True)
def as_if_large(monkeypatch):
    """Let results of any size be differentiated by a trace."""
    if IS_TORCH:
        return
    from tapegrad.compiler import _differentiable

    monkeypatch.setattr(_differentiable, "LEAST_BYTES", 0)
