"""The libraries that every test of this folder runs against, with the same assertions."""

import functools
import importlib
import warnings

import pytest
from library import IS_TORCH, pytorch_for_parity


@functools.cache
def import_quietly():
    """Return PyTorch or why not, with the rules loaded that its first dual number compiles."""
    library, reason = pytorch_for_parity()
    if library is not None:
        with warnings.catch_warnings(), library.autograd.forward_ad.dual_level():
            warnings.simplefilter("ignore")
            library.autograd.forward_ad.make_dual(library.ones(1), library.ones(1))
    return library, reason


@pytest.fixture(params=["tapegrad", "torch"])
def torch(request):
    """Give the library under test, seeded; PyTorch on one thread, and skipped when missing."""
    if request.param == "tapegrad":
        if IS_TORCH:
            pytest.skip("this run is of PyTorch alone")
        library = importlib.import_module("tapegrad")
    else:
        library, reason = import_quietly()
        if library is None:
            pytest.skip(reason)
    threads = library.get_num_threads()
    if request.param == "torch":
        library.set_num_threads(1)
    library.manual_seed(0)
    yield library
    library.set_num_threads(threads)
    assert library.is_grad_enabled(), "a test left gradient recording off"
    assert not library.is_inference_mode_enabled(), "a test left inference mode on"
