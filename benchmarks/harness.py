"""The parent's side: two workers, sampled in turn.

The invariant everything rests on: while one worker is timed, the other is idle. An idle worker
blocks on its pipe, but its thread pool may spin for some milliseconds after its last op (PyTorch's
OpenMP threads do, for about 2 ms). Forbidding that with OMP_WAIT_POLICY=passive would make PyTorch
up to ten times slower on mid-sized ops, so nothing is forbidden: the parent starts a sample when
every thread of the other worker sleeps.

Other programs are the second danger, inside this machine and on the physical one below it. Cores
that look alike differ by up to a factor of two while a neighbour uses the other half of one, and
the scheduler keeps each worker on its own core. So the Python thread runs pinned (pool threads go
where they like): both sides of a round on the same core, the rounds taking turns. And the kernel
tells how long threads stood in the run queue without a core: a sample that lost more than 2% that
way is taken again while the case's patience lasts, and rounds still disturbed are left out (the
least disturbed stay where too few are clean). The choice never looks at the time measured, so it
favours no side.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Row

CHILDREN = Path(__file__).parent / "children"
REQUEST_TIMEOUT = 120.0
SETTLE_STEP = 0.5e-3
SETTLE_LIMIT = 20e-3
DISTURBED = 0.02  # share of a sample spent waiting for a core
SHORT_SHARE = 0.15  # length of a repeated sample, of the calibrated one
FEWEST_ROUNDS = 5  # kept even if all were disturbed
AGREEMENT = 1e-3  # relative to the mean magnitude; float32 sums in another order stay far below


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    rounds: int = 24  # a multiple of the 8 rounds over which `_turn` is balanced on 2 cores
    sample_seconds: float = 10e-3
    budget_scale: float = 1.0
    least_rounds: int = 7  # taken even if a case's budget is too small for them
    patience: float = 60.0  # seconds the whole run may spend on repeating disturbed samples
    exact: bool = False  # take `rounds` samples whatever a case's budget says
    threads: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    quick: bool = False


class WorkerError(RuntimeError):
    """The worker refused a request (a Python exception over there) or died of it."""


def cpu_seconds(pid: int) -> float:
    """CPU time used so far by all threads of a process, in nanosecond resolution.

    Linux encodes the CPU clock of a process in the clock id: the complemented pid above three bits
    that say "scheduler clock, whole process" (what clock_getcpuclockid(3) returns).
    """
    return time.clock_gettime((~pid << 3) | 2)


def child_environment(threads: int) -> dict[str, str]:
    """The caller's environment with equal thread counts for every pool either side may use."""
    counts = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**os.environ, **{name: str(threads) for name in counts}}


class Worker:
    """A child process that times statements against one module."""

    def __init__(self, module: str, threads: int) -> None:
        self.module = module
        self._threads = threads
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(CHILDREN / "worker.py"), self.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=child_environment(self._threads),
        )
        self.about = self.request("hello", threads=self._threads)

    def request(self, do: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin
        line = json.dumps({"do": do, **arguments}) + "\n"
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
            reply = self._read_line()
        except BrokenPipeError:
            reply = b""
        if not reply:
            raise WorkerError(f"{self.module}: the worker died with exit status {self._reap()}")
        answer: dict[str, Any] = json.loads(reply)
        if "error" in answer:
            raise WorkerError(f"{self.module}: {answer['error']}")
        return answer

    def _read_line(self) -> bytes:
        """One reply; replies are single lines, so readiness means a line is on its way."""
        assert self._process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(REQUEST_TIMEOUT):
                self._process.kill()
                self._process.wait()
                raise WorkerError(f"{self.module}: no answer within {REQUEST_TIMEOUT:.0f} s")
        return self._process.stdout.readline()

    def _reap(self) -> int:
        """The exit status; a process that closed its pipe gets a moment to end by itself."""
        try:
            return self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def revive(self) -> None:
        """Start a fresh process if the last request killed this one."""
        if self._process.poll() is not None:
            self._start()

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._process.pid)

    def is_idle(self) -> bool:
        """Whether no thread runs. (CPU clocks of a running process lag by up to a tick.)"""
        for stat in Path(f"/proc/{self._process.pid}/task").glob("*/stat"):
            try:
                state = stat.read_bytes().rpartition(b")")[2].split()[0]
            except OSError:  # the thread ended meanwhile
                continue
            if state == b"R":
                return False
        return True

    def wait_until_idle(self) -> None:
        deadline = time.perf_counter() + SETTLE_LIMIT
        while not self.is_idle() and time.perf_counter() < deadline:
            time.sleep(SETTLE_STEP)

    def close(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._reap()


def agree(a: Any, b: Any) -> bool:
    """Whether two fingerprints (see the worker) describe the same result."""
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return False
        if len(a) == 5 and isinstance(a[0], str):
            scale = max(abs(a[3]), abs(b[3]))
            close = all(
                math.isclose(x, y, abs_tol=AGREEMENT * scale + 1e-12)
                for x, y in zip(a[2:4], b[2:4], strict=True)
            )
            return bool(a[:2] == b[:2] and a[4] == b[4] and close)
        return all(agree(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


class Pair:
    """The two workers, and the interleaving."""

    def __init__(self, module_a: str, module_b: str, plan: Plan) -> None:
        self.plan = plan
        self.a = Worker(module_a, plan.threads)
        self.b = Worker(module_b, plan.threads)
        self.stolen_share = 0.0  # the most CPU an idle worker used while its peer was timed
        self._cores = sorted(os.sched_getaffinity(0))
        self.rounds = 0
        self.disturbed_rounds = 0
        self._patience = plan.patience  # what is left of it for the run, and for the current case
        self._case_patience = 0.0

    def measure(self, case: Case) -> list[Row]:
        """All samples of one case: one row, or one per phase."""
        labels = [name for name, _ in case.phases] or [""]
        statements = [text for _, text in case.phases] or [case.statement]
        rows = [
            Row(case.family, f"{case.name}.{label}" if label else case.name, statement=text)
            for label, text in zip(labels, statements, strict=True)
        ]
        prepared, errors = self._prepare(case, statements)
        if errors:
            for row in rows:
                row.note = "; ".join(errors)
            return rows
        if not agree(*(reply["fingerprint"] for reply in prepared)):
            difference = " against ".join(str(reply["fingerprint"]) for reply in prepared)
            for row in rows:
                row.note = f"the two sides disagree: {difference}"
        try:
            self._interleave(case, rows, sum(reply["seconds"] for reply in prepared))
        except WorkerError as error:
            for row in rows:
                row.note = str(error)
        for worker in (self.a, self.b):
            worker.revive()
            worker.request("release")
        return rows

    def _prepare(self, case: Case, statements: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
        replies, errors = [], []
        for worker in (self.a, self.b):
            try:
                replies.append(
                    worker.request(
                        "prepare",
                        setup=case.setup,
                        statements=statements,
                        check=case.check,
                        looped=not case.phases,
                        target=self.plan.sample_seconds,
                    )
                )
            except WorkerError as error:
                errors.append(str(error))
                worker.revive()
        return replies, errors

    def _rounds(self, case: Case, seconds_per_round: float) -> int:
        if self.plan.exact:
            return self.plan.rounds
        settling = 4 * SETTLE_STEP
        affordable = int(case.budget * self.plan.budget_scale / (seconds_per_round + settling))
        least = min(case.least_rounds, self.plan.least_rounds, self.plan.rounds)
        return max(least, min(self.plan.rounds, affordable))

    def _interleave(self, case: Case, rows: list[Row], seconds_per_round: float) -> None:
        """Rounds of one sample each, the order swapped every time; the clean ones are kept."""
        self._case_patience = min(case.budget * self.plan.budget_scale, self._patience)
        taken = []
        for index in range(self._rounds(case, seconds_per_round)):
            core, a_first = self._turn(index)
            if a_first:
                sample_a = self._undisturbed(self.a, self.b, core)
                sample_b = self._undisturbed(self.b, self.a, core)
            else:
                sample_b = self._undisturbed(self.b, self.a, core)
                sample_a = self._undisturbed(self.a, self.b, core)
            taken.append((max(sample_a["waited"], sample_b["waited"]), sample_a, sample_b))
        clean = [one for one in taken if one[0] <= DISTURBED]
        self.rounds += len(taken)
        self.disturbed_rounds += len(taken) - len(clean)
        if len(clean) < FEWEST_ROUNDS:
            clean = sorted(taken, key=lambda one: one[0])[:FEWEST_ROUNDS]
        for _, sample_a, sample_b in clean:
            for index, row in enumerate(rows):
                row.a.append(sample_a["seconds"][index] / case.per)
                row.b.append(sample_b["seconds"][index] / case.per)

    def _turn(self, index: int) -> tuple[int, bool]:
        """The core of a round and who begins.

        A core keeps two rounds, one in each order; in AB BA the second begins while B's caches are
        warm. So the order also flips from core to core and from cycle to cycle: over four visits
        to two cores each side has that advantage once on each core.
        """
        block = index // 2
        cycle = block // len(self._cores)
        core = self._cores[block % len(self._cores)]
        return core, (index + block + cycle) % 2 == 0

    def _undisturbed(self, worker: Worker, idle: Worker, core: int) -> dict[str, Any]:
        """A sample during which nothing else wanted the cores, or the nearest to that.

        The further attempts are shorter: a worker that slept is owed a time slice of a few
        milliseconds, which a short loop fits into however busy the machine.
        """
        attempts = [self._timed(worker, idle, core, share=1.0)]
        while attempts[-1]["waited"] > DISTURBED and self._case_patience > 0:
            start = time.perf_counter()
            attempts.append(self._timed(worker, idle, core, share=SHORT_SHARE))
            spent = time.perf_counter() - start
            self._case_patience -= spent
            self._patience -= spent
        return min(attempts, key=lambda attempt: attempt["waited"])

    def _timed(self, worker: Worker, idle: Worker, core: int, share: float) -> dict[str, Any]:
        idle.wait_until_idle()
        stolen, start = idle.cpu_seconds(), time.perf_counter()
        reply = worker.request("sample", core=core, share=share)
        stolen_share = (idle.cpu_seconds() - stolen) / (time.perf_counter() - start)
        self.stolen_share = max(self.stolen_share, stolen_share)
        return reply

    def close(self) -> None:
        self.a.close()
        self.b.close()
