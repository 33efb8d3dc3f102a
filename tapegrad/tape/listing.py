"""`Tape`: a sequence of entries, with the questions one asks of it.

A tape is a listing: entries in tape order as they were at one moment, with their nodes. The nodes
keep the saved values alive, as the graph itself does, until the tape is dropped or released, or a
sweep has passed them.
"""

import linecache
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.tape import analysis, report, sweeping
from tapegrad.tape._arguments import expect_count, expect_type, tensors_with_history
from tapegrad.tape._ops import ops_named
from tapegrad.tape.entries import Entry, without_collections
from tapegrad.tape.program import Program
from tapegrad.tape.replaying import Replay
from tapegrad.utils._units import human_bytes, parse_bytes

__all__ = ["Tape"]

FORMAT = "tapegrad.tape/1"


class Tape(Sequence[Entry]):
    """Entries in tape order.

    Made by `tape.of`, `tape.record` and `tape.live`. It is a sequence: ``len(t)``, ``t[3]``,
    ``for entry in t``; ``t[10:20]``, `filter` and `search` give tapes of fewer entries.

    A tape holds its entries, and with them the values they saved, as a variable that holds the loss
    would: they are freed when the tape is dropped, by `release`, or by a backward through them.

    Attributes:
        title: what it is a tape of.
        memory: the CPU allocator's ``live_bytes``, and the ``saved_bytes`` and ``peak_saved_bytes``
            of all devices, when the entries were listed; the same of each GPU that the tape uses,
            as ``"cuda:0 saved_bytes"`` and so on.
    """

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        title: str = "tape",
        memory: dict[str, int] | None = None,
        roots: Sequence[tuple[Any, int]] = (),
    ) -> None:
        self._entries = list(entries)
        self.title = title
        self.memory = memory_now() if memory is None else memory
        self._roots = list(roots)
        self._swept: set[int] = set()  # of a recorded block: the entries at which sweeps began
        self._replay: Replay | None = None

    def _fill(self, entries: list[Entry], memory: dict[str, int], swept: set[int]) -> None:
        self._entries = entries
        self.memory = memory
        self._swept = swept

    # ---- a sequence

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> "Tape": ...
    def __getitem__(self, index: int | slice) -> "Entry | Tape":
        if isinstance(index, slice):
            return self._part(self._entries[index], f"{self.title}, a part")
        return self._entries[index]

    def _part(self, entries: Iterable[Entry], title: str) -> "Tape":
        part = Tape(entries, title, self.memory, self._roots)
        part._swept = self._swept
        return part

    def filter(
        self,
        op: str | Iterable[str] | None = None,
        module: str | None = None,
        line: str | int | None = None,
        dtype: Any = None,
        min_bytes: int | str | None = None,
        predicate: Callable[[Entry], bool] | None = None,
    ) -> "Tape":
        """Return the entries for which all that is given holds.

        Args:
            op: the op, such as ``"mm"`` (or ``"MmBackward0"``), or several of them. A name that no
                entry can have is an error.
            module: the path of a module; entries of modules inside it count too.
            line: a line number, a file, or both as ``"train.py:12"``; paths may be shortened from
                the left.
            dtype: of an output.
            min_bytes: charged at least: an int, or text such as "1 MiB".
            predicate: called with the entry.

        Example:
            >>> x = torch.ones(3, requires_grad=True)
            >>> t = torch.tape.of((x * x).exp().sum())
            >>> [entry.op for entry in t.filter(min_bytes=1)]
            ['exp']
        """
        tests: list[Callable[[Entry], bool]] = []
        if op is not None:
            expect_type("filter", "op", op, (str, Iterable), "a name or several")
            wanted = [op] if isinstance(op, str) else list(op)
            ops = set(ops_named("filter", wanted, {each.op for each in self._entries}))
            tests.append(lambda entry: entry.op in ops)
        if module is not None:
            expect_type("filter", "module", module, str, "a path")
            tests.append(lambda entry: _is_inside(entry.module, module))
        if line is not None:
            expect_type("filter", "line", line, (str, int), "a line number or a file")
            tests.append(lambda entry: _is_at(entry, line))
        if dtype is not None:
            expect_type("filter", "dtype", dtype, _C.dtype, "a dtype")
            tests.append(lambda entry: any(out.dtype == dtype for out in entry.outputs))
        if min_bytes is not None:
            least = parse_bytes(min_bytes, "filter: min_bytes")
            tests.append(lambda entry: entry.bytes >= least)
        if predicate is not None:
            tests.append(predicate)
        found = [entry for entry in self._entries if all(test(entry) for test in tests)]
        return self._part(found, f"{self.title}, filtered")

    def search(self, text: str) -> "Tape":
        """Return the entries whose op, line, source text, module, leaf or saved values say `text`.

        Args:
            text: looked for without regard to case.
        """
        expect_type("search", "text", text, str, "a string")
        wanted = text.lower()
        found = [entry for entry in self._entries if wanted in _text_of(entry)]
        return self._part(found, f"{self.title}, search {text!r}")

    def behind(self, tensors: Tensor | Sequence[Tensor]) -> "Tape":
        """Return the entries that gradients of `tensors` flow through.

        Args:
            tensors: one that requires grad, or several.
        """
        roots = tensors_with_history("behind", tensors)
        with without_collections():
            reached = {node._sequence_nr() for node in _C._tape_of(roots)}
        found = [entry for entry in self._entries if entry.sequence in reached]
        edges = [_C._gradient_edge(root) for root in roots]
        return Tape(found, f"{self.title}, behind a tensor", self.memory, edges)

    # ---- text

    def table(self, rows: int = 40, largest_first: bool = False) -> str:
        """Return the entries as a table, which ``print(t)`` shows.

        Args:
            rows: how many entries are shown; of more, the first and the last.
            largest_first: show those with the most bytes instead.
        """
        expect_count("table", "rows", rows, 0)
        return report.table(self._entries, self.title, self.total_bytes, rows, largest_first)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        size = human_bytes(self.total_bytes)
        return f"<Tape of {len(self)} entries, {size}: {self.title}>"

    def summary(self, by: str = "op", depth: int | None = None) -> report.Summary:
        """Return the bytes by op, line or module, the most first; it prints as a table.

        Args:
            by: ``"op"``, ``"line"`` or ``"module"``.
            depth: how many parts of a module's path to tell apart; None for all.

        Example:
            >>> x = torch.ones(256, requires_grad=True)
            >>> print(torch.tape.of((x.exp().sin() * 2).sum()).summary())
            op               entries     bytes  share
            exp                    1  1.00 KiB  99.2%
            mul                    1       8 B   0.8%
            accumulate_grad        1       0 B   0.0%
            sin                    1       0 B   0.0%
            sum                    1       0 B   0.0%
            total 1.01 KiB
        """
        if depth is not None:
            expect_count("summary", "depth", depth, 1)
        return report.summarize(self._entries, by, depth)

    # ---- questions

    def dead(
        self,
        outputs: Tensor | Sequence[Tensor] | None = None,
        inputs: Tensor | Sequence[Tensor] | None = None,
    ) -> analysis.Dead:
        """Return the values that are kept but go into no gradient.

        A value is dead if no sweep from the outputs comes to its entry, if nothing behind the entry
        wants a gradient, or if it is kept for the gradient of an input that wants none.

        Args:
            outputs: where sweeps start. By default the tensors of `tape.of`; of a recorded block,
                where the sweeps in it started, and the newest entry, which is the loss's as a rule.
            inputs: the leaves whose gradient counts; by default all that require grad now.

        Returns:
            A list of `DeadValue` with ``total_bytes``: what would be freed without them.

        Example:
            >>> x = torch.ones(256, requires_grad=True)
            >>> with torch.tape.record() as t:
            ...     unused = x.exp()
            ...     loss = x.tanh().sum()
            >>> [(dead.entry.op, dead.bytes) for dead in t.dead()]
            [('exp', 1024)]
        """
        started = {node._sequence_nr() for node, _ in self._roots_of(outputs)}
        if outputs is None:
            started |= self._swept
        wanted = None
        if inputs is not None:
            leaves = tensors_with_history("dead", inputs)
            wanted = {_C._gradient_edge(leaf)[0]._sequence_nr() for leaf in leaves}
        return analysis.find_dead(self._entries, started, wanted)

    def _roots_of(self, outputs: Tensor | Sequence[Tensor] | None) -> list[tuple[Any, int]]:
        if outputs is not None:
            roots = tensors_with_history("dead", outputs)
            return [_C._gradient_edge(root) for root in roots]
        if self._roots or not self._entries:
            return list(self._roots)
        return [(self._entries[-1].node, 0)]

    def critical_path(self, by: str | None = None) -> "Tape":
        """Return the chain of entries, each an input of the next, that costs most.

        No machine, however wide, can go through the tape faster than through this chain.

        Args:
            by: ``"time"``, forward and backward together; ``"entries"``, their number, leaves not
                counted; or ``"bytes"``. By default the time if the tape was recorded with
                ``profile=True``, and the number of entries otherwise.
        """
        if by is None:
            timed = any(entry.forward_us is not None for entry in self._entries)
            by = "time" if timed else "entries"
        path, cost = analysis.find_critical_path(self._entries, by)
        text = {
            "time": report.format_time(cost),
            "bytes": human_bytes(int(cost)),
            "entries": f"{int(cost)} entries",
        }[by]
        return self._part(path, f"critical path of {text}")

    def diff(self, other: "Tape") -> analysis.Diff:
        """Return what is different in `other`: what is new, gone, grew or shrank.

        Entries are matched by op, line and module. Of two steps of one program that should be
        alike, `tape.live` before and after shows what leaks.

        Args:
            other: the later tape.

        Returns:
            A list of `Change`, the largest growth first; it prints as text.

        Example:
            >>> x = torch.ones(256, requires_grad=True)
            >>> def step(n):
            ...     y = x
            ...     for _ in range(n):
            ...         y = y.exp()
            ...     return torch.tape.of(y.sum())
            >>> step(2).diff(step(3)).of_kind("grew")[0].entries
            (2, 3)
        """
        expect_type("diff", "other", other, Tape, "a Tape")
        return analysis.compare(self._entries, other._entries)

    # ---- sweeps

    def vjp(self, g: Any = None, until: Entry | int | None = None) -> Any:
        """Sweep the tape back from its outputs, and keep it for the next time.

        Nothing is added to any ``.grad``. Outputs are the tensors that `tape.of` was given; of a
        recorded block, the newest entry. Hooks run as in ``autograd.grad``.

        Args:
            g: the gradient of the output, or one for each of several; may be left out for scalars.
            until: an entry at which to stop, or its place in the tape.

        Returns:
            The gradients of all leaves reached, by name or tensor. With `until`, a tuple with the
            gradient of each of that entry's outputs, None for one that is not reached.

        Example:
            >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
            >>> t = torch.tape.of(x * x)
            >>> t.vjp(torch.tensor([1.0, 0.0]))[x], t.vjp(torch.tensor([0.0, 1.0]))[x]
            (tensor([2., 0.]), tensor([0., 4.]))
        """
        entry = self._at("vjp", until)
        return sweeping.run_vjp(self._checked_roots("vjp"), self._entries, g, entry)

    def rewind(self, g: Any = None) -> sweeping.Rewind:
        """Sweep the tape back one entry at a time: a debugger for gradients.

        Each step shows an entry that is about to run, with the gradients of its outputs
        (``step.grads``), those that it makes for its inputs (``step.grad_inputs``), and what has
        arrived elsewhere (``step.adjoint(entry)``, ``step.waiting``). All may be changed. The tape
        is kept, nothing is added to any ``.grad``, and hooks do not run.

        Args:
            g: the gradient of the output, as in `vjp`.

        Returns:
            An iterator over steps, whose ``gradients`` are those of the leaves reached so far:
            when it is through, bitwise what backward would have added.

        Example:
            >>> x = torch.tensor(2.0, requires_grad=True)
            >>> sweep = torch.tape.of((x * x).exp()).rewind()
            >>> for step in sweep:
            ...     print(step.entry.op, [f"{grad.item():.1f}" for grad in step.grads])
            exp ['1.0']
            mul ['54.6']
            accumulate_grad ['218.4']
            >>> sweep.gradients[x]
            tensor(218.3926)
        """
        return sweeping.Rewind(self._checked_roots("rewind"), self._entries, g)

    def replay(self, *inputs: Any, outputs: Any = None) -> Any:
        """Run a block recorded with ``record(replay=True)`` again, on new inputs.

        The ops run without the block's Python. They write to the same memory as before: the tensors
        that the block made have new values afterwards, the recorded inputs hold the new inputs, and
        `vjp` and `rewind` give the gradients there. Random ops give the same numbers again. What
        the block changed in place, such as the running statistics of a batch norm, changes again.

        Args:
            inputs: a dict from recorded tensors to new ones, or the new ones in the order of
                ``record(inputs=...)``. Without any, the block runs on what its inputs hold now.
            outputs: a tensor that the block computed, or several; by default the result of its last
                op.

        Returns:
            A copy of each output.

        Raises:
            RuntimeError: a guard does not hold: an input differs in shape, dtype or device, or
                the block read a value (``if``, ``item()``) that is a different one now. Nothing
                has been changed then.

        Example:
            >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
            >>> with torch.tape.record(replay=True) as t:
            ...     y = (x * x).sum()
            >>> t.replay({x: torch.tensor([3.0, 4.0])}, outputs=y)
            tensor(25.)
            >>> t.vjp()[x]
            tensor([6., 8.])
        """
        if self._replay is None:
            raise RuntimeError(
                "replay: expected a tape made by tape.record(replay=True), which captures the ops"
            )
        return self._replay.run(inputs, outputs)

    def program(self, outputs: Any = None, names: Mapping[str, Tensor] | None = None) -> Program:
        """Return the ops of a block recorded with ``record(replay=True)`` as a value.

        What the block found outside are the program's inputs, each with a name: those of
        ``names``, ``input0`` and so on for ``record(inputs=...)``, the path of a parameter or
        buffer in the model, that with ``.grad`` or a key of the optimizer's state behind it, and
        else ``value`` with a number.

        Args:
            outputs: what a run returns: a dict from names to tensors that the block computed, or
                one tensor, ``output``, or several, ``output0`` and so on. By default the result
                of the last op.
            names: names of tensors that the block found outside.

        Returns:
            A `Program`, which can be printed, compared, saved and run on other tensors.

        Raises:
            RuntimeError: the block cannot run again, as in `replay`; the text says why.

        Example:
            >>> x = torch.ones(2)
            >>> with torch.tape.record(replay=True, inputs=x) as t:
            ...     y = (x * 2).sum()
            >>> [argument.name for argument in t.program(outputs={"total": y}).inputs]
            ['input0']
            >>> t.program(outputs={"total": y}).run({"input0": torch.tensor([3.0, 4.0])})
            {'total': tensor(14.)}
        """
        if self._replay is None:
            raise RuntimeError(
                "program: expected a tape made by tape.record(replay=True), which captures the ops"
            )
        return self._replay.program(outputs, names)

    def _at(self, who: str, place: Any) -> Entry | None:
        """Return an entry that is given itself or by its place."""
        if place is None or isinstance(place, Entry):
            return place
        if isinstance(place, bool) or not isinstance(place, int):
            kind = type(place).__name__
            raise TypeError(f"{who}: expected until to be an entry or its place, got {kind}")
        if not -len(self._entries) <= place < len(self._entries):
            count = len(self._entries)
            raise IndexError(f"{who}: expected until to be a place among {count}, got {place}")
        return self._entries[place]

    def _checked_roots(self, name: str) -> list[tuple[Any, int]]:
        roots = self._roots_of(None)
        if not roots:
            raise RuntimeError(f"{name}: expected a tape with entries, got an empty one")
        return roots

    # ---- bytes

    @property
    def total_bytes(self) -> int:
        """What the entries are charged together."""
        return sum(entry.bytes for entry in self._entries)

    def release(self) -> None:
        """Let go of the entries: the tape is empty then, and keeps nothing alive."""
        self._entries = []
        self._roots = []
        self._replay = None

    # ---- as a document

    def to_dict(self) -> dict[str, Any]:
        """Return the tape as plain lists, dicts, numbers and strings, ready for JSON.

        Entries are numbered by their place in this tape; an input from outside it is -1. An entry's
        line is ``"file.py:12, in step"``; ``source`` has the text of ``"file.py:12"``.
        """
        places = {entry.sequence: place for place, entry in enumerate(self._entries)}
        storages: dict[int, int] = {}
        source: dict[str, str] = {}
        entries = []
        for place, entry in enumerate(self._entries):
            if entry.line not in source:
                text = linecache.getline(entry.file, entry.line_number).strip()
                source[entry.line] = text
            entries.append(_entry_to_dict(place, entry, places, storages))
        return {
            "format": FORMAT,
            "title": self.title,
            "total_bytes": self.total_bytes,
            "memory": dict(self.memory),
            "entries": entries,
            "source": source,
        }

    def html(self, path: Any) -> Any:
        """Write a page that shows the tape and needs nothing else.

        Args:
            path: the file to write, which is returned.
        """
        return _show().write_html(self.to_dict(), path)

    def dot(self, path: Any) -> Any:
        """Write the graph for Graphviz.

        Args:
            path: the file to write, which is returned.
        """
        return _show().write_dot(self.to_dict(), path)

    def json(self, path: Any) -> Any:
        """Write `to_dict` as JSON.

        Args:
            path: the file to write, which is returned.
        """
        return _show().write_json(self.to_dict(), path)

    def perfetto(self, path: Any) -> Any:
        """Write a trace for Perfetto or chrome://tracing.

        Args:
            path: the file to write, which is returned.
        """
        return _show().write_perfetto(self.to_dict(), path)

    def _repr_html_(self) -> str:
        return str(_show().short_html(self.to_dict()))


def _show() -> Any:
    """Return the module that writes files, loaded when the first is asked for."""
    from importlib import import_module

    return import_module("tapegrad.tape.show")


def memory_now() -> dict[str, int]:
    """Return what the allocator says now of the memory that a tape is about."""
    stats = _C.memory_stats()
    memory = {name: stats[name] for name in ("live_bytes", "saved_bytes", "peak_saved_bytes")}
    for device, saved, peak in _C._saved_bytes():
        if device.startswith("cuda"):
            from tapegrad.cuda.memory import memory_allocated

            live = memory_allocated(device)
            numbers = {"live_bytes": live, "saved_bytes": saved, "peak_saved_bytes": peak}
            memory |= {f"{device} {name}": number for name, number in numbers.items()}
    return memory


def _is_inside(path: str | None, module: str) -> bool:
    return path is not None and (path == module or path.startswith(f"{module}."))


def _is_at(entry: Entry, line: str | int) -> bool:
    if isinstance(line, int):
        return entry.line_number == line
    file, _, number = line.rpartition(":")
    if not file or not number.isdigit():
        file, number = line, ""
    if number and entry.line_number != int(number):
        return False
    found = entry.file.replace("\\", "/")
    return found == file or found.endswith("/" + file.replace("\\", "/"))


def _text_of(entry: Entry) -> str:
    parts = [entry.op, entry.name, entry.where, entry.module or "", entry.leaf or ""]
    parts.append(linecache.getline(entry.file, entry.line_number))
    parts += [value.name for value in entry.saved]
    return "\n".join(parts).lower()


def _entry_to_dict(
    place: int, entry: Entry, places: dict[int, int], storages: dict[int, int]
) -> dict[str, Any]:
    inputs = [
        [
            -1 if each.producer is None else places.get(each.producer.sequence, -1),
            each.output_number,
        ]
        for each in entry.inputs
    ]
    saved = [
        {
            "name": value.name,
            "role": value.role,
            "shape": None if value.shape is None else list(value.shape),
            "dtype": _dtype_name(value.dtype),
            "bytes": value.bytes,
            "storage": storages.setdefault(value.storage, len(storages)),
            "state": value.state,
            "device": value.device,
        }
        for value in entry.saved
    ]
    return {
        "index": place,
        "op": entry.op,
        "name": entry.name,
        "sequence": entry.sequence,
        "line": entry.where,
        "module": entry.module,
        "inputs": inputs,
        "outputs": [
            {
                "shape": list(output.shape),
                "dtype": _dtype_name(output.dtype),
                "device": output.device,
            }
            for output in entry.outputs
        ],
        "saved": saved,
        "bytes": entry.bytes,
        "leaf": entry.leaf,
        "forward_us": entry.forward_us,
        "backward_us": entry.backward_us,
    }


def _dtype_name(dtype: Any) -> str | None:
    return None if dtype is None else str(dtype).removeprefix("torch.")
