"""``tapegrad train --device cuda``: the run of the CPU, elsewhere."""

import json
import os
import subprocess
import sys

import pytest
from cli.conftest import book, command, flattened, folder, numbers  # noqa: F401
from library import IS_SANITIZED, torch

SMALL = (
    *("--layers", "1", "--width", "16", "--heads", "2", "--context", "8", "--batch", "3"),
    *("--every", "2", "--warmup", "1", "--lr", "0.01", "--dropout", "0.2", "--steps", "4"),
    *("--sample-tokens", "5"),
)
GPT2 = (
    *("--preset", "gpt2", "--layers", "1", "--width", "16", "--heads", "2", "--context", "8"),
    *("--vocabulary", "260", "--batch", "2", "--accumulate", "2", "--warmup", "1", "--lr", "0.01"),
    *("--sample-tokens", "3", "--every", "3", "--steps", "3", "--device", "cuda"),
)


@pytest.fixture
def train(command, monkeypatch):  # noqa: F811
    """Give a function that trains a tiny model and expects it to work; it writes little."""
    from tapegrad.cli import trainer

    monkeypatch.setattr(trainer, "_EVALUATED", 6)

    def run(*words):
        status, shown, errors = command("train", *words)
        assert status == 0, errors
        return shown

    return run


def test_the_run_of_the_cpu(train, command, folder):  # noqa: F811
    """Weights, data and dropout are the same: losses agree to rounding. Then it goes on."""
    train("--text", "text.txt", "--out", "here", *SMALL)
    shown = train("--text", "text.txt", "--out", "there", *SMALL, "--device", "cuda")
    name = torch.cuda.get_device_name()
    assert f"device cuda:0, {name}" in shown and "of cuda:0\n" in shown
    assert json.loads((folder / "there" / "config.json").read_text())["device"] == "cuda"
    page = (folder / "there" / "report.html").read_text(encoding="utf-8")
    assert name in page and "memory of the GPU, peak" in page
    for mine, other in zip(numbers(folder / "there"), numbers(folder / "here"), strict=True):
        assert mine == pytest.approx(other, rel=1e-4)
    lines = (folder / "there" / "metrics.jsonl").read_text().splitlines()
    assert 0 < json.loads(lines[-1])["memory"] < 2**24  # of the device, not of the process

    words = ("sample", "there", "--tokens", "4", "--seed", "3")
    assert command(*words, "--device", "cuda") == command(*words)

    train("--resume", "there", "--steps", "5", "--device", "cpu")
    train("--resume", "here", "--steps", "5", "--device", "cuda")
    last = [numbers(folder / run)[-1] for run in ("there", "here")]
    assert last[0] == pytest.approx(last[1], rel=1e-4) and last[0]["step"] == 5


def test_gpt_2(train, command, folder, monkeypatch):  # noqa: F811
    """In bfloat16, in parts, with no wait in a step; a run that was cut is the same to the bit."""
    from tapegrad.cli.trainer import Trainer

    take_step = Trainer.take_step

    def take_step_without_waiting(self):
        if self.step > 0:  # the first makes the optimizer's state
            torch.cuda.set_sync_debug_mode("error")
        try:
            return take_step(self)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(Trainer, "take_step", take_step_without_waiting)
    words = ("--text", "text.txt", *GPT2)
    shown = train(*words, "--out", "whole", "--peak-tflops", "0.01")
    assert "step   2 x 2 x 8 = 32 tokens in bfloat16\n" in shown
    assert "260 different" in shown and "MFU " in shown
    page = (folder / "whole" / "report.html").read_text(encoding="utf-8")
    assert "model FLOP utilisation of 0.01 TFLOP/s, median" in page
    train(*words, "--out", "cut", "--budget", "0.5", "--minutes", "0.000001")
    train("--resume", "cut")
    assert numbers(folder / "cut") == numbers(folder / "whole")
    states = [torch.load(folder / run / "checkpoint.safetensors") for run in ("whole", "cut")]
    first, second = (flattened({"m": s["model"], "o": s["optimizer"]["state"]}) for s in states)
    assert first.keys() == second.keys() and len(first) > 30
    assert all(torch.equal(value, second[name]) for name, value in first.items())


def test_out_of_memory(command, folder):  # noqa: F811
    """The model fits, a batch does not."""
    before = torch.cuda.memory_reserved()
    limit = (before + (6 << 20)) / torch.cuda.get_device_properties().total_memory
    torch.cuda.set_per_process_memory_fraction(limit)
    try:
        words = ("--text", "text.txt", "--out", "run", *SMALL, "--batch", "4096")
        status, _, errors = command("train", *words, "--device", "cuda")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert status == 1 and errors.count("\n") == 1
    assert errors.startswith("tapegrad train: out of memory at step ")
    assert "--batch 2048 --accumulate 2 (the same steps in smaller parts)" in errors


@pytest.mark.skipif(IS_SANITIZED, reason="its child needs the sanitizer's runtime")
def test_without_a_gpu(tmp_path):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "TAPEGRAD_CUDA_DRIVER": "/nonexistent/libcuda.so.1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tapegrad", "train", "--device", "cuda"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith("tapegrad train: --device cuda: ")
    assert "NVIDIA's driver was not found" in done.stderr and done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["gpu", "meta", "cuda:x", "cuda:99"])
def test_other_devices(command, name):  # noqa: F811
    status, _, errors = command("train", "--device", name)
    assert status == 1 and errors.count("\n") == 1
    assert errors.startswith("tapegrad train: --device")
    assert ("expected cpu, cuda or cuda:N" in errors) == (name != "cuda:99")
