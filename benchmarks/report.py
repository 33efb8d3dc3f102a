"""A run as JSON (everything), as Markdown and as terminal text (the same tables)."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.case import Row
from benchmarks.stats import Summary, median
from benchmarks.targets import NOT_MEASURED, NOT_MET, TARGETS
from benchmarks.units import show

SCHEMA = 1


@dataclass
class Run:
    module_a: str
    module_b: str
    environment: dict[str, Any]
    rows: list[Row] = field(default_factory=list)

    def save(self, path: Path) -> None:
        rows = [{**asdict(row), "a": _short(row.a), "b": _short(row.b)} for row in self.rows]
        document = {
            "schema": SCHEMA,
            "a": self.module_a,
            "b": self.module_b,
            "environment": self.environment,
            "targets": [
                {"claim": target.claim, "bound": target.bound, **asdict(target.judge(self.rows))}
                for target in TARGETS
            ],
            "rows": rows,
        }
        lines = json.dumps(document, indent=1)
        path.write_text(_join_numbers(lines) + "\n")

    @staticmethod
    def load(path: Path) -> Run:
        document = json.loads(path.read_text())
        if document.get("schema") != SCHEMA:
            raise ValueError(
                f"compare: expected schema {SCHEMA} in {path}, got {document.get('schema')}; "
                "run the benchmarks again"
            )
        rows = [Row(**row) for row in document["rows"]]
        return Run(document["a"], document["b"], document["environment"], rows)

    def failed(self) -> bool:
        return any(target.judge(self.rows).state == NOT_MET for target in TARGETS)


def _short(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.5g}") for value in values]


def _join_numbers(text: str) -> str:
    """Put every list of samples on one line, so that a file of runs can be read and compared."""
    lines: list[str] = []
    for line in text.split("\n"):
        stripped = line.strip()
        number = stripped[:1].isdigit() or stripped[:1] == "-"
        closing = stripped.startswith("]") and lines[-1].rstrip(",")[-1:].isdigit()
        if lines and ((number and lines[-1][-1:] in "[,") or closing):
            lines[-1] += stripped
        else:
            lines.append(line)
    return "\n".join(lines)


Cells = list[list[str]]


def row_cells(run: Run, rows: Sequence[Row]) -> Cells:
    table = [["case", run.module_a, "+-", run.module_b, "+-", "ratio", "middle half"]]
    for row in rows:
        cells = [row.name]
        for values in (row.a, row.b):
            if values:
                summary = Summary.of(values)
                cells += [show(summary.median, row.unit), f"{summary.relative_spread:.0%}"]
            else:
                cells += ["-", ""]
        if row.ratios:
            ratio = Summary.of(row.ratios)
            cells += [
                f"{ratio.median:.2f}x",
                f"{ratio.lower_quartile:.2f} to {ratio.upper_quartile:.2f}",
            ]
        else:
            cells += ["-", ""]
        table.append(cells)
    return table


def family_cells(run: Run) -> Cells:
    table = [["family", "rows", "slowest", "median", "geometric mean", "fastest", "below 1x"]]
    for family in dict.fromkeys(row.family for row in run.rows):
        ratios = [median(row.ratios) for row in run.rows if row.family == family and row.ratios]
        if not ratios:
            continue
        geometric = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
        values = (min(ratios), median(ratios), geometric, max(ratios))
        table.append(
            [
                family,
                str(len(ratios)),
                *(f"{value:.2f}x" for value in values),
                str(sum(ratio < 1 for ratio in ratios)),
            ]
        )
    return table


def target_cells(run: Run) -> Cells:
    table = [["target", "bound", "measured", "verdict"]]
    for target in TARGETS:
        verdict = target.judge(run.rows)
        if verdict.state != NOT_MEASURED or verdict.measured:
            table.append([target.claim, target.bound, verdict.measured, verdict.state])
    return table


def compare_cells(old: Run, new: Run) -> Cells:
    """Before and after. `corrected` divides by the peer's own drift between the two runs."""
    table = [["case", "old", "new", "faster", "corrected", "new, middle half"]]
    before = {row.key: row for row in old.rows if row.a}
    for row in new.rows:
        past = before.get(row.key)
        if past is None or not row.a:
            continue
        then, now = Summary.of(past.a), Summary.of(row.a)
        corrected = "-"
        if past.ratios and row.ratios:
            corrected = f"{median(row.ratios) / median(past.ratios):.2f}x"
        table.append(
            [
                row.key,
                show(then.median, row.unit),
                show(now.median, row.unit),
                f"{then.median / now.median:.2f}x",
                corrected,
                f"{show(now.lower_quartile, row.unit)} to {show(now.upper_quartile, row.unit)}",
            ]
        )
    return table


_PROSE = frozenset({"why", "bound", "measured", "verdict", "value"})  # columns flush left


def as_text(cells: Cells) -> str:
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    flush_left = [index == 0 or name in _PROSE for index, name in enumerate(cells[0])]
    lines = []
    for row in cells:
        parts = [
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(row, widths, flush_left, strict=True)
        ]
        lines.append("  ".join(parts).rstrip())
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join(lines)


def as_markdown(cells: Cells) -> str:
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in cells]
    lines = ["| " + " | ".join(row) + " |" for row in escaped]
    rules = [
        "---" if index == 0 or name in _PROSE else "---:" for index, name in enumerate(cells[0])
    ]
    lines.insert(1, "|" + "|".join(rules) + "|")
    return "\n".join(lines)


def render(run: Run, markdown: bool) -> str:
    """The whole report; terminal and Markdown differ only in how a table is drawn."""
    table = as_markdown if markdown else as_text
    level = "##" if markdown else "=="
    parts = []
    if markdown:
        parts.append(f"# {run.module_a} beside {run.module_b}")
    for family in dict.fromkeys(row.family for row in run.rows):
        rows = [row for row in run.rows if row.family == family]
        parts += [f"{level} {family}", table(row_cells(run, rows))]
    notes = [[row.key, row.note] for row in run.rows if row.note]
    if notes:
        parts += [f"{level} Without a valid comparison", table([["case", "why"], *notes])]
    parts += [
        f"{level} By family (ratio: how many times faster or smaller)",
        table(family_cells(run)),
    ]
    parts += [f"{level} Targets", table(target_cells(run))]
    parts += [
        f"{level} Where",
        table([["what", "value"], *([key, str(value)] for key, value in run.environment.items())]),
    ]
    return "\n\n".join(parts) + "\n"
