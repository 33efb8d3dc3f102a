"""The switch: scripts, processes and tests for which ``import torch`` means tapegrad."""

import os
import re
import subprocess
import sys

import pytest
from library import IS_TORCH

if IS_TORCH:
    pytest.skip("the switch is tapegrad's", allow_module_level=True)

SCRIPT = """\
import importlib.metadata, importlib.util, pickle, subprocess, sys

assert importlib.metadata.version("torch") == "2.13.0+tapegrad"
assert importlib.util.find_spec("torch.nn.functional") is not None
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.modules.linear, torch.optim.adamw, torch.utils.data.dataloader
from torch import Tensor
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

import tapegrad

assert torch is tapegrad and nn is tapegrad.nn and F is tapegrad.nn.functional
assert pickle.loads(b"ctorch.nn.modules.linear\\nLinear\\n.") is nn.Linear
assert torch.optim.adamw.AdamW is torch.optim.AdamW
assert nn.__spec__.name == "tapegrad.nn"
assert torch.__name__ == "torch" and torch.torch is torch
assert torch.__version__ == torch.version.__version__ == "2.13.0+tapegrad"

model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
schedule = StepLR(optimizer, 1)
for x, y in DataLoader(TensorDataset(torch.ones(4, 2), torch.zeros(4, 1)), batch_size=2):
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
schedule.step()
assert type(model(x)) is Tensor

child = "import torch.nn, tapegrad; assert torch is tapegrad; print(torch.__version__)"
assert subprocess.check_output([sys.executable, "-c", child], text=True) == "2.13.0+tapegrad\\n"
print("done", __name__, sys.argv[1:])
"""

PROBES = """\
import torch

torch.hasattr_of_nothing if hasattr(torch, "nothing_at_all") else None
try:
    torch.nn.Nonsense
except AttributeError as error:
    print(error)
try:
    from torch.no_such_part import something
except ModuleNotFoundError as error:
    print(error.name)
try:
    from torch.nn import Nonsense
except ImportError:
    from torch.utils import tensorboard
raise SystemExit(3)
"""


def run(*words, folder, **environment):
    path = os.pathsep.join(p for p in sys.path if p)
    given = {**os.environ, "PYTHONPATH": path, **environment}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True)


def switched(*words, folder):
    return run("-m", "tapegrad.compat", "run", *words, folder=folder)


def test_a_script_and_its_children_see_tapegrad(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    done = switched("train.py", "--report", "x", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "done __main__ ['--report', 'x']\n"


def test_a_module_is_run_by_its_name(tmp_path):
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "__main__.py").write_text("import torch; print(torch.__version__)")
    done = switched("-m", "part", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "2.13.0+tapegrad\n")


def test_what_is_missing_is_reported(tmp_path):
    (tmp_path / "probe.py").write_text(PROBES)
    done = switched("--report", "probe.py", folder=tmp_path)
    assert done.returncode == 3
    said, part = done.stdout.splitlines()
    assert said.startswith("module 'torch.nn' has no attribute 'Nonsense': tapegrad stands in")
    assert part == "torch.no_such_part"
    rows = [line.split() for line in done.stderr.splitlines() if line.startswith("  ")]
    assert rows == [
        ["torch.nothing_at_all", "probe.py:3"],
        ["torch.nn.Nonsense", "probe.py:5"],
        ["torch.no_such_part", "probe.py:9"],
        ["torch.nn.Nonsense", "probe.py:13"],
    ]


def test_the_traceback_begins_in_the_script(tmp_path):
    (tmp_path / "bad.py").write_text("import torch\ntorch.ones(2) + torch.ones(3)\n")
    done = switched("bad.py", folder=tmp_path)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0].startswith("Traceback") and 'bad.py", line 2' in lines[1]


def test_a_script_that_is_not_there(tmp_path):
    done = switched("nothing.py", folder=tmp_path)
    assert (done.returncode, done.stderr) == (1, "tapegrad run: there is no file nothing.py\n")


def test_torch_that_was_imported_before_is_not_replaced(tmp_path):
    (tmp_path / "torch.py").write_text("")
    program = "import torch, tapegrad.compat.torch as switch; switch.install()"
    done = run("-c", program, folder=tmp_path)
    assert done.returncode == 1
    assert "RuntimeError: install: PyTorch was imported already, from" in done.stderr


def test_tapegrad_alone_leaves_torch_alone():
    program = (
        "import sys, tapegrad, tapegrad.compat; assert 'torch' not in sys.modules; "
        "assert not any('stand_in' in p for p in sys.path); print(tapegrad.__version__)"
    )
    from tapegrad._version import __version__

    assert run("-c", program, folder=None).stdout == f"{__version__}\n"


def test_tests_written_for_torch(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import tapegrad, torch\ndef test_it():\n    assert torch is tapegrad\n"
        "    assert not hasattr(torch, 'nothing_at_all')\n"
    )
    words = ("-p", "tapegrad.compat.pytest", "--torch-report", "-p", "no:cacheprovider")
    done = run("-m", "pytest", *words, "test_it.py", folder=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "torch is tapegrad " in done.stdout and "1 passed" in done.stdout
    assert re.search(r"torch\.nothing_at_all +test_it\.py:4\n", done.stdout)
