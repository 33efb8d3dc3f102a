"""Which modules, lines and ops keep the most bytes, as a short table for a terminal."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tapegrad.tape.report import format_time
from tapegrad.tape.show.lines import short_lines
from tapegrad.utils._units import human_bytes

__all__ = ["totals", "totals_table"]

_MOST_WIDTH = 60


def totals(document: Mapping[str, Any], by: str) -> list[tuple[str, int, int]]:
    """Return (name, bytes, entries) of every module, line or op, those with most bytes first.

    Args:
        document: of a tape.
        by: ``"module"``, ``"line"`` or ``"op"``.

    Example:
        >>> entries = [{"op": op, "bytes": n} for op, n in (("mm", 8), ("exp", 2), ("mm", 1))]
        >>> totals({"entries": entries}, "op")
        [('mm', 9, 2), ('exp', 2, 1)]
    """
    sums: dict[str, list[int]] = {}
    for entry in document["entries"]:
        found = sums.setdefault(entry.get(by) or "", [0, 0])
        found[0] += entry["bytes"]
        found[1] += 1
    rows = [(name, size, count) for name, (size, count) in sums.items()]
    return sorted(rows, key=lambda row: -row[1])


def totals_table(document: Mapping[str, Any], rows: int = 5) -> str:
    """Return the largest modules, lines and ops of a tape as text.

    Modules that differ in numbers only, such as the layers of a stack, are one row.
    """
    entries = document["entries"]
    whole = sum(entry["bytes"] for entry in entries)
    alike = _alike(document)
    lines = [f"{len(entries):,} entries keep {human_bytes(whole)}{_times(entries)}"]
    short = short_lines(entry.get("line") or "" for entry in entries)
    kinds = (("module", "outside any module"), ("line", "no line known"), ("op", ""))
    for by, nameless in kinds:
        found = [row for row in (alike if by == "module" else totals(document, by)) if row[1]]
        if not found or (by == "module" and not any(name for name, _, _ in found)):
            continue
        lines += ["", f"  {'bytes':>10}  {'share':>6}  {'entries':>7}  {by}"]
        for name, size, count in found[:rows]:
            shown = _shortened(short.get(name, name) if by == "line" else name)
            shown = shown or nameless
            lines.append(f"  {human_bytes(size):>10}  {size / whole:>6.1%}  {count:>7,}  {shown}")
        if len(found) > rows:
            rest = sum(size for _, size, _ in found[rows:])
            count = sum(count for _, _, count in found[rows:])
            words = f"{len(found) - rows} others"
            lines.append(f"  {human_bytes(rest):>10}  {rest / whole:>6.1%}  {count:>7,}  {words}")
    return "\n".join(lines)


def _times(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return how long the entries took together, nothing if it was not measured."""
    words = []
    for way in ("forward", "backward"):
        times = [time for entry in entries if (time := entry.get(f"{way}_us")) is not None]
        if times:
            words.append(f"{format_time(sum(times))} {way}")
    return f"; {', '.join(words)}" if words else ""


def _alike(document: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """Return the totals of modules, those of one pattern together: ``blocks.*.attn (12)``."""
    groups: dict[str, list[tuple[str, int, int]]] = {}
    for row in totals(document, "module"):
        groups.setdefault(re.sub(r"(?<![^.])\d+(?![^.])", "*", row[0]), []).append(row)
    found = []
    for pattern, rows in groups.items():
        name = rows[0][0] if len(rows) == 1 else f"{pattern} ({len(rows)})"
        found.append((name, sum(row[1] for row in rows), sum(row[2] for row in rows)))
    return sorted(found, key=lambda row: -row[1])


def _shortened(name: str) -> str:
    """Return the end of a long name, which says more than its beginning."""
    return name if len(name) <= _MOST_WIDTH else "…" + name[1 - _MOST_WIDTH :]
