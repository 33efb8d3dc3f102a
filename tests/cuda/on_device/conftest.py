"""The suites of ops and autograd on a CUDA device: the same tests, with tensors made there."""

import pytest
from library import torch as library

from cuda.conftest import IS_SHORT
from cuda.missing import ROWS_WITHOUT_KERNELS

# Ten thousand tests, which take a while to be collected: test_op_db.py has the rows in short.
ROWS = ("ops", "op_checkpoints", "op_gradients", "op_transforms", "compositions")
collect_ignore = [f"test_{name}.py" for name in ROWS] if IS_SHORT else []

OF_THE_CPU = "is about the memory of the CPU"
LATER = "an index out of range is an error of the next synchronisation, not of the call"
# Tests that say something else of a device, and why.
OTHERWISE = {
    "test_a_batch_too_large_to_address_is_refused": "the device's memory ends before addresses do",
    "test_backward_may_run_outside_the_block": "NumPy holds no memory of a device",
    "test_calls_that_fail_are_counted": LATER,
    "test_live_bytes_stay_flat_over_transforms": OF_THE_CPU,
    "test_memory_is_that_of_the_kept_results": OF_THE_CPU,
    "test_memory_of_every_second_product": OF_THE_CPU,
    "test_random_numbers": "looks at the generator of the CPU",
}


def pytest_collection_modifyitems(items):
    for item in items:
        reason = OTHERWISE.get(getattr(item, "originalname", None))
        row = getattr(getattr(item, "callspec", None), "params", {}).get("op")
        if getattr(row, "name", None) in ROWS_WITHOUT_KERNELS:
            reason = "no kernel, which tests/cuda/test_op_db.py hears"
        if reason and item.path.parent.name == "on_device":
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def tensors_on_the_device(clean_device):
    library.set_default_device("cuda")
    yield
    library.set_default_device(None)
    library.cuda.synchronize()  # an error of a kernel belongs to the test that launched it


@pytest.fixture
def torch():
    """Give the library under test, which tests/autograd runs beside PyTorch."""
    yield library
    assert library.is_grad_enabled(), "a test left gradient recording off"
    assert not library.is_inference_mode_enabled(), "a test left inference mode on"
