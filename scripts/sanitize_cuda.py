"""Run the tests of CUDA kernels under compute-sanitizer, on a machine with a GPU.

    python scripts/sanitize_cuda.py memcheck racecheck initcheck --seconds 500 --jobs 12

A tool makes kernels ten to a hundred times slower, so the tests are dealt out to many processes,
each with its own sanitizer. Every row of the op database is among them, and the tests of each
family of kernels. What is not done when the time is over is cut short, and counted as such. Exits
with 1 if a sanitizer found something or a test failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Those that launch kernels of our own; others test the host's side. Tests of vmap are not among
# them: it copies memory of results that nobody has written yet, which initcheck would tell.
FAMILIES = (
    "attention", "batch_norm", "casts_together", "compress", "conv", "cross_entropy", "depthwise",
    "gradient_dtypes", "indexing", "matmul", "merged_calls", "op_db", "optimizers", "pointwise",
    "pooling", "random", "recurrent", "reductions", "rows", "sorting", "transposes",
)  # fmt: skip
FOUND = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")
OUTCOME = re.compile(r"(\d+) (passed|failed|error|skipped)")
TIMED_OUT = 124


@dataclass
class Part:
    """A share of the tests, run by one process."""

    tool: str
    number: int
    of: int
    families: tuple[str, ...]
    seconds: float = 0.0
    found: int = 0
    counts: dict[str, int] | None = None
    output: str = ""

    def command(self, limit: float) -> list[str]:
        files = [str(ROOT / f"tests/cuda/test_{family}.py") for family in self.families]
        tool = ["compute-sanitizer", "--tool", self.tool, "--report-api-errors", "no"]
        # Other programs that a test starts are not looked at.
        tool += ["--target-processes", "application-only", "--print-limit", "20"]
        pytest = [sys.executable, "-m", "pytest", "-vv", "-p", "no:benchmark", "-p", "no:xdist"]
        pytest += ["-p", "no:cacheprovider", "--no-header", "--tb=short"]
        if self.tool == "initcheck":  # which does not see what kernels of cuBLASLt write
            pytest += ["-k", "not cublaslt"]
        return ["timeout", "--signal=INT", f"{limit:.0f}", *tool, *pytest, *files]

    def run(self, deadline: float) -> Part:
        start = time.monotonic()
        # An allocation of its own for each tensor, so that accesses beside it are seen.
        environment = os.environ | {
            "TAPEGRAD_CUDA_CACHE": "0",
            "TAPEGRAD_TEST_PART": f"{self.number}/{self.of}",
        }
        command = self.command(max(10.0, deadline - time.monotonic()))
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        self.output = done.stdout + done.stderr
        self.seconds = time.monotonic() - start
        self.found = sum(map(int, FOUND.findall(self.output)))
        self.counts = {word: int(count) for count, word in OUTCOME.findall(self.output)}
        if done.returncode == TIMED_OUT:
            self.counts["passed"] = self.output.count(" PASSED")
            self.counts["cut short"] = 1
        elif done.returncode:
            self.counts.setdefault("failed", 1)
        return self


def report(tool: str, parts: list[Part]) -> bool:
    """Print what the parts of a tool found; returns whether all is well."""
    total: dict[str, int] = {}
    for part in parts:
        for word, count in (part.counts or {}).items():
            total[word] = total.get(word, 0) + count
    found = sum(part.found for part in parts)
    counts = ", ".join(f"{count} {word}" for word, count in sorted(total.items()))
    longest = max(part.seconds for part in parts)
    print(f"{tool}: {found} found; tests: {counts}; {longest:.0f} s", flush=True)
    return not (found or total.get("failed") or total.get("error"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tools", nargs="+", choices=["memcheck", "racecheck", "initcheck"])
    parser.add_argument("--seconds", type=float, default=1800, help="for each tool")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--family", action="append", choices=FAMILIES, help="only these tests")
    parser.add_argument("--log", type=Path, help="a folder for what the processes print")
    options = parser.parse_args()
    is_well = True
    for tool in options.tools:
        deadline = time.monotonic() + options.seconds
        families = tuple(options.family or FAMILIES)
        parts = [Part(tool, number, options.jobs, families) for number in range(options.jobs)]
        with ThreadPoolExecutor(options.jobs) as pool:
            parts = list(pool.map(Part.run, parts, [deadline] * len(parts)))
        is_well &= report(tool, parts)
        if options.log:
            for part in parts:
                path = options.log / f"{tool}-{part.number}.txt"
                path.write_text(part.output, encoding="utf-8")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
