"""Every example runs, and its last line says that it worked."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from library import IS_TORCH

FOLDER = Path(__file__).parents[1] / "examples"
LAST_LINES = {
    "cnn_digits": r"\d+\.\d% of digits never seen are read right, after .* s of training",
    "digits": r"\d+\.\d% of digits never seen are read right, after .* s",
    "gan_gradient_penalty": r"[6-8] of 8 clusters covered, \d+% of points near one",
    "hessian_vector_product": r"the film is the catenoid to \S+e-0[5-9], .*",
    "implicit_layer": r"the implicit layer learns",
    "lstm_time_series": r"the forecast of 10 values is \S+ times better than the last value",
    "maml": r"learned to learn: \S+ times less error from the same steps",
    "neural_ode": r"the whole spiral is found to 0\.\d+ on average, from its start alone",
    "per_sample_gradients": r"the same as one by one to \d\.\de(-1[3-9]|\+00)",
    "pinn": r"the network solves the heat equation to \S+e-0\d of the exact solution",
    "reinforce": r"mean return of the last ten rounds: \S+ balanced steps of 200",
    "spiral": r"accuracy [01]\.\d+ after 3000 steps in .* s",
    "tree_recursive": r"\d+\.\d% of expressions of 6 levels are right, after training on 4",
    "vae": r"a digit costs \d+\.\d nats less than its pixels alone",
}
# These are run as they are; the others have a form with fewer steps and a lower goal.
WHOLE = {"hessian_vector_product", "implicit_layer", "per_sample_gradients", "spiral"}
# Of examples on PyTorch: the same file, with torch under the name that it imports.
RUN_ON_TORCH = """
import runpy, sys, torch
sys.modules["tapegrad"] = torch
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
AS_TORCH = ["-c", RUN_ON_TORCH] if IS_TORCH else []
NEEDS = {"cnn_digits": "sklearn", "digits": "sklearn", "vae": "sklearn"}


def test_every_example_is_run():
    assert sorted(LAST_LINES) == sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", sorted(LAST_LINES))
def test_example(name):
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed; pip install tapegrad[test]")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONWARNINGS": "default" if IS_TORCH else "error",
    }
    run = subprocess.run(
        [sys.executable, *AS_TORCH, FOLDER / f"{name}.py", *([] if name in WHOLE else ["--short"])],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    last = run.stdout.rstrip().rsplit("\n", maxsplit=1)[-1]
    assert re.fullmatch(LAST_LINES[name], last), run.stdout


def test_an_example_that_fails_says_so():
    run = subprocess.run(
        [sys.executable, str(FOLDER / "spiral.py"), "--steps", "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert "--steps: expected at least 1, got 0" in run.stderr


@pytest.mark.parametrize("name", sorted(LAST_LINES))
def test_help_says_what_the_example_shows(name):
    run = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py"), "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0
    first = (FOLDER / f"{name}.py").read_text(encoding="utf-8").split("\n")[0].strip('"')
    assert " ".join(first.split()) in " ".join(run.stdout.split())
