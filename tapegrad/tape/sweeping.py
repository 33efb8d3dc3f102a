"""Sweeping a tape again: whole, in part, or one entry at a time.

`vjp` is the native sweep with the graph retained. `Rewind` is the same sweep, one entry a step: the
engine keeps the waiting entries and adds up their gradients, in the same order as always, so that
the results are bitwise the same. What is here looks up the entries' descriptions, and refuses
gradients that do not fit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.tape._arguments import expect_count, expect_type
from tapegrad.tape.entries import Entry, list_entries, without_collections

__all__ = ["Gradients", "Rewind", "Step"]

Edge = tuple[Any, int]


class Gradients(Mapping[str, Tensor]):
    """Gradients of leaves, by name; ``grads[tensor]`` works, too.

    A leaf that no gradient reached is not in it.
    """

    def __init__(self, leaves: Iterable[tuple[str, Tensor, Tensor]]) -> None:
        self._by_name: dict[str, Tensor] = {}
        self._names: dict[int, str] = {}
        self._leaves: list[Tensor] = []  # so that their ids stay theirs
        for name, leaf, grad in leaves:
            self._add(name, leaf, grad)

    def _add(self, name: str, leaf: Tensor, grad: Tensor) -> None:
        unique, number = name, 2
        while unique in self._by_name:
            unique, number = f"{name}#{number}", number + 1
        self._by_name[unique] = grad
        self._names[id(leaf)] = unique
        self._leaves.append(leaf)

    def __getitem__(self, key: "str | Tensor") -> Tensor:
        name = self._names.get(id(key)) if isinstance(key, Tensor) else key
        if name not in self._by_name:
            what = "that tensor" if isinstance(key, Tensor) else repr(key)
            raise KeyError(f"no gradient reached {what}; there are {', '.join(self._by_name)}")
        return self._by_name[name]

    def __contains__(self, key: object) -> bool:
        return id(key) in self._names if isinstance(key, Tensor) else key in self._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"Gradients({self._by_name!r})"


def cotangents(name: str, roots: Sequence[Edge], g: Any) -> list[Tensor]:
    """Return the gradients that a sweep begins with, one for each root."""
    expect_type(name, "g", g, (Tensor, Iterable, type(None)), "a tensor or several")
    given = [g] if g is None or isinstance(g, Tensor) else list(g)
    if g is None:
        given *= len(roots)
    if len(given) != len(roots):
        raise ValueError(
            f"{name}: expected a gradient for each of {len(roots)} outputs, got {len(given)}"
        )
    found = []
    for (node, number), grad in zip(roots, given, strict=True):
        output = _C._edge_tensor(node, number)
        expect_type(name, "each gradient", grad, (Tensor, type(None)), "a tensor or None")
        if grad is None:
            if output.numel() != 1:
                raise RuntimeError(
                    f"{name}: expected a gradient for an output of shape {tuple(output.shape)}; "
                    "only that of a scalar may be left out"
                )
            grad = _C.ones(output.shape, dtype=output.dtype, device=output.device)
        elif grad.shape != output.shape:
            raise RuntimeError(
                f"{name}: expected a gradient of shape {tuple(output.shape)} for that output, got "
                f"one of shape {tuple(grad.shape)}"
            )
        found.append(grad.detach().to(output.dtype))
    return found


def run_vjp(roots: Sequence[Edge], entries: Sequence[Entry], g: Any, until: Entry | None) -> Any:
    """Return the gradients of leaves, or of the outputs of `until`; the graph stays."""
    grads: list[Tensor | None] = list(cotangents("vjp", roots, g))
    outputs = [_C._edge_tensor(node, number) for node, number in roots]
    if until is not None:
        targets = [_C._edge_tensor(until.node, i) for i in range(len(until.outputs))]
        return tuple(_C.run_backward(outputs, grads, True, False, targets, False))
    with without_collections():
        nodes = [node for node in _C._tape_of(outputs) if node.name() == "AccumulateGrad"]
    leaves = [(node, node.variable) for node in nodes if node.variable.requires_grad]
    if not leaves:
        return Gradients(())
    found = _C.run_backward(outputs, grads, True, False, [leaf for _, leaf in leaves], False)
    names = {entry.sequence: entry.leaf for entry in entries if entry.leaf is not None}
    return Gradients(
        (names.get(node._sequence_nr()) or f"leaf at {node.source_line}", leaf, grad)
        for (node, leaf), grad in zip(leaves, found, strict=True)
        if grad is not None
    )


class Step:
    """One entry of a `Rewind`, about to run.

    Attributes:
        entry: the entry.
        grads: the gradients of its outputs, complete; None stands for zero. Others may be put into
            the list before `grad_inputs` is read. They may be shared with other entries: replace
            them, do not write to them.
    """

    def __init__(self, sweep: "_Sweep", entry: Entry, grads: list[Tensor | None]) -> None:
        self._sweep = sweep
        self.entry = entry
        self.grads = grads
        self._grad_inputs: list[Tensor | None] | None = None

    @property
    def grad_inputs(self) -> list[Tensor | None]:
        """The gradients of its inputs: reading them runs the entry. The list may be changed.

        None where an input needs no gradient. Empty at a leaf.
        """
        if self._grad_inputs is None:
            self._grad_inputs = self._sweep.run(self.entry, self.grads)
        return self._grad_inputs

    @property
    def waiting(self) -> list[Entry]:
        """The entries for which gradients have arrived, the next to run first."""
        return self._sweep.waiting

    def adjoint(self, entry: Entry, output_number: int = 0) -> Tensor | None:
        """Return what has arrived so far for an output of an entry, None if nothing has."""
        _expect_output("adjoint", entry, output_number)
        if entry is self.entry or entry.sequence == self.entry.sequence:
            return self.grads[output_number]
        return self._sweep.adjoint(entry, output_number)

    def set_adjoint(self, entry: Entry, grad: Tensor | None, output_number: int = 0) -> None:
        """Replace what has arrived for an output of an entry that is still to run."""
        _expect_grad(entry, grad, output_number)
        if entry.sequence == self.entry.sequence:
            self.grads[output_number] = grad
        else:
            self._sweep.set_adjoint(entry, grad, output_number)

    def __repr__(self) -> str:
        return f"<step at {self.entry!r}, {len(self.waiting)} waiting>"


class Rewind(Iterator[Step]):
    """The reverse sweep, entry by entry: what `Tape.rewind` returns."""

    def __init__(self, roots: Sequence[Edge], entries: Sequence[Entry], g: Any) -> None:
        outputs = [_C._edge_tensor(node, number) for node, number in roots]
        self._sweep = _Sweep(entries, outputs, cotangents("rewind", roots, g))
        self._step: Step | None = None
        self._failed = False

    def __next__(self) -> Step:
        if self._failed:
            raise RuntimeError(
                f"rewind: the sweep has failed at {self._step!r}, and what comes after would miss "
                "its gradients; begin another one"
            )
        if self._step is not None:
            self._failed = True
            self._sweep.finish(self._step)
            self._failed = False
        self._step = self._sweep.next()
        if self._step is None:
            raise StopIteration
        return self._step

    def run(self, until: Entry | None = None) -> Gradients:
        """Go on to the end, or until an entry is about to run.

        Returns:
            The gradients of the leaves that were reached.
        """
        expect_type("run", "until", until, (Entry, type(None)), "an entry")
        for step in self:
            if until is not None and step.entry.sequence <= until.sequence:
                break
        return self.gradients

    @property
    def gradients(self) -> Gradients:
        """The gradients of the leaves that were reached so far."""
        return self._sweep.gradients

    @property
    def waiting(self) -> list[Entry]:
        """The entries for which gradients have arrived, the next to run first."""
        return self._sweep.waiting

    def adjoint(self, entry: Entry, output_number: int = 0) -> Tensor | None:
        """Return what has arrived so far for an output of a waiting entry, None if nothing has."""
        _expect_output("adjoint", entry, output_number)
        return self._sweep.adjoint(entry, output_number)

    def set_adjoint(self, entry: Entry, grad: Tensor | None, output_number: int = 0) -> None:
        """Replace what has arrived for an output of an entry that is still to run."""
        _expect_grad(entry, grad, output_number)
        self._sweep.set_adjoint(entry, grad, output_number)


def _expect_output(who: str, entry: Any, number: Any) -> None:
    expect_type(who, "entry", entry, Entry, "an Entry")
    expect_count(who, "output_number", number, 0)
    count = len(entry.outputs)
    if number >= count:
        raise IndexError(f"{who}: expected one of the {count} outputs of {entry!r}, got {number}")


def _expect_grad(entry: Any, grad: Any, number: Any, who: str = "set_adjoint") -> None:
    _expect_output(who, entry, number)
    expect_type(who, "a gradient", grad, (Tensor, type(None)), "a tensor or None")
    shape = entry.outputs[number].shape
    if grad is not None and tuple(grad.shape) != shape:
        raise RuntimeError(
            f"{who}: expected a gradient of shape {shape} for output {number} of {entry!r}, got "
            f"one of shape {tuple(grad.shape)}"
        )


def _checked(entry: Entry, grads: list[Tensor | None]) -> list[Tensor | None]:
    """Return gradients that may have been replaced, after checking that the entry can take them."""
    if len(grads) != len(entry.outputs):
        raise RuntimeError(
            f"rewind: expected a gradient or None for each of the {len(entry.outputs)} outputs of "
            f"{entry!r}, got {len(grads)}"
        )
    for number, grad in enumerate(grads):
        _expect_grad(entry, grad, number, "rewind")
        dtype = entry.outputs[number].dtype
        if grad is not None and grad.dtype != dtype:
            grads[number] = grad.to(dtype)
    return grads


class _Sweep:
    """The engine's side of a `Rewind`. Steps hold it, and it holds no step: no cycle."""

    def __init__(self, entries: Sequence[Entry], roots: list[Tensor], grads: list[Tensor]) -> None:
        self.gradients = Gradients(())
        self._entries = {entry.sequence: entry for entry in entries}
        self._engine = _C._SteppedSweep(roots, grads)
        self._at: Entry | None = None

    def _entry(self, node: Any) -> Entry:
        """Return the description of an entry, which may be older than the tape's block."""
        sequence = node._sequence_nr()
        if sequence not in self._entries:
            (self._entries[sequence],) = list_entries([node])
        return self._entries[sequence]

    @property
    def waiting(self) -> list[Entry]:
        return [self._entry(node) for node in self._engine.waiting()]

    def next(self) -> Step | None:
        """Return the newest entry that waits, as a step; None at the end."""
        found = self._engine.next()
        if found is None:
            return None
        node, grads = found
        self._at = self._entry(node)
        return Step(self, self._at, grads)

    def adjoint(self, entry: Entry, output_number: int) -> Tensor | None:
        return self._engine.adjoint(entry.node, output_number)

    def set_adjoint(self, entry: Entry, grad: Tensor | None, output_number: int) -> None:
        if self._at is not None and entry.sequence >= self._at.sequence:
            raise ValueError(
                f"set_adjoint: expected an entry that is still to run, got {entry!r}, and the "
                f"sweep is at {self._at!r}"
            )
        self._engine.set_adjoint(entry.node, output_number, grad)

    def run(self, entry: Entry, grads: list[Tensor | None]) -> list[Tensor | None]:
        """Return the gradients that the current entry makes."""
        checked = _checked(entry, grads)
        return [] if entry.is_leaf else self._engine.run(checked)

    def finish(self, step: Step) -> None:
        """Run the entry unless its gradients were read, and send them on."""
        entry = step.entry
        grads = step.grad_inputs
        if entry.is_leaf:
            (grad,) = step.grads
            if grad is not None and entry.tensor.requires_grad:
                name = entry.leaf or f"leaf at {entry.line}"
                self.gradients._add(name, entry.tensor, grad)
            return
        producers = entry.node.next_functions
        if len(grads) != len(producers):
            raise RuntimeError(
                f"rewind: expected a gradient or None for each of the {len(producers)} inputs of "
                f"{entry!r}, got {len(grads)}"
            )
        for (producer, number), grad in zip(producers, grads, strict=True):
            if producer is not None and grad is not None:
                _expect_grad(self._entry(producer), grad, number, "rewind")
        self._engine.send(grads)
