"""`tapegrad train` as several processes."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from distributed.processes import MPIEXEC

import tapegrad as torch
from tapegrad.cli.errors import UserError
from tapegrad.cli.team import Team

needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None,
    reason="needs mpi4py and mpiexec",
)
SMALL = "--batch 8 --accumulate 2 --context 16 --layers 1 --width 16 --heads 2 --every 3 --warmup 2"


def train(processes, *words, status=0):
    """Train, and return what was noted of the steps."""
    command = ["launch", "-n", str(processes), "--quiet", "-m", "tapegrad"]
    done = subprocess.run(
        [sys.executable, "-m", "tapegrad", *command, "train", *map(str, words), "--quiet"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done


def curve(run):
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [r for r in records if "loss" in r]
    return [[r["step"], r["loss"], r["grad_norm"], r.get("val_loss")] for r in steps]


@needs_mpi
def test_the_curve_is_that_of_one_process(tmp_path):
    found = {}
    for count in (1, 2, 4):
        out = tmp_path / str(count)
        train(count, "--out", out, "--steps", 5, "--dropout", 0, *SMALL.split())
        found[count] = curve(out)
        assert len(found[count]) == 5
    for count in (2, 4):
        for ours, theirs in zip(found[count], found[1], strict=True):
            numbers = [value for value in ours if value is not None]
            assert numbers == pytest.approx([v for v in theirs if v is not None], rel=2e-5)
            assert (ours[3] is None) == (theirs[3] is None)


@needs_mpi
def test_a_run_of_two_goes_on_to_the_same_bits(tmp_path):
    options = ["--dropout", 0.1, *SMALL.split()]
    train(2, "--out", tmp_path / "whole", "--steps", 6, *options)
    train(2, "--out", tmp_path / "parts", "--steps", 6, *options, "--minutes", 1e-6)
    assert len(curve(tmp_path / "parts")) < 6
    train(2, "--resume", tmp_path / "parts")
    assert curve(tmp_path / "parts") == curve(tmp_path / "whole")
    before, after = (
        torch.load(tmp_path / name / "checkpoint.safetensors")["model"]
        for name in ("whole", "parts")
    )
    assert all(torch.equal(before[name], after[name]) for name in before)
    train(1, "--resume", tmp_path / "parts", "--steps", 7)  # also by another number
    assert len(curve(tmp_path / "parts")) == 7


@needs_mpi
def test_batches_that_cannot_be_divided(tmp_path):
    done = train(2, "--out", tmp_path / "run", "--batch", 3, status=1)
    assert "--batch 3 cannot be divided among 2 processes" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_team_of_one_is_alone():
    team = Team()
    assert team.is_first and team.part(5) == slice(0, 5) and team.gather(3) == [3]
    assert team.agree(True) and not team.agree(False) and team.share("x") == "x"
    model = torch.nn.Linear(1, 1)
    assert team.wrapped(model) is model
    team.leave()


@pytest.mark.parametrize("size", [2, 3, 4])
def test_parts_are_all_of_a_batch(size):
    rows = list(range(12))
    parts = [rows[Team(rank, size).part(12)] for rank in range(size)]
    assert [row for part in parts for row in part] == rows
    with pytest.raises(UserError, match="choose a multiple of"):
        Team(0, size).part(13)


@pytest.mark.parametrize("shuffle", [False, True])
def test_samplers_are_the_same_each_time_and_divide_the_data(shuffle):
    def order(rank, epoch, size=3):
        sampler = torch.utils.data.DistributedSampler(
            range(11), num_replicas=size, rank=rank, shuffle=shuffle, seed=4
        )
        sampler.set_epoch(epoch)
        return list(sampler)

    for epoch in range(2):
        parts = [order(rank, epoch) for rank in range(3)]
        assert parts == [order(rank, epoch) for rank in range(3)], "also in a run that goes on"
        assert {len(part) for part in parts} == {4}
        assert {row for part in parts for row in part} == set(range(11))
    assert (order(0, 0) == order(0, 1)) == (not shuffle)
    # Steps of one global batch hold the same data for every number of processes.
    alone = order(0, 0, size=1)
    pairs = zip(order(0, 0, size=2), order(1, 0, size=2), strict=True)
    assert [list(pair) for pair in pairs][:5] == [alone[i : i + 2] for i in range(0, 10, 2)]
