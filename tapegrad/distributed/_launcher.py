"""Starts a program as several processes of this machine, by mpiexec, and again if need be.

Each process writes to pipes in a folder of the job, and leaves there how it ended (`_worker`).
Lines of the first come as they are, those of others with their rank. When a process has failed, the
others get some time to say what they have waited for; then all are ended.
"""

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple, TextIO

__all__ = ["Failure", "Options", "launch"]

GRACE = 5.0  # seconds that processes have to end after the first has failed
NAP = 0.1


class Failure(Exception):
    """A job that cannot be started."""


class Options(NamedTuple):
    """What to start.

    Attributes:
        command: the program, with its arguments.
        ranks: the number of processes.
        restarts: how often the program is started again after it has failed.
        min_ranks: the fewest processes of a restart, which goes on without those that were lost;
            None for always the same number.
        timeout: seconds that a process may be silent.
        port: what MASTER_PORT says.
        report: whether to print how the processes have spent their time.
    """

    command: list[str]
    ranks: int
    restarts: int = 0
    min_ranks: int | None = None
    timeout: float | None = None
    port: int = 29500
    report: bool = True


class _Stream:
    """What one process writes to one of its outputs, line by line."""

    def __init__(self, pipe: int, prefix: str, target: TextIO) -> None:
        self.pipe, self.prefix, self._target, self._rest = pipe, prefix, target, b""

    def read(self) -> bool:
        """Pass on what has come; return whether more may come."""
        try:
            data = os.read(self.pipe, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            self.finish_line()
            return False
        lines, _, self._rest = (self._rest + data).rpartition(b"\n")
        for line in lines.split(b"\n") if lines else ():
            self._print(self.prefix.encode() + line + b"\n")
        return True

    def finish_line(self) -> None:
        """Pass on the beginning of a line, such as a question or a bar of progress."""
        if self._rest:
            self._print(self.prefix.encode() + self._rest)
        self._rest = b""

    def _print(self, data: bytes) -> None:
        self._target.write(data.decode(errors="replace"))
        self._target.flush()


def _mpiexec() -> str:
    """Return MPICH's mpiexec, that beside this Python first."""
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which("mpiexec", path=folders)
    if found is None:
        raise Failure("there is no mpiexec; pip install 'tapegrad[distributed]'")
    version = subprocess.run([found, "--version"], capture_output=True, text=True).stdout
    if "HYDRA" not in version:
        raise Failure(f"{found} is not MPICH's; pip install 'tapegrad[distributed]'")
    return found


class _Job:
    """One start of the program."""

    def __init__(self, mpiexec: str, options: Options, ranks: int, attempt: int) -> None:
        self.ranks, self.folder = ranks, Path(tempfile.mkdtemp(prefix="tapegrad-launch-"))
        self.statuses: dict[int, dict[str, Any]] = {}
        self.lost: set[int] = set()  # processes that were ended or stopped by somebody
        self._ended: set[int] = set()  # and that the launcher has ended
        self._is_interrupted = False
        self._selector = selectors.DefaultSelector()
        for rank in range(ranks):
            for name, target in (("1", sys.stdout), ("2", sys.stderr)):
                path = self.folder / f"rank{rank}.{name}"
                os.mkfifo(path)
                pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                stream = _Stream(pipe, f"[rank {rank}] " if rank else "", target)
                self._selector.register(pipe, selectors.EVENT_READ, stream)
        worker = [sys.executable, str(Path(__file__).with_name("_worker.py")), str(self.folder)]
        self._log = (self.folder / "mpiexec.log").open("w+")
        self._process = subprocess.Popen(
            [mpiexec, "-n", str(ranks), *worker, *options.command],
            env=_environment(options, ranks, attempt),
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def run(self) -> bool:
        """Wait for the end; return whether all processes have ended well."""
        end: float | None = None
        while len(self.statuses) < self.ranks:
            try:
                self._read(NAP)
            except KeyboardInterrupt:  # the processes may save and stop; once more ends them
                if self._is_interrupted:
                    raise
                self._is_interrupted = True
                self._signal(signal.SIGINT)
            self._collect()
            failed = [rank for rank, status in self.statuses.items() if status["code"]]
            if failed and end is None:
                end = time.monotonic() + GRACE
            if end is not None and time.monotonic() > end:
                self._kill()
            if self._process.poll() is not None:
                self._collect()
                break
        (self.folder / "done").touch()
        self._finish()
        return len(self.statuses) == self.ranks and not any(
            status["code"] for status in self.statuses.values()
        )

    def _read(self, seconds: float) -> bool:
        """Pass on what the processes write; return whether anything came."""
        came, events = False, self._selector.select(seconds)
        for key in () if events else self._selector.get_map().values():
            if not key.data.prefix:
                key.data.finish_line()
        for key, _ in events:
            if key.data.read():
                came = True
            else:
                self._selector.unregister(key.fileobj)
                os.close(key.data.pipe)
        return came

    def _collect(self) -> None:
        for path in self.folder.glob("rank*.status"):
            rank = int(path.stem[4:])
            if rank not in self.statuses:
                self.statuses[rank] = json.loads(path.read_text())
                if self.statuses[rank]["code"] < 0 and rank not in self._ended:
                    self.lost.add(rank)

    def _kill(self) -> None:
        """End the processes that have not ended by themselves. Those that were stopped are lost."""
        for rank in set(range(self.ranks)) - self.statuses.keys():
            path = self.folder / f"rank{rank}.pid"
            if path.exists():
                self._ended.add(rank)
                if _is_stopped(int(path.read_text())):
                    self.lost.add(rank)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(path.read_text()), signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for path in self.folder.glob("rank*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.read_text()), number)

    def _finish(self) -> None:
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        while self._read(0):
            pass

    def stop(self) -> None:
        """End all that is left."""
        self._kill()
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for key in list(self._selector.get_map().values()):
            os.close(key.data.pipe)
        self._selector.close()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def explain(self) -> str:
        """Return how the processes ended that did not end well."""
        parts = []
        for rank in range(self.ranks):
            code = self.statuses.get(rank, {}).get("code")
            if code is None:
                begun = (self.folder / f"rank{rank}.pid").exists()
                parts.append(f"rank {rank} {'was ended by MPI' if begun else 'did not start'}")
            elif code < 0:
                parts.append(f"rank {rank} was ended by {signal.Signals(-code).name}")
            elif code:
                parts.append(f"rank {rank} ended with {code}")
        if len(self.statuses) < self.ranks:
            self._log.seek(0)
            parts.append(self._log.read()[-2000:])
        return "; ".join(parts)

    def table(self) -> str:
        """Return how the processes have spent their time."""
        lines = ["rank   seconds       cpu    waited  operations    memory"]
        for rank, status in sorted(self.statuses.items()):
            path = self.folder / f"rank{rank}.waits"
            waits = json.loads(path.read_text()) if path.exists() else {}
            waited = f"{waits['waited']:9.1f}" if waits else "        -"
            lines.append(
                f"{rank:4} {status['seconds']:9.1f} {status['cpu']:9.1f} {waited} "
                f"{waits.get('operations', '-'):>11} {status['memory'] / 1e6:6.0f} MB"
            )
        return "\n".join(lines)


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False


def _environment(options: Options, ranks: int, attempt: int) -> dict[str, str]:
    found = {
        **os.environ,
        "MASTER_ADDR": os.environ.get("MASTER_ADDR", "127.0.0.1"),
        "MASTER_PORT": os.environ.get("MASTER_PORT", str(options.port)),
        "TORCHELASTIC_RUN_ID": os.environ.get("TORCHELASTIC_RUN_ID", "none"),
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
        "TORCHELASTIC_MAX_RESTARTS": str(options.restarts),
        "PYTHONUNBUFFERED": "1",
    }
    share = max(1, len(os.sched_getaffinity(0)) // ranks)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        found.setdefault(name, str(share))
    if options.timeout is not None:
        found["TAPEGRAD_WATCH_TIMEOUT"] = str(options.timeout)
    return found


def _say(text: str) -> None:
    print(f"tapegrad launch: {text}", file=sys.stderr, flush=True)


def launch(options: Options) -> int:
    """Run a program as several processes, and return its exit status.

    Args:
        options: what to start.
    """
    ranks = options.ranks
    if ranks < 1:
        raise Failure(f"expected at least one process, got {ranks}")
    mpiexec = _mpiexec()
    for attempt in range(options.restarts + 1):
        job = _Job(mpiexec, options, ranks, attempt)
        try:
            is_well = job.run()
            if options.report:
                _say(f"{ranks} processes\n{job.table()}")
            if is_well:
                return 0
            _say(job.explain())
            lost = len(job.lost)
        finally:
            job.stop()
        if attempt < options.restarts:
            if options.min_ranks is not None:
                ranks = max(options.min_ranks, ranks - lost)
            _say(f"starting again with {ranks} processes, {options.restarts - attempt - 1} left")
    return 1
