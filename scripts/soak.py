"""Runs the generators of tests at full length, one after the other, and says what each covered.

    python scripts/soak.py              all parts, some hours
    python scripts/soak.py combinations only parts whose name begins so

Each part is a script of its own in tests/, prints what it covered as its last line, and fails where
it found something. A part fails the whole, and the others run all the same.
"""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
# By name: the script, with what makes it run at full length.
PARTS = {
    "random programs": [
        "tests/autograd/random_programs.py",
        *("--count", "100000", "--all", "--jobs", "2"),
    ],
    "combinations of features": ["tests/combinations/combinations.py"],
    "compositions of transforms": ["tests/autograd/compositions.py", "--all"],
    "bad calls": ["tests/bad_calls.py", "--count", "600000"],
    "agreement with PyTorch": ["tests/parity/rows.py", "--all"],
}


def run(command):
    """Run a script, showing what it prints; return its status and its last line."""
    last = ""
    with subprocess.Popen(
        [sys.executable, "-u", *command], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout:
            print("    " + line, end="", flush=True)
            last = line.strip() or last
    return process.returncode, last


def main():
    wanted = tuple(sys.argv[1:])
    rows, failed = [], False
    for name, command in PARTS.items():
        if wanted and not name.startswith(wanted):
            continue
        print(f"{name}: {' '.join(command)}", flush=True)
        begun = time.perf_counter()
        status, last = run(command)
        failed |= status != 0
        minutes = (time.perf_counter() - begun) / 60
        rows.append(f"{'ok  ' if status == 0 else 'FAIL'} {name} ({minutes:.0f} min): {last}")
    print("\nWhat was covered:")
    print("\n".join(rows) or f"nothing: expected one of {', '.join(PARTS)}")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
