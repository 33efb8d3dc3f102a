"""The worker processes of one loader, seen from the loader: start, hand out, collect, end."""

import contextlib
import os
import signal
import socket
import time
from multiprocessing.connection import wait
from typing import Any

from tapegrad.utils.data import transport, worker
from tapegrad.utils.data.fetch import Recipe

__all__ = ["WorkerPool"]

SECONDS_TO_END = 5.0


class WorkerPool:
    """Worker processes and the sockets to them.

    Nothing here refers to the iterator that owns the pool, so that the pool can be closed when the
    iterator is collected.
    """

    def __init__(
        self, context: Any, recipe: Recipe, num_workers: int, base_seed: int, init_fn: Any
    ) -> None:
        self.owner = os.getpid()
        self.closed = False
        self.processes: list[Any] = []
        self.sockets: list[socket.socket | None] = []
        parent = None if context.get_start_method() == "forkserver" else self.owner
        try:
            for worker_id in range(num_workers):
                setup = worker.Setup(recipe, worker_id, num_workers, base_seed, init_fn, parent)
                self._start(context, setup)
        except BaseException:
            self.close()
            raise

    def _start(self, context: Any, setup: worker.Setup) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            process = context.Process(target=worker.run, args=(setup, theirs), daemon=True)
            try:
                process.start()
            except BaseException:
                ours.close()
                raise
        self.processes.append(process)
        self.sockets.append(ours)

    def send(self, worker_id: int, epoch: int, index: Any) -> None:
        """Hand out a task. A worker that is gone is noticed when its answer is waited for."""
        sock = self.sockets[worker_id]
        if sock is not None:
            with contextlib.suppress(ConnectionError):
                transport.send(sock, epoch, 0, transport.pack(index))

    def collect(self, timeout: float | None) -> list[tuple[int, transport.Message]]:
        """Wait for answers, and return them with the numbers of their workers; [] is a timeout.

        Raises RuntimeError for a worker that has died.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        by_socket = {sock: number for number, sock in enumerate(self.sockets) if sock is not None}
        while True:
            left = transport.SECONDS_BETWEEN_LOOKS
            if deadline is not None:
                left = min(left, deadline - time.monotonic())
            answers, gone = [], []
            for sock in wait(list(by_socket), max(left, 0)):
                number = by_socket[sock]  # type: ignore[index]
                message = self._receive(sock, number)
                if message is None:
                    gone.append(number)
                else:
                    answers.append((number, message))
            if answers:  # what a worker sent before it died comes first
                return answers
            # A process that a worker started may hold its socket open.
            for sock, number in by_socket.items():
                if not self.processes[number].is_alive() and not wait([sock], 0):
                    gone.append(number)
            if gone:
                self._fail(gone[0])
            if deadline is not None and time.monotonic() >= deadline:
                return []

    def _receive(self, sock: Any, number: int) -> transport.Message | None:
        try:
            return transport.receive(sock, lambda: not self.processes[number].is_alive())
        except BaseException:  # in the middle of a message: nothing after it can be read
            self.close()
            raise

    def _fail(self, number: int) -> None:
        process = self.processes[number]
        if process.exitcode is None:
            process.join(SECONDS_TO_END)
        pid, code = process.pid, process.exitcode
        self.close()
        raise RuntimeError(
            f"DataLoader worker {number} (pid(s) {pid}) exited unexpectedly: {_reason(code)}"
        )

    def release(self, worker_id: int) -> None:
        """Let a worker end that is not needed any more."""
        sock = self.sockets[worker_id]
        self.sockets[worker_id] = None
        if sock is not None:
            _hang_up(sock)

    def close(self) -> None:
        """End all workers. Those that do not come to an end in time are killed."""
        if self.closed or os.getpid() != self.owner:  # a forked child has copies of the sockets
            return
        self.closed = True
        for worker_id in range(len(self.sockets)):
            self.release(worker_id)
        deadline = time.monotonic() + SECONDS_TO_END
        for process in self.processes:
            process.join(max(0, deadline - time.monotonic()))
        for end in ("terminate", "kill"):
            for process in self.processes:
                if process.is_alive():
                    getattr(process, end)()
                    process.join(1)


def _hang_up(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)  # heard even if another process has a copy
    sock.close()


def _reason(code: int | None) -> str:
    if code is None:
        return "it closed its connection"
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in list(signal.Signals) else f"number {-code}"
    hint = "; often the system has run out of memory" if -code == signal.SIGKILL else ""
    return f"killed by signal {name}{hint}"
