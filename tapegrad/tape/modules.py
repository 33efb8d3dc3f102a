"""Which module an entry belongs to.

Two ways. While `record` runs, hooks around every module's forward note which sequence numbers fell
into it: an entry's module is the innermost of these intervals. Without that, parameters decide: an
entry that uses a parameter belongs to the module that owns it, and entries on a path between two
such entries belong to the innermost module that contains both.
"""

import gc
import sys
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from threading import get_ident
from typing import Any

from tapegrad import _C
from tapegrad.nn.modules import _hooks
from tapegrad.nn.modules.module import Module
from tapegrad.nn.parameter import Parameter
from tapegrad.tape.entries import Entry

__all__ = ["Calls", "Names", "assign_modules"]

# What passes a parameter on in another form: its result still belongs to the owner.
_FORMS = frozenset(
    (
        *("t", "transpose", "permute", "view", "reshape", "unsafe_view", "expand", "alias"),
        *("unsqueeze", "squeeze", "select", "slice", "narrow", "split", "chunk", "unbind"),
        *("flatten", "unflatten", "clone", "to_copy", "to", "copy"),
    )
)


class Calls:
    """Notes which sequence numbers fell into which module's forward, on this thread."""

    def __init__(self) -> None:
        self.intervals: list[tuple[int, int, Module]] = []
        self.roots: list[Module] = []
        self.first = 0
        self._open: list[tuple[int, Module]] = []
        self._thread = 0
        self._handles: list[Any] = []

    def start(self) -> None:
        """Begin to listen to the calls of all modules."""
        self.first = _C._next_sequence()
        self._thread = get_ident()
        self._handles = [
            _hooks.register_module_forward_pre_hook(self._enter),
            _hooks.register_module_forward_hook(self._leave, always_call=True),
        ]

    def stop(self) -> None:
        """End listening; calls that are not over end here."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        while self._open:
            self._close()

    def _enter(self, module: Module, _: Any) -> None:
        if get_ident() != self._thread:
            return
        if not self._open and not any(module is root for root in self.roots):
            self.roots.append(module)
        self._open.append((_C._next_sequence(), module))

    def _leave(self, module: Module, _: Any, __: Any) -> None:
        if get_ident() != self._thread:
            return
        # Calls inside that were left by an exception no hook saw end with this one.
        while any(each is module for _, each in self._open):
            ended = self._open[-1][1]
            self._close()
            if ended is module:
                break

    def _close(self) -> None:
        first, module = self._open.pop()
        last = _C._next_sequence()
        if last > first:
            self.intervals.append((first, last, module))

    def steps(self) -> tuple[list[int], list[Module | None]]:
        """Return at which sequence numbers the innermost module changes, and to which."""
        running = [(first, _C._next_sequence(), module) for first, module in self._open]
        starts: list[int] = []
        modules: list[Module | None] = []

        def change(sequence: int, module: Module | None) -> None:
            if starts and starts[-1] == sequence:
                modules[-1] = module
            else:
                starts.append(sequence)
                modules.append(module)

        # An inner call is noted before the outer one around it: the later of two equals is outer.
        numbered = [(first, -last, -i, m) for i, (first, last, m) in enumerate(self.intervals)]
        numbered += [(first, -last, i + 1 - 2**60, m) for i, (first, last, m) in enumerate(running)]
        inside: list[tuple[int, Module]] = []
        for first, minus_last, _, module in sorted(numbered, key=lambda each: each[:3]):
            while inside and inside[-1][0] <= first:
                last, _ = inside.pop()
                change(last, inside[-1][1] if inside else None)
            change(first, module)
            inside.append((-minus_last, module))
        while inside:
            last, _ = inside.pop()
            change(last, inside[-1][1] if inside else None)
        return starts, modules


class Names:
    """Paths of modules and names of parameters, below some roots.

    With one root, paths are those of its ``named_modules()``, and the root itself has the name of
    its class. Of several roots that have parts, each path begins with the name of its root's class.
    """

    def __init__(self, roots: Sequence[Module], first_is_bare: bool = False) -> None:
        self.modules: dict[int, str] = {}
        self.parameters: dict[int, tuple[str, str]] = {}  # name, and the owner's path
        with_parts = [root for root in roots if root._modules]
        counts: dict[str, int] = {}
        for number, root in enumerate(roots):
            label = type(root).__name__
            counts[label] = counts.get(label, 0) + 1
            if counts[label] > 1:
                label = f"{label}#{counts[label]}"
            bare = number == 0 if first_is_bare else len(with_parts) < 2
            self._add(root, label, bare and bool(root._modules))

    def _add(self, root: Module, label: str, bare: bool) -> None:
        prefix = "" if bare else f"{label}."
        for path, module in root.named_modules():
            if id(module) in self.modules:
                continue
            own = f"{prefix}{path}" if path else label
            self.modules[id(module)] = own
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    full = f"{prefix}{path}.{name}" if path else f"{prefix}{name}"
                    self.parameters.setdefault(id(parameter), (full, own))


_last_roots: list["weakref.ref[Module]"] = []


def roots_of(tensors: Iterable[Any]) -> list[Module]:
    """Return the outermost modules of the process that own some of the tensors."""
    wanted = {id(tensor) for tensor in tensors if isinstance(tensor, Parameter)}
    if not wanted:  # going through all objects of the process takes its time
        return []
    recent = [module for module in (ref() for ref in _last_roots) if module is not None]
    roots = [root for root in recent if not wanted.isdisjoint(map(id, root.parameters()))]
    known = {id(parameter) for root in roots for parameter in root.parameters()}
    if wanted <= known:
        return roots
    modules = [each for each in gc.get_objects() if issubclass(type(each), Module)]
    inner = {id(child) for module in modules for child in module._modules.values()}
    roots = [
        module
        for module in modules
        if id(module) not in inner and not wanted.isdisjoint(map(id, module.parameters()))
    ]
    _last_roots[:] = [weakref.ref(root) for root in roots]
    return roots


def assign_modules(entries: Sequence[Entry], model: Any = None, calls: Calls | None = None) -> None:
    """Set the module of each entry, and the names of leaves."""
    leaves = [entry.tensor for entry in entries if entry.tensor is not None]
    called = list(calls.roots) if calls is not None else []
    if model is not None:
        inside = {id(module) for module in model.modules()}
        roots = [model, *(root for root in called if id(root) not in inside)]
    else:
        inside = {id(module) for root in called for module in root.modules()}
        owned = {id(parameter) for root in called for parameter in root.parameters()}
        missing = [leaf for leaf in leaves if id(leaf) not in owned]
        roots = called + [root for root in roots_of(missing) if id(root) not in inside]
    names = Names(roots, first_is_bare=model is not None)
    _name_leaves(entries, names)
    starts, modules = calls.steps() if calls is not None else ([], [])
    paths = [None if each is None else names.modules.get(id(each)) for each in modules]
    _assign(entries, names, starts, paths)
    unseen = [entry for entry in entries if calls is None or entry.sequence < calls.first]
    _assign_between(unseen)


def _name_leaves(entries: Sequence[Entry], names: Names) -> None:
    """Name leaves by their module, else by a global of the main program, else by number."""
    main = getattr(sys.modules.get("__main__"), "__dict__", {})
    variables = {id(value): name for name, value in list(main.items()) if not name.startswith("_")}
    count = 0
    for entry in entries:
        if entry.tensor is None:
            continue
        known = names.parameters.get(id(entry.tensor))
        if known is not None:
            entry.leaf = known[0]
        else:
            entry.leaf = variables.get(id(entry.tensor)) or f"leaf{count}"
            count += 1


def _assign(
    entries: Sequence[Entry], names: Names, starts: list[int], paths: list[str | None]
) -> None:
    owners: dict[int, str] = {}  # by sequence number: the owner of what is but a parameter's form
    for entry in entries:
        if entry.tensor is not None:
            known = names.parameters.get(id(entry.tensor))
            if known is not None:
                entry.module = owners[entry.sequence] = known[1]
                continue
        place = bisect_right(starts, entry.sequence) - 1
        if place >= 0 and paths[place] is not None:
            entry.module = paths[place]
            continue
        found = [
            owners[each.producer.sequence]
            for each in entry.inputs
            if each.producer is not None and each.producer.sequence in owners
        ]
        if found:
            entry.module = _common(found)
            if len(entry.inputs) == 1 and entry.op in _FORMS:
                owners[entry.sequence] = entry.module


def _common(paths: list[str]) -> str:
    """Return the path that all paths lie below, or the last if there is none."""
    return ".".join(_shared(path.split(".") for path in paths)) or paths[-1]


def _shared(paths: Iterable[Sequence[str]]) -> list[str]:
    """Return the names that all paths begin with."""
    shared = []
    for names in zip(*paths, strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    return shared


def _assign_between(entries: Sequence[Entry]) -> None:
    """Give an entry the module that those it comes from and those it goes to are both in."""
    inner = [entry for entry in entries if not entry.is_leaf]
    before: dict[int, list[str]] = {}  # by sequence number: the names that paths begin with
    after: dict[int, list[str]] = {}
    for entry in inner:
        sources = [before.get(each.producer.sequence) for each in entry.inputs if each.producer]
        _note(before, entry, sources)
    targets: dict[int, list[list[str] | None]] = {}
    for entry in reversed(inner):
        _note(after, entry, targets.pop(entry.sequence, []))
        for each in entry.inputs:
            if each.producer is not None:
                found = after.get(entry.sequence)
                targets.setdefault(each.producer.sequence, []).append(found)
    for entry in inner:
        paths = [before.get(entry.sequence), after.get(entry.sequence)]
        if entry.module is None and None not in paths:
            entry.module = ".".join(_shared(path for path in paths if path is not None)) or None


def _note(
    known: dict[int, list[str]], entry: Entry, neighbours: Sequence[list[str] | None]
) -> None:
    """Note the module of an entry, or that which the neighbours of one without have in common."""
    paths = [path for path in neighbours if path is not None]
    if entry.module is not None:
        known[entry.sequence] = entry.module.split(".")
    elif paths:
        known[entry.sequence] = _shared(paths)
