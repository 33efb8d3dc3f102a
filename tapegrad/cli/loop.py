"""The training loop: steps, and between them evaluations, samples, checkpoints and reports."""

import argparse
import sys
import textwrap
import time
from typing import Any

from tapegrad.cli.device import memory
from tapegrad.cli.errors import UserError
from tapegrad.cli.report import write_report
from tapegrad.cli.run_folder import RunFolder
from tapegrad.cli.stopping import StopRequest
from tapegrad.cli.text import Text
from tapegrad.cli.trainer import Trainer
from tapegrad.utils._units import human_bytes, human_count
from tapegrad.utils.progress import Progress

__all__ = ["Loop", "event_writer_class"]

_SAMPLE_TOKENS = 300
_SAMPLE_EVERY = 10  # evaluations
_SPEED_MEMORY = 0.9  # how much of the shown speed each step keeps


class Loop:
    """Runs a trainer to its last step, to a time limit or to a signal, and keeps its folder.

    Args:
        trainer: at step 0, or with a loaded state.
        folder: of the run.
        text: that is trained on.
        arguments: of the command line: minutes, quiet, tensorboard.
    """

    def __init__(
        self, trainer: Trainer, folder: RunFolder, text: Text, arguments: argparse.Namespace
    ) -> None:
        self.trainer, self.folder, self.text = trainer, folder, text
        self.minutes: float | None = arguments.minutes
        self.quiet: bool = arguments.quiet
        self.seconds = 0.0  # of training, over all sittings
        self.stopped_by: int | None = None  # the number of a signal
        self._writer = _event_writer(folder, trainer.step) if arguments.tensorboard else None
        self._speed: float | None = None

    def run(self) -> None:
        """Take the steps that are left."""
        trainer, last = self.trainer, self.trainer.settings.steps
        deadline = None if self.minutes is None else time.monotonic() + 60 * self.minutes
        progress = Progress(last, start=trainer.step, stream=sys.stdout, disable=self.quiet)
        with progress, StopRequest() as stop:
            if trainer.step == 0:
                self._visit(progress, {"step": 0})
            progress.update(trainer.step)  # the clock starts here
            while trainer.step < last and stop.signal is None:
                self._step(progress)
                if deadline is not None and time.monotonic() >= deadline:
                    break
            if trainer.step < last and trainer.step % trainer.settings.every:
                self._save()  # between two visits
            self.stopped_by = stop.signal if trainer.step < last else None
        if self._writer is not None:
            self._writer.close()
        self._report(finished=True)

    def _step(self, progress: Progress) -> None:
        """Take a step, note it, and show it."""
        settings = self.trainer.settings
        start = time.perf_counter()
        record: dict[str, Any] = {"step": self.trainer.step + 1} | self.trainer.take_step()
        seconds = time.perf_counter() - start
        self.seconds += seconds
        speed = settings.batch * settings.context / seconds
        mixed = speed if self._speed is None else self._speed
        self._speed = _SPEED_MEMORY * mixed + (1 - _SPEED_MEMORY) * speed
        record |= {"tokens_per_second": round(speed, 1), "seconds": round(self.seconds, 3)}
        record["memory"] = memory(self.trainer.device)
        if self.trainer.step % settings.every == 0 or self.trainer.step == settings.steps:
            self._visit(progress, record)
        else:
            self._note(record)
        progress.update(
            self.trainer.step,
            loss=f"{record['loss']:.3f}",
            val=self._last_evaluation(),
            speed=f"{human_count(self._speed)} tok/s",
            memory=human_bytes(record["memory"]),
        )

    def _visit(self, progress: Progress, record: dict[str, Any]) -> None:
        """Evaluate, note, write a sample now and then, save and report."""
        settings, step = self.trainer.settings, self.trainer.step
        start = time.perf_counter()
        record["val_loss"] = self.trainer.evaluate()
        sampled = step % (_SAMPLE_EVERY * settings.every) == 0 or step == settings.steps
        if sampled:
            sample = self.trainer.write(_SAMPLE_TOKENS)
        self.seconds += time.perf_counter() - start
        self._note(record)
        if sampled:
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
                self._writer.add_scalar(name, record[name], record["step"])

    def _save(self) -> None:
        state = self.trainer.state() | {"seconds": self.seconds, "text_sha256": self.text.sha256}
        self.folder.save_checkpoint(state)

    def _report(self, finished: bool) -> None:
        write_report(self.folder, self.trainer, self.text, running=not finished)

    def _last_evaluation(self) -> str:
        for record in reversed(self.folder.metrics.records):
            if "val_loss" in record:
                return f"{record['val_loss']:.3f}"
        return "?"


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
