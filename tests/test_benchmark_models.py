"""The models that benchmarks train: every row runs, and the libraries agree on its values."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from library import IS_SANITIZED, IS_TORCH

if IS_TORCH:
    pytest.skip("about tapegrad's own benchmarks", allow_module_level=True)

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.cuda_models import curves, report  # noqa: E402
from benchmarks.cuda_models.cases import all_cases  # noqa: E402


def run(out, *words, **environment):
    """Run the program with sizes of a few elements; return its results by row and library."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cuda_models", "--tiny", "--out", str(out), *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(out.with_suffix(".json").read_text())
    return json.loads(out.with_suffix(".json").read_text()), done.stdout


@pytest.mark.skipif(IS_SANITIZED, reason="starts processes of its own")
def test_every_row_runs_and_agrees_with_pytorch(tmp_path):
    has_torch = importlib.util.find_spec("torch") is not None
    only = () if has_torch else ("--only", "tapegrad")
    results, shown = run(tmp_path / "table.md", "--device", "cpu", *only)
    cases = all_cases()
    assert list(results) == list(cases)
    for row, found in results.items():
        libraries = {"tapegrad"} if cases[row].is_ours or not has_torch else {"tapegrad", "torch"}
        assert set(found) == libraries
        for library, result in found.items():
            assert "error" not in result, (row, library, result)
        if len(libraries) == 2:
            assert len(found["tapegrad"]["values"]) >= 2, row
            assert report.difference(found) <= cases[row].tolerance, (row, found)
        assert f"| {row} |" in shown
    for row in ("tape/budget_40_percent", "tape/offload_40_percent"):
        assert results[row]["tapegrad"]["is_same"]


@pytest.mark.skipif(IS_SANITIZED, reason="starts processes of its own")
def test_a_row_that_fails_is_told_and_the_next_one_runs(tmp_path):
    # There is no GPU that the process could see.
    words = ("--device", "cuda", "--only", "tapegrad", "--case", "small_gpt")
    results, shown = run(tmp_path / "table.md", *words, TAPEGRAD_CUDA_DRIVER="/no/such/driver")
    assert len(results) == 3
    for found in results.values():
        assert "driver" in found["tapegrad"]["error"]
    assert "| error |" in shown


@pytest.mark.skipif(IS_SANITIZED, reason="starts processes of its own")
def test_a_profile_of_a_row(tmp_path):
    out = tmp_path / "profile.txt"
    words = ("--profile", "small_gpt/float32", "--tiny", "--device", "cpu", "--out", str(out))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cuda_models", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "matmul" in done.stdout and "by op and shapes" in done.stdout
    assert "networks.py" in done.stdout  # by line
    assert "Self CPU time total" in out.read_text()
    assert json.loads(out.with_suffix(".trace.json").read_text())["traceEvents"]


def test_targets_are_about_what_was_measured():
    def result(seconds, **more):
        return {"seconds": seconds, "spread": 0.0, "memory": 10**9, "values": [1.0], **more}

    results = {
        "gpt2/autocast": {"tapegrad": result(0.05), "torch.compile": result(0.06)},
        "small_gpt/bfloat16": {"tapegrad": result(0.002)},
        "small_gpt/autocast": {"tapegrad": result(0.0025)},
        "conv/3x3_64": {"tapegrad": result(0.002), "torch": result(0.001)},
        "linear_gelu/layers.tanh.forward": {"tapegrad": {"error": "x"}, "torch": result(1.0)},
        "tape/budget_40_percent": {"tapegrad": result(1.0, ratio=1.2, is_same=False)},
    }
    found = {promise: holds for promise, _, holds in report.targets(results)}
    assert found == {
        "gpt2/autocast: at most 61 ms": True,
        "gpt2/autocast: faster than torch.compile": True,
        "gpt2/autocast: at most 20 GB": True,
        "conv/3x3_64: at least 1.0 times PyTorch's speed": False,
        "autocast on a small GPT: at most 10 % more": False,
        "tape/budget_40_percent: at most 1.25 times, gradients equal": False,
    }
    text = report.text(results, all_cases())
    assert "| conv/3x3_64 | 1 ms |" in text and "NOT MET" in text


def test_curves_are_compared_with_the_spread_of_pytorch():
    base = [float(10 - k / 10) for k in range(60)]
    theirs = {"plain": base, "a": [x + 0.1 for x in base], "b": [x - 0.1 for x in base]}
    part, words = curves.compared({"plain": [x + 0.05 for x in base]}, theirs)
    assert part == pytest.approx(0.05 / 0.15) and "0.0500" in words
    part, _ = curves.compared({"plain": [x + 0.3 for x in base]}, theirs)
    assert part == pytest.approx(2.0)


def test_values_that_differ_are_told():
    case = all_cases()["conv/3x3_64"]
    both = {"tapegrad": {"values": [1.0, 2.0]}, "torch": {"values": [1.0, 2.5]}}
    assert report.agreement(both, case) == "2.0e-01 TOO FAR"
    both["torch"]["values"] = [1.0, 2.001]
    assert report.agreement(both, case) == "5.0e-04"
    both["torch"]["values"] = [1.0]
    assert "TOO FAR" in report.agreement(both, case)
    both["torch"]["values"] = [float("nan"), 2.0]
    assert "TOO FAR" in report.agreement(both, case)
