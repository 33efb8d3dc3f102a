"""The switch: ``import torch`` means tapegrad, in this process and in those that it starts.

    import tapegrad.compat.torch as switch
    switch.install()
    import torch                       # is tapegrad, as are its submodules

``tapegrad run script.py`` does this for a script, ``pytest -p tapegrad.compat.pytest`` for tests.

``torch`` is then the module `tapegrad` itself and ``torch.nn`` is `tapegrad.nn`, so that there is
one class of tensors and one of modules, by whichever name a program imports them. Three things make
it so:

- a finder, first on ``sys.meta_path``, that answers for ``torch`` and all below it;
- a folder on ``sys.path``, ``stand_in``, with what packages look for before they import torch: its
  metadata, as one file, since builds of wheels leave folders of metadata out. It also holds a
  ``torch.py``, for processes that begin with the folder on their path;
- a ``__getattr__`` in each module, which says that tapegrad stands in when a name is not there, and
  notes who asked (`missing`).
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import NamedTuple

import tapegrad

__all__ = ["VERSION", "Missing", "install", "install_in_children", "missing", "report"]

VERSION = "2.13.0+tapegrad"  # what packages that compare versions are told
STAND_IN = str(Path(__file__).parent / "stand_in")
_OWN = frozenset((__file__, os.path.join(STAND_IN, "torch.py")))
# Modules of PyTorch's whose names are in another one here.
_PLACES = {
    "tapegrad.functional": "tapegrad",
    "tapegrad.nn.modules.channelshuffle": "tapegrad.nn",
    "tapegrad.nn.modules.fold": "tapegrad.nn",
    "tapegrad.nn.modules.pixelshuffle": "tapegrad.nn",
    "tapegrad.optim.adamw": "tapegrad.optim",
    "tapegrad.signal.windows.windows": "tapegrad.signal.windows",
}


class Missing(NamedTuple):
    """A name that a program asked for and did not get, and where it did."""

    name: str
    file: str
    line: int


_missing: dict[Missing, None] = {}


def missing() -> list[Missing]:
    """Return the names that were asked for and are not there, in the order of asking.

    A test whether a name is there, as by ``hasattr``, is asking too.
    """
    return list(_missing)


def report(besides: str | None = None) -> str:
    """Return a table of the names that were asked for and are not there, for people.

    Args:
        besides: a folder of files that ask every module for such names.
    """
    rows = [each for each in _missing if not besides or not each.file.startswith(besides)]
    if not rows:
        return "Every name of torch that was asked for is there.\n"
    from tapegrad.compat.reasons import reason_of

    lines = ["Names of torch that were asked for and are not there:"]
    width = max(len(each.name) for each in rows)
    for each in rows:
        lines.append(f"  {each.name:<{width}}  {_short(each.file)}:{each.line}")
        if reason := reason_of(each.name):
            lines.append(f"  {'':<{width}}    {reason}")
    return "\n".join(lines) + "\n"


def install() -> None:
    """Make ``import torch`` mean tapegrad from here on; a second call does nothing.

    Raises:
        RuntimeError: if PyTorch itself was imported before. Its modules are in use then, and what
            they made would meet tensors of another library.
    """
    known = sys.modules.get("torch")
    if known is tapegrad:
        return
    if known is not None and getattr(known, "__file__", None) not in _OWN:
        raise RuntimeError(
            f"install: PyTorch was imported already, from {getattr(known, '__file__', known)}; "
            "install the switch before anything imports torch, or run the program with "
            "`tapegrad run`"
        )
    sys.meta_path.insert(0, _Finder())
    if STAND_IN not in sys.path:
        sys.path.insert(1, STAND_IN)  # the first is the folder of the script
    importlib.invalidate_caches()
    tapegrad.__version__ = tapegrad.version.__version__ = VERSION
    # What PyTorch's module says of itself: packages patch functions by their whole names.
    tapegrad.__name__ = "torch"
    tapegrad.torch = tapegrad  # type: ignore[attr-defined]
    sys.modules["torch"] = tapegrad
    for name, module in list(sys.modules.items()):
        if name.startswith("tapegrad.") and not name.startswith("tapegrad.compat"):
            sys.modules.setdefault("torch" + name.removeprefix("tapegrad"), module)
            _watch(module)
    _watch(tapegrad)


def install_in_children() -> None:
    """Have the processes that this one starts find tapegrad as ``torch`` too, by their path."""
    folders = [f for f in os.environ.get("PYTHONPATH", "").split(os.pathsep) if f]
    if STAND_IN not in folders:
        os.environ["PYTHONPATH"] = os.pathsep.join([STAND_IN, *folders])


# ---- modules


class _Finder(MetaPathFinder):
    """Finds ``torch.x`` where ``tapegrad.x`` is."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch" and not fullname.startswith("torch."):
            return None
        name = _here(fullname)
        found = sys.modules.get(name) or _spec_of(name)
        if found is None:
            _note(fullname)
            raise ModuleNotFoundError(_text(f"No module named {fullname!r}"), name=fullname)
        is_package = hasattr(found, "__path__") or bool(
            getattr(found, "submodule_search_locations", None)
        )
        return ModuleSpec(fullname, _Loader(name), is_package=is_package)


class _Loader(Loader):
    """Gives the module of tapegrad under torch's name, as it is."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._name)
        self._spec = module.__spec__  # which the import system is about to replace
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec
        _watch(module)

    # What runpy and inspect ask of loaders.
    def is_package(self, fullname: str) -> bool:
        return hasattr(importlib.import_module(self._name), "__path__")

    def get_code(self, fullname: str) -> CodeType | None:
        spec = _spec_of(self._name)
        get = getattr(spec.loader, "get_code", None) if spec is not None else None
        return get(self._name) if get is not None else None


def _here(name: str) -> str:
    name = "tapegrad" + name.removeprefix("torch")
    return _PLACES.get(name, name)


def _spec_of(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):  # its package is no package, or there is none
        return None


# ---- names that are not there


def _watch(module: ModuleType) -> None:
    """Have a module say that tapegrad stands in for torch when it lacks a name."""
    given = vars(module).get("__getattr__")
    if getattr(given, "_notes", False):
        return
    own = "tapegrad" if module is tapegrad else module.__name__

    def __getattr__(name: str) -> object:
        if given is not None:
            try:
                return given(name)
            except AttributeError:
                pass
        path = f"torch{own.removeprefix('tapegrad')}"
        if not name.startswith("__") and _spec_of(f"{own}.{name}") is None:
            _note(f"{path}.{name}")
        raise AttributeError(
            _text(f"module {path!r} has no attribute {name!r}"), name=name, obj=module
        )

    __getattr__._notes = True  # type: ignore[attr-defined]
    module.__getattr__ = __getattr__  # type: ignore[method-assign]


def _text(problem: str) -> str:
    return (
        f"{problem}: tapegrad stands in for torch; `python -m tapegrad.compat.coverage` lists "
        "what is there, and why the rest is not"
    )


def _note(name: str) -> None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_of_imports(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is not None:
        _missing.setdefault(Missing(name, frame.f_code.co_filename, frame.f_lineno))


def _is_of_imports(file: str) -> bool:
    return file in _OWN or file.startswith("<frozen importlib")


def _short(file: str) -> str:
    try:
        relative = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if relative.startswith("..") else relative
