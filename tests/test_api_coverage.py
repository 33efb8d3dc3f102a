"""`python -m tapegrad.compat.coverage`: every name has a state, and every absent one a reason."""

import re
import subprocess
import sys

import pytest
from library import IS_TORCH, pytorch_for_parity, torch

if IS_TORCH:
    pytest.skip("PyTorch has all its names", allow_module_level=True)

from tapegrad.compat import coverage, reasons

ROOT_SCRIPT = "collect_torch_api.py"


def run(*arguments, capsys):
    status = coverage.main(list(arguments))
    return status, capsys.readouterr().out


def test_importing_the_library_does_not_load_it():
    code = "import sys, tapegrad; sys.exit('tapegrad.compat' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(pytorch_for_parity()[0] is None, reason="reads the installed PyTorch")
def test_the_list_is_that_of_pytorch():
    script = coverage.NAMES.parents[2] / "scripts" / ROOT_SCRIPT
    if not script.is_file():
        pytest.skip("the scripts are not installed")
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_names():
    names = coverage.names()
    assert len(names) == len(set(names)) > 3500
    assert {"torch.add", "torch.Tensor.add_", "torch.nn.Linear", "torch.fft.fft"} <= set(names)
    assert all(name.startswith("torch.") for name in names)


def test_every_absent_name_has_a_reason(capsys):
    assert run("--check", capsys=capsys) == (0, "")


def test_states():
    entries = {entry.path: entry for entry in coverage.entries()}
    assert entries["torch.add"].state == "present"
    assert entries["torch.autograd.Function.saved_tensors"].state == "present"
    assert entries["torch.nn.DataParallel"].state == "limited"
    assert entries["torch.optim.SparseAdam"].state == "present"
    assert entries["torch.distributed.rpc.RRef"].state == "refused"
    assert entries["torch.distributed.rpc.RRef"].text
    assert all(entry.text for entry in entries.values() if entry.state != "present")


def test_reasons_and_limits_are_of_something():
    short = [name.removeprefix("torch.") for name in coverage.names()]
    for table in (reasons.REASONS, reasons.LIMITS):
        for pattern, text in table.items():
            assert any(re.fullmatch(pattern, name) for name in short), pattern
            assert len(text) > 8


def test_limited_names_are_there():
    """A limit of a name that is gone would go unseen."""
    for pattern in reasons.LIMITS:
        known = [n for n in coverage.names() if re.fullmatch(pattern, n.removeprefix("torch."))]
        assert any(map(coverage.is_there, known)), pattern


def test_a_table_of_all_modules(capsys):
    status, out = run(capsys=capsys)
    assert status == 0
    assert out.splitlines()[0].split() == ["present", "limited", "refused"]
    assert out.splitlines()[-1].split()[0] == "all"
    counted = sum(int(number) for number in out.splitlines()[-1].split()[1:])
    assert counted == len(coverage.names())


def test_a_name_and_a_module(capsys):
    assert run("add", capsys=capsys) == (0, "torch.add  yes\n")
    status, out = run("torch.export.save", capsys=capsys)
    assert status == 1 and out.startswith("torch.export.save  no: ")
    status, out = run("--module", "nn.init", capsys=capsys)
    assert status == 0 and "torch.nn.init" in out and "torch.linalg" not in out
    assert run("no_such_name", capsys=capsys)[0] == 1


def test_missing_and_limited(capsys):
    _, out = run("--missing", "--module", "optim", capsys=capsys)
    assert "torch.optim.swap_in_optimizer" in out and "torch.optim.Adam " not in out
    _, out = run("--limited", capsys=capsys)
    assert "torch.nn.DataParallel" in out and "with limits: of one device" in out


def test_what_a_program_uses(tmp_path, capsys):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\nimport torch.nn.functional as F\nfrom torch import nn, optim as o\n"
        "nn.Linear(1, 1)\nF.relu(torch.ones(2).sum())\ntorch.float32.is_signed\n"
        "o.swap_in_optimizer_params_and_state()\n"
    )
    assert coverage.used_by(program) == [
        "torch.float32",
        "torch.nn",
        "torch.nn.Linear",
        "torch.nn.functional.relu",
        "torch.ones",
        "torch.optim",
        "torch.optim.swap_in_optimizer_params_and_state",
    ]
    status, out = run(str(program), capsys=capsys)
    assert status == 1 and "torch.optim.swap_in_optimizer_params_and_state" in out


def test_help(capsys):
    with pytest.raises(SystemExit) as left:
        coverage.main(["--help"])
    assert left.value.code == 0
    out = capsys.readouterr().out
    assert "examples:" in out and "--missing" in out and "what a program uses" in out


def test_find():
    assert coverage.find("torch.nn.Linear") is torch.nn.Linear
    with pytest.raises(LookupError, match="nothing"):
        coverage.find("torch.nothing")
