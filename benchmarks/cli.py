"""The command line: choose cases, run them, report, judge."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from benchmarks import probes
from benchmarks.case import Benchmark, Case
from benchmarks.families import FAMILIES, ON_REQUEST
from benchmarks.harness import Pair, Plan, WorkerError
from benchmarks.progress import Progress
from benchmarks.report import Run, as_text, compare_cells, render
from benchmarks.units import clock

RESULTS = Path(__file__).parent / "results"

_EPILOG = """\
examples:
  python -m benchmarks                              everything but the build, about 12 minutes
  python -m benchmarks --quick                      a look at every family, under 2 minutes
  python -m benchmarks --family small --family tape
  python -m benchmarks --case 'pointwise/tanh.*'    one op: value and derivative, both sizes
  python -m benchmarks --family build               clean build, wheel size; minutes
  python -m benchmarks --a torch --b torch --quick  the harness against itself: ratios near 1
  python -m benchmarks --compare old.json new.json  before and after a change

A ratio is time of B over time of A in the same round: above 1, A is faster. Read
benchmarks/README.md for the method and for what "within noise" means.
"""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Time tapegrad beside PyTorch: two processes, sampled in turn, "
        "reported as ratios with their spread.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    choose = parser.add_argument_group("what to run")
    choose.add_argument(
        "--family",
        action="append",
        choices=FAMILIES,
        metavar="NAME",
        help=f"only this family (repeatable): {', '.join(FAMILIES)}",
    )
    choose.add_argument(
        "--case",
        action="append",
        metavar="GLOB",
        help="only cases whose family/name matches (repeatable)",
    )
    choose.add_argument("--list", action="store_true", help="print the chosen cases and stop")
    choose.add_argument(
        "--quick",
        action="store_true",
        help="fewer rounds, no 16M tensors, no million-entry chain in a worker",
    )
    choose.add_argument("--a", default="tapegrad", metavar="MODULE", help="default: %(default)s")
    choose.add_argument("--b", default="torch", metavar="MODULE", help="default: %(default)s")
    how = parser.add_argument_group("how")
    how.add_argument(
        "--rounds",
        type=_positive,
        metavar="N",
        help="samples per side at most (default 24, with --quick 8)",
    )
    how.add_argument(
        "--threads",
        type=_positive,
        metavar="N",
        help="threads on both sides (default: every core this process may use)",
    )
    report = parser.add_argument_group("results")
    report.add_argument(
        "--out",
        type=Path,
        metavar="STEM",
        help="write STEM.json and STEM.md (default: benchmarks/results/A-vs-B)",
    )
    report.add_argument(
        "--check", action="store_true", help="exit with 1 if a measured target is not met"
    )
    report.add_argument(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("OLD", "NEW"),
        help="compare side A of two saved runs and stop",
    )
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a positive number, got {text}")
    return value


def make_plan(options: argparse.Namespace) -> Plan:
    plan = Plan()
    if options.quick:
        plan = replace(
            plan,
            rounds=8,
            least_rounds=5,
            sample_seconds=4e-3,
            budget_scale=0.2,
            patience=10.0,
            quick=True,
        )
    if options.rounds:
        plan = replace(plan, rounds=options.rounds, exact=True)
    if options.threads:
        plan = replace(plan, threads=options.threads)
    return plan


def choose(options: argparse.Namespace, table: Any) -> list[Benchmark]:
    """The benchmarks asked for; a family on request runs when it or one of its cases is named."""
    named = set(options.family or [])
    patterns = options.case or ["*"]
    found = []
    for family, cases in FAMILIES.items():
        if named and family not in named:
            continue
        asked = family in named or any(p.startswith(f"{family}/") for p in patterns)
        if family in ON_REQUEST and not asked:
            continue
        for case in cases(table):
            key = f"{case.family}/{case.name}"
            if any(fnmatchcase(key, p) for p in patterns) and (case.quick or not options.quick):
                found.append(case)
    return found


def estimate(case: Benchmark, plan: Plan) -> float:
    """Seconds a case is expected to take, for the ETA alone."""
    if isinstance(case, Case):
        return case.budget * min(plan.budget_scale, 1.0) + 0.15
    return case.estimate * (case.quick_rounds if plan.quick else case.rounds)


def environment(pair: Pair, plan: Plan) -> dict[str, Any]:
    def versions(worker: Any) -> str:
        return f"{worker.module} {worker.about['version']}, {worker.about['threads']} threads"

    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
    )
    return {
        "a": versions(pair.a),
        "b": versions(pair.b),
        "commit": commit.stdout.strip() or "unknown",
        "python": platform.python_version(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "rounds": f"{plan.rounds} at most, samples of {plan.sample_seconds * 1e3:.0f} ms",
        "load before": f"{os.getloadavg()[0]:.2f}",
    }


def _processor() -> str:
    with open("/proc/cpuinfo") as lines:
        names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        return next(names, platform.machine())


def measure_all(pair: Pair, chosen: Sequence[Benchmark], run: Run) -> None:
    """Run every case; an interrupt ends the run early but keeps what is there."""
    plan = pair.plan
    progress = Progress([estimate(case, plan) for case in chosen])
    spent = dict.fromkeys((case.family for case in chosen), 0.0)
    try:
        for index, case in enumerate(chosen):
            progress.show(index, f"{case.family}/{case.name}")
            start = progress.elapsed
            if isinstance(case, Case):
                run.rows += pair.measure(case)
            else:
                run.rows += probes.measure(case, run.module_a, run.module_b, plan)
            spent[case.family] += progress.elapsed - start
    except KeyboardInterrupt:
        run.environment["interrupted"] = f"after {len(run.rows)} rows"
    progress.finish()
    parts = ", ".join(f"{family} {seconds:.0f} s" for family, seconds in spent.items())
    run.environment["elapsed"] = f"{clock(progress.elapsed)} ({parts})"
    run.environment["CPU used by the idle side"] = f"{pair.stolen_share:.1%} at most"
    disturbed = pair.disturbed_rounds / max(pair.rounds, 1)
    run.environment["rounds disturbed by other programs"] = f"{disturbed:.1%}"


def default_stem(options: argparse.Namespace) -> Path:
    """A name per kind of run, so that a partial run never overwrites a full one."""
    parts: Iterator[str] = iter(options.family or [])
    name = ".".join([f"{options.a}-vs-{options.b}", *parts])
    name += ".selection" if options.case else ""
    return RESULTS / (name + (".quick" if options.quick else ""))


def write(run: Run, stem: Path) -> None:
    stem.parent.mkdir(parents=True, exist_ok=True)
    run.save(stem.with_name(stem.name + ".json"))
    stem.with_name(stem.name + ".md").write_text(render(run, markdown=True))
    print(f"written: {stem}.json, {stem}.md", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.compare:
        old, new = (Run.load(path) for path in options.compare)
        print(as_text(compare_cells(old, new)))
        return 0
    plan = make_plan(options)
    try:
        pair = Pair(options.a, options.b, plan)
    except WorkerError as error:
        print(f"benchmarks: {error}; is the module installed?", file=sys.stderr)
        return 2
    try:
        chosen = choose(options, pair.a.request("pointwise_table")["table"])
        if options.list:
            print("\n".join(f"{case.family}/{case.name}" for case in chosen))
            return 0
        if not chosen:
            print("benchmarks: no case matches; see --list", file=sys.stderr)
            return 2
        run = Run(options.a, options.b, environment(pair, plan))
        measure_all(pair, chosen, run)
    finally:
        pair.close()
    print(render(run, markdown=False))
    write(run, options.out or default_stem(options))
    return 1 if options.check and run.failed() else 0
