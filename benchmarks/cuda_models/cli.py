"""Time models and blocks on a CUDA device, tapegrad beside PyTorch.

    python -m benchmarks.cuda_models                      all rows
    python -m benchmarks.cuda_models --case gpt2          those with this word in their names
    python -m benchmarks.cuda_models --compiled           with torch.compile, half a minute a model
    python -m benchmarks.cuda_models --only tapegrad      one library, for a quick look
    python -m benchmarks.cuda_models --profile gpt2/autocast      where the time of a step goes
    python -m benchmarks.cuda_models --tiny --device cpu  whether everything runs

Each library runs in a process of its own, row by row in turn. Training steps are timed by the
host's clock over several of them; single layers by events of the device. Figures are medians, with
half the distance between the quartiles as their spread. Memory is the most that tensors held on the
device during a step. "limit" is the least time the device needs for the products and convolutions:
of each its operations over 790 TFLOP/s or its bytes over 4.3 TB/s, whichever is longer. Values are
losses of the first three steps from the same weights, or means of results and gradients.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.cuda_models import child, report, step_profile
from benchmarks.cuda_models.cases import Case, all_cases

LIMIT = 240.0  # seconds for all rows


def chosen(cases: dict[str, Case], words: list[str]) -> list[str]:
    rows = [row for row in cases if not words or any(word in row for word in words)]
    if not rows:
        raise SystemExit(f"no row has {' or '.join(words)} in its name: {', '.join(cases)}")
    return rows


def run(options: argparse.Namespace) -> report.Results:
    """Run the rows; print each as it is done."""
    cases, begun = all_cases(), time.monotonic()
    more = ["--device", options.device, *(["--tiny"] if options.tiny else [])]
    columns = [name for name in report.COLUMNS if options.only in (None, name)]
    if not options.compiled and options.only != "torch.compile":
        columns = [name for name in columns if name != "torch.compile"]
    children = {column: child.Child(column, more) for column in columns}
    results: report.Results = {}
    print(report.HEAD, flush=True)
    for row in chosen(cases, options.case):
        case = cases[row]
        found: dict[str, dict[str, Any]] = {}
        for column in columns:
            if (case.is_ours and column != "tapegrad") or (
                column == "torch.compile" and not case.can_compile
            ):
                continue
            left = options.limit - (time.monotonic() - begun)
            if left <= 0:
                found[column] = {"error": "not run: the time is spent (--limit)"}
                continue
            limit = case.limit + (90.0 if column == "torch.compile" else 0.0)
            found[column] = children[column].ask(row, limit)
        results[row] = found
        print(report.line(row, found, case), flush=True)
        for words in report.notes(row, found):
            print(f"- {words}", flush=True)
        write(options.out, results, cases)
    for each in children.values():
        each.end("done")
    print(f"{time.monotonic() - begun:.0f} s", file=sys.stderr)
    return results


def write(out: Path | None, results: report.Results, cases: dict[str, Case]) -> None:
    """Write the table, and all figures beside it, so that a run that is cut short leaves some."""
    if out is not None:
        out.write_text(report.text(results, cases), encoding="utf-8")
        out.with_suffix(".json").write_text(json.dumps(results), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--case", action="append", default=[], help="a word in the name of a row")
    add("--only", choices=report.COLUMNS)
    add("--compiled", action="store_true", help="PyTorch compiled as well")
    add("--device", choices=("auto", "cuda", "cpu"), default="auto")
    add("--tiny", action="store_true", help="sizes of a few elements")
    add("--limit", type=float, default=LIMIT, help="seconds after which no row begins")
    add(
        "--out",
        type=Path,
        help="where tables go, and a trace beside those of a profile",
    )
    add("--profile", metavar="ROW", choices=list(all_cases()))
    add("--steps", type=int, default=2, help="of a profile")
    add("--rows", type=int, default=25, help="of each table of a profile")
    add("--list", action="store_true", help="the names of the rows")
    add("--child", choices=report.COLUMNS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(all_cases()))
        return 0
    if options.child:
        return child.serve(options.child, options.device, options.tiny)
    if options.profile:
        return step_profile.run(options)
    results = run(options)
    if not options.tiny:
        print(report.verdicts(results))
    return 0
