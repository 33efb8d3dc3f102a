"""The libraries that the tests of this folder run against, with the same assertions."""

import importlib

import pytest
from library import IS_SANITIZED, IS_TORCH, pytorch_for_parity


@pytest.fixture(params=["tapegrad", "torch"])
def torch(request):
    """Give the library under test, seeded; PyTorch is skipped when missing."""
    if request.param == "tapegrad":
        if IS_TORCH:
            pytest.skip("this run is of PyTorch alone")
        library = importlib.import_module("tapegrad")
    else:
        library, reason = pytorch_for_parity()
        if library is None:
            pytest.skip(reason)
        if IS_SANITIZED:
            pytest.skip("a worker forked beside PyTorch's threads may wait for a sanitizer's lock")
    library.manual_seed(0)
    return library


@pytest.fixture
def data(torch):
    """Give the library's torch.utils.data."""
    return torch.utils.data
