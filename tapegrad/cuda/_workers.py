"""Kernels compiled by several processes at a time: NVRTC compiles one at a time in a process.

`Workers` is a queue that such processes work off, into the cache on disk.
"""

import json
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from tapegrad.cuda import _compiler, _kernels, _nvrtc, pointwise_source

__all__ = ["Workers", "common_kernels"]

_COMMON = Path(__file__).parent / "common_kernels.txt"


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
        descriptions: of the kernels.
        architecture: such as ``"sm_90"``.
        count: how many processes there are.
        told: called after each kernel with the error, which is empty if there was none; from
            several threads, one at a time. After an error what has not begun is left.
    """

    def __init__(
        self,
        descriptions: Iterable[str],
        architecture: str,
        count: int,
        told: Callable[[str], None],
    ) -> None:
        self._architecture = architecture
        self._told = told
        self._lock = threading.Lock()
        self._waiting = deque(descriptions)
        self._threads = [
            threading.Thread(target=self._work, name="tapegrad kernels", daemon=True)
            for _ in range(min(count, len(self._waiting)))
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Return when all is done."""
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        """Drive one process, which is started when there is something to compile for it."""
        process = None
        while self._waiting:
            try:
                description = self._waiting.popleft()
            except IndexError:  # another thread was faster
                break
            try:
                text = _kernels.source(description)
                path = _compiler.path_of(text, self._architecture, pointwise_source.COMPILE_OPTIONS)
                error = ""
                if not path.exists():
                    process = process or _start()
                    error = _ask(process, text, path, self._architecture)
            except (OSError, RuntimeError, ValueError) as problem:
                error = f"a process that compiles has ended: {problem}"
            with self._lock:
                if error:
                    self._waiting.clear()
                self._told(error)
        if process is not None:
            with process:  # closes its input, which ends it, and waits
                pass


def _start() -> "subprocess.Popen[str]":
    command = [sys.executable, "-I", "-S", _nvrtc.__file__, str(_compiler.find_nvrtc())]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)


def _ask(process: "subprocess.Popen[str]", text: str, path: Path, architecture: str) -> str:
    """Let a process compile a kernel; return what it says."""
    options = (f"--gpu-architecture={architecture}", *pointwise_source.COMPILE_OPTIONS)
    job = {"text": text, "options": options, "path": str(path)}
    assert process.stdin and process.stdout
    process.stdin.write(json.dumps(job) + "\n")
    process.stdin.flush()
    return str(json.loads(process.stdout.readline()))
