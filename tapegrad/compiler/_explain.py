"""What became of the calls of a compiled function, as text."""

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tapegrad.compiler._compiled import CompiledFunction

__all__ = ["Explanation", "TraceInfo"]


class TraceInfo(NamedTuple):
    """One trace: what it runs, and what it depends on."""

    calls: list[str]
    calls_captured: int
    groups: list[list[str]]  # calls that run tile by tile
    guards: list[str]  # lines at which values were looked at
    watched: list[str]  # of Python's state
    tensors: int  # that the function finds by itself
    arguments: int
    lifted: list[str]
    arena_bytes: int
    made_bytes: int  # without sharing memory
    compile_seconds: float


class Explanation:
    """The traces of a function, and why calls ran eagerly."""

    def __init__(self, compiled: "CompiledFunction") -> None:
        self.name = compiled.__name__
        self.traces = [
            TraceInfo(
                each.calls,
                each.calls_captured,
                each.groups,
                [line or "a value that was looked at" for line, _ in each.guards],
                each.watched,
                each.tensors,
                len(each.arguments),
                each.lifted,
                each.arena_bytes,
                each.made_bytes,
                each.seconds,
            )
            for each in compiled.built
        ]
        self.reasons = list(compiled.refusals)
        self.misses = dict(compiled.misses)
        self.eager_reason = compiled.eager_reason

    def __str__(self) -> str:
        lines = [f"{self.name}: {len(self.traces)} traces"]
        for number, trace in enumerate(self.traces):
            ops = ", ".join(f"{op} {count}" for op, count in Counter(trace.calls).most_common(6))
            lines += [
                f"  trace {number}: {len(trace.calls)} calls of {trace.calls_captured} captured "
                f"({ops})",
                f"    memory: {trace.arena_bytes} bytes in one arena, {trace.made_bytes} without "
                "sharing",
                f"    depends on {trace.arguments} tensors given, {trace.tensors} found, "
                f"{len(trace.watched)} objects of Python",
                f"    built in {trace.compile_seconds * 1e3:.1f} ms",
            ]
            lines += [f"    tile by tile: {', '.join(group)}" for group in trace.groups]
            lines += [f"    read anew: {each}" for each in trace.lifted]
            lines += [f"    guard: {each}" for each in trace.guards]
        lines += [f"  {count} times no trace held: {why}" for why, count in self.misses.items()]
        if self.eager_reason:
            lines.append(f"  runs eagerly now: {self.eager_reason}")
        lines += [f"  a call ran eagerly: {reason}" for reason in self.reasons]
        return "\n".join(lines)

    __repr__ = __str__
