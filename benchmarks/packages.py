"""Packages that were written for PyTorch: the same script under tapegrad and under PyTorch.

    python scripts/package_stage.py install .venv-packages
    python scripts/package_stage.py install .venv-reference --pytorch
    python -m benchmarks.packages --out docs/packages.md

Three tables: steps of training of four packages in one process each; what it takes to import some;
the scripts of tests/packages as a whole, from start to end. Processes of both kinds take turns, the
first of a round being the other one each time. The figures are medians, and the ratios those of the
rounds, with their middle halves. Seconds of the CPU stand beside those of the clock: on a machine
that others use, they say more.

Both have one thread, unless told otherwise: where cores are taken by others, PyTorch's threads spin
while they wait for each other, and a ratio with several would tell of that (a step of the small ODE
took it 10 ms with one thread on a busy machine of two cores, and 44 to 492 ms with two).
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks.stats import median, quantile

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from packages.table import HERE, TASKS, pins  # noqa: E402

STEPS = {"gpt2": 20, "resnet18": 8, "ode": 20, "ppo": 3}
IMPORTS = (
    "import torch",
    "from transformers import GPT2LMHeadModel",
    "import timm",
    "import torchdiffeq",
    "import stable_baselines3",
)


class Used(NamedTuple):
    """What one process took, by the clock and of the CPU."""

    seconds: float
    cpu: float


class Pair(NamedTuple):
    """What both took in each round."""

    ours: list[Used]
    theirs: list[Used]

    def row(self) -> str:
        """Return the columns that all tables have."""
        by_clock = [t.seconds / o.seconds for o, t in zip(self.ours, self.theirs, strict=True)]
        by_cpu = [t.cpu / o.cpu for o, t in zip(self.ours, self.theirs, strict=True)]
        clock = [median([each.seconds for each in side]) for side in (self.ours, self.theirs)]
        cells = [f"{_time(clock[0])}", f"{_time(clock[1])}", _ratio(by_clock), _ratio(by_cpu)]
        return " | ".join(cells)


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _ratio(values: list[float]) -> str:
    low, high = quantile(values, 0.25), quantile(values, 0.75)
    return f"{median(values):.2f} ({low:.2f} to {high:.2f})"


class Runner:
    """Runs a script or a line with one library and the other in turns.

    Args:
        ours: the interpreter that has tapegrad.
        theirs: the interpreter that has PyTorch.
        rounds: how often each.
        threads: how many each may use.
    """

    def __init__(self, ours: str, theirs: str, rounds: int, threads: int) -> None:
        self.rounds = rounds
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        self._environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        self._environment.update(dict.fromkeys(names, str(threads)))
        self._commands = {
            True: [ours, "-m", "tapegrad", "run"],
            False: [theirs, str(HERE / "with_torch.py")],
        }

    def whole(self, script: Path, *arguments: str) -> Pair:
        """Take turns, and return what the processes used."""
        return self._turns(lambda ours: self._run(ours, script, *arguments)[0])

    def steps(self, script: Path, *arguments: str) -> Pair:
        """Take turns, and return the medians of what the processes say of their steps."""

        def once(ours: bool) -> Used:
            said = json.loads(self._run(ours, script, *arguments)[1].splitlines()[-1])
            return Used(median(said["seconds"]), median(said["cpu"]))

        return self._turns(once)

    def _turns(self, once) -> Pair:
        pair = Pair([], [])
        for i in range(self.rounds):
            for ours in (True, False) if i % 2 else (False, True):
                (pair.ours if ours else pair.theirs).append(once(ours))
        return pair

    def _run(self, ours: bool, script: Path, *arguments: str) -> tuple[Used, str]:
        before, begun = os.times(), time.perf_counter()
        done = subprocess.run(
            [*self._commands[ours], str(script), *arguments],
            capture_output=True,
            text=True,
            env=self._environment,
        )
        seconds, after = time.perf_counter() - begun, os.times()
        if done.returncode:
            sys.exit(f"{script.name}: {done.stderr[-3000:]}")
        used = sum(after[2:4]) - sum(before[2:4])
        return Used(seconds, used), done.stdout


def training(runner: Runner) -> str:
    """Measure steps of training."""
    script = ROOT / "benchmarks" / "children" / "package_training.py"
    return _table(
        "A step of training",
        (
            (what, runner.steps(script, name, str(STEPS[name])))
            for name, what in _descriptions(script).items()
        ),
    )


def imports(runner: Runner) -> str:
    """Measure processes that import."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "line.py"

        def one(line: str) -> tuple[str, Pair]:
            script.write_text(line + "\n", "utf-8")
            return f"`{line}`", runner.whole(script)

        return _table("A process that imports", map(one, IMPORTS))


def scripts(runner: Runner) -> str:
    """Measure the scripts of the tests."""
    return _table(
        "A script, from start to end",
        (
            (f"{task.package} {pins()[task.package]}: {task.what}", runner.whole(task.script))
            for task in TASKS
        ),
    )


def _descriptions(script: Path) -> dict[str, str]:
    """Return what the functions of a script say of themselves, of those that are measured."""
    body = ast.parse(script.read_text("utf-8")).body
    named = {
        each.name: ast.get_docstring(each) for each in body if isinstance(each, ast.FunctionDef)
    }
    return {name: (named[name] or "").rstrip(".") for name in STEPS}


def _table(first: str, pairs: Iterable[tuple[str, Pair]]) -> str:
    head = f"| {first} | tapegrad | PyTorch | ratio by the clock | ratio of CPU time |"
    lines = [head, "|---|---|---|---|---|"]
    for what, pair in pairs:
        lines.append(f"| {what} | {pair.row()} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def _put(page: Path, name: str, text: str) -> None:
    """Replace what is measured under a name in a page."""
    begin, end = (f"<!-- {name}: {where} -->" for where in ("begin", "end"))
    before, rest = page.read_text("utf-8").split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}", "utf-8")


def main() -> None:
    sections = {"training": training, "imports": imports, "scripts": scripts}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tapegrad", default=".venv-packages/bin/python", metavar="PYTHON")
    parser.add_argument("--pytorch", default=".venv-reference/bin/python", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=sections, default=list(sections))
    parser.add_argument("--out", type=Path, help="a page whose measured parts are replaced")
    arguments = parser.parse_args()
    runner = Runner(arguments.tapegrad, arguments.pytorch, arguments.rounds, arguments.threads)
    for name in arguments.only:
        load = os.getloadavg()[0]
        text = sections[name](runner)
        text += (
            f"\n\n{arguments.rounds} rounds on {os.cpu_count()} cores, with OMP_NUM_THREADS="
            f"{arguments.threads}; the load of the machine, these processes with it, was "
            f"{load:.1f} at the beginning and {os.getloadavg()[0]:.1f} at the end."
        )
        if arguments.out is None:
            print(text + "\n", flush=True)
        else:
            _put(arguments.out, name, text)


if __name__ == "__main__":
    main()
