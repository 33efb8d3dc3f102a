"""A world of one process, call by call beside PyTorch 2.13 with gloo."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from library import IS_TORCH, pytorch_for_parity

from distributed.calls import all_calls

PYTORCH, REASON = pytorch_for_parity()
if PYTORCH is None or IS_TORCH:
    pytest.skip(REASON or "there is nothing to compare PyTorch with", allow_module_level=True)
if not PYTORCH.distributed.is_gloo_available():
    pytest.skip("this PyTorch has no gloo to compare with", allow_module_level=True)

CALLS = all_calls()
LAUNCHERS = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMPI_",
    "PMI_",
    "SLURM_",
)


@functools.cache
def outcomes(library):
    """Return what all calls give in a library, in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("calls.py"), library],
        capture_output=True,
        text=True,
        env=environment,
        timeout=240,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("OUTCOMES ")]
    assert lines, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(lines[0].removeprefix("OUTCOMES "))


@pytest.mark.parametrize("number", range(len(CALLS)), ids=lambda i: f"{i}-{CALLS[i][:60]}")
def test_call(number):
    ours, theirs = outcomes("tapegrad")[number], outcomes("torch")[number]
    if theirs[0] == "error":
        # Whoever catches PyTorch's exception must catch this one.
        assert ours[0] == "error", f"here {ours[1]!r}, in PyTorch {theirs[1][0]}: {theirs[2]}"
        assert theirs[1][0] in ours[1], f"here {ours[1][0]}: {ours[2]}; in PyTorch {theirs}"
    else:
        assert ours == theirs
