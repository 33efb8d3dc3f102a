"""The libraries that every test of this folder runs against, one by one or side by side."""

import functools
import importlib
import warnings

import pytest
from library import IS_TORCH, pytorch_for_parity


@functools.cache
def import_quietly():
    """Return PyTorch or why not, on one thread."""
    library, reason = pytorch_for_parity()
    if library is not None:
        library.set_num_threads(1)
        with warnings.catch_warnings(), library.autograd.forward_ad.dual_level():
            warnings.simplefilter("ignore")  # The first dual number compiles rules, with warnings.
            library.autograd.forward_ad.make_dual(library.ones(1), library.ones(1))
    return library, reason


@pytest.fixture(params=["tapegrad", "torch"])
def torch(request):
    """Give the library under test, seeded; PyTorch is skipped when missing."""
    if request.param == "tapegrad":
        if IS_TORCH:
            pytest.skip("this run is of PyTorch alone")
        library = importlib.import_module("tapegrad")
    else:
        library, reason = import_quietly()
        if library is None:
            pytest.skip(reason)
    library.manual_seed(0)
    yield library
    assert library.is_grad_enabled(), "a test left gradient recording off"


@pytest.fixture
def both():
    """Give tapegrad and PyTorch, for tests that compare what the two return."""
    if IS_TORCH:
        pytest.skip("this run is of PyTorch alone")
    library, reason = import_quietly()
    if library is None:
        pytest.skip(reason)
    libraries = importlib.import_module("tapegrad"), library
    for each in libraries:
        each.manual_seed(0)
    return libraries
