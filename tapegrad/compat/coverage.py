"""``python -m tapegrad.compat.coverage``: which names of PyTorch's API are there, and which not.

The names are those of PyTorch 2.13's documentation, in `names.txt` beside this file, so that
PyTorch need not be installed. What is there is looked up in the library itself; why a name is not
there, and how far one that is there goes, is told in `reasons.py`.
"""

import argparse
import ast
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import tapegrad
from tapegrad.compat import reasons

__all__ = ["Entry", "entries", "entry", "find", "is_there", "main", "names"]

NAMES = Path(__file__).with_name("names.txt")
STATES = ("present", "limited", "refused", "missing")
MARKS = {
    "present": "yes",
    "limited": "yes, with limits",
    "refused": "no",
    "missing": "no, and nobody says why",
}
DESCRIPTION = """\
Tells which names of PyTorch 2.13's documented API are here, and why the others are not.

  present   the name is there and does what PyTorch's does
  limited   the name is there; what it does not do is said behind it
  refused   the name is not there, or only says that it is not: the reason is said behind it

Without names the counts of each module are printed; a name, a module or a program tells its own.
"""
EPILOG = """\
examples:
  python -m tapegrad.compat.coverage                                  counts, module by module
  python -m tapegrad.compat.coverage nn.functional.grid_sample fft    a name, and a module
  python -m tapegrad.compat.coverage train.py                         what a program uses of torch
  python -m tapegrad.compat.coverage --missing --module linalg        what is not there, and why

The exit status is 1 if a name that was asked for is not there; with --check, if any name is
missing without a reason.
"""


@dataclass(frozen=True)
class Entry:
    """A name of PyTorch's: where it is listed, its state, and what is to be said about it."""

    path: str
    state: str
    text: str

    @property
    def module(self) -> str:
        """The module or class under which the name is listed."""
        return self.path.rpartition(".")[0]


@cache
def names() -> tuple[str, ...]:
    """Return the names of PyTorch's documented API, as dotted paths that begin with `torch`."""
    found, module = [], ""
    for line in NAMES.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            module = line.strip("[]")
        elif not line.startswith("#"):
            found += [f"{module}.{name}" for name in line.split()]
    return tuple(found)


class _Identity(tapegrad.autograd.Function):
    """A function whose context can be looked at: it is the entry of its result."""

    @staticmethod
    def forward(ctx: Any, x: tapegrad.Tensor) -> tapegrad.Tensor:
        """Return a copy."""
        return x.clone()


def _entry_of_identity() -> Any:
    return _Identity.apply(tapegrad.zeros(1, requires_grad=True)).grad_fn


# What makes an object with the attributes that programs see and a class does not show.
_INSTANCES: dict[str, Callable[[], Any]] = {
    "torch.autograd.Function": _entry_of_identity,
    "torch.autograd.function.FunctionCtx": _entry_of_identity,
    "torch.autograd.graph.Node": _entry_of_identity,
    "torch.optim.Optimizer": lambda: tapegrad.optim.SGD([tapegrad.zeros(1)]),
    "torch.utils.data.DataLoader": lambda: tapegrad.utils.data.DataLoader([0]),
    "torch.finfo": lambda: tapegrad.finfo(tapegrad.float32),
    "torch.iinfo": lambda: tapegrad.iinfo(tapegrad.int32),
}


def find(path: str, library: ModuleType | None = None) -> Any:
    """Return the object that a path such as `torch.nn.Linear` names in a library.

    Raises:
        LookupError: if there is none.
    """
    found: Any = library if library is not None else tapegrad
    module = found.__name__
    for part in path.split(".")[1:]:
        module += f".{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            found = _hidden(module, path)
    return found


def _hidden(module: str, path: str) -> Any:
    """Return a module, or what is in one that a function of its own name hides."""
    owner, _, part = module.rpartition(".")
    try:
        return importlib.import_module(module)
    except ImportError:
        pass
    try:
        return getattr(importlib.import_module(owner), part)
    except (ImportError, AttributeError):
        raise LookupError(path) from None


def is_there(path: str) -> bool:
    """Return whether a program that says `torch` for tapegrad finds a name."""
    if path in reasons.ONLY_REFUSES:
        return False
    owner, _, last = path.rpartition(".")
    if owner in _INSTANCES and hasattr(_INSTANCES[owner](), last):
        return True
    try:
        find(path)
    except LookupError:
        return False
    return True


@cache
def entry(path: str) -> Entry:
    """Return the state of a name."""
    if is_there(path):
        limit = reasons.limit_of(path)
        return Entry(path, "limited" if limit else "present", limit)
    reason = reasons.reason_of(path)
    return Entry(path, "refused" if reason else "missing", reason)


def entries() -> Iterator[Entry]:
    """Yield the state of every name."""
    return map(entry, names())


def used_by(program: Path) -> list[str]:
    """Return the names of PyTorch that a Python program uses, as dotted paths.

    Only names that begin with a module are seen; methods of tensors are not, for nothing tells
    what is a tensor.
    """
    tree = ast.parse(program.read_text(encoding="utf-8"))
    known = {"torch": "torch"}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in ("torch", "tapegrad"):
                    path = "torch" + alias.name.partition(".")[1] + alias.name.partition(".")[2]
                    known[alias.asname or "torch"] = path if alias.asname else "torch"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in (
            "torch",
            "tapegrad",
        ):
            module = (
                "torch"
                + (node.module or "").partition(".")[1]
                + (node.module or "").partition(".")[2]
            )
            for alias in node.names:
                known[alias.asname or alias.name] = f"{module}.{alias.name}"
                found.add(f"{module}.{alias.name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            head, _, rest = ast.unparse(node).partition(".")
            if head in known and rest.replace(".", "").isidentifier():
                found.add(f"{known[head]}.{rest}")
    return sorted({_documented(path) for path in found})


def _documented(path: str) -> str:
    """Return the longest beginning of a path that is a listed name, or the path itself."""
    listed = set(names())
    parts = path.split(".")
    for count in range(len(parts), 1, -1):
        if ".".join(parts[:count]) in listed:
            return ".".join(parts[:count])
    return path


def chosen(words: Iterable[str]) -> list[Entry]:
    """Return the entries that words name: names, modules, programs."""
    found: dict[str, Entry] = {}
    for word in words:
        if word.endswith(".py"):
            paths = used_by(Path(word))
        else:
            path = word if word.split(".")[0] == "torch" else f"torch.{word}"
            paths = [name for name in names() if name == path or name.startswith(f"{path}.")] or [
                path
            ]
        found.update((path, entry(path)) for path in paths)
    return list(found.values())


def table(listed: Iterable[Entry]) -> list[tuple[str, Counter[str]]]:
    """Return the counts of states for each module, in the order of the list."""
    counts: dict[str, Counter[str]] = {}
    for one in listed:
        counts.setdefault(one.module, Counter())[one.state] += 1
    return list(counts.items())


def _print_table(listed: list[Entry]) -> None:
    rows = table(listed)
    width = max(len(module) for module, _ in rows)
    print(f"{'':{width}}  present  limited  refused")
    for module, count in [*rows, ("all", Counter(one.state for one in listed))]:
        absent = count["refused"] + count["missing"]
        print(f"{module:{width}}  {count['present']:7}  {count['limited']:7}  {absent:7}")


def _print_entries(listed: list[Entry]) -> None:
    width = min(60, max((len(one.path) for one in listed), default=0))
    for one in listed:
        said = f": {one.text}" if one.text else ""
        print(f"{one.path:{width}}  {MARKS[one.state]}{said}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tapegrad.compat.coverage",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="a name, a module, or a program (.py)"
    )
    parser.add_argument("--module", action="append", default=[], metavar="MODULE",
                        help="only names of this module or class; again for more")  # fmt: skip
    parser.add_argument(
        "--missing", action="store_true", help="list what is not there, with the reason"
    )
    parser.add_argument("--limited", action="store_true", help="list what is there with limits")
    parser.add_argument("--check", action="store_true",
                        help="fail if a name is missing without a reason, for CI")  # fmt: skip
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Print what was asked for; return the exit status."""
    options = _parser().parse_args(arguments)
    asked = bool(options.names)
    listed = (
        chosen([*options.names, *options.module]) if asked or options.module else list(entries())
    )
    if options.check:
        unexplained = [one for one in listed if one.state == "missing"]
        _print_entries(unexplained)
        return 1 if unexplained else 0
    states = {"refused", "missing"} if options.missing else set()
    states |= {"limited"} if options.limited else set()
    if states:
        _print_entries([one for one in listed if one.state in states])
    elif asked:
        _print_entries(listed)
    elif listed:
        _print_table(listed)
    absent = any(one.state in ("refused", "missing") for one in listed)
    return 1 if asked and absent else 0


if __name__ == "__main__":
    sys.exit(main())
