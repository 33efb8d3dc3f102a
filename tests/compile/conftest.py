"""Small models stand for large ones: what pays only for those is tested all the same."""

import pytest
from library import IS_TORCH


@pytest.fixture(autouse=True)
def as_if_large(monkeypatch):
    """Let results of any size be differentiated by a trace, and any value be made again."""
    if IS_TORCH:
        return
    import sys

    from tapegrad.compiler import _differentiable

    monkeypatch.setattr(_differentiable, "LEAST_BYTES", 0)
    recompute = sys.modules["tapegrad.compiler.passes.recompute"]
    monkeypatch.setattr(recompute, "_LEAST_BYTES", 1)
    monkeypatch.setattr(recompute, "_LEAST_GAIN", 0.0)
