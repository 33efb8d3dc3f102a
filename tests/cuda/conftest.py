"""What the tests of the CUDA back end run on: a GPU if there is one, else the emulator.

Which of the two is decided here, when the folder is collected, which is before any test of the
session asks for CUDA: the library loads a driver once. Where there is neither, the tests are
skipped with the reason. ``TAPEGRAD_TEST_GPU=0`` takes the emulator although there is a GPU.
"""

import ctypes
import gc
import os
import zlib

import cuda_emulator
import pytest
from library import IS_TORCH, torch

SUCCESS = 0


def has_gpu():
    """Whether NVIDIA's driver finds a device; asked without tapegrad, which loads one for good."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    is_counted = driver.cuInit(0) == SUCCESS and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    return is_counted and count.value > 0


def choose():
    """Return what to run on, and why it is nothing; lets tapegrad find the emulator."""
    if IS_TORCH:
        return "", "about tapegrad's own back end"
    if "TAPEGRAD_CUDA_DRIVER" in os.environ:
        return "emulator", ""
    if os.environ.get("TAPEGRAD_TEST_GPU", "1") != "0" and has_gpu():
        return "gpu", ""
    if reason := cuda_emulator.why_unavailable():
        return "", f"no GPU, and {reason}"
    os.environ.update(cuda_emulator.environment())
    return "emulator", ""


DEVICE, REASON = choose()


# On the emulator every kernel is compiled first, and the whole folder takes an hour: `make
# test-cuda` runs it, with a tenth of the suite of rows, which takes hours. `make test` takes a
# tenth, chosen by name, without further dtypes of rows that run in one, and little of the suites
# that the CPU passes; but every file is compiled for every architecture. A GPU runs everything.
IS_SHORT = DEVICE == "emulator" and "TAPEGRAD_TEST_CUDA" not in os.environ
LONG = ("test_other_dtypes", "test_random_programs", "sm_80", "sm_100", "sm_120")
ALWAYS = (
    "test_a_few_programs",
    "test_the_run_of_the_cpu",
    "test_the_calls_of_a_graph",
    "test_gpt_2",
    "test_file_compiles",
)
SHARE, SHARE_OF_SUITES = 10, 150


def is_long(item):
    number = zlib.crc32(item.name.encode())
    is_suite = item.path.parent.name == "on_device"
    if not IS_SHORT:
        return is_suite and item.path.name == "test_ops.py" and number % SHARE > 0
    if item.originalname in ALWAYS:
        return False
    share = SHARE_OF_SUITES if is_suite else SHARE
    return any(word in item.name for word in LONG) or number % share > 0


def pytest_collection_modifyitems(config, items):
    here = os.path.dirname(__file__)
    if part := os.environ.get("TAPEGRAD_TEST_PART"):  # "3/12": scripts/sanitize_cuda.py
        number, count = map(int, part.split("/"))
        mine = [zlib.crc32(item.nodeid.encode()) % count == number for item in items]
        config.hook.pytest_deselected(
            items=[item for item, is_mine in zip(items, mine, strict=True) if not is_mine]
        )
        items[:] = [item for item, is_mine in zip(items, mine, strict=True) if is_mine]
    for item in items:
        if not str(item.path).startswith(here):
            continue
        if not DEVICE:
            item.add_marker(pytest.mark.skip(reason=REASON))
        elif DEVICE == "emulator" and is_long(item):
            item.add_marker(pytest.mark.skip(reason="long: make test-cuda runs it, or a GPU"))


@pytest.fixture(autouse=True)
def clean_device():
    """Start with nothing kept, and end on the device and the stream of the beginning."""
    if not DEVICE:
        yield
        return
    gc.collect()
    torch.cuda.empty_cache()
    for index in range(torch.cuda.device_count()):
        torch.cuda.reset_peak_memory_stats(index)
        torch.cuda.reset_accumulated_memory_stats(index)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # numbers are compared
        yield
    assert torch.cuda.current_device() == 0, "a test left another device"
    assert torch.cuda.current_stream() == torch.cuda.default_stream(), "a test left another stream"


@pytest.fixture
def emulator():
    """Skip where work is not held back until somebody waits for it, as only the emulator does."""
    if DEVICE != "emulator":
        pytest.skip("a GPU does not wait to be asked")


@pytest.fixture
def two_devices():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two devices")
