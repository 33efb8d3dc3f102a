"""Of PyTorch's `torch.fx` the mark `wrap`, and classes of which there are no objects.

Graphs of modules as Python code are not made here; `tapegrad.tape.record` gives programs. Packages
ask whether a module is a `GraphModule`: none is.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tapegrad._refused import Refused

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "wrap"]

_WHY = (
    "modules are not rewritten as Python code here; torch.jit.trace gives a program that is saved, "
    "torch.compile one that is replayed"
)
_REFUSED = ("replace_pattern", "symbolic_trace", "graph", "passes")
_MODULES = ("graph_module", "node", "proxy")


class Graph(Refused):
    """Refuses to be made."""

    _why = _WHY


class GraphModule(Refused):
    """Refuses to be made. No module is one, so that ``isinstance`` answers."""

    _why = _WHY


class Interpreter(Refused):
    """Refuses to be made."""

    _why = _WHY


class Node(Refused):
    """Refuses to be made. No argument is one, so that ``isinstance`` answers."""

    _why = _WHY


class Proxy(Refused):
    """Refuses to be made. No value is one, so that ``isinstance`` answers."""

    _why = _WHY


class Tracer(Refused):
    """Refuses to be made."""

    _why = _WHY


class Transformer(Refused):
    """Refuses to be made."""

    _why = _WHY


def wrap(fn_or_name: Any) -> Any:
    """Mark a function that PyTorch's symbolic tracing is not to look into; it stays what it is.

    Args:
        fn_or_name: the function, or the name of one of the module's.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    return fn_or_name


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"tapegrad.fx.{name}")
        if name in _REFUSED:
            raise AttributeError(f"module 'tapegrad.fx' has no attribute {name!r}: {_WHY}")
        raise AttributeError(f"module 'tapegrad.fx' has no attribute {name!r}")
