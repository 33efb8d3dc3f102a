"""Steps whose results nobody reads are left out."""

from tapegrad.compiler.passes.text import Text

__all__ = ["drop_dead"]


def drop_dead(text: Text) -> None:
    """Keep guards, writes to what existed before or outlives the run, and what they need."""
    live = set(text.kept) | text.outside
    kept = []
    for step in reversed(text.steps):
        if step.name != "read" and not any(value in live for value in step.writes()):
            continue
        live.update(step.reads())
        kept.append(step)
    text.steps = kept[::-1]
