"""A process of one library: it takes the names of rows, and answers with what it measured."""

from __future__ import annotations

import gc
import importlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import traceback
from typing import Any

from benchmarks.cuda_models.cases import all_cases
from benchmarks.cuda_models.work import Setting

STARTING = 60.0  # seconds that importing a library and starting CUDA may take


def setting_for(column: str, device: str, is_tiny: bool) -> Setting:
    torch = importlib.import_module("tapegrad" if column == "tapegrad" else "torch")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.ones(1, device="cuda")  # starts CUDA outside of what is measured
    return Setting(torch, device, is_tiny, column == "torch.compile")


def serve(column: str, device: str, is_tiny: bool) -> int:
    """Answer each line of stdin, the name of a row, with a line of JSON."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is none of the answers
    setting, cases = setting_for(column, device, is_tiny), all_cases()
    print(json.dumps({"device": setting.device}), file=answers, flush=True)
    for row in sys.stdin:
        try:
            answer = cases[row.strip()].run(setting)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"[:400]}
        try:
            clean(setting)
        except Exception as error:  # the device has failed, and what was measured is worth nothing
            answer = {"error": answer.get("error", str(error)[:400]), "ends": True}
        print(json.dumps(answer), file=answers, flush=True)
        if "ends" in answer:
            return 1
    return 0


def clean(setting: Setting) -> None:
    """Give memory back; raises where the device has failed."""
    gc.collect()
    if setting.is_compiled:
        setting.torch._dynamo.reset()
    if setting.device == "cuda":
        setting.torch.cuda.synchronize()
        setting.torch.cuda.empty_cache()


class Child:
    """The other side of `serve`. One that is too slow or ends is replaced for the next row."""

    def __init__(self, column: str, options: list[str]) -> None:
        self.command = [sys.executable, "-m", "benchmarks.cuda_models", "--child", column, *options]
        self.process: subprocess.Popen[str] | None = None
        self.answers: queue.Queue[str] = queue.Queue()
        self.errors: Any = None
        self.device = ""

    def start(self) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self.answers = queue.Queue()
        threading.Thread(
            target=self.read, args=(self.process.stdout, self.answers), daemon=True
        ).start()

    @staticmethod
    def read(stream: Any, answers: queue.Queue[str]) -> None:
        for answer in stream:
            answers.put(answer)
        answers.put("")  # the end

    def ask(self, row: str, limit: float) -> dict[str, Any]:
        if self.process is None:
            self.start()
            begun = self.answer(STARTING)
            if "error" in begun:
                return begun
            self.device = begun["device"]
        assert self.process is not None and self.process.stdin is not None
        try:
            self.process.stdin.write(row + "\n")
            self.process.stdin.flush()
        except OSError:
            return {"error": self.end("ended")}
        return self.answer(limit)

    def answer(self, limit: float) -> dict[str, Any]:
        try:
            line = self.answers.get(timeout=limit)
        except queue.Empty:
            return {"error": self.end(f"more than {limit:.0f} s")}
        if not line:
            return {"error": self.end("the process ended")}
        found: dict[str, Any] = json.loads(line)
        if "ends" in found:
            self.end("done")
        return found

    def end(self, why: str) -> str:
        """Stop the process; return why with the last words that it said."""
        if self.process is None:
            return why
        self.process.kill()
        self.process.wait()
        self.process = None
        self.errors.seek(0)
        words = self.errors.read().strip().splitlines()
        self.errors.close()
        return f"{why}: {words[-1][:300]}" if words and why != "done" else why
