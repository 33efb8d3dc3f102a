"""Questions about the graph of a tape: what is dead, what takes longest, what changed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tapegrad.tape.entries import Entry, Saved
from tapegrad.utils._units import human_bytes

__all__ = ["Change", "Dead", "DeadValue", "Diff"]


class DeadValue(NamedTuple):
    """A value that is kept for nothing.

    Attributes:
        entry: the entry that keeps it.
        value: the value.
        bytes: what would be freed: 0 if something else keeps the same memory.
        reason: why no gradient uses it.
    """

    entry: Entry
    value: Saved
    bytes: int
    reason: str


class Dead(Sequence[DeadValue]):
    """The values that are kept and never used; prints as a list."""

    def __init__(self, values: list[DeadValue]) -> None:
        self.values = values
        self.total_bytes = sum(value.bytes for value in values)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __str__(self) -> str:
        if not self.values:
            return "nothing is kept in vain"
        lines = [f"{len(self)} values are kept in vain, {human_bytes(self.total_bytes)}:"]
        for dead in sorted(self.values, key=lambda each: -each.bytes):
            module = f", module {dead.entry.module}" if dead.entry.module else ""
            shape = "" if dead.value.shape is None else f" {list(dead.value.shape)}"
            lines.append(
                f"  {human_bytes(dead.bytes)}: {dead.value.name}{shape} of {dead.entry.op} at "
                f"{dead.entry.line}{module}: {dead.reason}"
            )
        return "\n".join(lines)

    __repr__ = __str__


def find_dead(entries: Sequence[Entry], outputs: set[int], wanted: set[int] | None) -> Dead:
    """Return the saved values that no gradient from `outputs` to the wanted leaves is made of.

    Args:
        entries: in tape order.
        outputs: sequence numbers of the entries that a sweep would start at.
        wanted: those of the leaves whose gradient counts; None for all that require grad.
    """
    reached = _reached(entries, outputs)
    useful = _useful(entries, wanted)
    needed: set[int] = set()
    suspects: list[tuple[Entry, Saved, str]] = []
    for entry in entries:
        for value in entry.saved:
            reason = _why_dead(entry, value, reached, useful)
            if reason is not None:
                suspects.append((entry, value, reason))
            elif value.state in ("held", "shared"):
                needed.add(value.storage)
    freed: set[int] = set()
    dead = []
    sizes = {value.storage: value.bytes for e in entries for value in e.saved if value.bytes}
    for entry, value, reason in suspects:
        if value.state not in ("held", "shared"):
            continue
        counts = value.storage not in needed and value.storage not in freed
        freed.add(value.storage)
        dead.append(DeadValue(entry, value, sizes.get(value.storage, 0) if counts else 0, reason))
    return Dead(dead)


def _reached(entries: Sequence[Entry], outputs: set[int]) -> set[int]:
    reached = set(outputs)
    for entry in reversed(entries):
        if entry.sequence in reached:
            reached |= {each.producer.sequence for each in entry.inputs if each.producer}
    return reached


def _useful(entries: Sequence[Entry], wanted: set[int] | None) -> set[int]:
    """Return the entries from which a wanted leaf can be reached."""
    useful: set[int] = set()
    for entry in entries:
        if entry.is_leaf:
            counts = entry.sequence in wanted if wanted is not None else entry.tensor.requires_grad
        else:
            counts = any(_leads_on(entry, number, useful) for number in range(len(entry.inputs)))
        if counts:
            useful.add(entry.sequence)
    return useful


def _leads_on(entry: Entry, number: int, useful: set[int]) -> bool:
    """Whether the gradient of an input is of use. What lies outside the tape is taken to be."""
    producer = entry.inputs[number].producer
    if producer is not None:
        return producer.sequence in useful
    return entry.node.next_functions[number][0] is not None


def _why_dead(entry: Entry, value: Saved, reached: set[int], useful: set[int]) -> str | None:
    if entry.sequence not in reached:
        return "no gradient comes here from the outputs"
    if entry.sequence not in useful:
        return "no leaf behind it wants a gradient"
    if value.inputs is None or any(
        number < len(entry.inputs) and _leads_on(entry, number, useful) for number in value.inputs
    ):
        return None
    return "the input whose gradient it is for wants none"


# ---- the critical path


def find_critical_path(entries: Sequence[Entry], by: str) -> tuple[list[Entry], float]:
    """Return the chain of entries with the largest cost, and that cost."""
    costs = {
        "time": lambda entry: (entry.forward_us or 0.0) + (entry.backward_us or 0.0),
        "bytes": lambda entry: float(entry.bytes),
        "entries": lambda entry: 0.0 if entry.is_leaf else 1.0,
    }
    if by not in costs:
        raise ValueError(
            f"critical_path: expected by to be 'time', 'bytes' or 'entries', got {by!r}"
        )
    cost = costs[by]
    best: dict[int, tuple[float, Entry | None]] = {}
    last: Entry | None = None
    for entry in entries:
        before: tuple[float, Entry | None] = (0.0, None)
        for each in entry.inputs:
            if each.producer is not None and each.producer.sequence in best:
                reached = best[each.producer.sequence][0]
                if before[1] is None or reached > before[0]:
                    before = (reached, each.producer)
        best[entry.sequence] = (before[0] + cost(entry), before[1])
        if last is None or best[entry.sequence][0] >= best[last.sequence][0]:
            last = entry
    path: list[Entry] = []
    total = best[last.sequence][0] if last is not None else 0.0
    while last is not None:
        path.append(last)
        last = best[last.sequence][1]
    return path[::-1], total


# ---- differences


class Change(NamedTuple):
    """What changed of the entries of one op at one line in one module.

    Attributes:
        kind: ``"new"``, ``"gone"``, ``"grew"``, ``"shrank"`` or ``"changed"`` (other shapes).
        op: the op.
        line: the line.
        module: the module, or None.
        entries: how many there were, and how many there are.
        bytes: what they were charged, and what they are.
        shapes: the shapes of first outputs that are gone, and those that are new.
    """

    kind: str
    op: str
    line: str
    module: str | None
    entries: tuple[int, int]
    bytes: tuple[int, int]
    shapes: tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]

    @property
    def growth(self) -> int:
        """The bytes by which it grew."""
        return self.bytes[1] - self.bytes[0]

    def __str__(self) -> str:
        before, after = self.entries
        module = f" in {self.module}" if self.module else ""
        counts = f"{before} -> {after} entries" if before != after else f"{after} entries"
        sign = "+" if self.growth >= 0 else "-"
        text = f"{self.line} {self.op}{module}: {counts}, {sign}{human_bytes(abs(self.growth))}"
        if self.kind in ("new", "gone"):
            return f"{text} ({self.kind})"
        gone, new = self.shapes
        if gone and new:
            text += f", {_shapes(gone)} became {_shapes(new)}"
        return text


def _shapes(shapes: Iterable[tuple[int, ...]]) -> str:
    return ", ".join(str(list(shape)) for shape in list(shapes)[:3])


class Diff(Sequence[Change]):
    """What is different in a second tape, the largest growth first; prints as a list."""

    def __init__(self, changes: list[Change], entries: tuple[int, int], size: tuple[int, int]):
        self.changes = changes
        self.entries = entries
        self.bytes = size

    def __len__(self) -> int:
        return len(self.changes)

    def __getitem__(self, index: Any) -> Any:
        return self.changes[index]

    def of_kind(self, *kinds: str) -> list[Change]:
        """Return the changes of some kinds, such as ``"grew"``."""
        return [change for change in self.changes if change.kind in kinds]

    def __str__(self) -> str:
        before, after = self.entries
        sizes = " -> ".join(map(human_bytes, self.bytes))
        head = f"{before:,} -> {after:,} entries, {sizes}"
        if not self.changes:
            return f"{head}: nothing changed"
        return "\n".join([head, *(f"  {change}" for change in self.changes)])

    __repr__ = __str__


def compare(before: Sequence[Entry], after: Sequence[Entry]) -> Diff:
    """Return what changed, with entries matched by op, line and module."""
    groups = [_grouped(before), _grouped(after)]
    changes = []
    for key in {**groups[0], **groups[1]}:
        old, new = (group.get(key, []) for group in groups)
        sizes = (sum(e.bytes for e in old), sum(e.bytes for e in new))
        shapes = [Counter(entry.shape for entry in group) for group in (old, new)]
        kind = _kind((len(old), sizes[0]), (len(new), sizes[1]), shapes[0] == shapes[1])
        if kind is not None:
            gone, come = shapes[0] - shapes[1], shapes[1] - shapes[0]
            counts = (len(old), len(new))
            changes.append(Change(kind, *key, counts, sizes, (tuple(gone), tuple(come))))
    changes.sort(key=lambda each: (-abs(each.growth), each.entries[0] - each.entries[1]))
    totals = (sum(e.bytes for e in before), sum(e.bytes for e in after))
    return Diff(changes, (len(before), len(after)), totals)


def _grouped(entries: Sequence[Entry]) -> dict[tuple[str, str, str | None], list[Entry]]:
    groups: dict[tuple[str, str, str | None], list[Entry]] = {}
    for entry in entries:
        # A leaf's entry notes the line that used it first: its name says more.
        place = entry.leaf if entry.leaf is not None else entry.line
        groups.setdefault((entry.op, place, entry.module), []).append(entry)
    return groups


def _kind(old: tuple[int, int], new: tuple[int, int], same_shapes: bool) -> str | None:
    if not old[0]:
        return "new"
    if not new[0]:
        return "gone"
    if old != new:
        return "grew" if (new[1], new[0]) > (old[1], old[0]) else "shrank"
    return None if same_shapes else "changed"
