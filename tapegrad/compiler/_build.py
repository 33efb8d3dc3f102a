"""From a recording to a trace that runs: passes, then a program with a place for each value."""

import time
from typing import Any

from tapegrad import _C
from tapegrad.compiler._recording import TENSOR, Made, Recording
from tapegrad.compiler._walk import Refusal
from tapegrad.compiler.passes import (
    PASSES,
    Group,
    Layout,
    Step,
    Text,
    drop_copies,
    find_groups,
    lay_out,
    lay_out_tile,
)
from tapegrad.compiler.passes.rows import may_fail

__all__ = ["BuiltTrace", "build"]

# Steps, among those that no tile runs, which take whatever values they get.
_SURE = ("conv", "batch_norm", "avg_pool", "max_pool", "attention", "recurrent", "cat")
_ARENA, _CONSTANT, _FIXED, _GIVEN, _FRESH, _TILE, _KEPT = range(7)  # those of csrc/intercept/plan.h


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
        self.capture_seconds = recording.seconds
        self.passes_seconds = 0.0
        self.steps_captured = recording.steps
        self.kept_captured = {each.value for each in recording.made}
        self.text = text
        self.layout = layout
        self.spans: list[tuple[int, int]] = []  # the steps of the groups
        self.argument_types = recording.argument_types


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
    on_device = recording.device >= 0
    # On a device the same calls run in the same order: how they are merged depends on it.
    for each in (drop_copies,) if on_device else PASSES:
        each(text)
    groups = [] if on_device else find_groups(text)
    passes_seconds = time.perf_counter() - start
    layout = Layout({}, set(), 0) if on_device else lay_out(text, groups)
    used = {value for step in text.steps for value in (*step.reads(), *step.writes())}
    program = _program_of(recording, text, used)
    made = [each._replace(value=text.final(each.value)) for each in recording.made]
    inner = {value for group in groups for value in group.inner}
    homes = _homes(recording, text, layout, used, {each.value for each in made}, inner)
    if on_device:
        _keep_gradients(recording, made, homes)
    trace = _C._Trace(
        program,
        homes,
        layout.arena_bytes,
        recording.walk.watch,
        recording.environment,
        recording.device,
    )
    for group in groups:
        _add_group(trace, text, group)
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
        if on_device:
            trace.capture(*recording.device_random)
    except ValueError as error:
        raise Refusal(str(error)) from error
    by_gradient = any(source.is_grad for source in recording.sources)
    if not (recording.grads or by_gradient or recording.walk.mentions_gradients()):
        trace.ignore_gradients()
    if recording.walk.mentions_offsets():
        trace.watch_offsets()
    if recording.walk.sees_gradients():
        trace.watch_gradients()
    if recording.walk.catches_errors and not on_device:
        _undo_errors(trace, text, groups)
    trace.settle()
    if recording.differentiable is not None:
        known = recording.differentiable
        known.counters = recording.random[2] - recording.random[1]
        known.trace = build(known.backward).trace
        known.trace.run_anywhere()
    built = BuiltTrace(recording, text, layout, trace, time.perf_counter() - start)
    built.groups = [[step.name for step in text.steps[g.begin : g.end]] for g in groups]
    built.spans = [(group.begin, group.end) for group in groups]
    built.passes_seconds = passes_seconds
    return built


def _undo_errors(trace: Any, text: Text, groups: list[Group]) -> None:
    """Let the function itself run, from its beginning, where it may go on after an error."""
    steps = [
        number
        for number, step in enumerate(text.steps)
        if may_fail(step) and not step.name.endswith("_step") and not step.name.startswith(_SURE)
    ]
    if steps:
        trace.undo_errors(max([*steps, *(g.end - 1 for g in groups if g.begin <= steps[-1])]))


def _add_group(trace: Any, text: Text, group: Group) -> None:
    layout = lay_out_tile(text, group)
    trace.add_group(
        group.begin,
        group.end,
        group.grid.rows,
        group.grid.length or 1,
        group.tile,
        group.grid.part or group.tile,
        layout.arena_bytes,
        list(layout.offsets.items()),
        [each.cut and tuple(each.cut) for operands in group.shown for each in operands],
    )


def _program_of(recording: Recording, text: Text, used: set[int]) -> Any:
    program = _C.Program()
    for number, nbytes in enumerate(text.nbytes):
        needed = number in used or number in text.kept
        device = recording.values[text.copies.get(number, number)].device
        program.add_value(nbytes if needed else 0, device, number not in text.outside)
    for step in text.steps:
        program.add_step(
            step.name, step.inputs, step.attributes, step.outputs, step.data, step.line
        )
    return program


def _homes(
    recording: Recording,
    text: Text,
    layout: Layout,
    used: set[int],
    made: set[int],
    inner: set[int],
) -> list[tuple[int, int, Any]]:
    given = {source.value for source in recording.sources}
    homes: list[tuple[int, int, Any]] = []
    for number in range(len(text.nbytes)):
        value = recording.values[text.copies.get(number, number)]
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
            homes.append((_ARENA, 0 if recording.device >= 0 else layout.offsets[number], None))
    return homes


def _keep_gradients(
    recording: Recording, made: list[Made], homes: list[tuple[int, int, Any]]
) -> None:
    """Let gradients stay where a graph writes them; what the result shows is copied."""
    shown = {made[part[1]].value for part in recording.results if part[0] == TENSOR}
    for _, _, place in recording.grads:
        if place >= 0 and made[place].value not in shown:
            homes[made[place].value] = (_KEPT, 0, None)
