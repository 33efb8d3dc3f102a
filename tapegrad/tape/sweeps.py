"""Being told when a backward is about to begin.

All sweeps start in one of two native functions, ``_C.run_backward`` and ``Tensor.backward``. While
somebody listens, Python functions stand in their place; otherwise nothing does, and listening costs
nothing.
"""

import threading
from collections.abc import Callable
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["BeforeSweeps"]

# Called with the roots and whether the graph is retained; what it returns, after the sweep.
Listener = Callable[[list[Tensor], bool], Callable[[], None] | None]

_listeners: list[Listener] = []
_lock = threading.RLock()
_sweeping = threading.local()
_native: Any = None


def _announced(roots: Any, retain_graph: bool, run: Callable[[], Any]) -> Any:
    """Run a sweep, after telling the listeners unless it is part of another."""
    after = []
    if getattr(_sweeping, "depth", 0) == 0:
        after = [listener(list(roots), retain_graph) for listener in tuple(_listeners)]
    _sweeping.depth = getattr(_sweeping, "depth", 0) + 1
    try:
        return run()
    finally:
        _sweeping.depth -= 1
        for listener in after:
            if listener is not None:
                listener()


def _run_backward(
    roots: Any,
    grad_roots: Any,
    retain_graph: bool,
    create_graph: bool,
    inputs: Any,
    accumulate: bool,
) -> Any:
    native = _native[0]
    return _announced(
        roots,
        retain_graph,
        lambda: native(roots, grad_roots, retain_graph, create_graph, inputs, accumulate),
    )


def _backward(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    native = _native[1]
    retain = create_graph if retain_graph is None else retain_graph
    _announced([self], retain, lambda: native(self, gradient, retain_graph, create_graph, inputs))


class BeforeSweeps:
    """Calls ``listener(roots, retain_graph)`` before each backward that begins in the block.

    If it returns a function, that is called when the backward is over, failed or not. A backward
    inside another, as a recomputation or a hook may start it, is not announced.

    Example:
        >>> from tapegrad.tape.sweeps import BeforeSweeps
        >>> x = torch.ones(2, requires_grad=True)
        >>> with BeforeSweeps(lambda roots, retain_graph: print(len(roots), retain_graph)):
        ...     (x * x).sum().backward()
        1 False
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def __enter__(self) -> "BeforeSweeps":
        global _native
        with _lock:
            if not _listeners:
                _native = (_C.run_backward, Tensor.backward)
                _C.run_backward = _run_backward
                Tensor.backward = _backward  # type: ignore[method-assign,assignment]
            _listeners.append(self._listener)
        return self

    def __exit__(self, *exception: Any) -> None:
        with _lock:
            _listeners.remove(self._listener)
            if not _listeners:
                _C.run_backward, Tensor.backward = _native  # type: ignore[method-assign]
