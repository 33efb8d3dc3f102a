"""What a run leaves on disk. Files are replaced whole, so that a reader never meets half of one."""

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import tapegrad
from tapegrad.cli.errors import UserError, writing
from tapegrad.cli.invocation import program

__all__ = ["JsonLines", "RunFolder", "newest_run"]

RUNS = Path("runs")


class JsonLines:
    """A file with one JSON object a line, each with a step. Lines leave the program at once."""

    def __init__(self, path: Path, folder: "RunFolder") -> None:
        self.path, self.folder = path, folder
        self.records: list[dict[str, Any]] = []

    def append(self, record: dict[str, Any]) -> None:
        """Write a record behind the others."""
        self.records.append(record)
        if not self.folder.is_written:
            return
        with self.folder.writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def read(self) -> None:
        """Take the records from the file; a last line that was cut off is left out."""
        self.records = []
        if not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                self.records.append(json.loads(line))
            except ValueError:
                break

    def keep(self, last_step: int) -> None:
        """Drop what was written after a step: a resumed run will write it again."""
        self.read()
        self.records = [record for record in self.records if record["step"] <= last_step]
        lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in self.records]
        self.folder.write(self.path, "".join(lines))


class RunFolder:
    """The paths of a run and the reading and writing of its files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"
        self.checkpoint = path / "checkpoint.safetensors"
        self.tokenizer = path / "tokenizer.json"
        self.tokens = path / "tokens.bin"
        self.curve = path / "curve.svg"
        self.report = path / "report.html"
        self.metrics = JsonLines(path / "metrics.jsonl", self)
        self.samples = JsonLines(path / "samples.jsonl", self)
        self.is_written = True  # if not, another process writes the run
        self._fresh: list[Path] = []  # what was not there before

    @classmethod
    def create(cls, out: str | None, name: str) -> "RunFolder":
        """Make the folder of a new run: the one given, or the first free ``runs/name-N``."""
        path = RUNS if out is None else Path(out)
        with writing(path, "choose another folder with --out"):
            if out is None:
                return cls(_first_free(RUNS, name))
            path.mkdir(parents=True, exist_ok=True)
        folder = cls(path)
        if folder.checkpoint.exists():
            raise UserError(
                f"{path} holds a run already; go on with it by --resume {path}, "
                "or choose another folder with --out"
            )
        return folder

    @classmethod
    def open(cls, path: str) -> "RunFolder":
        """Return the folder of a run that has a checkpoint."""
        folder = cls(Path(path))
        if not folder.checkpoint.is_file():
            if not folder.path.is_dir():
                raise UserError(f"no such run: {path} is not a folder; {_known_runs()}")
            raise UserError(
                f"{path} has no {folder.checkpoint.name}: nothing was saved there; {_known_runs()}"
            )
        return folder

    def writing(self, path: Path) -> AbstractContextManager[None]:
        """Turn what goes wrong with a file into an error that says how to go on."""
        again = f"go on with: {program()} train --resume {shlex.quote(str(self.path))}"
        return writing(
            path, f"make room, then {again if self.checkpoint.exists() else 'start again'}"
        )

    def write(self, path: Path, text: str) -> None:
        """Put text into one of the run's files, whole or not at all."""
        if not self.is_written:
            return
        with self.replacing(path) as file:
            file.write(text.encode("utf-8"))

    @contextmanager
    def replacing(self, path: Path) -> Iterator[BinaryIO]:
        """Give a file to write to, which becomes one of the run's files if all goes well."""
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        with self.writing(path):
            try:
                with beside.open("wb") as file:
                    yield file
                if not path.exists():
                    self._fresh.append(path)
                beside.replace(path)
            finally:
                beside.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove what a run that never began has left; a folder with other files stays."""
        for path in self._fresh:
            path.unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            self.path.rmdir()
            if self.path.parent == RUNS:
                RUNS.rmdir()

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        """Replace the checkpoint; the old one stays until the new one is complete."""
        if not self.is_written:
            return
        with self.writing(self.checkpoint):
            tapegrad.save(state, self.checkpoint)

    def load_checkpoint(self) -> dict[str, Any]:
        """Return what `save_checkpoint` stored."""
        try:
            state: dict[str, Any] = tapegrad.load(self.checkpoint, map_location="cpu")
            if not isinstance(state, dict) or not {"settings", "model"} <= state.keys():
                raise ValueError("it holds no model of `tapegrad train`")
        except Exception as error:
            raise UserError(
                f"cannot read the checkpoint {self.checkpoint}: {error}; "
                "it is damaged or of another kind; start a new run"
            ) from error
        return state


def newest_run() -> str:
    """Return the run in ``runs/`` whose checkpoint is the youngest."""
    found = _runs()
    if not found:
        raise UserError(f"there is no run in {RUNS}/; name one, or train first: {program()} train")
    return str(max(found, key=lambda path: (path / "checkpoint.safetensors").stat().st_mtime))


def _first_free(parent: Path, name: str) -> Path:
    number = 1
    while True:
        path = parent / f"{name}-{number}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return path


def _runs() -> list[Path]:
    return sorted(path.parent for path in RUNS.glob("*/checkpoint.safetensors"))


def _known_runs() -> str:
    found = [str(path) for path in _runs()]
    if not found:
        return f"there are none in {RUNS}/ either: train one with {program()} train"
    return "there are: " + ", ".join(found)
