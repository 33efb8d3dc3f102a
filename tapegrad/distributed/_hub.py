"""Where the processes of a job report, in the first of them: finds who died, stopped or diverged.

Each process sends what it has begun since the last time, and what it waits for. The hub compares.
It listens on a Unix socket in a folder of its own, or on TCP between machines; who does not know
the token of the job is refused.
"""

import contextlib
import os
import secrets
import selectors
import shutil
import socket
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tapegrad.distributed._channel import NONCE, Malformed, Packets, Sealed

__all__ = ["Hub", "Judge", "Process", "is_working"]

STRANGERS = 32  # connections that have not yet proved that they know the token
PATIENCE = 5.0  # seconds for that
REMEMBERED = 256  # operations of a group and process


class Process:
    """What is known of a process."""

    def __init__(self, now: float) -> None:
        self.heard = now
        self.left = False
        self.pid = 0
        self.work = -1.0  # seconds of its CPU when it was silent
        self.waiting: list[Any] = []  # [group, number or None, peer or None, text, seconds]
        self.begun: dict[str, OrderedDict[int, tuple[int, str]]] = {}
        self.last: dict[str, int] = {}


class Judge:
    """Finds what is wrong from reports of processes. Knows nothing of sockets.

    Args:
        size: the number of processes.
        seconds: how long a process may be silent, or wait for others that wait.
        now: the time.
    """

    def __init__(self, size: int, seconds: float, now: float) -> None:
        self.seconds = seconds
        self.processes = [Process(now) for _ in range(size)]
        self.groups: dict[str, list[int]] = {}

    def report(self, rank: int, report: dict[str, Any], now: float) -> str | None:
        """Take a report; return what is wrong, if anything is now."""
        process = self.processes[rank]
        process.heard, process.work = now, -1.0
        process.waiting = report["waiting"]
        process.pid = report.get("pid", process.pid)
        self.groups.update(report.get("groups", {}))
        process.left = process.left or report.get("left", False)
        for group, number, chain, text in report["begun"]:
            known = process.begun.setdefault(group, OrderedDict())
            known[number] = chain, text
            process.last[group] = max(number, process.last.get(group, 0))
            if len(known) > REMEMBERED:
                known.popitem(last=False)
            wrong = self._compare(rank, group, number)
            if wrong:
                return wrong
        return None

    def _compare(self, rank: int, group: str, number: int) -> str | None:
        mine = self.processes[rank].begun[group]
        for other in self.groups.get(group, range(len(self.processes))):
            theirs = self.processes[other].begun.get(group, OrderedDict())
            if number not in theirs or theirs[number][0] == mine[number][0]:
                continue
            both = sorted(mine.keys() & theirs.keys())
            first = next(i for i in both if mine[i][0] != theirs[i][0])
            return (
                f"the processes diverge: number {first} in group {group} is {mine[first][1]} on "
                f"rank {rank}, and {theirs[first][1]} on rank {other}"
            )
        return None

    def look(self, now: float) -> str | None:
        """Return what is wrong as time goes by."""
        for rank, process in enumerate(self.processes):
            if not process.left and now - process.heard > self.seconds:
                if is_working(process):
                    process.heard = now
                    continue
                silent = f"rank {rank} has stopped: it was silent for {now - process.heard:.0f} s"
                return f"{silent}; {self.doing(rank)}"
        for rank, process in enumerate(self.processes):
            for group, number, peer, text, seconds in process.waiting:
                wrong = self._missing(now, rank, group, number, peer, text, seconds)
                if wrong:
                    return wrong
        return None

    def _missing(
        self, now: float, rank: int, group: str, number: Any, peer: Any, text: str, seconds: float
    ) -> str | None:
        """Return what is wrong with those that a process waits for."""
        if number is None:
            late = [] if peer is None else [peer]
        else:
            members = self.groups.get(group, [])
            late = [r for r in members if self.processes[r].last.get(group, 0) < number]
        gone = [r for r in late if self.processes[r].left]
        if number is None:  # What a process sent before it left may still be on its way.
            arrived = min(5.0, self.seconds)
            gone = [r for r in gone if now - self.processes[r].heard > arrived]
        if gone and (number is not None or seconds > self.seconds):
            return (
                f"rank {gone[0]} has left and will never take part in {text}, which rank {rank} "
                f"waits for; {self.doing(gone[0])}"
            )
        stuck = [any(wait[4] > self.seconds for wait in self.processes[r].waiting) for r in late]
        if late and all(stuck) and seconds > self.seconds:
            return (
                f"the processes diverge: rank {rank} waits for {text}, which rank {late[0]} has "
                f"not begun; {self.doing(late[0])}"
            )
        return None

    def is_level(self, rank: int) -> bool:
        """Return whether all others have begun what a process has, or have left."""
        mine = self.processes[rank].last
        return all(
            process.left or process.last.get(group, 0) >= number
            for group, number in mine.items()
            for process in (self.processes[other] for other in self.groups.get(group, []))
        )

    def doing(self, rank: int) -> str:
        """Return what a process was last known to do."""
        process = self.processes[rank]
        if process.waiting:
            return f"when last heard, it waited for {process.waiting[0][3]}"
        texts = [known[max(known)][1] for known in process.begun.values() if known]
        return f"the last that it began is {texts[-1]}" if texts else "it has begun nothing"


def is_working(process: Process) -> bool:
    """Return whether a process of this machine runs, although it says nothing.

    An operation that takes long may leave no time to report.
    """
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    before, process.work = process.work, float(fields[11]) + float(fields[12])
    return bool(process.pid) and fields[0] not in "TtZX" and process.work != before


class Hub:
    """Listens for the processes of a job. `step` is called again and again, from one thread.

    Args:
        size: the number of processes; this one is the first.
        token: the secret of the job.
        seconds: how long a process may be silent.
        fail: called with what is wrong, once.
        host: a name of this machine, to listen on TCP; a Unix socket if None.
    """

    def __init__(
        self,
        size: int,
        token: bytes,
        seconds: float,
        fail: Callable[[str], None],
        host: str | None = None,
    ) -> None:
        self.judge = Judge(size, seconds, time.monotonic())
        self.refused = 0
        self.failure: str | None = None
        self._token, self._fail = token, fail
        self._folder: str | None = None
        self._selector = selectors.DefaultSelector()
        self._waker, self._bell = socket.socketpair()
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._strangers: dict[socket.socket, tuple[bytes, bytes, float]] = {}
        self._known: dict[int, Sealed] = {}
        self._leaving: set[int] = set()  # who wants to know whether all agree
        self.address = self._listen(host)

    def _listen(self, host: str | None) -> Any:
        if host is None:
            self._folder = tempfile.mkdtemp(prefix="tapegrad-")  # of this user alone
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            address: Any = os.path.join(self._folder, "hub")
            self._listener.bind(address)
        else:
            self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._listener.bind((host, 0))
            address = list(self._listener.getsockname())
        self._listener.listen(STRANGERS)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        return address

    def step(self, seconds: float) -> None:
        """Take what comes within some time, and judge."""
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._bell:
                self._bell.recv(64)
            elif key.data is None:
                self._identify(key.fileobj)  # type: ignore[arg-type]
            else:
                self._hear(key.data)
        now = time.monotonic()
        for link, (_, _, since) in list(self._strangers.items()):
            if now - since > PATIENCE:
                self._refuse(link)
        self.judged(self.judge.look(now))
        for rank in [rank for rank in self._leaving if self.judge.is_level(rank)]:
            self._leaving.discard(rank)
            if rank in self._known:
                self._tell(self._known[rank], {"agreed": True})

    def judged(self, wrong: str | None) -> None:
        """Tell all what is wrong."""
        if wrong is None or self.failure is not None:
            return
        self.failure = wrong
        for known in self._known.values():
            self._tell(known, {"fail": wrong})
        self._fail(wrong)

    @staticmethod
    def _tell(known: Sealed, value: Any) -> None:
        with contextlib.suppress(OSError):
            known.send(value)

    def _accept(self) -> None:
        link, _ = self._listener.accept()
        link.setblocking(False)
        if len(self._strangers) >= STRANGERS:
            self._refuse(next(iter(self._strangers)))
        nonce = secrets.token_bytes(NONCE)
        self._strangers[link] = nonce, b"", time.monotonic()
        self._selector.register(link, selectors.EVENT_READ)
        try:
            link.send(nonce)
        except OSError:
            self._refuse(link)

    def _refuse(self, link: socket.socket) -> None:
        self.refused += 1
        self._strangers.pop(link, None)
        self._selector.unregister(link)
        link.close()

    def _identify(self, link: socket.socket) -> None:
        """Take the first packet of a stranger, with its random number before it."""
        nonce, before, since = self._strangers[link]
        try:
            data = before + link.recv(512)
            if len(data) == len(before):
                raise Malformed("nothing")
            if len(data) <= NONCE:
                self._strangers[link] = nonce, data, since
                return
            packets = Packets(self._token, nonce + data[:NONCE], accepted=True)
            found = packets.take(data[NONCE:])
            if not found:
                if len(data) > 512:
                    raise Malformed("a long greeting")
                self._strangers[link] = nonce, data, since
                return
            rank = found[0]["rank"]
            if not 0 < rank < len(self.judge.processes) or rank in self._known:
                raise Malformed(f"rank {rank}")
        except BlockingIOError:
            return
        except (OSError, Malformed):
            self._refuse(link)
            return
        del self._strangers[link]
        self._known[rank] = Sealed(link, packets)
        self._selector.modify(link, selectors.EVENT_READ, rank)
        for report in found[1:]:
            self.judged(self.judge.report(rank, report, time.monotonic()))
        if self.failure is not None:
            self._tell(self._known[rank], {"fail": self.failure})

    def _hear(self, rank: int) -> None:
        known, process = self._known[rank], self.judge.processes[rank]
        try:
            reports = known.receive()
        except Malformed as error:
            self.refused += 1
            reports = None
            self.judged(f"rank {rank} has sent {error}")
        for report in reports or ():
            self.judged(self.judge.report(rank, report, time.monotonic()))
            if report.get("left"):
                self._leaving.add(rank)
        if reports is None:
            self._selector.unregister(known.link)
            known.link.close()
            del self._known[rank]
            if not process.left:
                process.left = True
                self.judged(f"rank {rank} has died; {self.judge.doing(rank)}")

    def wake(self) -> None:
        """Let `step` return."""
        self._waker.send(b"!")

    def greet(self) -> None:
        """Let all know that this process is there."""
        for known in self._known.values():
            self._tell(known, {"pid": os.getpid()})

    def close(self) -> None:
        """Say goodbye, and stop listening."""
        for known in self._known.values():
            self._tell(known, {"left": self.judge.processes[0].last})
            known.link.close()
        for link in self._strangers:
            link.close()
        for own in (self._listener, self._waker, self._bell):
            own.close()
        self._selector.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
