"""The hot path of this checkout beside that of another one: what did a change cost?

    python benchmarks/against.py ../former --repeats 5
    python benchmarks/against.py ../former --instructions

Both checkouts need their native module in place. Processes take turns, one thread each; the figure
is the ratio of the medians, this one's time to the other's. With --instructions it is the ratio of
instructions, counted by valgrind: the same on a busy machine, so that one percent shows.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[1]
CASES = {
    "recorded add of 4 floats": "for _ in range(n * 100): a + b",
    "chain of 100 muls, forward and backward": (
        "for _ in range(n):\n    y = a\n    for _ in range(100): y = y * a\n    y.sum().backward()"
    ),
    "x * x + sin(x), forward and backward": (
        "for _ in range(n * 20): (x * x + x.sin()).sum().backward()"
    ),
    "MLP 64-64-64-10, batch 32, Adam step": (
        "for _ in range(n):\n    optimizer.zero_grad()\n"
        "    loss = torch.nn.functional.cross_entropy(model(batch), labels)\n"
        "    loss.backward()\n    optimizer.step()"
    ),
}
PROGRAM = """
import sys, time
import tapegrad as torch
torch.set_num_threads(1)
a, b = torch.ones(4, requires_grad=True), torch.ones(4)
x = torch.randn(4, requires_grad=True)
torch.manual_seed(0)
layers = [torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU()]
model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters())
batch, labels = torch.randn(32, 64), torch.arange(32) % 10
exec("def run(n):\\n" + "\\n".join("    " + line for line in sys.argv[1].split("\\n")), globals())
run(int(sys.argv[2]))
start = time.perf_counter()
run(int(sys.argv[3]))
print(time.perf_counter() - start)
"""


def run(checkout: Path, case: str, warm_up: int, count: int, *tool: str) -> tuple[str, str]:
    # The safe path keeps the folder this is called from out of the way of the checkout.
    environment = os.environ | {
        "PYTHONPATH": str(checkout),
        "PYTHONHASHSEED": "0",
        "PYTHONSAFEPATH": "1",
    }
    command = [*tool, sys.executable, "-c", PROGRAM, case, str(warm_up), str(count)]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    return done.stdout, done.stderr


def seconds(checkout: Path, case: str) -> float:
    return float(run(checkout, case, 200, 6000)[0])


def instructions(checkout: Path, case: str) -> int:
    """What `case` costs beyond starting up: a long run less a short one."""
    tool = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
    totals = []
    for count in (20, 120):
        _, report = run(checkout, case, 20, count, *tool)
        totals.append(int(re.search(r"Collected : (\d+)", report).group(1)))
    return totals[1] - totals[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("other", type=Path, help="the checkout to compare with")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--instructions", action="store_true", help="count, with valgrind")
    options = parser.parse_args()
    if not list((options.other / "tapegrad").glob("_C*.so")):
        parser.error(f"{options.other}: expected a checkout with its native module built")
    for name, case in CASES.items():
        if options.instructions:
            before, now = instructions(options.other.resolve(), case), instructions(HERE, case)
            print(f"{name:42} {now / before:.4f}  ({before:,} to {now:,})", flush=True)
            continue
        other, this = [], []
        for _ in range(options.repeats):
            other.append(seconds(options.other.resolve(), case))
            this.append(seconds(HERE, case))
        ratio = statistics.median(this) / statistics.median(other)
        print(f"{name:42} {ratio:.3f}  (fastest {min(this) / min(other):.3f})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
