"""Large values that wait for the backward are computed a second time, where that is cheap.

What an activation function gives is read by the next product, and again by the derivative of that
product, much later; what it was computed from is needed until then anyway. So the value need not
wait: the call is made again, right before it is needed, from the same bytes.
"""

from typing import NamedTuple

from tapegrad import _C
from tapegrad.compiler.passes.text import Step, Text, is_whole

__all__ = ["recompute"]

_LEAST_BYTES = 1 << 20  # of a value that is worth a call
_LEAST_GAIN = 0.05  # of the peak
_MOST_TRIES = 64
_MOST_LOOKS = 100_000  # at steps: the tries of a long program are fewer


class _Choice(NamedTuple):
    """A value to be computed again.

    Attributes:
        made: the step that computes it.
        before: the step that needs it again.
    """

    made: int
    before: int


def recompute(text: Text) -> None:
    """Compute large pointwise results again if less memory is needed at a time then.

    A call is repeated if its inputs are what they were, and needed until then without it. Random
    calls, and those whose numbers are read anew, are not.
    """
    first_peak, _ = _peak(text)
    steps, tried = text.steps, set[int]()
    for _ in range(min(_MOST_TRIES, _MOST_LOOKS // max(len(steps), 1))):
        peak, where = _peak(text)
        choice = _find(text, where, tried)
        if choice is None:
            break
        tried.add(text.steps[choice.made].outputs[0][0])
        former = text.steps
        _repeat(text, choice)
        if _peak(text)[0] > peak:
            text.steps = former
    if _peak(text)[0] > (1 - _LEAST_GAIN) * first_peak:
        text.steps = steps


def _uses(text: Text) -> dict[int, list[int]]:
    """Return the steps that read or write each value, in order."""
    uses: dict[int, list[int]] = {}
    for number, step in enumerate(text.steps):
        for value in {*step.reads(), *step.writes()}:
            uses.setdefault(value, []).append(number)
    return uses


def _peak(text: Text) -> tuple[int, int]:
    """Return how many bytes are needed at a time at most, and the first step that needs them."""
    change = [0] * (len(text.steps) + 1)
    for value, numbers in _uses(text).items():
        if value not in text.outside and value not in text.kept:
            change[numbers[0]] += text.nbytes[value]
            change[numbers[-1] + 1] -= text.nbytes[value]
    best, where, live = 0, 0, 0
    for number, each in enumerate(change):
        live += each
        if live > best:
            best, where = live, number
    return best, where


def _find(text: Text, peak: int, tried: set[int]) -> _Choice | None:
    """Return the largest value that is not used at a step, was before, and can be made again."""
    uses = _uses(text)
    found: list[tuple[int, _Choice]] = []
    for number, step in enumerate(text.steps[:peak]):
        if not _is_cheap(text, step) or step.outputs[0][0] in tried:
            continue
        value = step.outputs[0][0]
        later = [each for each in uses[value] if each > peak]
        if peak in uses[value] or not later:
            continue
        if uses[value][0] == number and _is_possible(text, uses, number, later[0]):
            found.append((text.nbytes[value], _Choice(number, later[0])))
    return max(found, default=(0, None), key=lambda each: each[0])[1]


def _is_cheap(text: Text, step: Step) -> bool:
    if step.name in ("read", "constant") or step.lift or len(step.outputs) != 1:
        return False
    output = step.outputs[0]
    value = output[0]
    return (
        _C._op_overwrites(step.name)
        and "seed" not in _C._op_attributes(step.name)
        and value not in text.outside
        and value not in text.kept
        and value not in step.reads()
        and text.nbytes[value] >= _LEAST_BYTES
        and is_whole(output, text.nbytes[value])
    )


def _is_possible(text: Text, uses: dict[int, list[int]], made: int, before: int) -> bool:
    """Whether a call gives the same before a later step, and nothing waits for it."""
    step = text.steps[made]
    value = step.outputs[0][0]
    if any(value in text.steps[each].writes() for each in uses[value][1:]):
        return False
    for each in step.reads():
        is_lasting = each in text.outside or each in text.kept
        if not is_lasting and uses[each][-1] < before:
            return False
        written = (n for n in uses[each] if made < n < before)
        if any(each in text.steps[n].writes() for n in written):
            return False
    return True


def _repeat(text: Text, choice: _Choice) -> None:
    """Put a copy of a call before a step, whose value takes the place of the first from there."""
    step = text.steps[choice.made]
    value = step.outputs[0][0]
    copy = text.add_value(value)
    names = {value: copy}
    rest = [_renamed(each, names) for each in text.steps[choice.before :]]
    again = step.copied()
    again.outputs = ((copy, *step.outputs[0][1:]),)
    text.steps = [*text.steps[: choice.before], again, *rest]


def _renamed(step: Step, names: dict[int, int]) -> Step:
    made = step.copied()
    made.rename(names)
    return made
