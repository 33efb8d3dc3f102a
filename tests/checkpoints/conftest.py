"""The libraries that the tests of this folder run against, with the same assertions."""

import importlib

import pytest
from library import IS_TORCH, pytorch_for_parity


def library_named(name):
    """Return a library, seeded; PyTorch is skipped when missing."""
    if name == "tapegrad":
        if IS_TORCH:
            pytest.skip("this run is of PyTorch alone")
        library = importlib.import_module("tapegrad")
    else:
        library, reason = pytorch_for_parity()
        if library is None:
            pytest.skip(reason)
        library.set_num_threads(1)
    library.manual_seed(0)
    return library


@pytest.fixture(params=["tapegrad", "torch"])
def torch(request):
    """Give the library under test."""
    return library_named(request.param)


@pytest.fixture
def ours():
    """Give tapegrad, for what PyTorch does not have."""
    return library_named("tapegrad")


@pytest.fixture
def pytorch():
    """Give PyTorch, for files that it writes or reads."""
    return library_named("torch")
