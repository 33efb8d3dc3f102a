"""The hot path of this checkout beside that of another one: what did a change cost?

    python benchmarks/against.py ../former --repeats 5

Both checkouts need their native module in place. Processes take turns, one thread each; the figure
is the ratio of the medians, this one's time to the other's.
"""

from __future__ import annotations

import argparse
import os
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
}
PROGRAM = """
import sys, time
import tapegrad as torch
torch.set_num_threads(1)
a, b = torch.ones(4, requires_grad=True), torch.ones(4)
x = torch.randn(4, requires_grad=True)
exec("def run(n):\\n" + "\\n".join("    " + line for line in sys.argv[1].split("\\n")), globals())
run(200)
start = time.perf_counter()
run(6000)
print(time.perf_counter() - start)
"""


def seconds(checkout: Path, case: str) -> float:
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    command = [sys.executable, "-c", PROGRAM, case]
    return float(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("other", type=Path, help="the checkout to compare with")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if not list((options.other / "tapegrad").glob("_C*.so")):
        parser.error(f"{options.other}: expected a checkout with its native module built")
    for name, case in CASES.items():
        other, this = [], []
        for _ in range(options.repeats):
            other.append(seconds(options.other.resolve(), case))
            this.append(seconds(HERE, case))
        ratio = statistics.median(this) / statistics.median(other)
        print(f"{name:42} {ratio:.3f}  (fastest {min(this) / min(other):.3f})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
