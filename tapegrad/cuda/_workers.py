"""Kernels compiled by several processes at a time: NVRTC compiles one at a time in a process.

`Workers` is a queue that such processes work off, into the cache on disk. `prepare` is for the
first use of a library that was just installed: when a kernel is missing, the common ones are
compiled beside the program, so that those of its next ops are there when it asks.
"""

import atexit
import json
import os
import re
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path

from tapegrad.cuda import _compiler, _kernels, _nvrtc, pointwise_source

__all__ = ["Workers", "common_kernels", "prepare"]

_COMMON = Path(__file__).parent / "common_kernels.txt"
_MOST = 16
_HALVES = {
    "float16": re.compile(r"\b(Half|float16)\b"),
    "bfloat16": re.compile(r"\b(BFloat16|bfloat16)\b"),
}


def common_kernels() -> list[str]:
    """Return the descriptions of the kernels that most programs use, by when they need them.

    The file has one in a block of lines; lines of the pointwise table stand there by name.
    """
    numbers = {line.name: str(k) for k, line in enumerate(pointwise_source.lines())}
    numbers |= {"copy": "-1", "fill": "-2"}
    found = []
    for block in _COMMON.read_text(encoding="utf-8").strip().split("\n\n"):
        family, name, rest = block.split(" ", 2) if block.startswith("pointwise") else ("", "", "")
        if not family:
            found.append(block)
        elif name in numbers:
            found.append(f"{family} {numbers[name]} {rest}")
    return found


class Workers:
    """Processes that compile kernels.

    Args:
        descriptions: of the kernels, in the order in which they are wanted.
        architecture: such as ``"sm_90"``.
        count: how many processes there are.
        told: called after each kernel with the error, which is empty if there was none; from
            several threads, one at a time.
    """

    def __init__(
        self,
        descriptions: Iterable[str],
        architecture: str,
        count: int,
        told: Callable[[str], None] = lambda error: None,
    ) -> None:
        self._architecture = architecture
        self._told = told
        self._lock = threading.Lock()
        self._waiting = OrderedDict.fromkeys(descriptions)
        self._running: dict[str, threading.Event] = {}
        self._processes: list[subprocess.Popen[str]] = []
        self._threads = [
            threading.Thread(target=self._work, name="tapegrad kernels", daemon=True)
            for _ in range(min(count, len(self._waiting)))
        ]
        atexit.register(self.stop)
        for thread in self._threads:
            thread.start()

    def wait_for(self, description: str) -> None:
        """Return when a kernel is not being compiled; one that nobody has begun is the caller's."""
        with self._lock:
            self._waiting.pop(description, None)
            running = self._running.get(description)
        if running is not None:
            running.wait()

    def join(self) -> None:
        """Return when all is done."""
        for thread in self._threads:
            thread.join()

    def stop(self) -> None:
        """Leave what has not been compiled."""
        with self._lock:
            self._waiting.clear()
            processes = list(self._processes)
        for process in processes:
            process.terminate()

    def _work(self) -> None:
        """Drive one process, which is started when there is something to compile for it."""
        process = None
        while (description := self._next()) is not None:
            error = ""
            try:
                text = _kernels.source(description)
                path = _compiler.path_of(text, self._architecture, pointwise_source.COMPILE_OPTIONS)
                if not path.exists():
                    process = process or self._start()
                    error = _ask(process, text, path, self._architecture)
            except (OSError, RuntimeError, ValueError) as problem:
                error = f"a compiling process ended: {problem}"
                process = None
            finally:
                with self._lock:
                    self._running.pop(description).set()
                    if error:  # nothing can be written, or no process started: no use to go on
                        self._waiting.clear()
                    self._told(error)
        if process is not None and process.stdin:
            process.stdin.close()
            process.wait()

    def _next(self) -> str | None:
        with self._lock:
            if not self._waiting:
                return None
            description, _ = self._waiting.popitem(last=False)
            self._running[description] = threading.Event()
            return description

    def _start(self) -> "subprocess.Popen[str]":
        library = _compiler.find_nvrtc()
        command = [sys.executable, "-I", "-S", _nvrtc.__file__, str(library)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        with self._lock:
            self._processes.append(process)
        return process


def _ask(process: "subprocess.Popen[str]", text: str, path: Path, architecture: str) -> str:
    """Let a process compile a kernel; return what it says."""
    options = (f"--gpu-architecture={architecture}", *pointwise_source.COMPILE_OPTIONS)
    job = {"text": text, "options": options, "path": str(path)}
    assert process.stdin and process.stdout
    process.stdin.write(json.dumps(job) + "\n")
    process.stdin.flush()
    return str(json.loads(process.stdout.readline()))


# ---- beside a program


_beside: dict[tuple[str, str], Workers] = {}  # by architecture, and the halves they are for


def prepare(description: str, architecture: str) -> None:
    """Take note of a kernel that is not in the cache: it is likely that more are missing.

    Returns when the caller can compile it, or find it compiled.
    """
    for kind in _kinds(description):
        if (architecture, kind) not in _beside:
            common = [each for each in common_kernels() if kind in _kinds(each, alone=True)]
            _beside[architecture, kind] = Workers(common, architecture, _count())
    for workers in _beside.values():
        workers.wait_for(description)


def _kinds(description: str, *, alone: bool = False) -> list[str]:
    """Return which groups of common kernels a kernel belongs to, or shows that a program needs.

    Few programs use both kinds of halves, and those that do not should not wait for them.
    """
    halves = [name for name, pattern in _HALVES.items() if pattern.search(description)]
    return halves if alone and halves else ["", *halves]


def _count() -> int:
    """Return how many processes may work beside this one, as ``$TAPEGRAD_CUDA_AHEAD`` says."""
    if chosen := os.environ.get("TAPEGRAD_CUDA_AHEAD"):
        return int(chosen) if chosen.isdecimal() else 0
    if not sys.executable:
        return 0
    return min(len(os.sched_getaffinity(0)) - 1, _MOST)
