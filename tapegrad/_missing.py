"""What is said of a name that a module lacks: whether PyTorch has it, and why it is not here.

A module ends with ``__getattr__ = names_of_torch(__name__)``, or its own ``__getattr__`` raises
`missing`. The list of PyTorch's names is read when the first one is asked for in vain.
"""

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

__all__ = ["missing", "names_of_torch"]


@cache
def _listed() -> frozenset[str]:
    """Return PyTorch's names and modules; none while the list of them is being loaded."""
    try:
        from tapegrad.compat.coverage import names
    except ImportError:
        return frozenset()
    found = set(names())
    for name in names():
        while name := name.rpartition(".")[0]:
            found.add(name)
    return frozenset(found)


def missing(module: str, name: str) -> AttributeError:
    """Return the error for a name that a module does not have.

    Args:
        module: the name of the module, such as ``tapegrad.nn``.
        name: what was asked of it.
    """
    text = f"module '{module}' has no attribute '{name}'"
    path = f"torch{module.removeprefix('tapegrad')}.{name}"
    if not name.startswith("_") and not _asked_by_import() and path in _listed():
        from tapegrad.compat.reasons import reason_of

        reason = reason_of(path)
        text += f" yet, which PyTorch has{f': {reason}' if reason else ''}; "
        text += f"`python -m tapegrad.compat.coverage {path}` says more"
    return AttributeError(text, name=name, obj=sys.modules.get(module))


def _asked_by_import() -> bool:
    """Whether ``from package import part`` asks, which goes on to look for a file of that name."""
    return sys._getframe(3).f_code.co_filename.startswith("<frozen importlib")


def names_of_torch(module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module that has no other."""

    def __getattr__(name: str) -> Any:
        raise missing(module, name)

    return __getattr__
