"""A small text, settings that train in a blink, and ways to start the command."""

import gzip
import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import settings
from library import IS_TORCH, torch

# The same examples each time, however busy the machine is.
settings.register_profile("calm", deadline=None, derandomize=True)
settings.load_profile("calm")

TINY = (
    *("--layers", "1", "--width", "16", "--heads", "2", "--context", "16", "--batch", "4"),
    *("--every", "10", "--warmup", "5", "--lr", "0.01", "--dropout", "0.1", "--steps", "30"),
)
TIMES = {"tokens_per_second", "seconds", "memory", "mfu"}  # what depends on the machine


def pytest_collection_modifyitems(items):
    if IS_TORCH:
        skip = pytest.mark.skip(reason="the command is tapegrad's own")
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(skip)


@pytest.fixture(scope="session")
def book():
    """Give the text that comes with the package."""
    return gzip.decompress((files("tapegrad.cli") / "texts" / "books.txt.gz").read_bytes())


@pytest.fixture
def folder(tmp_path, monkeypatch, book):
    """Work in an empty folder with a small text, text.txt."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_bytes(book[:20000])
    return tmp_path


@pytest.fixture
def command(folder, capsys):
    """Give a function that runs the command in this process: exit status, output, errors."""
    from tapegrad.cli import main

    def run(*words):
        capsys.readouterr()
        try:
            status = main([str(word) for word in words])
        except SystemExit as leaving:  # argparse leaves
            status = leaving.code
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture
def train(command):
    """Give a function that trains the tiny model on the small text and expects it to work."""

    def run(out, *options):
        status, shown, errors = command(
            "train", "--text", "text.txt", "--out", out, *TINY, *options
        )
        assert status == 0, errors
        return shown

    return run


ACT_AT_STEP_13 = """
import os, resource, signal, sys
from tapegrad.cli import main
from tapegrad.cli.trainer import Trainer

take_step = Trainer.take_step

def act_and_take_step(self):
    if self.step == 13:
        {action}
    return take_step(self)

Trainer.take_step = act_and_take_step
sys.exit(main(sys.argv[1:]))
"""


def start(*words, cwd, action=None, **options):
    """Start the command as a program of its own, outside the checkout.

    Args:
        words: the command line.
        cwd: where it runs.
        action: a statement that runs before step 14.
        options: those of Popen.
    """
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONWARNINGS": "error",
    }
    script = ["-c", ACT_AT_STEP_13.format(action=action)] if action else ["-m", "tapegrad"]
    return subprocess.Popen(
        [sys.executable, *script, *map(str, words)],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def numbers(run):
    """Return the metrics of a run without what depends on the machine."""
    lines = read_lines(run / "metrics.jsonl")
    return [{k: v for k, v in line.items() if k not in TIMES} for line in lines]


def flattened(value, path=""):
    """Return the leaves of nested dicts and lists by their path."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    else:
        return {path: value}
    return {k: v for key, item in items for k, v in flattened(item, f"{path}/{key}").items()}


def assert_same_run(a, b):
    """Two runs agree in every number, every sample and every bit of their state."""
    assert numbers(a) == numbers(b)
    assert (a / "samples.jsonl").read_bytes() == (b / "samples.jsonl").read_bytes()
    assert (a / "config.json").read_bytes() == (b / "config.json").read_bytes()
    first, second = (flattened(torch.load(run / "checkpoint.safetensors")) for run in (a, b))
    del first["/seconds"], second["/seconds"]
    assert first.keys() == second.keys()
    for path, value in first.items():
        if isinstance(value, torch.Tensor):
            assert value.numpy().tobytes() == second[path].numpy().tobytes(), path
        else:
            assert value == second[path], path
