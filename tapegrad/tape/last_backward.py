"""The tape of the last backward that some code runs, described before the sweep empties it."""

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tapegrad
from tapegrad import Tensor, autograd

__all__ = ["LastBackward"]


class LastBackward:
    """Describes what every backward is about to sweep, and keeps the last description.

    Inside the context, `Tensor.backward` and `autograd.backward` note the tape of their roots. Only
    the document is kept, never the graph, so that memory is what it would be without. Backwards
    inside a backward, as checkpoints run, belong to the outer one.

    Args:
        only: describe this backward and no other, counted from 1; None describes each and keeps
            the last. It saves the time of describing where there are many.

    Attributes:
        document: of the tape, or None if no backward ran.
        number: which backward it is of, counted from 1.
        count: how many backwards ran.
        place: the line that called it.

    Example:
        >>> from tapegrad.tape.last_backward import LastBackward
        >>> x = torch.ones(3, requires_grad=True)
        >>> with LastBackward() as last:
        ...     (x * x).sum().backward()
        >>> [entry["op"] for entry in last.document["entries"]]
        ['accumulate_grad', 'mul', 'sum']
    """

    def __init__(self, only: int | None = None) -> None:
        self.only = only
        self.document: dict[str, Any] | None = None
        self.number = 0
        self.count = 0
        self.place = ""
        self._sweeping = threading.local()

    def __enter__(self) -> "LastBackward":
        self._originals = (Tensor.backward, autograd.backward)
        watched = [self._watched(original) for original in self._originals]
        Tensor.backward, autograd.backward = watched  # type: ignore[method-assign]
        return self

    def __exit__(self, *exception: object) -> None:
        Tensor.backward, autograd.backward = self._originals  # type: ignore[method-assign]

    def _watched(self, original: Callable[..., None]) -> Callable[..., None]:
        def backward(*args: Any, **kwargs: Any) -> None:
            if getattr(self._sweeping, "on", False):
                return original(*args, **kwargs)
            self._sweeping.on = True
            try:
                self._describe(args[0] if args else kwargs.get("tensors"))
                return original(*args, **kwargs)
            finally:
                self._sweeping.on = False

        backward.__doc__ = original.__doc__
        return backward

    def _describe(self, roots: Any) -> None:
        """Note the tape of a backward's roots; wrong arguments are left to the backward."""
        several = list(roots) if isinstance(roots, list | tuple) else [roots]
        tensors = [root for root in several if isinstance(root, Tensor) and root.requires_grad]
        if not tensors:
            return
        self.count += 1
        if self.only is not None and self.count != self.only:
            return
        caller = sys._getframe(2)
        self.place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        self.number = self.count
        with _without_collector():
            self.document = tapegrad.tape.of(tensors).to_dict()


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pause the collector, which would walk the whole tape again for every few hundred objects."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
