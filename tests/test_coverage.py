"""What README and docs/coverage.md say about missing names is true."""

import importlib.util
import runpy
from pathlib import Path

import pytest
from library import IS_TORCH

if IS_TORCH:
    pytest.skip("PyTorch has all its names", allow_module_level=True)

from tapegrad.compat import coverage, reasons

SCRIPT = Path(__file__).parents[1] / "scripts" / "coverage.py"
COVERAGE = runpy.run_path(str(SCRIPT))


@pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is None,
    reason="torch.utils.tensorboard needs tensorboard; pip install tapegrad[test]",
)
def test_page_and_sentence_are_those_of_today(capsys):
    status = COVERAGE["main"](["--check"])
    assert (status, capsys.readouterr().out) == (0, "")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch.ones", True),
        ("torch.nn", True),
        ("torch.nn.functional.relu", True),
        ("torch.utils.data.DataLoader", True),
        ("torch.Tensor.add_", True),
        ("torch.optim.Optimizer.param_groups", True),
        ("torch.autograd.Function.save_for_backward", True),
        ("torch.autograd.Function.saved_tensors", True),
        ("torch.no_such_name", False),
        ("torch.no_such_module.ones", False),
        ("torch.Tensor.no_such_method", False),
        ("torch.optim.SparseAdam", True),
        ("torch.fx.symbolic_trace", True),
    ],
)
def test_is_there(name, expected):
    assert COVERAGE["is_there"](name) is expected


def test_refused_names_are_among_those_of_the_list():
    listed = {name.name for name in COVERAGE["read"](COVERAGE["NAMES"])} | set(coverage.names())
    assert listed >= reasons.ONLY_REFUSES


def test_a_new_list_is_read_as_it_was_written(tmp_path):
    names = COVERAGE["read"](COVERAGE["NAMES"])
    COVERAGE["write"](names, tmp_path / "names.csv")
    assert COVERAGE["read"](tmp_path / "names.csv") == names
