"""A worker process: takes indices, sends batches.

The main thread fetches. A second thread takes in tasks, so that the loader never waits for a worker
that is busy, and a third sends batches, so that a worker goes on while the loader is busy. How far
it goes on is the loader's affair: it hands out no more tasks than it wants to have prefetched.

A worker ends when its socket is closed. If the loader's process dies without closing it, the worker
sees that its parent has changed.
"""

import contextlib
import os
import pickle
import queue
import random
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad.utils.data import transport
from tapegrad.utils.data.fetch import Fetcher, Recipe, WorkerInfo, set_worker_info

__all__ = ["BATCH", "END", "FAILURE", "Failure", "Setup", "run"]

BATCH, END, FAILURE = range(3)  # kinds of messages
SECONDS_TO_FINISH = 5.0
SENT_AT_ONCE = 64 * 1024  # a socket that has room has room for this


class Setup(NamedTuple):
    """What a worker is told at its start."""

    recipe: Recipe
    worker_id: int
    num_workers: int
    base_seed: int
    init_fn: Callable[[int], None] | None
    parent: int | None  # process id, where the loader's process is the parent


class Failure(NamedTuple):
    """An exception on its way to another process."""

    kind: bytes | None
    text: str

    @staticmethod
    def of(error: BaseException, worker_id: int) -> "Failure":
        """Describe an exception that is being handled."""
        name = type(error).__name__
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        text = f"Caught {name} in DataLoader worker process {worker_id}.\nOriginal {trace}"
        kind = None
        if not isinstance(error, StopIteration):  # which would end the loader's loop
            with contextlib.suppress(Exception):  # a class that only the worker knows
                kind = pickle.dumps(type(error))
        return Failure(kind, text)

    def reraise(self) -> None:
        """Raise an exception of the same type, with the original traceback in its text."""
        try:
            kind = RuntimeError if self.kind is None else pickle.loads(self.kind)
            error = kind(_Text(self.text) if issubclass(kind, KeyError) else self.text)
            if self.text not in str(error):
                error = RuntimeError(self.text)
        except Exception:  # a class that takes other arguments
            error = RuntimeError(self.text)
        raise error


class _Text(str):
    """A message that KeyError, which shows the repr of its argument, shows with line breaks."""

    def __repr__(self) -> str:
        return str(self)


class _Inbox(threading.Thread):
    """Takes in tasks; None is the end."""

    def __init__(self, sock: socket.socket, parent: int | None) -> None:
        super().__init__(name="tapegrad-worker-inbox", daemon=True)
        self.sock = sock
        self.tasks: queue.SimpleQueue[transport.Message | None] = queue.SimpleQueue()
        self.epoch = 0  # of the last task that came: older ones need no answer
        self.parent = parent or os.getppid()

    def _is_orphan(self) -> bool:
        return os.getppid() != self.parent

    def run(self) -> None:
        try:
            while not self._is_orphan():
                if not wait([self.sock], transport.SECONDS_BETWEEN_LOOKS):
                    continue
                message = transport.receive(self.sock, self._is_orphan)
                if message is None:
                    break
                self.epoch = message.epoch
                self.tasks.put(message)
        finally:
            self.epoch = sys.maxsize  # what is still to be done is not needed
            self.tasks.put(None)
        time.sleep(SECONDS_TO_FINISH)
        os._exit(1)  # the main thread never ends, and nothing waits for it


class _Outbox(threading.Thread):
    """Sends answers."""

    def __init__(self, sock: socket.socket, worker_id: int) -> None:
        super().__init__(name="tapegrad-worker-outbox", daemon=True)
        self.sock = sock
        self.worker_id = worker_id
        self.answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.unsent = 0
        self.lock = threading.Lock()

    def post(self, epoch: int, kind: int, parcel: transport.Parcel) -> None:
        """Send an answer: at once where there is room, otherwise when the loader takes it.

        What is sent at once is not lost if the next sample kills the process.
        """
        with self.lock:
            if self.unsent > 0 or len(parcel.pickle) > SENT_AT_ONCE or not self._has_room():
                self.unsent += 1
                self.answers.put((epoch, kind, parcel))
                return
        with contextlib.suppress(ConnectionError):  # nothing listens; the inbox notices as well
            self._send(epoch, kind, parcel)

    def _has_room(self) -> bool:
        poll = select.poll()
        poll.register(self.sock, select.POLLOUT)
        return bool(poll.poll(0))

    def run(self) -> None:
        while (answer := self.answers.get()) is not None:
            try:
                self._send(*answer)
            except ConnectionError:
                return
            with self.lock:
                self.unsent -= 1

    def _send(self, epoch: int, kind: int, parcel: transport.Parcel) -> None:
        try:
            transport.send(self.sock, epoch, kind, parcel)
        except ConnectionError:
            raise
        except OSError as error:  # too many descriptors are on their way: nothing was sent
            failure = transport.pack(Failure.of(error, self.worker_id))
            transport.send(self.sock, epoch, FAILURE, failure)


def _seed(base_seed: int, worker_id: int) -> int:
    seed = base_seed + worker_id
    random.seed(seed)
    _C.manual_seed(seed)
    import numpy

    numpy.random.seed(numpy.random.SeedSequence([base_seed, worker_id]).generate_state(4))
    return seed


def run(setup: Setup, sock: socket.socket) -> None:
    """Work until the socket is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the loader is interrupted too, and closes
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _C.set_num_threads(1)
    _C._set_default_device(None)  # a process that was forked cannot use a GPU
    worker_id = setup.worker_id
    seed = _seed(setup.base_seed, worker_id)
    set_worker_info(
        WorkerInfo(
            id=worker_id, num_workers=setup.num_workers, seed=seed, dataset=setup.recipe.dataset
        )
    )
    inbox, outbox = _Inbox(sock, setup.parent), _Outbox(sock, worker_id)
    inbox.start()
    outbox.start()
    failure = None
    try:
        if setup.init_fn is not None:
            setup.init_fn(worker_id)
    except Exception as error:
        failure = Failure.of(error, worker_id)
    _work(setup, inbox, outbox, failure)
    outbox.answers.put(None)
    outbox.join()


def _work(setup: Setup, inbox: _Inbox, outbox: _Outbox, failure: Failure | None) -> None:
    epoch = _Epoch(0, setup, failure)
    while (task := inbox.tasks.get()) is not None:
        if task.epoch < inbox.epoch:
            continue
        if task.epoch != epoch.number:
            epoch = _Epoch(task.epoch, setup, failure)
        if not epoch.ended:
            outbox.post(epoch.number, *epoch.answer(task))


class _Epoch:
    """Answers the tasks of one pass over the dataset."""

    def __init__(self, number: int, setup: Setup, failure: Failure | None) -> None:
        self.number = number
        self.setup = setup
        self.failure = failure
        self.fetcher: Fetcher | None = None
        self.ended = False

    def answer(self, task: transport.Message) -> tuple[int, transport.Parcel]:
        """Return the kind and the value of the answer to a task."""
        if self.failure is not None:
            return FAILURE, transport.pack(self.failure)
        try:
            if self.fetcher is None:
                self.fetcher = Fetcher(self.setup.recipe)
            return BATCH, transport.pack(self.fetcher.fetch(transport.unpack(task)))
        except Exception as error:
            stream = None if self.fetcher is None else self.fetcher.stream
            if isinstance(error, StopIteration) and stream is not None:
                self.ended = True
                return END, transport.pack(None)
            return FAILURE, transport.pack(Failure.of(error, self.setup.worker_id))
