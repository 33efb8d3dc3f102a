"""What became of the calls of a compiled function, as facts, as text and as a page."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tapegrad.compiler._facts import CallInfo, GuardInfo, calls_of, guard_of, live_bytes, measure
from tapegrad.compiler.passes import Step
from tapegrad.tape.show.lines import short_lines

if TYPE_CHECKING:
    from tapegrad.compiler._build import BuiltTrace
    from tapegrad.compiler._compiled import CompiledFunction

__all__ = ["Explanation", "TraceInfo"]

_MOST_LINES = 6  # that are named


class TraceInfo(NamedTuple):
    """One trace: what it runs, and what it depends on."""

    calls: list[str]
    calls_captured: int
    groups: list[list[str]]  # calls that run tile by tile
    guards: list[GuardInfo]  # values that were looked at, and the lines
    watched: list[str]  # of Python's state
    tensors: int  # that the function finds by itself
    arguments: int
    lifted: list[str]
    arena_bytes: int
    peak_bytes: int  # of results, with memory of their own until their last use
    made_bytes: int  # without sharing memory
    capture_seconds: float  # of the call that was captured, the function's own time among it
    passes_seconds: float
    plan_seconds: float
    before: list[CallInfo]  # as captured
    after: list[CallInfo]  # as run
    live_before: list[int]  # bytes of results at each step, as captured
    live_after: list[int]  # what a run holds: the arena, and what outlives it

    @property
    def compile_seconds(self) -> float:
        """What building took after the capture."""
        return self.passes_seconds + self.plan_seconds


def _info(built: "BuiltTrace") -> TraceInfo:
    text = built.text
    captured = [Step(step) for step in built.steps_captured]
    live = live_bytes(captured, text.nbytes, text.outside, built.kept_captured)
    return TraceInfo(
        built.calls,
        built.calls_captured,
        built.groups,
        [guard_of(step) for step in text.steps if step.name == "read"],
        built.watched,
        built.tensors,
        len(built.arguments),
        built.lifted,
        built.arena_bytes,
        max(live, default=0),
        built.made_bytes,
        built.capture_seconds,
        built.passes_seconds,
        built.seconds - built.passes_seconds,
        calls_of(captured),
        calls_of(text.steps, built.spans),
        live,
        [built.arena_bytes + sum(text.nbytes[each] for each in text.kept)] * len(text.steps),
    )


class Explanation:
    """The traces of a function, and why calls ran eagerly."""

    def __init__(self, compiled: "CompiledFunction") -> None:
        self.name = compiled.__name__
        self._built = list(compiled.built)
        self.traces = [_info(each) for each in self._built]
        self.reasons = list(compiled.refusals)
        self.misses = dict(compiled.misses)
        self.eager_reason = compiled.eager_reason

    def measure(self, trace: int = 0) -> list[float | None]:
        """Return the seconds that each step of a trace takes when it is run by itself.

        Steps run one by one with dispatch, on zeros, and not tile by tile: the plan is faster.
        None stands for a guard, a constant, or a call that refuses zeros.

        Args:
            trace: the number of the trace.
        """
        return measure(self._built[trace])

    def html(self, path: str | Path, *, times: bool = False) -> Path:
        """Write a page of the traces: programs before and after the passes, memory, guards.

        Args:
            path: the file, which needs nothing outside itself.
            times: measure the steps (see `measure`) and show what they take.

        Returns:
            The path.
        """
        from tapegrad.compiler._page import write_page

        measured = [self.measure(number) for number in range(len(self.traces))] if times else None
        return write_page(self, path, measured)

    def __str__(self) -> str:
        lines = [f"{self.name}: {len(self.traces)} traces", *self._table()]
        for number, trace in enumerate(self.traces):
            ops = ", ".join(f"{op} {count}" for op, count in Counter(trace.calls).most_common(6))
            lines += [
                f"  trace {number}: {len(trace.calls)} calls of {trace.calls_captured} captured "
                f"({ops})",
                f"    memory: {trace.arena_bytes} bytes in one arena, {trace.peak_bytes} at the "
                f"peak of the captured call, {trace.made_bytes} without sharing",
                f"    depends on {trace.arguments} tensors given, {trace.tensors} found, "
                f"{len(trace.watched)} objects of Python",
                f"    captured in {trace.capture_seconds * 1e3:.1f} ms, built in "
                f"{trace.compile_seconds * 1e3:.1f} ms",
            ]
            names = short_lines(call.line for call in trace.after)
            for place, group in enumerate(trace.groups):
                where = _lines_of([call for call in trace.after if call.group == place], names)
                lines.append(f"    tile by tile: {', '.join(group)}{where and f' ({where})'}")
            counts = Counter(names[call.line] for call in trace.after if call.line)
            lines += [
                f"    {line}: {count} call{'s' if count > 1 else ''}"
                for line, count in counts.most_common(_MOST_LINES)
            ]
            lines += [f"    read anew: {each}" for each in trace.lifted]
            lines += [f"    guard: {each.value}, at {each.line}" for each in trace.guards]
        lines += [f"  {count} times no trace held: {why}" for why, count in self.misses.items()]
        if self.eager_reason:
            lines.append(f"  runs eagerly now: {self.eager_reason}")
        lines += [f"  a call ran eagerly: {reason}" for reason in self.reasons]
        return "\n".join(lines)

    __repr__ = __str__

    def _table(self) -> list[str]:
        """Return a line for each trace."""
        if not self.traces:
            return []
        names = "trace,calls,captured,groups,guards,arena,peak,sum,capture ms,passes ms,plan ms"
        rows: list[tuple[str, ...]] = [tuple(names.split(","))]
        for number, trace in enumerate(self.traces):
            counts = (number, len(trace.calls), trace.calls_captured, len(trace.groups))
            sizes = (len(trace.guards), trace.arena_bytes, trace.peak_bytes, trace.made_bytes)
            seconds = (trace.capture_seconds, trace.passes_seconds, trace.plan_seconds)
            rows.append((*map(str, (*counts, *sizes)), *(f"{1e3 * each:.1f}" for each in seconds)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return [
            "  " + "  ".join(each.rjust(width) for each, width in zip(row, widths, strict=True))
            for row in rows
        ]


def _lines_of(calls: "list[CallInfo]", names: dict[str, str]) -> str:
    """Return where calls stand in the source, in order; a derivative stands where its call does."""
    found = dict.fromkeys(
        names[call.line].removesuffix(", backward") for call in calls if call.line
    )
    more = ["..."] if len(found) > _MOST_LINES else []
    return "; ".join([*list(found)[:_MOST_LINES], *more])
