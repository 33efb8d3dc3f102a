"""PyTorch's own op database, from the installed release: functions with samples of their calls.

`torch.testing._internal` needs the package `expecttest` for tests of its own, which are not run
here; where it is missing, an empty module stands for it.
"""

import importlib
import importlib.util
import sys
import types
import unittest
from functools import cache

from library import pytorch_for_parity

pytorch, REASON = pytorch_for_parity()


@cache
def databases():
    """Return the modules of the database."""
    if importlib.util.find_spec("expecttest") is None and "expecttest" not in sys.modules:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    return importlib.import_module("torch.testing._internal.common_methods_invocations")


@cache
def infos():
    """Return the rows of the database by their names, `name` or `name:variant`."""
    return {
        info.name + (f":{info.variant_test_name}" if info.variant_test_name else ""): info
        for info in databases().op_db
    }


@cache
def module_infos():
    """Return the rows of modules by their names, `nn.Linear`."""
    databases()
    modules = importlib.import_module("torch.testing._internal.common_modules").module_db
    return {f"nn.{info.module_cls.__name__}": info for info in modules}
