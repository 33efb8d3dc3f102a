"""Values that will be there later, as `torch.distributed` and its hooks hand them out."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

_T = TypeVar("_T")


class Future(Generic[_T]):
    """A value that is set once, by whoever computes it.

    Args:
        devices: devices with an index on which the value's tensors may lie; only looked at.

    Example:
        >>> future = torch.futures.Future()
        >>> twice = future.then(lambda done: 2 * done.value())
        >>> future.set_result(21)
        >>> twice.wait()
        42
    """

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        from tapegrad._types import device

        for place in map(device, devices or ()):
            if place.index is None:
                raise ValueError(f"Future: expected devices to have indices, got {place}")
        self._changed = threading.Condition()
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[Any]], Any]] = []

    def __reduce__(self) -> Any:
        raise RuntimeError("Future: can not pickle a future; send its value")

    def done(self) -> bool:
        """Return whether there is a value, or an error in its place."""
        return self._done

    def wait(self) -> _T:
        """Wait for the value and return it, or raise the error that came in its place."""
        self._drive()
        with self._changed:
            self._changed.wait_for(lambda: self._done)
        return self.value()

    def _drive(self) -> None:
        """Help the value to come: overridden where somebody must ask for it."""

    def value(self) -> _T:
        """Return the value of a future that is done."""
        if not self._done:
            raise RuntimeError("Future.value: there is no value yet; call wait()")
        if self._error is not None:
            raise self._error
        return self._value

    def then(self, callback: "Callable[[Future[_T]], Any]") -> "Future[Any]":
        """Return a future of what a function makes of this one, once it is done.

        Args:
            callback: called with this future.
        """
        if not callable(callback):
            raise TypeError(f"Future.then: expected a function, got {type(callback).__name__}")
        result = _Following(self)

        def run(done: "Future[Any]") -> None:
            try:
                value = callback(done)
            except Exception as error:
                failure = RuntimeError(
                    "Got the following error when running the callback: "
                    f"{type(error).__name__}: {error}"
                )
                failure.__cause__ = error
                result._finish(None, failure)
            else:
                result._finish(value, None)

        self._call_when_done(run)
        return result

    def add_done_callback(self, callback: "Callable[[Future[_T]], None]") -> None:
        """Call a function with this future once it is done; its errors become warnings.

        Args:
            callback: called with this future.
        """
        if not callable(callback):
            raise TypeError(
                f"Future.add_done_callback: expected a function, got {type(callback).__name__}"
            )

        def run(done: "Future[Any]") -> None:
            try:
                callback(done)
            except Exception as error:
                import warnings

                warnings.warn(
                    "Future: got the following error when running the callback: "
                    f"{type(error).__name__}: {error}",
                    stacklevel=2,
                )

        self._call_when_done(run)

    def _call_when_done(self, run: "Callable[[Future[Any]], None]") -> None:
        with self._changed:
            if not self._done:
                self._callbacks.append(run)
                return
        run(self)

    def set_result(self, result: _T) -> None:
        """Set the value, and run what waits for it.

        Args:
            result: the value.
        """
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set an error that `wait` and `value` will raise.

        Args:
            result: the error.
        """
        assert isinstance(result, Exception), (
            f"{result} is of type {type(result)}, not an Exception."
        )
        self._finish(None, result)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError(
                    "Future: attempting to mark a completed Future as complete again. Note that a "
                    "Future can only be marked completed once."
                )
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for run in callbacks:
            run(self)


class _Following(Future[Any]):
    """A future that is done when others are, which are asked for it."""

    def __init__(self, *sources: Future[Any]) -> None:
        super().__init__()
        self._sources = sources

    def _drive(self) -> None:
        for source in self._sources:
            if not source.done():
                source._drive()

    def _finish(self, value: Any, error: BaseException | None) -> None:
        self._sources = ()
        super()._finish(value, error)


def collect_all(futures: "Sequence[Future[Any]]") -> "Future[list[Future[Any]]]":
    """Return a future that is done once all of several are; its value is their list.

    If one of them has an error, waiting for the result raises it.

    Args:
        futures: the futures.

    Example:
        >>> first, second = torch.futures.Future(), torch.futures.Future()
        >>> both = torch.futures.collect_all([first, second])
        >>> first.set_result(1)
        >>> both.done()
        False
        >>> second.set_result(2)
        >>> [future.value() for future in both.wait()]
        [1, 2]
    """
    if not isinstance(futures, (list, tuple)) or not all(isinstance(f, Future) for f in futures):
        raise TypeError("collect_all: expected a list of futures")
    listed = list(futures)
    result = _Following(*listed)
    lock, waiting = threading.Lock(), [len(listed)]

    def count(_: Future[Any]) -> None:
        with lock:
            waiting[0] -= 1
            last = waiting[0] == 0
        if last:
            error = next((f._error for f in listed if f._error is not None), None)
            result._finish(listed, error)

    for future in listed:
        future._call_when_done(count)
    if not listed:
        result._finish([], None)
    return result


def wait_all(futures: "Sequence[Future[Any]]") -> list[Any]:
    """Wait for several futures and return their values, or raise the first error.

    Args:
        futures: the futures.

    Example:
        >>> future = torch.futures.Future()
        >>> future.set_result("there")
        >>> torch.futures.wait_all([future])
        ['there']
    """
    return [future.wait() for future in collect_all(futures).wait()]
