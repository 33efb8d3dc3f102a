"""The tape as text: tables, sums by op, line or module, and how times are written."""

import linecache
import shutil
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tapegrad.tape.entries import Entry
from tapegrad.utils._units import human_bytes

__all__ = ["Summary", "SummaryRow", "format_time", "table"]

_NARROWEST = 60
_SHORTEST_CELL = 12


def format_time(microseconds: float) -> str:
    """Return a time as people write it."""
    if microseconds < 1000:
        return f"{microseconds:.1f} us"
    if microseconds < 1e6:
        return f"{microseconds / 1000:.1f} ms"
    return f"{microseconds / 1e6:.2f} s"


# ---- tables


def _layout(header: Sequence[str], rows: list[list[str]], flexible: Sequence[int]) -> list[str]:
    """Return lines of aligned cells; the `flexible` columns give way if the terminal is narrow."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    room = max(shutil.get_terminal_size((120, 24)).columns, _NARROWEST)
    excess = sum(widths) + 2 * (len(widths) - 1) - room
    while excess > 0:
        widest = max(flexible, key=lambda column: widths[column])
        if widths[widest] <= _SHORTEST_CELL:
            break
        cut = min(excess, max(1, widths[widest] - _SHORTEST_CELL))
        others = [widths[column] for column in flexible if column != widest]
        cut = min(cut, max(1, widths[widest] - max(others, default=0)))
        widths[widest] -= cut
        excess -= cut
    return ["  ".join(map(_cell, line, widths, header)).rstrip() for line in [list(header), *rows]]


_NUMBERS = frozenset(("index", "bytes", "saved", "share", "entries", "forward", "backward"))
# A name or a source line is recognised by its start, a path by its end.
_KEEP_BEGINNING = frozenset(("op", "source", "output"))


def _cell(text: str, width: int, column: str) -> str:
    if len(text) > width:
        keep_beginning = column in _KEEP_BEGINNING and not text.startswith("leaf ")
        text = f"{text[: width - 2]}.." if keep_beginning else f"..{text[2 - width :]}"
    return text.rjust(width) if column in _NUMBERS else text.ljust(width)


def table(
    entries: Sequence[Entry], title: str, total: int, rows: int = 40, largest_first: bool = False
) -> str:
    """Return entries as a table with their sum.

    Args:
        entries: in tape order.
        title: the first line.
        total: the bytes of all entries.
        rows: how many are shown; of more, the first and the last, with the sum of those between.
        largest_first: whether to show the entries with the most bytes instead.
    """
    timed = any(entry.forward_us is not None for entry in entries)
    devices = bytes_by_device(entries)
    header = ["index", "op", "output", "saved", "module", "line"]
    if timed:
        header[4:4] = ["forward", "backward"]
    if set(devices) - {"cpu"}:
        header.insert(3, "device")
    shown, hidden = _choose(entries, rows, largest_first)
    body = [_row(entry, timed, "device" in header) for entry in shown]
    lines = _layout(header, body, (1, 2, len(header) - 2, len(header) - 1))
    if hidden:
        rest = f"({len(hidden):,} more, {human_bytes(sum(entry.bytes for entry in hidden))})"
        lines.insert(len(lines) if largest_first else 1 + rows // 2, f"  {rest}")
    counted = f"{len(entries):,} {'entry' if len(entries) == 1 else 'entries'}"
    saved = f"{human_bytes(total)} saved"
    if "device" in header:
        parts = (f"{human_bytes(size)} on {device}" for device, size in devices.items() if size)
        saved = f"{saved} ({', '.join(parts)})" if total else saved
    return "\n".join([f"{title}: {counted}, {saved}", *lines])


def bytes_by_device(entries: Iterable[Entry]) -> dict[str, int]:
    """Return what entries are charged, by device; devices of which nothing is saved have 0."""
    found: dict[str, int] = {}
    for entry in entries:
        for output in entry.outputs:
            found.setdefault(output.device, 0)
        for value in entry.saved:
            if value.device is not None:
                found[value.device] = found.get(value.device, 0) + value.bytes
    return dict(sorted(found.items()))


def _choose(
    entries: Sequence[Entry], rows: int, largest_first: bool
) -> tuple[list[Entry], list[Entry]]:
    """Return the entries to show, and the others."""
    if largest_first:
        ranked = sorted(entries, key=lambda entry: (-entry.bytes, entry.sequence))
        return ranked[:rows], ranked[rows:]
    if len(entries) <= rows:
        return list(entries), []
    first, last = rows // 2, len(entries) - (rows - rows // 2)
    return [*entries[:first], *entries[last:]], list(entries[first:last])


def _row(entry: Entry, timed: bool, with_device: bool) -> list[str]:
    shape = ", ".join(str(list(output.shape)) for output in entry.outputs)
    saved = human_bytes(entry.bytes) if entry.bytes else "-"
    if any(value.state in ("evicted", "packed", "dropped", "later") for value in entry.saved):
        states = {value.state for value in entry.saved} - {"held", "leaf", "shared"}
        saved = f"{saved} {'/'.join(sorted(states))}" if entry.bytes else "/".join(sorted(states))
    times = []
    if timed:
        for time in (entry.forward_us, entry.backward_us):
            times.append(format_time(time) if time else "-")
    op = f"leaf {entry.leaf}" if entry.leaf else entry.op
    device = [entry.device] if with_device else []
    return [str(entry.index), op, shape, *device, saved, *times, entry.module or "-", entry.line]


# ---- sums


class SummaryRow(NamedTuple):
    """What one op, line or module has of a tape.

    Attributes:
        key: the op, the line or the module.
        entries: how many entries.
        bytes: what they are charged.
        share: of the tape's bytes, between 0 and 1.
        forward_us: microseconds forward, if profiled.
        backward_us: microseconds backward, likewise.
    """

    key: str
    entries: int
    bytes: int
    share: float
    forward_us: float | None
    backward_us: float | None


class Summary(Sequence[SummaryRow]):
    """The bytes of a tape by op, line or module, the most first; prints as a table."""

    def __init__(self, by: str, rows: list[SummaryRow], sources: dict[str, str]) -> None:
        self.by = by
        self.rows = rows
        self.total_bytes = sum(row.bytes for row in rows)
        self._sources = sources

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __str__(self) -> str:
        timed = any(row.forward_us is not None for row in self.rows)
        header = [self.by, "entries", "bytes", "share"]
        header += ["forward", "backward"] if timed else []
        header += ["source"] if self._sources else []
        body = []
        for row in self.rows:
            cells = [row.key, f"{row.entries:,}", human_bytes(row.bytes), f"{row.share:.1%}"]
            if timed:
                cells += [format_time(time or 0.0) for time in (row.forward_us, row.backward_us)]
            if self._sources:
                cells.append(self._sources.get(row.key, ""))
            body.append(cells)
        flexible = (0, len(header) - 1) if self._sources else (0,)
        lines = _layout(header, body, flexible)
        return "\n".join([*lines, f"total {human_bytes(self.total_bytes)}"])

    __repr__ = __str__


def summarize(entries: Iterable[Entry], by: str, depth: int | None) -> Summary:
    """Return the sums of entries by ``"op"``, ``"line"`` or ``"module"``."""
    if by not in ("op", "line", "module"):
        raise ValueError(f"summary: expected by to be 'op', 'line' or 'module', got {by!r}")
    groups: dict[str, list[Entry]] = {}
    sources = {}
    for entry in entries:
        if by == "module":
            key = entry.module or "(no module)"
            if depth is not None and entry.module:
                key = ".".join(entry.module.split(".")[:depth])
        else:
            key = str(getattr(entry, by))
        groups.setdefault(key, []).append(entry)
        if by == "line" and key not in sources:
            sources[key] = linecache.getline(entry.file, entry.line_number).strip()
    total = sum(entry.bytes for group in groups.values() for entry in group)
    rows = [_sum(key, group, total) for key, group in groups.items()]
    rows.sort(key=lambda row: (-row.bytes, -row.entries, row.key))
    return Summary(by, rows, sources)


def _sum(key: str, group: list[Entry], total: int) -> SummaryRow:
    def time(name: str) -> float | None:
        times = [getattr(entry, name) for entry in group]
        known = [each for each in times if each is not None]
        return sum(known) if known else None

    size = sum(entry.bytes for entry in group)
    share = size / total if total else 0.0
    return SummaryRow(key, len(group), size, share, time("forward_us"), time("backward_us"))
