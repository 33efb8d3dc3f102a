"""What an operation with ``async_op=True`` returns."""

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from tapegrad._C import Tensor
from tapegrad.distributed.engine import Pending
from tapegrad.futures import Future

__all__ = ["Work"]


class Work:
    """An operation that was begun, with the steps that are left when the engine is done.

    Nothing runs beside the program: the last steps (a division, copies to where results belong) are
    taken by whoever first finds the operation done, in `wait`, `is_completed` or the future.
    """

    def __init__(
        self,
        pending: Pending | None = None,
        finish: Callable[[], Any] | None = None,
        result: Sequence[Tensor] = (),
        *,
        receives: bool = False,
        source: int | None = None,
        to_global: Callable[[int], int] | None = None,
    ) -> None:
        self._pending = pending
        self._finish = finish
        self._result = list(result)
        self._receives = receives
        self._source = source
        self._to_global = to_global
        self._error: BaseException | None = None
        self._ended = False
        self._lock = threading.RLock()
        self._future: _WorkFuture | None = None
        if pending is None:
            self._end()

    def _end(self) -> None:
        with self._lock:
            if self._ended:
                return
            try:
                if self._error is None and self._finish is not None:
                    self._finish()
                if self._source is None and self._receives and self._pending is not None:
                    self._source = self._pending.source()
            except BaseException as error:
                self._error = error
            self._ended = True
            self._finish = self._pending = None
        if self._error is not None and not isinstance(self._error, Exception):
            raise self._error
        if self._future is not None:
            self._future._take(self)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until results are there.

        Args:
            timeout: the most to wait; that of the group if it is zero.

        Returns:
            True. Errors are raised.
        """
        if not isinstance(timeout, timedelta):
            raise TypeError(f"Work.wait: expected a timedelta, got {type(timeout).__name__}")
        pending = self._pending
        if not self._ended and pending is not None:
            try:
                pending.wait(timeout or None)
            except BaseException as error:
                self._error = error
            self._end()
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Return whether results, or an error, are there."""
        pending = self._pending
        if not self._ended and pending is not None:
            try:
                if not pending.done():
                    return False
            except Exception as error:
                self._error = error
            self._end()
        return True

    def is_success(self) -> bool:
        """Return whether it ended without an error."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """Return the error that it ended with, or None."""
        return self._error

    def result(self) -> list[Tensor]:
        """Return the tensors that were written."""
        self.wait()
        return self._result

    def synchronize(self) -> None:
        """Wait, as `wait` does."""
        self.wait()

    def block_current_stream(self) -> None:
        """Wait: there is no stream that could wait in the program's place."""
        self.wait()

    def source_rank(self) -> int:
        """Return the rank in the world that a message was received from."""
        if not self._receives:
            raise RuntimeError(
                "Work.source_rank: it may only be called on what recv and irecv return"
            )
        self.wait()
        assert self._source is not None
        return self._to_global(self._source) if self._to_global else self._source

    def get_future(self) -> Future[Any]:
        """Return a future of the list of tensors that are written."""
        if self._future is None:
            self._future = _WorkFuture(self)
            if self._ended:
                self._future._take(self)
        return self._future


class _WorkFuture(Future[Any]):
    """The future of a `Work`, which is asked for its end."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work: Work | None = work

    def _take(self, work: Work) -> None:
        self._work = None
        if not self._done:
            self._finish(None if work._error else work._result, work._error)

    def done(self) -> bool:
        work = self._work
        if work is not None:
            work.is_completed()
        return self._done

    def _drive(self) -> None:
        work = self._work
        if work is not None:
            try:
                work.wait()
            except Exception:
                assert self._done  # with the error, which the caller finds there
