"""Write tapegrad/__init__.pyi: what `import tapegrad` gives, for editors and type checkers.

The package loads many of its parts when they are first asked for, which no checker can follow.
The stub names every one of them with the module that defines it, and nothing else, so that a
name with a typo is an error.

Usage: python scripts/make_package_stub.py [--check]

With --check nothing is written, and the exit code is 1 when the file is out of date.
"""

import inspect
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from generated import ROOT, write_or_check

sys.path.append(str(ROOT))  # the installed package if there is one, else a build in the tree

import tapegrad
from tapegrad import _C, _aliases, _copies, _foreach, _typed

TARGET = ROOT / "tapegrad" / "__init__.pyi"
HEADER = '''\
# Written by scripts/make_package_stub.py; do not edit.
# fmt: off
# ruff: noqa
"""The public names of the package, each from the module that defines it."""

from collections.abc import Callable as _Callable
from typing import Any as _Any

from tapegrad._ops import OpRegistry as _OpRegistry
'''
CONSTANTS = {"e", "inf", "nan", "pi"}
VARIABLES = {"newaxis": "None", "ops": "_OpRegistry", "__version__": "str"}


def names() -> set[str]:
    """Return the names of the package, those that are loaded on use included."""
    later = tapegrad._LATER | tapegrad._PLACES.keys() | tapegrad._SAMPLING.keys()
    made = {f"{dtype}{kind}" for dtype in _typed.DTYPES for kind in ("Tensor", "Storage")}
    here = {
        name
        for name, value in vars(tapegrad).items()
        if not name.startswith("_") or getattr(value, "__module__", "").startswith("tapegrad.")
    }
    more = {"Event", "Stream", "autocast", "compile", "empty_permuted", "load", "save"}
    public = here | later | made | more | set(_copies.__all__)
    return public - {"_OpRegistry", "_missing", "__getattr__"}


def place(name: str, value: Any) -> tuple[str, str] | None:
    """Return the module that a name is to be imported from, and what it is called there."""
    if name in tapegrad._PLACES:
        return tapegrad._PLACES[name], name
    if isinstance(value, ModuleType):
        return value.__name__.rpartition(".")[0], value.__name__.rpartition(".")[2]
    if name in _aliases.__all__ or vars(_C).get(name) is value:
        native = [native for native, other in vars(_C).items() if other is value]
        if native:
            return "tapegrad._C", native[0] if name not in native else name
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    known_as = getattr(value, "__name__", name)
    if module is not None and module is not tapegrad and getattr(module, known_as, None) is value:
        return module.__name__, known_as
    for other in ("tapegrad._types", "tapegrad._aliases"):
        for known_as, known in vars(sys.modules[other]).items():
            if known is value and type(value).__module__.startswith("tapegrad"):
                return other, known_as
    return None


def definition(name: str) -> str:
    """Return the line that declares a name."""
    if name in CONSTANTS:
        return f"from math import {name} as {name}\n"
    if name in VARIABLES:
        return f"{name}: {VARIABLES[name]}\n"
    for kind, base in (("Tensor", "Tensor"), ("Storage", "TypedStorage")):
        if name.removesuffix(kind) in _typed.DTYPES and name.endswith(kind):
            return f"class {name}({base}): ...\n"
    value = getattr(tapegrad, name)
    if found := place(name, value):
        module, known_as = found
        if known_as == name:
            return f"from {module} import {name} as {name}\n"
        return f"from {module} import {known_as} as _{name}\n{name} = _{name}\n"
    if name in vars(tapegrad.Tensor):
        return f"{name} = Tensor.{name}\n"
    if inspect.isclass(value) and issubclass(value, tapegrad.Tensor):
        return f"from tapegrad._C import Tensor as {name}\n"
    raise SystemExit(f"make_package_stub: {name} has no module: {value!r}")


def foreach_names() -> list[str]:
    """Return what may follow `_foreach_`."""
    found = []
    for base in sorted({*vars(_C), "copy", "norm", "max", "zero"}):
        for name in (base, base + "_"):
            try:
                _foreach.foreach(name)
            except AttributeError:
                continue
            found.append(name)
    return sorted(set(found))


def parts() -> Iterator[str]:
    """Yield the pieces of the file, imports first."""
    lines = sorted({definition(name) for name in names() | set(VARIABLES)})
    yield HEADER
    yield "".join(line for line in lines if line.startswith("from "))
    yield "".join(line for line in lines if not line.startswith("from "))
    yield "".join(f"_foreach_{name}: _Callable[..., _Any]\n" for name in foreach_names())


if __name__ == "__main__":
    sys.exit(write_or_check(TARGET, "\n".join(parts()), sys.argv[1:], "make_package_stub.py"))
