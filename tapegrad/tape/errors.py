"""What an out-of-memory error says about the tape.

The allocator calls `largest_entries` when it has nothing left to give. So no tensor is made here,
and nothing that goes wrong comes out.
"""

from typing import Any

from tapegrad import _C
from tapegrad.tape.entries import Entry, list_entries, without_collections
from tapegrad.tape.modules import assign_modules
from tapegrad.tape.recording import calls_here
from tapegrad.utils._units import human_bytes

__all__ = ["largest_entries", "module_of"]

_ROWS = 5
_EVER = 2**63
_AROUND = 100  # how many entries on both sides tell the module of one


def largest_entries(device: str) -> str:
    """Return the live entries that keep the most bytes, as the end of an error's text.

    Args:
        device: whose memory has run out, such as "cpu" or "cuda:0"; other bytes do not count.

    Returns:
        What follows after the sentence: ``"; the tape keeps 1.2 GiB in 350 entries; the largest:"``
        and a line for each; nothing if the tape keeps nothing, or cannot be listed.
    """
    try:
        return _describe(device)
    except BaseException:  # the error being raised is what matters
        return ""


def module_of(node: Any) -> str:
    """Return the path of the module that an entry belongs to, nothing if it is not known.

    Args:
        node: the entry, as in ``tensor.grad_fn``.

    Example:
        >>> from tapegrad.tape.errors import module_of
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        >>> module_of(model(torch.ones(1, 2)).grad_fn)
        '1'
    """
    try:
        sequence = node._sequence_nr()
        entries = _live_entries(max(sequence - _AROUND, 0), sequence + _AROUND)
        _name_modules(entries)
        return next((e.module for e in entries if e.sequence == sequence), None) or ""
    except Exception:  # the error being reported is what matters
        return ""


def _live_entries(first: int = 0, last: int = _EVER) -> list[Entry]:
    with without_collections():
        return list_entries(_C._tape_live(first, last))


def _describe(device: str) -> str:
    entries = _live_entries()
    for entry in entries:
        entry.bytes = sum(value.bytes for value in entry.saved if value.device == device)
    total = sum(entry.bytes for entry in entries)
    if not total:
        return ""
    _name_modules(entries)
    keeping = sum(1 for entry in entries if entry.bytes)
    where = "" if device == "cpu" else f" of {device}"
    text = f"; the tape keeps {human_bytes(total)}{where} in {keeping:,} entries"
    largest = sorted(entries, key=lambda entry: -entry.bytes)[:_ROWS]
    lines = [line_of(entry) for entry in largest if entry.bytes]
    return "\n  ".join([f"{text}; the largest:", *lines])


def _name_modules(entries: list[Entry]) -> None:
    try:
        assign_modules(entries, calls=calls_here())
    except Exception:  # a module that is half built, say: then without names
        return


def line_of(entry: Entry) -> str:
    """Return one line about an entry: what, how much, where."""
    module = f", module {entry.module}" if entry.module else ""
    return f"{entry.name} saved {human_bytes(entry.bytes)} at {entry.where}{module}"
