"""The timer: `timeit` with warm-up, a number of threads, and work on devices waited for."""

import textwrap
import timeit
from collections.abc import Callable
from typing import Any

from tapegrad import _C
from tapegrad.utils.benchmark.measurement import Measurement, TaskSpec

__all__ = ["Timer"]


def timer() -> float:
    """Return the time in seconds, after work that was put on a GPU has been done."""
    from tapegrad import cuda

    if cuda.is_initialized():
        cuda.synchronize()
    return timeit.default_timer()


class Timer:
    """Times a statement of Python.

    Args:
        stmt: the statement.
        setup: what runs once before it, and may define names for it.
        global_setup: for C++; here it must be empty.
        timer: a function that returns the time.
        globals: the names that the statement sees; `torch` is always among them.
        label: what is timed.
        sub_label: which case of it.
        description: which variant of it: the columns of `Compare`.
        env: where.
        num_threads: how many threads a kernel may use meanwhile.
        language: Python, which is the only one.

    Example:
        >>> timer = torch.utils.benchmark.Timer("x.sum()", "x = torch.ones(10)")
        >>> timer.timeit(10).median > 0
        True
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if str(getattr(language, "name", language)).lower() not in ("python", "py"):
            raise NotImplementedError(f"Timer: expected language 'python', got {language!r}")
        if global_setup:
            raise ValueError("global_setup is C++ only, received: " + repr(global_setup))
        import tapegrad

        names = {"torch": tapegrad, **(globals or {})}
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip() or "pass"
        self._clock = timer
        self._timer = timeit.Timer(stmt, setup, timer=timer, globals=names)
        self._task_spec = TaskSpec(
            stmt, setup, global_setup, label, sub_label, description, env, num_threads
        )

    def _timeit(self, number: int) -> float:
        threads = _C.get_num_threads()
        _C.set_num_threads(self._task_spec.num_threads)
        try:
            return max(self._timer.timeit(number), 1e-9)
        finally:
            _C.set_num_threads(threads)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Execute the statement a number of times, and return the time that they took together.

        Args:
            number: how often; a hundredth of it, at least once, is executed before as well.
        """
        self._timeit(max(number // 100, 1))
        return Measurement(number, [self._timeit(number)], self._task_spec)

    def _number_per_run(self, min_run_time: float) -> int:
        """Return how many executions make the clock's share of a run small."""
        number, overhead = 1, min(self._timer_overhead() for _ in range(5))
        while True:
            taken = self._timeit(number)
            if overhead / taken <= 1e-4 and taken >= min_run_time / 1000:
                return number
            if taken > min_run_time:
                return number
            number *= 10

    def _timer_overhead(self) -> float:
        return max(timeit.Timer("pass", timer=self._clock).timeit(1), 1e-9)

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Time blocks of executions until together they took a while.

        Args:
            callback: called with the size and the time of every block.
            min_run_time: how many seconds.
        """
        number = self._number_per_run(min_run_time)
        times = self._blocks(number, min_run_time, callback, lambda times: True)
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Time blocks of executions until their times agree.

        Args:
            threshold: the share of the median within which the quartiles must lie.
            min_run_time: the least seconds to spend.
            max_run_time: the most seconds to spend.
            callback: called with the size and the time of every block.
        """
        number = self._number_per_run(0.05)

        def agree(times: list[float]) -> bool:
            enough = len(times) >= 3
            found = Measurement(number, times, self._task_spec)
            return sum(times) > max_run_time or (enough and found.meets_confidence(threshold))

        return Measurement(
            number, self._blocks(number, min_run_time, callback, agree), self._task_spec
        )

    def _blocks(
        self,
        number: int,
        least: float,
        callback: Callable[[int, float], Any] | None,
        done: Callable[[list[float]], bool],
    ) -> list[float]:
        times: list[float] = []
        total = 0.0
        while total < least or not done(times):
            times.append(self._timeit(number))
            total += times[-1]
            if callback is not None:
                callback(number, times[-1])
        return times

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: instructions are not counted."""
        raise NotImplementedError("collect_callgrind: instructions are not counted; use timeit()")
