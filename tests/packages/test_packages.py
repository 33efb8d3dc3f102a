"""Packages that were written for PyTorch run under the switch and give the numbers of PyTorch.

``make test-packages`` installs them without PyTorch and runs this; where TAPEGRAD_PACKAGES_PYTHON
is an interpreter, it is the one that has them. A package that is not there is skipped.
"""

import functools
import json
import math
import os
import subprocess
import sys

import pytest
from library import IS_TORCH

from packages.table import TASKS, differences, normal, pins, rows_of

if IS_TORCH:
    pytest.skip("the switch is tapegrad's", allow_module_level=True)

PYTHON = os.environ.get("TAPEGRAD_PACKAGES_PYTHON", sys.executable)
INSTALLED = """\
import json
from importlib.metadata import distributions
print(json.dumps({each.metadata["Name"]: each.version for each in distributions()}))
"""


@functools.cache
def installed():
    listing = subprocess.check_output([PYTHON, "-c", INSTALLED], text=True, timeout=60)
    return {normal(name): version for name, version in json.loads(listing).items()}


@pytest.mark.parametrize("task", TASKS, ids=[task.package for task in TASKS])
def test_numbers_are_pytorchs(task, tmp_path):
    found, wanted = installed().get(task.package), pins()[task.package]
    if found != wanted:
        pytest.skip(f"{task.package} {wanted} is not installed; make test-packages installs it")
    needed = pins().keys() - {each.package for each in TASKS} - installed().keys()
    if needed:
        pytest.skip(f"what packages import is not installed: {', '.join(sorted(needed))}")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [PYTHON, "-m", "tapegrad", "run", task.script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "torch 2.13.0+tapegrad\n" in done.stdout
    expected = json.loads(task.expected.read_text("utf-8"))
    wrong = differences(rows_of(done.stdout), expected, task.tolerance)
    assert not wrong, "\n".join(wrong)


@pytest.mark.skipif("transformers" not in installed(), reason="transformers is not installed")
def test_pytorch_is_not_needed():
    names = "transformers", "timm", "torchmetrics", "lightning", "accelerate"
    there = [name for name in names if name in installed()]
    script = (
        "import sys, importlib.machinery\n"
        "assert importlib.machinery.PathFinder.find_spec('torch') is None, 'PyTorch is there'\n"
        "import tapegrad.compat.torch as switch\n"
        f"switch.install()\nimport torch, {', '.join(there)}\n"
        "assert torch.__version__ == switch.VERSION\n"
    )
    if "torch" in installed():
        pytest.skip("PyTorch is installed beside the packages")
    done = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("task", TASKS, ids=[task.package for task in TASKS])
def test_each_task_is_complete(task):
    rows = json.loads(task.expected.read_text("utf-8"))
    assert task.package in pins() and task.what
    assert len(rows) >= 2 and all(rows.values())
    assert all(math.isfinite(value) for row in rows.values() for value in row)


def test_differences_are_found():
    good = {"a": [1.0, -2.0], "b": [0.0]}
    assert differences(good, {"a": [1.0, -2.00001], "b": [0.0]}, 1e-5) == []
    assert differences(good, {"a": [1.001, -2.0], "b": [0.0]}, 1e-4) == ["a[0]: 1.0, not 1.001"]
    assert differences({"a": [math.nan]}, {"a": [1.0]}, 1.0) == ["a[0]: nan, not 1.0"]
    assert differences({"a": [1.0]}, {"a": [1.0, 2.0]}, 1.0) == ["a: 1 numbers, not 2"]
    assert differences({}, {"a": [1.0]}, 1.0) == ["a: only on one side"]
    assert rows_of('text\n{"a": [1.0]}\n{"b": [2.0]}\n') == {"a": [1.0], "b": [2.0]}
