"""The names that ops can have on the tape, to tell a slip of the pen from a rare op.

A name that no entry has would pick nothing, and say nothing. What there is comes from the records
of the native core; custom functions are found when they are asked for.
"""

import difflib
import functools
from collections.abc import Iterable

from tapegrad import _C

__all__ = ["ops_named"]


def ops_named(who: str, names: Iterable[str], more: Iterable[str] = ()) -> list[str]:
    """Return what the tape calls the ops; raise if no entry can have one of the names.

    Args:
        who: who asks, for the error.
        names: what the program gave: ``"log_softmax"``, ``"LogSoftmax"``, or the name of the
            entry, ``"LogSoftmaxBackward0"``.
        more: names that are right, too.

    Example:
        >>> from tapegrad.tape._ops import ops_named
        >>> ops_named("filter", ["LogSoftmaxBackward0", "mm"])
        ['log_softmax', 'mm']
    """
    known = {**_native(), **{name: name for name in more}}
    found = []
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{who}: expected names of ops, got {type(name).__name__}")
        op = known.get(name) or known.get(_C._function_of_class(name)) or _custom().get(name)
        if op is None:
            raise ValueError(
                f"{who}: expected the op of an entry, such as 'mm' or 'native_layer_norm', got "
                f"{name!r}; {_hint(name, known)}print(tape.of(loss)) shows the ops of a program"
            )
        found.append(op)
    return found


@functools.cache
def _native() -> dict[str, str]:
    """Return the ops of the native core by all their names."""
    known = {}
    for name, function, role, *_ in _C._entry_kinds():
        if role != "custom":
            known[name] = known[function] = function
    return known


def _custom() -> dict[str, str]:
    """Return the ops of all functions with a backward of their own that there are now."""
    from tapegrad.autograd.function import Function

    known: dict[str, str] = {}
    waiting = [Function]
    while waiting:
        kinds = waiting.pop().__subclasses__()
        waiting += kinds
        for name in (kind.__name__ for kind in kinds):
            op = _C._function_of_class(name)
            known |= {name: op, f"{name}Backward": op, op: op}
    return known


def _hint(name: str, known: dict[str, str]) -> str:
    candidates = {**known, **{key: op for key, op in _custom().items() if not key.startswith("_")}}
    spellings = {key.lower(): key for key in candidates if not key.endswith("Backward0")}
    near = difflib.get_close_matches(name.lower(), spellings, 3, 0.7)
    return f"did you mean {' or '.join(repr(spellings[each]) for each in near)}? " if near else ""
