"""The training loop: steps, and between them evaluations, samples, checkpoints and reports."""

import argparse
import shlex
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tapegrad
from tapegrad.cli.device import memory
from tapegrad.cli.errors import UserError, first_line
from tapegrad.cli.flops import flops_per_token, peak_flops, shown_share
from tapegrad.cli.invocation import program
from tapegrad.cli.report import write_report
from tapegrad.cli.run_folder import RunFolder
from tapegrad.cli.stopping import StopRequest
from tapegrad.cli.text import Text
from tapegrad.cli.trainer import Step, Trainer
from tapegrad.utils._units import human_bytes, human_count
from tapegrad.utils.progress import Progress

__all__ = ["Loop", "event_writer_class"]

_SAMPLE_EVERY = 10  # evaluations
_SPEED_MEMORY = 0.9  # how much of the shown speed each step keeps
_MOST_UNREAD = {"cpu": 1, "cuda": 10}  # steps that are taken before one waits for their losses
_LONGEST_UNREAD = 1.0  # seconds


class Loop:
    """Runs a trainer to its last step, to a time limit or to a signal, and keeps its folder.

    A GPU is given one step after the other; only now and then, and before each visit, the loop
    waits for their losses and notes them.

    Args:
        trainer: at step 0, or with a loaded state.
        folder: of the run.
        text: that is trained on.
        arguments: of the command line: minutes, quiet, tensorboard, peak_tflops.
    """

    def __init__(
        self, trainer: Trainer, folder: RunFolder, text: Text, arguments: argparse.Namespace
    ) -> None:
        self.trainer, self.folder, self.text = trainer, folder, text
        self.minutes: float | None = arguments.minutes
        self.quiet: bool = arguments.quiet or not trainer.team.is_first
        self.seconds = 0.0  # of training, over all sittings
        self.stopped_by: int | None = None  # the number of a signal
        self.peak = peak_flops(trainer.device, trainer.settings.dtype)
        if arguments.peak_tflops is not None:
            self.peak = 1e12 * arguments.peak_tflops
        self._work = flops_per_token(trainer.model)
        self._writer = _event_writer(folder, trainer.step) if arguments.tensorboard else None
        self._speed: float | None = None
        self._unread: list[Step] = []
        self._since = 0.0  # when the unread steps began

    def run(self) -> None:
        """Take the steps that are left."""
        trainer, last = self.trainer, self.trainer.settings.steps
        deadline = None if self.minutes is None else time.monotonic() + 60 * self.minutes
        progress = Progress(last, start=trainer.step, stream=sys.stdout, disable=self.quiet)
        with progress, StopRequest() as stop, _arithmetic(trainer):
            if trainer.step == 0:
                self._visit(progress, {"step": 0})
            progress.update(trainer.step)  # the clock starts here
            self._since = time.perf_counter()
            agree = trainer.team.agree
            while trainer.step < last and not agree(stop.signal is not None):
                self._step(progress)
                if deadline is not None and agree(time.monotonic() >= deadline):
                    break
            self._read(progress)
            if trainer.step < last and trainer.step % trainer.settings.every:
                self._save()  # between two visits
            self.stopped_by = stop.signal if trainer.step < last else None
        if self._writer is not None:
            self._writer.close()
        self._report(finished=True)

    def _step(self, progress: Progress) -> None:
        """Take a step, and read, note and show it and those before it when it is time."""
        settings = self.trainer.settings
        self._unread.append(self.trainer.take_step())
        is_visited = self.trainer.step % settings.every == 0 or self.trainer.step == settings.steps
        is_late = time.perf_counter() - self._since >= _LONGEST_UNREAD
        if is_visited or is_late or len(self._unread) >= _MOST_UNREAD[self.trainer.device.type]:
            self._read(progress, is_visited)

    def _read(self, progress: Progress, is_visited: bool = False) -> None:
        """Wait for the steps that were begun, note them, and show the last."""
        if not self._unread:
            return
        records, count = self.trainer.read(self._unread), len(self._unread)
        self._unread = []
        seconds = (time.perf_counter() - self._since) / count  # of one step
        speed = self.trainer.tokens_per_step / seconds
        mixed = speed if self._speed is None else self._speed
        kept = _SPEED_MEMORY**count
        self._speed = kept * mixed + (1 - kept) * speed
        for record in records:
            self.seconds += seconds
            record |= {"tokens_per_second": round(speed, 1), "seconds": round(self.seconds, 3)}
            record |= {"mfu": self._share(speed), "memory": memory(self.trainer.device)}
        for record in records[:-1] if is_visited else records:
            self._note(record)
        last = records[-1]
        if is_visited:
            self._visit(progress, last)
        if self.trainer.notice:
            progress.write(self.trainer.notice)
            self.trainer.notice = ""
        self._show(progress, last)
        self._since = time.perf_counter()

    def _show(self, progress: Progress, record: dict[str, Any]) -> None:
        assert self._speed is not None
        norm = record["grad_norm"]
        facts = {  # the first are the last to go where a line is short
            "loss": f"{record['loss']:.3f}",
            "val": self._last_evaluation(),
            "speed": f"{human_count(self._speed)} tok/s",
            "MFU": shown_share(self._share(self._speed)),
            "memory": human_bytes(record["memory"]),
            "rate": f"{record['lr']:.2e}",
            "norm": "left out" if norm is None else f"{norm:.2f}",
        }
        if self.peak is None and self.trainer.device.type == "cpu":
            del facts["MFU"]  # the peak of a CPU is not known
        progress.update(self.trainer.step, **facts)

    def _share(self, speed: float) -> float | None:
        """Return the share of the device's peak that the model's own work is, or None."""
        return None if self.peak is None else round(speed * self._work / self.peak, 6)

    def _visit(self, progress: Progress, record: dict[str, Any]) -> None:
        """Evaluate, note, write a sample now and then, save and report."""
        settings, step = self.trainer.settings, self.trainer.step
        start = time.perf_counter()
        if not self.trainer.team.is_first:  # all have the same model
            self._note(record)
            self._save()
            return
        record["val_loss"] = self.trainer.evaluate()
        is_due = step % (_SAMPLE_EVERY * settings.every) == 0 or step == settings.steps
        sample = self.trainer.write(settings.sample_tokens) if is_due else ""
        self.seconds += time.perf_counter() - start
        self._note(record)
        if sample:
            self.folder.samples.append({"step": step, "text": sample})
            if self._writer is not None:
                self._writer.add_text("sample", textwrap.indent(sample, "    "), step)
            when = f"after {step} steps" if step else "before training"
            quoted = textwrap.indent(sample.strip("\n"), "  | ", lambda line: True)
            progress.write(f"{when} (validation loss {record['val_loss']:.3f}):\n{quoted}\n")
        self._save()
        self._report(finished=False)

    def _note(self, record: dict[str, Any]) -> None:
        self.folder.metrics.append(record)
        if self._writer is not None:
            for name in record.keys() - {"step"}:
                if record[name] is not None:
                    self._writer.add_scalar(name, record[name], record["step"])

    def _save(self) -> None:
        trainer = self.trainer
        about = {"seconds": self.seconds, "text_sha256": self.text.sha256}
        about["tokens"] = trainer.train_size + trainer.held_out_size
        self.folder.save_checkpoint(trainer.state() | about)

    def _report(self, finished: bool) -> None:
        if not self.folder.is_written:
            return
        write_report(self.folder, self.trainer, self.text, self.peak, running=not finished)

    def _last_evaluation(self) -> str:
        for record in reversed(self.folder.metrics.records):
            if "val_loss" in record:
                return f"{record['val_loss']:.3f}"
        return "?"

    def explained(self, error: Exception) -> UserError:
        """Turn an error of memory into one that says which options need less."""
        settings = self.trainer.settings
        options = "--budget 0.4"
        if settings.batch % 2 == 0:
            less = f"--batch {settings.batch // 2} --accumulate {2 * settings.accumulate}"
            options = f"{less} (the same steps in smaller parts) or {options}"
        again = "start again with"
        if self.folder.checkpoint.exists():
            path = shlex.quote(str(self.folder.path))
            again = f"go on with {program()} train --resume {path} and"
        return UserError(
            f"out of memory at step {self.trainer.step + 1}: {first_line(error)}; "
            f"{again} {options}, which keeps less of each batch and computes the rest again"
        )


@contextmanager
def _arithmetic(trainer: Trainer) -> Iterator[None]:
    """Let a GPU add up in one order, so that a run that goes on does so to the last bit.

    Products of float32 are rounded to TF32 if the run says so.
    """
    order, precision = (
        tapegrad.are_deterministic_algorithms_enabled(),
        tapegrad.get_float32_matmul_precision(),
    )
    tapegrad.use_deterministic_algorithms(True)
    is_rounded = trainer.settings.dtype == "tf32"
    tapegrad.set_float32_matmul_precision("high" if is_rounded else "highest")
    try:
        yield
    finally:
        tapegrad.use_deterministic_algorithms(order)
        tapegrad.set_float32_matmul_precision(precision)


def event_writer_class() -> Any:
    """Return TensorBoard's writer, or say what to install."""
    try:
        from tapegrad.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UserError(f"--tensorboard: {error}") from error
    return SummaryWriter


def _event_writer(folder: RunFolder, step: int) -> Any:
    """Return a writer that hides what an earlier sitting wrote after its checkpoint."""
    purge_step = step + 1 if step else None
    return event_writer_class()(str(folder.path), purge_step=purge_step)
