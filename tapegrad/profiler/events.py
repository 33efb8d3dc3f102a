"""What a profile found: events, their averages by name, the table of them, the trace for viewers.

An event is a call of an op (its kernel, without the Python around it), an entry of the tape that
the sweep ran, or a range opened by `record_function`. Events of one thread nest: one lies inside
another or after it. From that come own times: what an event took without the events right inside.
What a device did for an event is the event's time there (`devices.py`); single kernels are events,
too.
"""

import os
from collections.abc import Iterable
from typing import Any

from tapegrad.profiler.devices import Activity, DeviceType, attach
from tapegrad.profiler.trace import write_trace

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg"]

# What a table can be sorted by.
_SORTABLE = {
    "count": "count",
    "cpu_time": "cpu_time",
    "cpu_time_total": "cpu_time_total",
    "self_cpu_time_total": "self_cpu_time_total",
    "cpu_memory_usage": "cpu_memory_usage",
    "self_cpu_memory_usage": "self_cpu_memory_usage",
    **{
        f"{own}{device}_{what}": f"{own}device_{what}"
        for own in ("", "self_")
        for device in ("cuda", "device", "xpu")
        for what in ("time_total", "memory_usage")
    },
    **{f"{device}_time": "device_time" for device in ("cuda", "device", "xpu")},
}


class _Times:
    """What single events and averages share."""

    key: str
    count: int
    cpu_time_total: float
    self_cpu_time_total: float

    device_time_total: float
    self_device_time_total: float
    device_memory_usage: int
    self_device_memory_usage: int

    @property
    def device_time(self) -> float:
        """The mean time of a call on devices in microseconds."""
        return self.device_time_total / self.count if self.count else 0.0

    cuda_time = device_time

    @property
    def cuda_time_total(self) -> float:
        """The time on devices, what was called included, in microseconds."""
        return self.device_time_total

    @property
    def self_cuda_time_total(self) -> float:
        """The time on devices without what was called, in microseconds."""
        return self.self_device_time_total

    @property
    def device_time_str(self) -> str:
        """The mean time of a call on devices, as text."""
        return duration(self.device_time)

    @property
    def device_time_total_str(self) -> str:
        """The time on devices, what was called included, as text."""
        return duration(self.device_time_total)

    @property
    def self_device_time_total_str(self) -> str:
        """The time on devices without what was called, as text."""
        return duration(self.self_device_time_total)

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
    """One call of an op, one entry of the tape, one range, or what a device did.

    Attributes:
        name: of the op, the entry or the range.
        kind: ``"op"``, ``"backward"`` for an entry of the tape, ``"user"`` for a range;
            ``"kernel"``, ``"copy"`` or ``"fill"`` for what a device did.
        time_range: when, in microseconds of a clock that only goes forward.
        thread: which thread.
        is_backward: whether it happened while a sweep ran.
        input_shapes: the sizes of an op's inputs, if they were asked for.
        cpu_parent: the event around it, or None.
        cpu_children: the events right inside it.
        sequence_nr: of a backward event, the number of its tape entry; of others, the number that
            the next entry gets.
        cpu_memory_usage: bytes of the CPU allocated in it; ``device_memory_usage`` of its device.
        self_cpu_memory_usage: bytes allocated in it, but in none of its children.
        kernels: what devices did for it, but for none of its children.
        stack: the line of the program that made the call, if lines were asked for; of an entry and
            of what it calls, the line that recorded the entry.
        device_type: ``DeviceType.CPU``, or ``DeviceType.CUDA`` for what a device did.
        device_index: the number of that device.
    """

    def __init__(self, number: int, thread: int, fields: tuple[Any, ...]) -> None:
        name, kind, in_backward, start, end, allocated, freed, shapes, sequence, line = fields[:10]
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
        self.device_memory_usage = self.self_device_memory_usage = fields[10]
        self.device_freed = fields[11]
        self.device_time_total = self.self_device_time_total = 0.0
        self.kernels: list[Activity] = []
        self.stack: list[str] = [line] if line else []
        self.device_type, self.device_index = DeviceType.CPU, 0

    @classmethod
    def of_device(cls, number: int, activity: Activity) -> "FunctionEvent":
        """Return the event of a kernel, a copy or a fill."""
        fields = (activity.name, activity.kind, False, 0, 0, 0, 0, None, 0, None, 0, 0)
        event = cls(number, -1, fields)
        event.time_range = Interval(activity.start, activity.end)
        event.device_type, event.device_index = DeviceType.CUDA, activity.device
        event.device_time_total = event.self_device_time_total = activity.duration
        if activity.event is not None:
            event.is_backward, event.stack = activity.event.is_backward, activity.event.stack
        return event

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} kind={self.kind} "
            f"cpu_time={self.cpu_time_str} device_time={self.device_time_str} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


class FunctionEventAvg(_Times):
    """All events of one name, or of one name and shapes, together."""

    def __init__(
        self,
        key: str,
        input_shapes: list[list[int]] | None = None,
        stack: list[str] | None = None,
        device_type: DeviceType = DeviceType.CPU,
    ) -> None:
        self.key = key
        self.input_shapes = input_shapes or []
        self.stack = stack or []
        self.device_type = device_type
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_time_total = self.self_device_time_total = 0.0
        self.device_memory_usage = self.self_device_memory_usage = 0
        self.is_user_annotation = False

    def add(self, event: FunctionEvent) -> None:
        """Count one more event. A call inside a call of the same key does not add to the total."""
        self.count += 1
        self.is_user_annotation |= event.is_user_annotation
        self.self_cpu_time_total += event.self_cpu_time_total
        self.self_cpu_memory_usage += event.self_cpu_memory_usage
        self.self_device_time_total += event.self_device_time_total
        self.self_device_memory_usage += event.self_device_memory_usage
        around = event.cpu_parent
        while around is not None and around.key != event.key:
            around = around.cpu_parent
        if around is None:
            self.cpu_time_total += event.cpu_time_total
            self.cpu_memory_usage += event.cpu_memory_usage
            self.device_time_total += event.device_time_total
            self.device_memory_usage += event.device_memory_usage

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} count={self.count} "
            f"self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str} "
            f"input_shapes={self.input_shapes}>"
        )


class EventList(list[Any]):
    """A list of events or of averages, with a table and, of events, a trace."""

    def __init__(
        self,
        events: Iterable[Any] = (),
        *,
        profile_memory: bool = False,
        with_shapes: bool = False,
        with_lines: bool = False,
        activities: Iterable[Activity] = (),
    ) -> None:
        super().__init__(events)
        self._profile_memory = profile_memory
        self._with_shapes = with_shapes
        self._with_lines = with_lines
        self._activities = list(activities)

    @property
    def self_cpu_time_total(self) -> float:
        """The own times of all events added up, in microseconds."""
        return sum(event.self_cpu_time_total for event in self)

    @property
    def self_device_time_total(self) -> float:
        """What devices were busy with, added up, in microseconds."""
        kernels = [event for event in self if event.device_type is not DeviceType.CPU]
        return sum(event.self_device_time_total for event in kernels or self)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> "EventList":
        """Return the events grouped by name.

        Args:
            group_by_input_shape: whether calls on other shapes are another group.
            group_by_stack_n: anything but 0: calls from another line are another group, if lines
                were recorded. Of a stack there is its innermost line.
        """
        groups: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shape else None
            stack = event.stack if group_by_stack_n else None
            key = (event.key, event.device_type, str(shapes), str(stack))
            if key not in groups:
                groups[key] = FunctionEventAvg(event.key, shapes, stack, event.device_type)
            groups[key].add(event)
        return EventList(
            groups.values(),
            profile_memory=self._profile_memory,
            with_shapes=group_by_input_shape,
            with_lines=group_by_stack_n > 0,
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
            total.self_device_memory_usage += event.self_device_memory_usage
            total.device_memory_usage += event.self_device_memory_usage
        total.device_time_total = total.self_device_time_total = self.self_device_time_total
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
                ``cpu_memory_usage``, ``self_cpu_memory_usage``, ``cuda_time``,
                ``cuda_time_total`` or ``self_cuda_time_total``; largest first.
            row_limit: how many rows at most; -1 for all.
            max_src_column_width: longer lines of the program are cut, at their beginning.
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
        whole, on_devices = self.self_cpu_time_total, self.self_device_time_total
        widths = (max_name_column_width, max_src_column_width, max_shapes_column_width)
        lines = [self._row(event, whole, on_devices, widths) for event in rows]
        footer = f"Self CPU time total: {duration(whole)}"
        if on_devices:
            footer += f"\nSelf CUDA time total: {duration(on_devices)}"
        return _layout(self._columns(on_devices > 0), lines, header, footer)

    def _columns(self, has_devices: bool) -> list[str]:
        columns = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        if has_devices:
            columns += ["Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"]
        if self._profile_memory:
            columns += ["CPU Mem", "Self CPU Mem"]
            columns += ["CUDA Mem", "Self CUDA Mem"] if has_devices else []
        columns += ["# of Calls"]
        columns += ["Source Location"] if self._with_lines else []
        return columns + (["Input Shapes"] if self._with_shapes else [])

    def _row(
        self, event: Any, whole: float, on_devices: float, widths: tuple[int, int, int]
    ) -> list[str]:
        name_width, line_width, shapes_width = widths
        row = [
            _cut(event.key, name_width),
            _percent(event.self_cpu_time_total, whole),
            event.self_cpu_time_total_str,
            _percent(event.cpu_time_total, whole),
            event.cpu_time_total_str,
            event.cpu_time_str,
        ]
        if on_devices:
            row += [
                event.self_device_time_total_str,
                _percent(event.self_device_time_total, on_devices),
                event.device_time_total_str,
                event.device_time_str,
            ]
        if self._profile_memory:
            row += [amount(event.cpu_memory_usage), amount(event.self_cpu_memory_usage)]
            if on_devices:
                row += [amount(event.device_memory_usage), amount(event.self_device_memory_usage)]
        row.append(str(event.count))
        if self._with_lines:
            row.append(_cut_front(event.stack[0] if event.stack else "", line_width))
        return row + ([_cut(str(event.input_shapes), shapes_width)] if self._with_shapes else [])

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events for Perfetto (ui.perfetto.dev) or chrome://tracing.

        Args:
            path: the file; one whose name ends in ``.gz`` is compressed.
        """
        write_trace(self, self._activities, path, self._profile_memory)


def nested(
    records: Iterable[tuple[int, tuple[Any, ...]]], activities: Iterable[Activity] = ()
) -> list[FunctionEvent]:
    """Make events of (thread, record), and find out which lie inside which.

    Records of a thread come in the order in which they began. What devices did comes behind them.
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
            if event.stack and event.is_backward and stack[-1].is_backward:
                event.stack = stack[-1].stack
            stack[-1].cpu_children.append(event)
            stack[-1].self_cpu_time_total -= event.cpu_time_total
        stack.append(event)
        events.append(event)
    for event in reversed(events):  # children come after their parents
        event.self_cpu_time_total = max(event.self_cpu_time_total, 0.0)
        if event.cpu_parent is not None:
            event.cpu_parent.cpu_memory_usage += event.cpu_memory_usage
            event.cpu_parent.device_memory_usage += event.device_memory_usage
    attach(events, activities)
    kernels = [each for each in activities if each.kind in ("kernel", "copy", "fill")]
    return events + [
        FunctionEvent.of_device(number, each) for number, each in enumerate(kernels, len(events))
    ]


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


def _cut_front(text: str, width: int) -> str:
    return text if len(text) <= width else "..." + text[3 - width :]


def _layout(columns: list[str], rows: list[list[str]], header: str | None, footer: str) -> str:
    widths = [max(len(cell) for cell in cells) for cells in zip(columns, *rows, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    lines = [header] if header else []
    lines += [rule, _aligned(columns, widths), rule]
    lines += [_aligned(row, widths) for row in rows]
    return "\n".join([*lines, rule, footer, ""])


def _aligned(cells: list[str], widths: list[int]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
