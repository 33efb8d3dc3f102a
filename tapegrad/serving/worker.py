"""The thread that runs a program: one request after the other, or the rows of several together.

A request is a `Job`: it waits in a queue that is bounded, and its own thread waits for it. Each job
is answered once, whatever happens: with a result, an error, or by having waited too long, in which
case it is not run any more.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import tapegrad
from tapegrad._C import Tensor
from tapegrad.jit._traced import LoadedMethod
from tapegrad.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["Job", "Refused", "Worker"]


class Refused(Exception):
    """A request that is not answered with a result.

    Args:
        status: of HTTP.
        text: for who asked.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Job:
    """A request.

    Args:
        method: what to run.
        leaves: its arguments.
        rows: how many, or 0 if it is run alone.
        deadline: when nobody waits any more, on the clock of `time.monotonic`.
    """

    def __init__(
        self, method: LoadedMethod, leaves: list[Tensor], rows: int, deadline: float
    ) -> None:
        self.method = method
        self.leaves = leaves
        self.rows = rows
        self.deadline = deadline
        self.result: Any = None
        self.error: Refused | None = None
        self._done = threading.Event()

    def finish(self, result: Any = None, error: Refused | None = None) -> None:
        """Answer the request."""
        self.result, self.error = result, error
        self._done.set()

    def wait(self) -> Any:
        """Return the result, or raise `Refused`."""
        if not self._done.wait(max(self.deadline - time.monotonic(), 0)):
            raise Refused(504, "the answer took too long; try again, or send fewer rows")
        if self.error is not None:
            raise self.error
        return self.result


class Worker:
    """Runs jobs in a thread of its own.

    Args:
        most_rows: that are run at a time.
        wait: seconds to wait for more rows when there are some.
        most_waiting: requests in the queue; more are refused.
    """

    def __init__(self, most_rows: int, wait: float, most_waiting: int) -> None:
        self._most_rows = most_rows
        self._wait = wait
        self._most_waiting = most_waiting
        self._queue: deque[Job] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self.counts: Counter[str] = Counter()  # runs, rows, jobs and seconds
        self._thread = threading.Thread(target=self._loop, name="tapegrad-worker", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._queue)

    def submit(self, job: Job) -> None:
        """Put a job in the queue, or refuse it."""
        with self._changed:
            if self._is_closed:
                raise Refused(503, "the server is stopping")
            if len(self._queue) >= self._most_waiting:
                raise Refused(
                    503, f"{self._most_waiting} requests are waiting already; try again later"
                )
            self._queue.append(job)
            self._changed.notify()

    def close(self, seconds: float) -> None:
        """Finish what is waiting, for so long at most; refuse the rest."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(seconds)
        with self._changed:
            while self._queue:
                self._queue.popleft().finish(error=Refused(503, "the server is stopping"))

    # ---- the thread

    def _loop(self) -> None:
        with tapegrad.no_grad():
            while jobs := self._next():
                start = time.perf_counter()
                self._run(jobs)
                self.counts["runs"] += 1
                self.counts["jobs"] += len(jobs)
                self.counts["rows"] += sum(job.rows or 1 for job in jobs)
                self.counts["nanoseconds"] += int((time.perf_counter() - start) * 1e9)

    def _next(self) -> list[Job]:
        """Wait for jobs that run together; none when the queue is closed and empty."""
        with self._changed:
            while True:
                first = self._pop()
                if first is not None:
                    break
                if self._is_closed:
                    return []
                self._changed.wait()
            jobs, rows = [first], first.rows
            end = time.monotonic() + self._wait
            while first.rows and rows < self._most_rows:
                if self._queue and not self._fits(first, self._queue[0], rows):
                    break
                job = self._pop()
                if job is not None:
                    jobs.append(job)
                    rows += job.rows
                    continue
                left = end - time.monotonic()
                if left <= 0 or self._is_closed:
                    break
                self._changed.wait(left)
            return jobs

    def _pop(self) -> Job | None:
        """Take the next job that somebody waits for."""
        while self._queue:
            job = self._queue.popleft()
            if job.deadline > time.monotonic():
                return job
            job.finish(error=Refused(504, "the request waited too long for its turn"))
        return None

    def _fits(self, first: Job, job: Job, rows: int) -> bool:
        return (
            job.method is first.method
            and job.rows > 0
            and rows + job.rows <= self._most_rows
            and all(
                x.shape[1:] == y.shape[1:] for x, y in zip(first.leaves, job.leaves, strict=True)
            )
        )

    def _run(self, jobs: Sequence[Job]) -> None:
        if len(jobs) > 1:
            try:
                results = _run_together(jobs)
            except Exception:  # one of them is to blame, so that each is run by itself
                self.counts["retries"] += 1
            else:
                for job, result in zip(jobs, results, strict=True):
                    job.finish(result)
                return
        for job in jobs:
            try:
                job.finish(job.method(*_arguments(job.method, job.leaves)))
            except (RuntimeError, ValueError, IndexError, TypeError) as error:
                text = str(error).split("\n", 1)[0]
                job.finish(error=Refused(400, f"the program cannot run on these values: {text}"))
            except BaseException as error:
                job.finish(error=Refused(500, f"{type(error).__name__}: {error!s:.200}"))


def _arguments(method: LoadedMethod, leaves: Sequence[Tensor]) -> list[Any]:
    count = len(method.arguments.names)
    return method.arguments.split(list(leaves), count)[0]


def _run_together(jobs: Sequence[Job]) -> list[Any]:
    """Run the rows of several jobs as one; return the rows of each."""
    method = jobs[0].method
    columns = zip(*(job.leaves for job in jobs), strict=True)
    result = method(*_arguments(method, [tapegrad.cat(list(column)) for column in columns]))
    leaves, structure = tree_flatten(result)
    total = sum(job.rows for job in jobs)
    if any(leaf.shape[0] != total for leaf in leaves):
        raise RuntimeError("the results have not as many rows as the arguments")
    found, first = [], 0
    for job in jobs:
        rows = [leaf[first : first + job.rows] for leaf in leaves]
        found.append(tree_unflatten(rows, structure))
        first += job.rows
    return found
