"""Several processes that run one function, of which one failure ends all."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):
    """A process failed.

    Attributes:
        msg: what happened.
        error_index: the number of the process.
        pid: its id in the system.
    """

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = pid


class ProcessRaisedException(ProcessException):
    """A process failed with an exception."""


class ProcessExitedException(ProcessException):
    """A process ended by a signal or with an exit code.

    Attributes:
        exit_code: the code.
        signal_name: the name of the signal, if it was one.
    """

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name


def _run(fn: Callable[..., Any], number: int, args: Sequence[Any], report: str) -> None:
    try:
        fn(number, *args)
    except KeyboardInterrupt:
        pass  # the parent was interrupted as well, and tells
    except Exception:
        with open(report, "w", encoding="utf-8") as file:
            file.write(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """Processes that were started together.

    Attributes:
        processes: the processes.
    """

    def __init__(self, processes: list[Any], reports: list[str]) -> None:
        self.processes = processes
        self._reports = reports
        self._waiting = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Return the ids of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for the processes; when one fails, end the others and raise.

        Args:
            timeout: the most seconds to wait; without it, until something happens.
            grace_period: how long the others get to end by themselves.

        Returns:
            Whether all have ended.
        """
        if not self._waiting:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(self._waiting.keys(), timeout=timeout):
            index = self._waiting.pop(sentinel)  # type: ignore[call-overload]
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self._waiting
        self._end_all(grace_period)
        raise self._failure(failed)

    def _end_all(self, grace_period: float | None) -> None:
        for process in self.processes:
            if grace_period is not None:
                process.join(grace_period)
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(30)
            if process.is_alive():
                process.kill()
                process.join()

    def _failure(self, index: int) -> ProcessException:
        process = self.processes[index]
        report = self._reports[index]
        if os.path.getsize(report):
            with open(report, encoding="utf-8") as file:
                text = file.read()
            message = f"\n\n-- Process {index} terminated with the following error:\n{text}"
            return ProcessRaisedException(message, index, process.pid)
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            message = f"process {index} terminated with signal {name}"
            return ProcessExitedException(message, index, process.pid, code, name)
        message = f"process {index} terminated with exit code {code}"
        return ProcessExitedException(message, index, process.pid, code)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run a function in several processes.

    Args:
        fn: called as ``fn(number, *args)``; a process that spawns must be able to import it.
        args: what it is given besides its number.
        nprocs: how many processes.
        join: whether to wait for all of them, and raise when one fails.
        daemon: whether they end with this process.
        start_method: ``"spawn"``, ``"fork"`` or ``"forkserver"``.

    Returns:
        A `ProcessContext`, or None after waiting.
    """
    context: Any = multiprocessing.get_context(start_method)
    processes, reports = [], []
    for number in range(nprocs):
        handle, report = tempfile.mkstemp(prefix="tapegrad-process-", suffix=".txt")
        os.close(handle)
        process = context.Process(target=_run, args=(fn, number, args, report), daemon=daemon)
        process.start()
        processes.append(process)
        reports.append(report)
    started = ProcessContext(processes, reports)
    if not join:
        return started
    try:
        while not started.join():
            pass
    finally:
        for report in reports:
            os.remove(report)
    return None


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run a function in several new processes; arguments as those of `start_processes`."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
