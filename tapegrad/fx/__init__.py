"""The one name of PyTorch's `torch.fx` that programs use as a mark: `wrap`.

Graphs of modules as Python code are not made here; `tapegrad.tape.record` gives programs.
"""

from typing import Any

__all__ = ["wrap"]

_REFUSED = (
    *("Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer"),
    *("replace_pattern", "symbolic_trace", "node", "proxy", "graph", "graph_module", "passes"),
)


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


def __getattr__(name: str) -> Any:
    if name in _REFUSED:
        raise AttributeError(
            f"module 'tapegrad.fx' has no attribute {name!r}: modules are not rewritten as Python "
            "code here; torch.jit.trace gives a program that is saved, torch.compile one that is "
            "replayed"
        )
    raise AttributeError(f"module 'tapegrad.fx' has no attribute {name!r}")
