"""The libraries that the tests of this folder run against, one at a time or side by side."""

import functools
import importlib

import pytest
from library import IS_TORCH, pytorch_for_parity


@functools.cache
def pytorch():
    """Return PyTorch or why not, with the parts loaded that its first step imports."""
    library, reason = pytorch_for_parity()
    if library is not None:
        x = library.ones(1, requires_grad=True)
        x.sum().backward()
        library.optim.SGD([x]).step()
    return library, reason


@pytest.fixture(params=["tapegrad", "torch"])
def torch(request):
    """Give the library under test; PyTorch is skipped when missing."""
    if request.param == "tapegrad":
        if IS_TORCH:
            pytest.skip("this run is of PyTorch alone")
        return importlib.import_module("tapegrad")
    library, reason = pytorch()
    if library is None:
        pytest.skip(reason)
    return library


@pytest.fixture
def tapegrad():
    """Give tapegrad, for what has no counterpart."""
    if IS_TORCH:
        pytest.skip("this run is of PyTorch alone")
    return importlib.import_module("tapegrad")


@pytest.fixture
def both(tapegrad):
    """Give tapegrad and PyTorch, to be compared."""
    library, reason = pytorch()
    if library is None:
        pytest.skip(reason)
    return tapegrad, library
