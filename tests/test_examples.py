"""Every example runs, and its last line says that it worked."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from library import IS_TORCH, NAME

FOLDER = Path(__file__).parents[1] / "examples"
LAST_LINES = {
    "cnn_digits": r"\d+\.\d% of digits never seen are read right, after .* s of training",
    "gradient_penalty": r"the critic measures the distance to \d\.\d%",
    "hessian_vector_product": r"the film is the catenoid to \S+e-0[5-9], .*",
    "implicit_layer": r"the implicit layer learns",
    "meta_learning": r"learned to learn: \S+ times less error from the same steps",
    "per_sample_gradients": r"the same as one by one to \d\.\de(-1[3-9]|\+00)",
    "spiral": r"accuracy [01]\.\d+ after 3000 steps in .* s",
}
SHORT = {"cnn_digits"}  # These are run with fewer steps and a lower goal.
NEEDS = {"cnn_digits": "sklearn"}


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
    options = [*(["--short"] if name in SHORT else []), "--library", NAME]
    run = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py"), *options],
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
