"""Names that a module lacks: those that PyTorch has say so, others are what they always were."""

import importlib

import pytest
from library import IS_TORCH, torch

pytestmark = pytest.mark.skipif(IS_TORCH, reason="about tapegrad's own messages")

OF_TORCH = [
    ("tapegrad", "sspaddmm"),
    ("tapegrad", "export"),
    ("tapegrad.nn.functional", "grouped_mm"),
]


@pytest.mark.parametrize(("module", "name"), OF_TORCH)
def test_name_of_torch_says_where_to_look(module, name):
    path = f"torch{module.removeprefix('tapegrad')}.{name}"
    with pytest.raises(AttributeError) as caught:
        getattr(importlib.import_module(module), name)
    said = str(caught.value)
    assert said.startswith(f"module '{module}' has no attribute '{name}' yet, which PyTorch has")
    assert said.endswith(f"`python -m tapegrad.compat.coverage {path}` says more")


@pytest.mark.parametrize("module", ["tapegrad", "tapegrad.nn", "tapegrad.optim", "tapegrad.fft"])
def test_other_names_are_plain_errors_that_python_can_mend(module):
    with pytest.raises(AttributeError) as caught:
        importlib.import_module(module).nonsense  # noqa: B018
    assert str(caught.value) == f"module '{module}' has no attribute 'nonsense'"
    assert caught.value.name == "nonsense"
    assert caught.value.obj is importlib.import_module(module)


def test_asking_with_hasattr_and_default_still_works():
    assert not hasattr(torch, "export")
    assert getattr(torch.nn, "nonsense", 3) == 3
    with pytest.raises(ImportError):
        importlib.import_module("tapegrad.nn.nonsense")
