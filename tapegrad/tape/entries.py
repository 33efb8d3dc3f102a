"""Entries of the tape as Python objects: what each is, where it came from, what it keeps.

The native side describes entries as plain tuples (``_C._tape_describe``). Here they become `Entry`
objects, and every byte is charged to exactly one of them, by the rule of the native counter
``memory_stats()["saved_bytes"]``: each storage once, leaves not at all. Of several entries that
save the same storage, the one recorded first is charged.
"""

import gc
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tapegrad import _C

__all__ = ["Entry", "Input", "Output", "Saved", "list_entries", "without_collections"]


@contextmanager
def without_collections() -> Iterator[None]:
    """Keep the garbage collector from visiting new nodes repeatedly while many are made."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_LINE = re.compile(r"(.*):(\d+), in (.*)", re.DOTALL)

_WHY = {
    "input": "the gradient is computed from this input",
    "output": "the gradient is computed from the result",
    "value": "the gradient is computed from this value, which has no history of its own here",
    "number": "a Python number that took part",
}


class Saved(NamedTuple):
    """A value that an entry saved for its gradient.

    Attributes:
        name: what the op calls it, as in ``grad_fn._saved_self``.
        role: ``"input"``, ``"output"``, ``"value"`` (of no history, such as data or a mask) or
            ``"number"``.
        shape: its sizes, or None where only a pack hook's object is left.
        dtype: its dtype, or None likewise.
        bytes: what this entry is charged for it.
        nbytes: the bytes of its elements, charged to this entry or not.
        storage: a number that values in the same memory share.
        state: ``"held"``; ``"leaf"``, a parameter's own memory, which lives anyway; ``"shared"``,
            charged to an earlier entry; ``"evicted"`` by a budget; ``"packed"`` by a pack hook;
            ``"dropped"`` by a sweep that has passed; ``"later"``, saved after the moment that a
            recorded block shows.
        inputs: the numbers of the inputs whose gradients are computed from it; None for all.
        device: where the memory is, such as ``"cpu"`` or ``"cuda:0"``; None where only a pack
            hook's object is left.
    """

    name: str
    role: str
    shape: tuple[int, ...] | None
    dtype: Any
    bytes: int
    nbytes: int
    storage: int
    state: str
    inputs: tuple[int, ...] | None = None
    device: str | None = "cpu"

    @property
    def why(self) -> str:
        """Why the entry keeps it, as a phrase."""
        if self.state == "leaf":
            return f"{_WHY[self.role]}; it is a leaf's own memory"
        return _WHY[self.role]


class Input(NamedTuple):
    """Where an input of an entry came from: an entry of the same tape or None, and which output."""

    producer: "Entry | None"
    output_number: int


class Output(NamedTuple):
    """Shape, dtype and device of an output."""

    shape: tuple[int, ...]
    dtype: Any
    device: str = "cpu"


class Entry:
    """One entry of a tape: an op that was recorded, as it was when the tape was listed.

    Attributes:
        index: its place in the tape it was first listed in.
        op: the op's name, such as ``"mm"``.
        name: the entry's name, such as ``"MmBackward0"``.
        sequence: its number among all entries ever recorded by the process.
        line: ``"file.py:12"``, the source line that recorded it; the path is relative to the
            working folder where it lies in it.
        function: the function that line is in.
        module: the path of the module that was running, such as ``"blocks.3.mlp"``, or None.
        inputs: an `Input` for each input.
        outputs: an `Output` for each output.
        saved: a `Saved` for each value it keeps.
        bytes: what it is charged in all.
        leaf: of an entry at which a leaf's gradient arrives, the name of the leaf.
        tensor: that leaf.
        released: whether a sweep has passed and dropped the saved values.
        node: the entry itself, as in ``tensor.grad_fn``. It keeps the saved values alive.
        forward_us: microseconds of the ops that computed it, if it was recorded with
            ``profile=True``.
        backward_us: microseconds of its gradient, likewise.
    """

    __slots__ = (
        "backward_us",
        "bytes",
        "file",
        "forward_us",
        "function",
        "index",
        "inputs",
        "leaf",
        "line",
        "line_number",
        "module",
        "name",
        "node",
        "op",
        "outputs",
        "released",
        "saved",
        "sequence",
        "tensor",
    )
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    saved: tuple[Saved, ...]
    tensor: Any

    def __init__(self, index: int, node: Any, name: str, op: str, sequence: int) -> None:
        self.index = index
        self.node = node
        self.name = name
        self.op = op
        self.sequence = sequence
        self.inputs = ()
        self.outputs = ()
        self.saved = ()
        self.bytes = 0
        self.line = self.file = self.function = ""
        self.line_number = 0
        self.module: str | None = None
        self.leaf: str | None = None
        self.tensor = None
        self.released = False
        self.forward_us: float | None = None
        self.backward_us: float | None = None

    @property
    def is_leaf(self) -> bool:
        """Whether it stands for a leaf: a gradient ends there."""
        return self.tensor is not None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first output."""
        return self.outputs[0].shape if self.outputs else ()

    @property
    def dtype(self) -> Any:
        """The dtype of the first output."""
        return self.outputs[0].dtype if self.outputs else None

    @property
    def device(self) -> str:
        """The device of the first output, such as ``"cpu"`` or ``"cuda:0"``."""
        return self.outputs[0].device if self.outputs else "cpu"

    @property
    def where(self) -> str:
        """Line and function, as errors print them."""
        return f"{self.line}, in {self.function}" if self.function else self.line

    def __repr__(self) -> str:
        shapes = ", ".join(str(list(output.shape)) for output in self.outputs)
        module = f", module {self.module}" if self.module else ""
        what = f"{self.op} {self.leaf}" if self.leaf else self.op
        at = f"at {self.line}{module}"
        return f"<{self.index}: {what} -> {shapes}, {self.bytes} bytes, {at}>"


def list_entries(nodes: Sequence[Any]) -> list[Entry]:
    """Return the entries of nodes, which come in tape order, and charge their bytes.

    To be called inside `without_collections`, as what finds the nodes should be.
    """
    folder = os.path.join(os.getcwd(), "")
    lines: dict[str, tuple[str, int, str, str]] = {}
    entries: list[Entry] = []
    for index, (node, description) in enumerate(
        zip(nodes, _C._tape_describe(list(nodes)), strict=True)
    ):
        name, op, sequence, line, edges, outputs, saved, leaf, released = description
        entry = Entry(index, node, name, op, sequence)
        entry.inputs = tuple(
            Input(entries[place] if place >= 0 else None, number) for place, number in edges
        )
        entry.outputs = tuple(Output(tuple(shape), *rest) for shape, *rest in outputs)
        entry.saved = tuple(_saved(*each) for each in saved)
        entry.tensor, entry.released = leaf, released
        if line not in lines:
            lines[line] = _split_line(line, folder)
        entry.file, entry.line_number, entry.function, entry.line = lines[line]
        entries.append(entry)
    charge(entries)
    return entries


def _saved(
    name: str,
    inputs: tuple[int, ...] | None,
    role: str,
    state: str,
    shape: Any,
    dtype: Any,
    nbytes: int,
    storage: int,
    whole: int,
    device: str | None,
) -> Saved:
    sizes = None if shape is None else tuple(shape)
    return Saved(name, role, sizes, dtype, whole, nbytes, storage, state, inputs, device)


def _split_line(line: str, folder: str) -> tuple[str, int, str, str]:
    """Return file, line number, function and "file:number" of an entry's source line."""
    match = _LINE.fullmatch(line)
    if match is None:
        return "", 0, "", line
    file, number, function = match[1], int(match[2]), match[3]
    return file, number, function, f"{file.removeprefix(folder)}:{number}"


def charge(entries: Iterable[Entry]) -> None:
    """Charge every storage once, to the first entry that holds it; each whole storage counts."""
    charged: set[int] = set()
    for entry in entries:
        if not entry.saved:
            continue
        values = []
        total = 0
        for value in entry.saved:
            held = value.state in ("held", "shared")
            if not held:
                values.append(value._replace(bytes=0))
            elif value.storage in charged:
                values.append(value._replace(bytes=0, state="shared"))
            else:
                charged.add(value.storage)
                values.append(value)
                total += value.bytes
        entry.saved = tuple(values)
        entry.bytes = total
