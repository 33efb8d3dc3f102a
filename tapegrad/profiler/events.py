"""What a profile found: events, their averages by name, the table of them, the trace for viewers.

An event is a call of an op (its kernel, without the Python around it), an entry of the tape that
the sweep ran, or a range opened by `record_function`. Events of one thread nest: one lies inside
another or after it. From that come own times: what an event took without the events right inside.
"""

import os
from collections.abc import Iterable, Iterator
from typing import IO, Any

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg"]

# What a table can be sorted by. Code written for PyTorch may ask for devices; they have no time.
_SORTABLE = {
    "count": "count",
    "cpu_time": "cpu_time",
    "cpu_time_total": "cpu_time_total",
    "self_cpu_time_total": "self_cpu_time_total",
    "cpu_memory_usage": "cpu_memory_usage",
    "self_cpu_memory_usage": "self_cpu_memory_usage",
    **{
        f"{own}{device}_{what}": "device_time_total"
        for own in ("", "self_")
        for device in ("cuda", "device", "xpu")
        for what in ("time", "time_total", "memory_usage")
    },
}


class _Times:
    """What single events and averages share."""

    key: str
    count: int
    cpu_time_total: float
    self_cpu_time_total: float

    device_time_total = self_device_time_total = device_time = 0.0
    cuda_time_total = self_cuda_time_total = cuda_time = 0.0
    device_memory_usage = self_device_memory_usage = 0

    @property
    def cpu_time(self) -> float:
        """The mean time of a call in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def cpu_time_str(self) -> str:
        """The mean time of a call, as text."""
        return duration(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        """The time of all calls, as text."""
        return duration(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """The time of all calls without what they called, as text."""
        return duration(self.self_cpu_time_total)


class Interval:
    """A time range in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Return the length in microseconds."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval(start={self.start}, end={self.end})"


class FunctionEvent(_Times):
    """One call of an op, one entry of the tape, or one range.

    Attributes:
        name: of the op, the entry or the range.
        kind: ``"op"``, ``"backward"`` for an entry of the tape, ``"user"`` for a range.
        time_range: when, in microseconds of a clock that only goes forward.
        thread: which thread.
        is_backward: whether it happened while a sweep ran.
        input_shapes: the sizes of an op's inputs, if they were asked for.
        cpu_parent: the event around it, or None.
        cpu_children: the events right inside it.
        sequence_nr: of a backward event, the number of its tape entry; of others, the number that
            the next entry gets.
        cpu_memory_usage: bytes allocated in it.
        self_cpu_memory_usage: bytes allocated in it, but in none of its children.
    """

    def __init__(self, number: int, thread: int, fields: tuple[Any, ...]) -> None:
        name, kind, in_backward, start, end, allocated, freed, shapes, sequence = fields
        self.id = number
        self.name = self.key = name
        self.kind = kind
        self.is_backward = in_backward
        self.sequence_nr = sequence
        self.thread = thread
        self.time_range = Interval(start / 1000, end / 1000)
        self.input_shapes: list[list[int]] = shapes or []
        self.count = 1
        self.is_async = False
        self.is_user_annotation = kind == "user"
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_time_total = self.self_cpu_time_total = (end - start) / 1000
        self.cpu_memory_usage = self.self_cpu_memory_usage = allocated
        self.freed = freed

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} kind={self.kind} "
            f"cpu_time={self.cpu_time_str} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


class FunctionEventAvg(_Times):
    """All events of one name, or of one name and shapes, together."""

    def __init__(self, key: str, input_shapes: list[list[int]] | None = None) -> None:
        self.key = key
        self.input_shapes = input_shapes or []
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.is_user_annotation = False

    def add(self, event: FunctionEvent) -> None:
        """Count one more event. A call inside a call of the same key does not add to the total."""
        self.count += 1
        self.is_user_annotation |= event.is_user_annotation
        self.self_cpu_time_total += event.self_cpu_time_total
        self.self_cpu_memory_usage += event.self_cpu_memory_usage
        around = event.cpu_parent
        while around is not None and around.key != event.key:
            around = around.cpu_parent
        if around is None:
            self.cpu_time_total += event.cpu_time_total
            self.cpu_memory_usage += event.cpu_memory_usage

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} count={self.count} "
            f"self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str} "
            f"input_shapes={self.input_shapes}>"
        )


class EventList(list[Any]):
    """A list of events or of averages, with a table and, of events, a trace."""

    def __init__(
        self, events: Iterable[Any] = (), *, profile_memory: bool = False, with_shapes: bool = False
    ) -> None:
        super().__init__(events)
        self._profile_memory = profile_memory
        self._with_shapes = with_shapes

    @property
    def self_cpu_time_total(self) -> float:
        """The own times of all events added up, in microseconds."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> "EventList":
        """Return the events grouped by name.

        Args:
            group_by_input_shape: whether calls on other shapes are another group.
            group_by_stack_n: accepted; stacks are not recorded.
        """
        groups: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shape else None
            key = (event.key, str(shapes))
            if key not in groups:
                groups[key] = FunctionEventAvg(event.key, shapes)
            groups[key].add(event)
        return EventList(
            groups.values(), profile_memory=self._profile_memory, with_shapes=group_by_input_shape
        )

    def total_average(self) -> FunctionEventAvg:
        """Return all events as one group."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.count += event.count
            total.self_cpu_time_total += event.self_cpu_time_total
            total.cpu_time_total += event.self_cpu_time_total
            total.self_cpu_memory_usage += event.self_cpu_memory_usage
            total.cpu_memory_usage += event.self_cpu_memory_usage
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """Return a table of the events as text.

        Args:
            sort_by: ``cpu_time``, ``cpu_time_total``, ``self_cpu_time_total``, ``count``,
                ``cpu_memory_usage`` or ``self_cpu_memory_usage``; largest first.
            row_limit: how many rows at most; -1 for all.
            max_src_column_width: accepted; stacks are not recorded.
            max_name_column_width: longer names are cut.
            max_shapes_column_width: longer shapes are cut.
            header: a line above.
            top_level_events_only: whether events inside others are left out.
        """
        rows = list(self)
        if sort_by is not None:
            if sort_by not in _SORTABLE:
                raise ValueError(
                    f"table: expected sort_by to be one of {', '.join(sorted(_SORTABLE))}, got "
                    f"{sort_by!r}"
                )
            rows.sort(key=lambda event: getattr(event, _SORTABLE[sort_by]), reverse=True)
        if top_level_events_only:
            rows = [event for event in rows if getattr(event, "cpu_parent", None) is None]
        if row_limit >= 0:
            rows = rows[:row_limit]
        whole = self.self_cpu_time_total
        lines = [
            self._row(event, whole, max_name_column_width, max_shapes_column_width)
            for event in rows
        ]
        return _layout(self._columns(), lines, header, f"Self CPU time total: {duration(whole)}")

    def _columns(self) -> list[str]:
        columns = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        columns += ["CPU Mem", "Self CPU Mem"] if self._profile_memory else []
        columns += ["# of Calls"]
        return columns + (["Input Shapes"] if self._with_shapes else [])

    def _row(self, event: Any, whole: float, name_width: int, shapes_width: int) -> list[str]:
        row = [
            _cut(event.key, name_width),
            _percent(event.self_cpu_time_total, whole),
            event.self_cpu_time_total_str,
            _percent(event.cpu_time_total, whole),
            event.cpu_time_total_str,
            event.cpu_time_str,
        ]
        if self._profile_memory:
            row += [amount(event.cpu_memory_usage), amount(event.self_cpu_memory_usage)]
        row.append(str(event.count))
        return row + ([_cut(str(event.input_shapes), shapes_width)] if self._with_shapes else [])

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events for Perfetto (ui.perfetto.dev) or chrome://tracing.

        Args:
            path: the file; one whose name ends in ``.gz`` is compressed.
        """
        write_trace(self, path, self._profile_memory)


def nested(records: Iterable[tuple[int, tuple[Any, ...]]]) -> list[FunctionEvent]:
    """Make events of (thread, record), and find out which lie inside which.

    Records of a thread come in the order in which they began.
    """
    events: list[FunctionEvent] = []
    open_events: dict[int, list[FunctionEvent]] = {}
    for number, (thread, fields) in enumerate(records):
        event = FunctionEvent(number, thread, fields)
        stack = open_events.setdefault(thread, [])
        while stack and stack[-1].time_range.end <= event.time_range.start:
            stack.pop()
        if stack:
            event.cpu_parent = stack[-1]
            stack[-1].cpu_children.append(event)
            stack[-1].self_cpu_time_total -= event.cpu_time_total
        stack.append(event)
        events.append(event)
    for event in reversed(events):  # children come after their parents
        event.self_cpu_time_total = max(event.self_cpu_time_total, 0.0)
        if event.cpu_parent is not None:
            event.cpu_parent.cpu_memory_usage += event.cpu_memory_usage
    return events


# ---- the trace


def write_trace(
    events: Iterable[FunctionEvent],
    path: str | os.PathLike[str],
    with_memory: bool,
    metadata: dict[str, Any] | None = None,
) -> None:
    """Write events in the format of Chrome's trace viewer, which Perfetto reads, too."""
    import json

    process = os.getpid()
    content = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        **(metadata or {}),
        "traceEvents": list(_trace_events(list(events), process, with_memory)),
    }
    with _opened(os.fspath(path)) as file:
        json.dump(content, file)


def _opened(path: str) -> IO[str]:
    if path.endswith(".gz"):
        import gzip

        return gzip.open(path, "wt", encoding="utf-8")
    return open(path, "w", encoding="utf-8")


_CATEGORIES = {"op": "cpu_op", "backward": "cpu_op", "user": "user_annotation"}


def _trace_events(
    events: list[FunctionEvent], process: int, with_memory: bool
) -> Iterator[dict[str, Any]]:
    # Viewers want small numbers for threads.
    threads = {thread: n for n, thread in enumerate(dict.fromkeys(e.thread for e in events), 1)}
    yield {
        "name": "process_name",
        "ph": "M",
        "pid": process,
        "tid": 0,
        "args": {"name": "tapegrad"},
    }
    held = 0
    for event in events:
        yield {
            "name": event.name,
            "ph": "X",
            "cat": _CATEGORIES[event.kind],
            "pid": process,
            "tid": threads[event.thread],
            "ts": event.time_range.start,
            "dur": event.time_range.elapsed_us(),
            "args": {
                "External id": event.id,
                "Backward": event.is_backward,
                "Bytes allocated": event.self_cpu_memory_usage,
                **({"Input Dims": event.input_shapes} if event.input_shapes else {}),
            },
        }
        if with_memory and event.kind == "op":
            held += event.self_cpu_memory_usage - event.freed
            yield {
                "name": "memory since start",
                "ph": "C",
                "pid": process,
                "tid": 0,
                "ts": event.time_range.end,
                "args": {"bytes": held},
            }


# ---- the table


def duration(microseconds: float) -> str:
    """Return a time with a unit that suits it."""
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.3f}ms"
    return f"{microseconds:.3f}us"


def amount(count: int) -> str:
    """Return a number of bytes with a unit that suits it."""
    size = float(count)
    for unit in ("B", "KB", "MB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1024
    return f"{size:.2f} GB"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "0.00%"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _layout(columns: list[str], rows: list[list[str]], header: str | None, footer: str) -> str:
    widths = [max(len(cell) for cell in cells) for cells in zip(columns, *rows, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    lines = [header] if header else []
    lines += [rule, _aligned(columns, widths), rule]
    lines += [_aligned(row, widths) for row in rows]
    return "\n".join([*lines, rule, footer, ""])


def _aligned(cells: list[str], widths: list[int]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
