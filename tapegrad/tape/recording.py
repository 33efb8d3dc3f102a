"""Where tapes come from: `of` tensors, `record` a block, or all that is `live`."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from threading import get_ident
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.tape._arguments import expect_model, tensors_with_history
from tapegrad.tape.entries import Entry, Saved, list_entries, without_collections
from tapegrad.tape.listing import Tape, memory_now
from tapegrad.tape.modules import Calls, assign_modules
from tapegrad.tape.replaying import Replay
from tapegrad.tape.sweeps import SweepEvents
from tapegrad.tape.timing import Times

__all__ = ["live", "of", "record"]

_EVER = 2**63


def of(tensors: Tensor | Sequence[Tensor], model: Any = None) -> Tape:
    """Return the tape behind tensors: all entries that their gradients flow through.

    Args:
        tensors: one tensor that requires grad, or several.
        model: the module whose paths name entries and leaves. By default the modules of the process
            that own the leaves. An entry's module is inferred from the parameters that it and its
            neighbours use; `record` notes the module of every entry as it is recorded.

    Returns:
        A `Tape`, which holds the entries. When these are the only ones that live, its
        ``total_bytes`` is ``memory_stats()["saved_bytes"]``.

    Example:
        >>> x = torch.ones(2, 3, requires_grad=True)
        >>> t = torch.tape.of((x.exp() * 2).sum())
        >>> [entry.op for entry in t]
        ['accumulate_grad', 'exp', 'mul', 'sum']
        >>> t[1].bytes
        24
    """
    expect_model("tape.of", model)
    roots = tensors_with_history("tape.of", tensors)
    if not roots:
        raise ValueError("tape.of: expected at least one tensor, got none")
    with without_collections():
        entries, memory = list_entries(_C._tape_of(roots)), memory_now()
    edges = [_C._gradient_edge(root) for root in roots]
    assign_modules(entries, model, calls_here())
    names = sorted({edge[0].name() for edge in edges})
    return Tape(entries, f"tape of {', '.join(names)}", memory, edges)


def live(model: Any = None) -> Tape:
    """Return all live entries of the process.

    What is in here and should not be is a leak: a graph that some variable still holds.

    Args:
        model: the module whose paths name entries and leaves, as in `of`.

    Returns:
        A `Tape` whose ``total_bytes`` is ``memory_stats()["saved_bytes"]``.
    """
    expect_model("tape.live", model)
    with without_collections():
        entries, memory = list_entries(_C._tape_live(0, _EVER)), memory_now()
    assign_modules(entries, model, calls_here())
    return Tape(entries, "all live entries", memory)


_running: list["record"] = []


def calls_here() -> Calls | None:
    """Return what the innermost block that records on this thread knows of modules' calls."""
    for block in reversed(_running):
        if block._thread == get_ident():
            return block._calls
    return None


class record:
    """Lists the entries that are recorded in a block, with the module of each.

    ``with tape.record() as t:`` gives a `Tape` that is filled when the block ends. An entry counts
    if it lives then. Values that a backward in the block drops are listed all the same: values are
    shown as they were at the moment when most bytes were saved, which is when a backward began or
    the end of the block. What was saved only after that moment is listed as ``"later"`` and not
    charged, so that what several steps saved one after the other does not add up.

    Args:
        model: the module whose paths name entries; by default the outermost modules that are
            called in the block.
        profile: note the time that each entry takes, forward and backward.
        replay: capture the ops, for `Tape.replay` and `Tape.program`. The tape then keeps the
            tensors that the block found.
        inputs: the tensors that `Tape.replay` takes by position, one or several.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        >>> with torch.tape.record() as t:
        ...     loss = model(torch.ones(2, 4)).sum()
        >>> [(entry.op, entry.module) for entry in t if not entry.is_leaf]
        [('transpose', '0'), ('addmm', '0'), ('relu', '1'), ('sum', None)]
    """

    def __init__(
        self,
        model: Any = None,
        profile: bool = False,
        replay: bool = False,
        inputs: Tensor | Sequence[Tensor] = (),
    ) -> None:
        expect_model("tape.record", model)
        if not replay and (isinstance(inputs, Tensor) or inputs):
            raise ValueError("tape.record: expected inputs only with replay=True")
        self._replay = Replay(inputs) if replay else None
        self._model = model
        self._times = Times() if profile else None
        self._calls = Calls()
        self._first = 0
        self._thread = 0
        self._before_sweep: tuple[list[Entry], dict[str, int]] | None = None
        self._swept: set[int] = set()  # the entries at which sweeps began
        self.tape = Tape(title="recorded block")

    def __enter__(self) -> Tape:
        if self._first:
            raise RuntimeError("tape.record: a block records once; make another one")
        self._first = _C._next_sequence()
        self._thread = get_ident()
        with ExitStack() as undo:
            if self._replay is not None:
                self._replay.start()
                undo.callback(self._replay.stop)
            if self._times is not None:
                self._times.start()
                undo.callback(self._times.stop)
            self._calls.start()
            undo.callback(self._calls.stop)
            undo.enter_context(SweepEvents(begin=self._before))
            _running.append(self)
            undo.callback(_running.remove, self)
            self._undo = undo.pop_all()
        return self.tape

    def __exit__(self, *exception: Any) -> None:
        self._undo.close()
        entries, memory = self._list()
        if self._before_sweep is not None:
            moments = [(entries, memory), self._before_sweep]
            shown = max(moments, key=lambda each: each[1]["saved_bytes"])
            entries, memory = _merged(shown[0], entries), shown[1]
        assign_modules(entries, self._model, self._calls)
        if self._times is not None:
            found = self._times.of((e.sequence, e.op, e.is_leaf) for e in entries)
            for entry, times in zip(entries, found, strict=True):
                entry.forward_us, entry.backward_us = times
        self.tape._fill(entries, memory, self._swept)
        if self._replay is not None:
            self._replay.modules = self._calls.roots if self._model is None else [self._model]
        self.tape._replay, self._replay = self._replay, None
        self._calls = Calls()
        self._before_sweep = None

    def _list(self) -> tuple[list[Entry], dict[str, int]]:
        with without_collections():
            nodes = _C._tape_live(self._first, _C._next_sequence())
            return list_entries(_with_leaves(nodes, self._first)), memory_now()

    def _is_largest(self) -> bool:
        before = self._before_sweep
        return before is None or memory_now()["saved_bytes"] >= before[1]["saved_bytes"]

    def _before(self, roots: list[Tensor], retain_graph: bool) -> Callable[[], None] | None:
        """List the values that a sweep will drop, unless an earlier listing had more."""
        if get_ident() == self._thread:
            self._swept |= {_C._gradient_edge(root)[0]._sequence_nr() for root in roots}
            if not retain_graph and self._is_largest():
                self._before_sweep = None  # it would keep the entries of the step before alive
                self._before_sweep = self._list()
                self._swept &= {entry.sequence for entry in self._before_sweep[0]}
        return None if self._times is None else self._times.mark_boundary


def _with_leaves(nodes: list[Any], first: int) -> list[Any]:
    """Return nodes and those of their leaves that are older, in tape order."""
    found = {}
    for node in nodes:
        for producer, _ in node.next_functions:
            if producer is None or producer.name() != "AccumulateGrad":
                continue
            sequence = producer._sequence_nr()
            if sequence < first:
                found[sequence] = producer
    return [found[sequence] for sequence in sorted(found)] + nodes


def _merged(shown: list[Entry], now: list[Entry]) -> list[Entry]:
    """Return entries as they were at a moment, and those that came later, in tape order."""
    if shown is now:
        return now
    known = {entry.sequence: entry for entry in shown}
    later = [entry for entry in now if entry.sequence not in known]
    for entry in later:
        entry.inputs = tuple(
            each
            if each.producer is None
            else each._replace(producer=known.get(each.producer.sequence, each.producer))
            for each in entry.inputs
        )
        entry.saved = tuple(_saved_later(value) for value in entry.saved)
        entry.bytes = 0
    merged = sorted([*shown, *later], key=lambda entry: entry.sequence)
    for index, entry in enumerate(merged):
        entry.index = index
    return merged


def _saved_later(value: Saved) -> Saved:
    """Return a value that was saved after the moment that is shown: not in the same memory."""
    state = "later" if value.state in ("held", "shared") else value.state
    return value._replace(bytes=0, state=state, storage=-value.storage)
