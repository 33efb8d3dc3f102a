"""Being told when a backward is about to begin.

The native functions that start a sweep tell of it, however they were reached: a bound method that
is older than the block does, too. Nothing is told while nobody listens.
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


def _announce(roots: list[Tensor], retain_graph: bool) -> Callable[[], None] | None:
    """Tell the listeners of a sweep; return what is to be called after it."""
    found = [listener(roots, retain_graph) for listener in tuple(_listeners)]
    after = [each for each in found if each is not None]
    if not after:
        return None

    def call_all() -> None:
        for each in after:
            each()

    return call_all


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
        with _lock:
            _listeners.append(self._listener)
            _C._set_sweep_listener(_announce)
        return self

    def __exit__(self, *exception: Any) -> None:
        with _lock:
            _listeners.remove(self._listener)
            if not _listeners:
                _C._set_sweep_listener(None)
