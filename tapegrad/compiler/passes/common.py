"""What is computed twice from the same is computed once."""

from typing import Any

from tapegrad import _C
from tapegrad.compiler.passes.text import Step, Text

__all__ = ["share_common"]


def share_common(text: Text) -> None:
    """Let the second of two equal calls be the first.

    Only results that nobody writes again and that do not outlive the run are shared. Random calls
    are not equal, whatever their attributes.
    """
    writes: dict[int, int] = {}
    for step in text.steps:
        for value in step.writes():
            writes[value] = writes.get(value, 0) + 1
    versions: dict[int, int] = {}
    known: dict[Any, Step] = {}
    names: dict[int, int] = {}
    steps = []
    for step in text.steps:
        step.rename(names)
        key = _key(step, versions)
        is_fresh = all(
            writes[value] == 1 and value not in text.outside and value not in text.kept
            for value in step.writes()
        )
        if key is not None and is_fresh and len(set(step.writes())) == len(step.outputs):
            before = known.get(key)
            if before is not None and _same_results(text, before, step):
                for one, other in zip(before.writes(), step.writes(), strict=True):
                    names[other] = text.renamed[other] = one
                continue
            known[key] = step
        for value in step.writes():
            versions[value] = versions.get(value, 0) + 1
        steps.append(step)
    text.steps = steps


def _key(step: Step, versions: dict[int, int]) -> Any:
    if step.name in ("read", "constant") or step.lift or "seed" in _C._op_attributes(step.name):
        return None
    inputs = tuple(
        (*each, versions.get(each[0], 0)) if isinstance(each, tuple) else (repr(each),)
        for each in step.inputs
    )
    return step.name, inputs, tuple(map(repr, step.attributes))


def _same_results(text: Text, one: Step, other: Step) -> bool:
    return len(one.outputs) == len(other.outputs) and all(
        a[1:] == b[1:] and text.nbytes[a[0]] == text.nbytes[b[0]]
        for a, b in zip(one.outputs, other.outputs, strict=True)
    )
