"""What can be told of a trace from its parts: guards, memory over time, why none held.

All of it is worked out when somebody asks, from what building a trace leaves behind anyway.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tapegrad import _C
from tapegrad.compiler.passes import Step

if TYPE_CHECKING:
    from tapegrad.compiler._build import BuiltTrace
    from tapegrad.compiler._recording import Recording

__all__ = ["CallInfo", "GuardInfo", "calls_of", "guard_of", "live_bytes", "measure"]

_SHOWN = 8  # elements of a value that was looked at
_REPEATS = 5
_NOT_CALLS = ("read", "constant")


class GuardInfo(NamedTuple):
    """A value that Python looked at: what it was, and the line that did."""

    value: str
    line: str


class CallInfo(NamedTuple):
    """A step of a program."""

    op: str
    inputs: list[str]
    attributes: list[str]
    outputs: list[str]
    line: str
    group: int  # the number of the group that it runs in, or -1


def type_text(operand: Any) -> str:
    """Return an operand's dtype and shape, or the number that it is."""
    if not isinstance(operand, tuple):
        return repr(operand)
    dtype = str(operand[4]).removeprefix("torch.")
    return f"{dtype}[{', '.join(map(str, operand[2]))}]"


def calls_of(steps: Sequence[Step], spans: Sequence[tuple[int, int]] = ()) -> list[CallInfo]:
    """Return the steps of a program as text."""
    group = {
        place: number for number, span in enumerate(spans) for place in range(span[0], span[1])
    }
    return [
        CallInfo(
            step.name,
            [type_text(each) for each in step.inputs],
            [str(each) for each in step.attributes],
            [type_text(each) for each in step.outputs],
            step.line or "",
            group.get(place, -1),
        )
        for place, step in enumerate(steps)
    ]


def guard_of(step: Step) -> GuardInfo:
    """Return what a guard compares with, and where it came from."""
    value = "a value that was looked at"
    operands = [each for each in step.inputs if isinstance(each, tuple)]
    if step.data and operands and len(step.data) % operands[0][4].itemsize == 0:
        found = _C.frombuffer(bytearray(step.data), dtype=operands[0][4]).tolist()
        more = ", ..." if len(found) > _SHOWN else ""
        value = ", ".join(repr(each) for each in found[:_SHOWN]) + more
    return GuardInfo(value, step.line or "a line that is not known")


def live_bytes(
    steps: Sequence[Step], nbytes: Sequence[int], outside: set[int], kept: set[int]
) -> list[int]:
    """Return the bytes of results at each step, if each has memory until its last use.

    Args:
        steps: the program.
        nbytes: of each value.
        outside: values that existed before, which are not counted.
        kept: values that outlive the run.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for place, step in enumerate(steps):
        for value in (*step.reads(), *step.writes()):
            first.setdefault(value, place)
            last[value] = place
    change = [0] * (len(steps) + 1)
    for value, place in first.items():
        if value not in outside:
            change[place] += nbytes[value]
            change[len(steps) if value in kept else last[value] + 1] -= nbytes[value]
    found, live = [], 0
    for each in change[:-1]:
        live += each
        found.append(live)
    return found


def why_none_held(built: Sequence["BuiltTrace"], recording: "Recording | None") -> str:
    """Return in what a call differs from the trace that was made last."""
    if recording is None:
        return "other arguments, modes, tensors or values that were looked at"
    before, now = built[-1].argument_types, recording.argument_types
    if len(before) != len(now):
        return f"{len(before)} tensors were given, now {len(now)}"
    for number, (one, other) in enumerate(zip(before, now, strict=True)):
        if one != other:
            return f"argument {number} was {one}, is {other}"
    guards = [guard_of(Step(step)) for step in recording.guards()]
    known = [guard_of(step) for step in built[-1].text.steps if step.name == "read"]
    for mine, theirs in zip(known, guards, strict=False):
        if mine.value != theirs.value:
            return f"a value looked at was {mine.value}, is {theirs.value} ({theirs.line})"
    return "other arguments, modes, tensors or values that were looked at"


def measure(built: "BuiltTrace") -> list[float | None]:
    """Return the seconds of each step, run by itself on zeros of the shapes it was captured with.

    The plan runs without dispatch, and groups tile by tile, so that its times are shorter. None
    stands for what is no call, and for a call that refuses zeros.
    """
    nbytes = built.text.nbytes
    return [
        None if step.name in _NOT_CALLS else _seconds_of(step, nbytes) for step in built.text.steps
    ]


def _seconds_of(step: Step, nbytes: Sequence[int]) -> float | None:
    values = list(dict.fromkeys((*step.reads(), *step.writes())))
    numbers = {value: number for number, value in enumerate(values)}
    program = _C.Program()
    for value in values:
        program.add_value(nbytes[value], "cpu", False)
    renamed = Step((step.name, step.inputs, step.attributes, step.outputs, step.data, step.line))
    renamed.rename(numbers)
    program.add_step(
        renamed.name,
        renamed.inputs,
        renamed.attributes,
        renamed.outputs,
        renamed.data,
        renamed.line,
    )
    given = [
        (number, _C.zeros(nbytes[value], dtype=_C.uint8), 0) for value, number in numbers.items()
    ]
    best: float | None = None
    for _ in range(_REPEATS):
        start = time.perf_counter()
        try:
            program.run(given, [])
        except (RuntimeError, ValueError, IndexError):
            return None
        took = time.perf_counter() - start
        best = took if best is None else min(best, took)
    return best
