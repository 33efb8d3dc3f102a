"""Whether the thread is tracing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["state"]


class _State(threading.local):
    depth = 0

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Say so while a function is traced."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


state = _State()
