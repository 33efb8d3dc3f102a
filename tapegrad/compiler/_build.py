"""From a recording to a trace that runs: passes, then a program with a place for each value."""

import time
from typing import Any

from tapegrad import _C
from tapegrad.compiler._recording import Recording
from tapegrad.compiler._walk import Refusal
from tapegrad.compiler.passes import (
    PASSES,
    TILE,
    Layout,
    Step,
    Text,
    find_groups,
    lay_out,
    lay_out_tile,
)

__all__ = ["BuiltTrace", "build"]

_ARENA, _CONSTANT, _FIXED, _GIVEN, _FRESH, _TILE = range(6)  # those of csrc/intercept/plan.h


class BuiltTrace:
    """A trace, and what `explain` tells of it."""

    def __init__(
        self, recording: Recording, text: Text, layout: Layout, trace: Any, seconds: float
    ) -> None:
        self.trace = trace
        self.groups: list[list[str]] = []
        self.calls_captured = sum(step[0] not in ("read", "constant") for step in recording.steps)
        self.calls = [step.name for step in text.steps if step.name not in ("read", "constant")]
        self.guards = [(step.line, step.data) for step in text.steps if step.name == "read"]
        self.watched = list(recording.walk.names)
        self.watch = recording.walk.watch
        self.tensors = len(recording.lasting)
        self.arguments = [part for part in recording.argument_parts if part[0] == 0]
        self.lifted = [
            f"{key} of a group of an optimizer"
            for _, keys in recording.walk.groups
            for key in sorted(keys)
        ]
        self.arena_bytes = layout.arena_bytes
        self.made_bytes = sum(value.nbytes for value in recording.values if value.is_made)
        self.seconds = seconds


def text_of(recording: Recording) -> Text:
    """Return what passes work on."""
    lifts = {step: (which, group) for step, which, group in recording.lifts}
    steps = [Step(step, lifts.get(number)) for number, step in enumerate(recording.steps)]
    outside = {
        number
        for number, value in enumerate(recording.values)
        if not value.is_made and value.used[0] != value.used[1]
    }
    kept = {each.value for each in recording.made}
    return Text(steps, [value.nbytes for value in recording.values], outside, kept)


def build(recording: Recording) -> BuiltTrace:
    """Make a recording ready to run."""
    start = time.perf_counter()
    text = text_of(recording)
    for each in PASSES:
        each(text)
    groups = find_groups(text)
    layout = lay_out(text, groups)
    used = {value for step in text.steps for value in (*step.reads(), *step.writes())}
    program = _program_of(text, used)
    made = [each._replace(value=text.final(each.value)) for each in recording.made]
    inner = {value for group in groups for value in group.inner}
    homes = _homes(recording, layout, used, {each.value for each in made}, inner)
    trace = _C._Trace(
        program, homes, layout.arena_bytes, recording.walk.watch, recording.environment
    )
    for group in groups:
        tile = lay_out_tile(text, group)
        trace.add_group(
            group.begin, group.end, group.numel, TILE, tile.arena_bytes, list(tile.offsets.items())
        )
    trace.set_structure(recording.argument_parts, recording.results)
    trace.set_tensors(
        recording.argument_forms,
        recording.lasting,
        [tuple(source) for source in recording.sources if source.value in used],
        recording.grads,
    )
    trace.set_made([tuple(each) for each in made])
    lifts = [(number, *step.lift) for number, step in enumerate(text.steps) if step.lift]
    try:
        trace.set_numbers(lifts, *recording.random)
    except ValueError as error:
        raise Refusal(str(error)) from error
    by_gradient = any(source.is_grad for source in recording.sources)
    if not (recording.grads or by_gradient or recording.walk.mentions_gradients()):
        trace.ignore_gradients()
    trace.settle()
    if recording.differentiable is not None:
        known = recording.differentiable
        known.counters = recording.random[2] - recording.random[1]
        known.trace = build(known.backward).trace
        known.trace.run_anywhere()
    built = BuiltTrace(recording, text, layout, trace, time.perf_counter() - start)
    built.groups = [[step.name for step in text.steps[g.begin : g.end]] for g in groups]
    return built


def _program_of(text: Text, used: set[int]) -> Any:
    program = _C.Program()
    for number, nbytes in enumerate(text.nbytes):
        needed = number in used or number in text.kept
        program.add_value(nbytes if needed else 0, "cpu", number not in text.outside)
    for step in text.steps:
        program.add_step(
            step.name, step.inputs, step.attributes, step.outputs, step.data, step.line
        )
    return program


def _homes(
    recording: Recording, layout: Layout, used: set[int], made: set[int], inner: set[int]
) -> list[tuple[int, int, Any]]:
    given = {source.value for source in recording.sources}
    homes: list[tuple[int, int, Any]] = []
    for number, value in enumerate(recording.values):
        if number in made:
            homes.append((_FRESH, 0, None))
        elif number in inner:
            homes.append((_TILE, 0, None))
        elif number not in used:
            homes.append((_ARENA, 0, None))
        elif value.fixed is not None:
            homes.append((_FIXED, 0, value.fixed))
        elif number in given:
            homes.append((_GIVEN, 0, None))
        elif number in layout.constants:
            homes.append((_CONSTANT, 0, None))
        else:
            homes.append((_ARENA, layout.offsets[number], None))
    return homes
