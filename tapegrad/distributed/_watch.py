"""The watchdog: no process waits for one that has died, stopped or gone another way.

Every operation of a group of several processes is noted with its shape and source line. A thread of
each process reports to the hub, which is in the first, and hears from it what is wrong; then
whoever waits for an operation, or begins one, gets a `DistBackendError` that names it. Design note
0039 has the reasons.
"""

import atexit
import contextlib
import json
import os
import secrets
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from tapegrad._C import Tensor
from tapegrad.distributed import _channel
from tapegrad.distributed._errors import DistBackendError
from tapegrad.distributed._hub import Hub, Process, is_working
from tapegrad.distributed.engine import Engine, Pending

__all__ = ["Watch", "start", "waited", "watched"]

DEFAULT = 60.0  # seconds
LAST = 2.0  # seconds for which the first process waits for the last reports
SENT = 64  # operations of a report
_NAPS = (0.0, 0.00005)
_SHORT = 200
_LIBRARY = str(Path(__file__).parent.parent) + os.sep

# What all processes of a group must agree on, by operation: which arguments of the engine's method.
_AGREED: dict[str, Callable[..., tuple[Any, ...]]] = {
    "broadcast": lambda buffer, root: (*_kind(buffer), f"from {root}"),
    "all_reduce": lambda buffer, op: (*_kind(buffer), op.name),
    "reduce": lambda buffer, root, op: (*_kind(buffer), op.name, f"to {root}"),
    "all_gather": lambda output, input: _kind(input),
    "gather": lambda output, input, root: (*_kind(input), f"to {root}"),
    "scatter": lambda output, input, root: (*_kind(output), f"from {root}"),
    "reduce_scatter": lambda output, input, op: (*_kind(output), op.name),
    "all_to_all": lambda output, out_counts, input, counts: (str(output.dtype),),
    "barrier": lambda timeout: (),
}


def _kind(buffer: Tensor) -> tuple[Any, ...]:
    return buffer.numel(), str(buffer.dtype)


class _Noted:
    """An operation that was begun."""

    def __init__(self, group: str, number: int | None, peer: int | None, text: str) -> None:
        self.group, self.number, self.peer, self.text = group, number, peer, text
        self.since = time.monotonic()


class Watch:
    """What this process knows of its operations, and what it was told.

    Args:
        rank: the rank in the world.
        seconds: how long others may be silent.
    """

    def __init__(self, rank: int, seconds: float) -> None:
        self.rank, self.seconds = rank, seconds
        self.failure: str | None = None
        self.is_known = False  # whether the program has had the failure as an error
        self.blocked: str | None = None  # a call of the engine's library that cannot be left
        self.waited = 0.0  # seconds in which the program waited for others
        self.operations = 0
        self._lock = threading.Lock()
        self._numbers: dict[str, tuple[int, int]] = {}  # by group: number and chain of the last
        self._groups: dict[str, list[int]] = {}
        self._new: list[tuple[str, int, int, str]] = []
        self._waiting: list[_Noted] = []

    def note(self, group: Any, name: str, arguments: tuple[Any, ...], shape: Any) -> _Noted:
        """Note an operation that is about to begin."""
        self.check(None)
        key = group.group_name
        text = f"{name} of shape {tuple(shape)}" if shape is not None else name
        self.operations += 1
        if name not in _AGREED:
            peer = arguments[1]
            peer = None if peer is None else group._ranks[peer]
            return _Noted(key, None, peer, f"{text} at {_source_line()}")
        agreed = " ".join(map(str, _AGREED[name](*arguments)))
        noted = _Noted(key, None, None, f"{text} ({agreed}) at {_source_line()}")
        with self._lock:
            number, chain = self._numbers.get(key, (0, 0))
            number, chain = number + 1, zlib.crc32(f"{name} {agreed}".encode(), chain)
            self._numbers[key] = number, chain
            self._groups.setdefault(key, list(group._ranks))
            self._new.append((key, number, chain, noted.text))
        noted.number = number
        return noted

    def members(self, group: str) -> list[int]:
        """Return the ranks of a group in the world."""
        return self._groups.get(group, [])

    def report(self) -> dict[str, Any]:
        """Return what is new since the last report."""
        now = time.monotonic()
        with self._lock:
            new, self._new = self._new[-SENT:], []
            waiting = [
                [each.group, each.number, each.peer, each.text, now - each.since]
                for each in self._waiting[:4]
            ]
            groups = dict(self._groups)
        return {"begun": new, "waiting": waiting, "groups": groups, "pid": os.getpid()}

    def fail(self, text: str) -> None:
        """Let every operation raise an error from now on."""
        global failed
        failed = True
        if self.failure is None:
            self.failure = text

    def check(self, noted: _Noted | None) -> None:
        """Raise an error if something is wrong."""
        if self.failure is not None:
            self.is_known = True
            where = f" in {noted.text}" if noted is not None else ""
            raise DistBackendError(
                f"torch.distributed, rank {self.rank}{where}: {self.failure}. The processes no "
                "longer agree; end them and start again from a checkpoint"
            )

    @contextlib.contextmanager
    def waiting(self, noted: _Noted) -> Iterator[None]:
        """Let others know that this process waits, inside a block."""
        begin = time.monotonic()
        noted.since = begin
        with self._lock:
            self._waiting.append(noted)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.remove(noted)
            self.waited += time.monotonic() - begin


class _Watched(Pending):
    """An operation under way, which is not waited for in vain."""

    def __init__(self, watch: Watch, noted: _Noted, inner: Pending, limit: timedelta) -> None:
        self._watch, self._noted, self._inner, self._limit = watch, noted, inner, limit

    def done(self) -> bool:
        """Return whether it has ended; raise an error if something is wrong."""
        try:
            if self._inner.done():
                return True
        except Exception as error:
            self._explain(error)
        self._watch.check(self._noted)
        return False

    def _explain(self, error: Exception) -> None:
        """Raise an error of the engine, which may come before the hub knows what is wrong."""
        end = time.monotonic() + min(2.0, self._watch.seconds)
        while self._watch.failure is None and time.monotonic() < end:
            time.sleep(0.01)
        self._watch.check(self._noted)
        raise DistBackendError(
            f"torch.distributed, rank {self._watch.rank} in {self._noted.text}: {error}"
        ) from error

    def wait(self, timeout: timedelta | None) -> None:
        """Wait for its end, or until something is wrong."""
        if self.done():
            return
        limit = self._limit if timeout is None else timeout
        end, tries = time.monotonic() + limit.total_seconds(), 0
        with self._watch.waiting(self._noted):
            while not self.done():
                if time.monotonic() >= end:
                    raise DistBackendError(
                        f"torch.distributed, rank {self._watch.rank} in {self._noted.text}: an "
                        f"operation did not end within {limit}"
                    )
                time.sleep(_NAPS[tries >= _SHORT])
                tries += 1

    def source(self) -> int:
        """Return the rank that a message was received from."""
        return self._inner.source()


class watched:
    """An engine whose operations are noted.

    Args:
        engine: the engine.
        group: its group.
        shape: the shape that the program sees.
    """

    def __init__(self, engine: Engine, group: Any, shape: Any) -> None:
        self._engine, self._group, self._shape = engine, group, shape

    def __getattr__(self, name: str) -> Any:
        watch = current()
        method = getattr(self._engine, name)
        if watch is None or not (name in _AGREED or name in ("send", "recv")):
            return method

        def call(*arguments: Any) -> Pending | None:
            noted = watch.note(self._group, name, arguments, self._shape)
            pending = method(*arguments)
            if pending is None:
                return None
            limit = arguments[0] if name == "barrier" else self._engine.options.timeout
            return _Watched(watch, noted, pending, limit)

        return call


def _source_line() -> str:
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARY):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


# ---- the thread

_current: "_Thread | None" = None
failed = False  # whether the processes of this program have ceased to agree


def current() -> Watch | None:
    """Return the watch of this process, if there is one."""
    return None if _current is None else _current.watch


def waited() -> tuple[float, int]:
    """Return for how many seconds the program waited for others, and its operations."""
    watch = current()
    return (0.0, 0) if watch is None else (watch.waited, watch.operations)


class _Thread:
    """Reports and listens, beside the program."""

    def __init__(self, watch: Watch, hub: Hub | None, link: Any) -> None:
        self.watch, self._hub, self._link = watch, hub, link
        self._beat = min(0.25, watch.seconds / 10)
        self._first = Process(time.monotonic())  # what is known of the process with the hub
        self._last: dict[str, int] = {}  # and of its operations when it left
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tapegrad-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        work = self._serve if self._hub is not None else self._follow
        heard = time.monotonic()
        while not self._end.is_set():
            try:
                heard = work(heard)
            except Exception as error:  # nobody would find out what happens to others
                self.watch.fail(f"the watchdog has failed: {type(error).__name__}: {error}")
                raise
            if self.watch.failure is not None and self.watch.blocked is not None:
                self._leave()

    def _serve(self, heard: float) -> float:
        assert self._hub is not None
        now = time.monotonic()
        self._hub.judged(self._hub.judge.report(0, self.watch.report(), now))
        self._hub.step(self._beat)
        self._hub.greet()
        return now

    def _follow(self, heard: float) -> float:
        """Report to the hub, and hear what it says; return when it was last heard."""
        now = time.monotonic()
        if self._link is None:  # the hub has said goodbye
            self._end.wait(self._beat)
            self._look_alone()
            return now
        with contextlib.suppress(OSError):  # heard below
            self._link.send(self.watch.report())
        self._end.wait(self._beat)
        try:
            packets = self._link.receive()
        except _channel.Malformed as error:
            self.watch.fail(f"rank 0 has sent {error}")
            packets = []
        if packets is None:
            self.watch.fail("rank 0 has died")
            self._unlink()
            return now
        for packet in packets:
            self._first.pid = packet.get("pid", self._first.pid)
            if "left" in packet:
                self._last = packet["left"]
                self._unlink()
                return now
            if "fail" in packet:
                self.watch.fail(packet["fail"])
        if packets:
            self._first.work = -1.0
            return now
        if now - heard > self.watch.seconds:
            if is_working(self._first):
                return now
            self.watch.fail(f"rank 0 has stopped: it was silent for {now - heard:.0f} s")
        return heard

    def _unlink(self) -> None:
        self._link.link.close()
        self._link = None

    def _look_alone(self) -> None:
        """Find what will not end now that the first process has left."""
        for group, number, peer, text, seconds in self.watch.report()["waiting"]:
            begun = number is None or number <= self._last.get(group, 0)
            concerned = peer in (None, 0) if number is None else 0 in self.watch.members(group)
            if (concerned and not begun) or seconds > self.watch.seconds:
                self.watch.fail(f"rank 0 has left, and will never take part in {text}")

    def _leave(self) -> None:
        """End a process that is in a call which does not return, and cannot raise an error."""
        watch = self.watch
        sys.stderr.write(f"tapegrad: rank {watch.rank} in {watch.blocked}: {watch.failure}\n")
        sys.stderr.flush()
        os._exit(1)

    def stop(self) -> None:
        """Say goodbye."""
        self._end.set()
        if self._hub is not None:
            self._hub.wake()
        self._thread.join(5)
        if self._hub is not None:
            self._hear_out(self._hub)
            self._hub.close()
        elif self._link is not None:
            with contextlib.suppress(OSError):
                self._link.send({**self.watch.report(), "left": True})
            self._link.link.close()

    def _hear_out(self, hub: Hub) -> None:
        """Let others report what this process has begun, too: they may have begun another."""
        hub.judged(hub.judge.report(0, self.watch.report(), time.monotonic()))
        end = time.monotonic() + min(LAST, self.watch.seconds)
        while not hub.judge.is_level(0) and hub.failure is None and time.monotonic() < end:
            hub.step(0.01)


def start(group: Any, exchange: Callable[[Any], list[Any]]) -> None:
    """Begin to watch the processes of the world.

    Args:
        group: the world.
        exchange: gives all processes what each gives.
    """
    global _current
    limit = group._options.timeout.total_seconds()
    seconds = min(float(os.environ.get("TAPEGRAD_WATCH_TIMEOUT", DEFAULT)), limit)
    seconds = min(exchange(seconds))
    if seconds <= 0:
        return
    hosts = exchange(os.uname().nodename)
    rank, hub = group.rank(), None
    watch = Watch(rank, seconds)
    found: Any = None
    if rank == 0:
        token = secrets.token_bytes(32)
        host = None if len(set(hosts)) == 1 else hosts[0]
        hub = Hub(group.size(), token, seconds, watch.fail, host)
        found = hub.address, token
    address, token = exchange(found)[0]
    thread = link = error = None
    if hub is not None:
        thread = _Thread(watch, hub, None)
    else:
        try:
            link = _channel.connect(address, token, rank, seconds)
        except OSError as failure:
            error = f"rank {rank} does not reach the hub at {address}: {failure}"
    errors = [each for each in exchange(error) if each is not None]
    _current = thread or _Thread(watch, None, link)
    if errors:
        with contextlib.suppress(DistBackendError):
            stop()
        raise DistBackendError(f"init_process_group: {errors[0]}")
    atexit.register(_leave)  # a program need not destroy its groups


def stop() -> None:
    """Watch no longer; raise an error if the processes did not agree to the end."""
    global _current
    ended, _current = _current, None
    if ended is None:
        return
    atexit.unregister(_leave)
    _write_report(ended.watch)
    ended.stop()
    if not ended.watch.is_known:
        ended.watch.check(None)


def _leave() -> None:
    """Stop at the end of the program, whose status says it if something was wrong."""
    try:
        stop()
    except DistBackendError as error:
        print(f"DistBackendError: {error}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(1)


def _write_report(watch: Watch) -> None:
    """Tell the launcher, if there is one, how long this process has waited."""
    folder = os.environ.get("TAPEGRAD_LAUNCH")
    if folder and os.path.isdir(folder):
        waits = {"waited": watch.waited, "operations": watch.operations}
        Path(folder, f"rank{watch.rank}.waits").write_text(json.dumps(waits))


@contextlib.contextmanager
def blocking(text: str) -> Iterator[None]:
    """Mark a call of the engine's library that does not return before others take part."""
    watch = current()
    if watch is None:
        yield
        return
    watch.blocked = text
    try:
        yield
    finally:
        watch.blocked = None
