"""A copy of a value that nobody writes afterwards is the value itself.

While a program is captured it holds the memory that it sees, so that ops which would take over
memory that nobody else holds make a copy of it instead.
"""

from tapegrad.compiler.passes.text import Step, Text, is_whole, same_place

__all__ = ["drop_copies"]


def drop_copies(text: Text) -> None:
    """Let what is computed from a copy read what was copied."""
    first: dict[int, int] = {}
    last_write: dict[int, int] = {}
    for number, step in enumerate(text.steps):
        for value in (*step.reads(), *step.writes()):
            first.setdefault(value, number)
        for value in step.writes():
            last_write[value] = number
    names: dict[int, int] = {}
    steps = []
    for number, step in enumerate(text.steps):
        step.rename(names)
        if step.name == "copy" and _is_needless(text, step, number, first, last_write):
            source, target = step.inputs[0][0], step.outputs[0][0]
            if target in text.kept:
                text.kept.add(source)
                text.kept.discard(target)
            names[target] = source
            text.renamed[target] = source
            last_write[source] = max(last_write.get(source, 0), last_write[target])
            continue
        steps.append(step)
    text.steps = steps


def _is_needless(
    text: Text, step: Step, number: int, first: dict[int, int], last_write: dict[int, int]
) -> bool:
    source, target = step.inputs[0], step.outputs[0]
    if not isinstance(source, tuple) or not same_place(source, target):
        return False
    a, b = source[0], target[0]
    if a in text.outside or b in text.outside or (a in text.kept and b in text.kept):
        return False
    whole = is_whole(source, text.nbytes[a]) and is_whole(target, text.nbytes[b])
    unwritten = last_write.get(a, -1) < number and last_write[b] == number
    return whole and first[b] == number and unwritten and text.nbytes[a] == text.nbytes[b]
