"""Fails one of four processes at random instants, in random ways; the others must say so in time.

The job is started again, and must end with the losses of one that nobody has disturbed.

Usage: python tests/distributed/random_faults.py [TIMES] [SEED]
"""

import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = Path(__file__).parent / "fault_program.py"
MODES = ("kill", "stop", "shape", "order", "number", "raise")
RANKS, STEPS, TIMEOUT = 4, 12, 5


def launch(*words):
    """Run the program; return its losses by step, what it wrote to stderr, and the seconds."""
    begin = time.monotonic()
    command = [sys.executable, "-m", "tapegrad", "launch", "-n", str(RANKS), "--restarts", "1"]
    done = subprocess.run(
        [*command, "--timeout", str(TIMEOUT), str(PROGRAM), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    losses = {int(i): float(loss) for i, loss in re.findall(r"STEP (\d+) \d (\S+)", done.stdout)}
    return losses, done.stderr, time.monotonic() - begin


def main(times, seed):
    """Print a line for each fault."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        expected, _, alone = launch("none", 0, 0, STEPS, Path(folder, "expected"))
        for number in range(times):
            mode, victim, at = rng.choice(MODES), rng.randrange(RANKS), rng.randrange(1, STEPS)
            path = Path(folder, str(number))
            losses, errors, seconds = launch(mode, victim, at, STEPS, path)
            named = set(re.findall(r"DistBackendError: torch\.distributed, rank (\d)", errors))
            others = {str(rank) for rank in range(RANKS) if rank != victim}
            assert named >= others, f"{mode} of {victim} at {at}: {named}\n{errors}"
            assert losses.keys() == expected.keys()
            differ = {i for i in losses if abs(losses[i] - expected[i]) > 1e-6}
            assert not differ or min(differ) >= at - 1, f"steps {differ} before {mode} at {at}"
            if mode in ("kill", "stop", "raise"):
                assert not differ, f"{mode} of {victim} at {at}: steps {differ}"
            print(
                f"{number:3} {mode:6} rank {victim} step {at:2}: {seconds - 2 * alone:5.1f} s more"
            )


if __name__ == "__main__":
    words = [int(word) for word in sys.argv[1:]]
    main(*(words + [50, 0][len(words) :]))
