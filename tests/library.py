"""The library under test, named in one place.

Every test reaches the library through ``from library import torch``. It is tapegrad; with the
environment variable ``TAPEGRAD_TEST_LIBRARY=torch`` the same tests run against PyTorch, which is
how a new row of the op database is proven: a row that PyTorch itself fails is a wrong row.
"""

import importlib
import importlib.util
import os

NAME = os.environ.get("TAPEGRAD_TEST_LIBRARY", "tapegrad")
IS_TORCH = NAME == "torch"
# Set by scripts/sanitize.sh, whose build keeps no pools and preloads the sanitizers' runtime.
IS_SANITIZED = "TAPEGRAD_SANITIZED" in os.environ
PARITY_VERSION = "2.13."


def import_pytorch():
    """Import PyTorch without oneDNN, whose code generation at run time fails in some sandboxes."""
    pytorch = importlib.import_module("torch")
    pytorch.backends.mkldnn.set_flags(False)
    for devices in (pytorch.cuda, pytorch.mtia, pytorch.xpu):
        # Seeds for devices that are not there are kept with the stack of each call, which takes
        # most of the time of a short test.
        if not devices.is_available():
            devices.manual_seed_all = lambda seed: None
    return pytorch


def pytorch_for_parity():
    """Return ``(PyTorch, "")``, or ``(None, reason)`` when the right release is missing."""
    if importlib.util.find_spec("torch") is None:
        return None, "PyTorch is not installed; pip install tapegrad[parity]"
    pytorch = import_pytorch()
    if not pytorch.__version__.startswith(PARITY_VERSION):
        return None, f"PyTorch {pytorch.__version__} is installed, parity is with {PARITY_VERSION}x"
    return pytorch, ""


torch = import_pytorch() if IS_TORCH else importlib.import_module(NAME)


def resolve(path, library=torch):
    """Return the object that a dotted path such as ``nn.functional.relu`` names in a library."""
    found = library
    for name in path.split("."):
        found = getattr(found, name)
    return found
