"""Write tapegrad/_names.py: the public functions of the package and the methods they become.

Native functions are published by their own names, except those below, those of the activations,
which live in nn.functional, and those that the Python layer gives itself. Composed operations are
published where they are marked with `@function` and `@method`.

Usage: python scripts/make_names.py [--check]

With --check nothing is written, and the exit code is 1 when the file is out of date.
"""

import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator
from types import ModuleType

from generated import ROOT, write_or_check

sys.path.append(str(ROOT))  # the installed package if there is one, else a build in the tree

# An empty list in place of the one on disk, which may name what is gone and then would not load.
sys.modules["tapegrad._names"] = ModuleType("tapegrad._names")

import tapegrad  # noqa: E402
from tapegrad import _C  # noqa: E402
from tapegrad._composed import FUNCTIONS, METHODS  # noqa: E402

TARGET = ROOT / "tapegrad" / "_names.py"
HEADER = '''\
# Written by scripts/make_names.py; do not edit.
# fmt: off
# ruff: noqa
# mypy: disable-error-code="method-assign, assignment"
"""The public functions of the package, and those of them that are written in Python as methods."""
'''

# Parts of the native module that are no part of the public one.
INTERNAL = {
    "CallCache",
    "Node",
    "Program",
    "SavedTensor",
    "build_info",
    "install_source_lines",
    "live_counts",
    "pointwise_table",
    "run_backward",
    "set_blas_library",
}


def native_names() -> set[str]:
    """Return what the package takes from the native module as it is."""
    activations = {row["name"] for row in _C.pointwise_table() if row["activation"]}
    given_in_python = vars(tapegrad).keys()  # without the list, so by the rest of the package
    public = {name for name in vars(_C) if not name.startswith("_")} - INTERNAL - given_in_python
    return {name for name in public if name.removesuffix("_") not in activations}


def names_by_module() -> dict[str, set[str]]:
    """Return the public names of every module that defines some."""
    modules = defaultdict(set, {"tapegrad._C": {"Tensor", *native_names()}})
    for name, operation in FUNCTIONS.items():
        modules[operation.__module__].add(name)
    return modules


def import_line(module: str, names: Iterable[str]) -> str:
    """Return an import statement, wrapped where it is too long for a line."""
    listed = ", ".join(sorted(names))
    line = f"from {module} import {listed}\n"
    if len(line) <= 100:
        return line
    wrapped = textwrap.fill(listed + ",", 100, initial_indent="    ", subsequent_indent="    ")
    return f"from {module} import (\n{wrapped}\n)\n"


def parts() -> Iterator[str]:
    """Yield the pieces of the file."""
    if alone := METHODS.keys() - FUNCTIONS.keys():
        raise SystemExit(f"make_names: marked as a method but not as a function: {sorted(alone)}")
    yield HEADER
    yield "".join(import_line(module, names) for module, names in sorted(names_by_module().items()))
    yield "".join(f"Tensor.{name} = {name}\n" for name in sorted(METHODS))


if __name__ == "__main__":
    sys.exit(write_or_check(TARGET, "\n".join(parts()), sys.argv[1:], "make_names.py"))
