"""``tapegrad train``: a new run or the rest of an old one."""

import argparse
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import tapegrad
from tapegrad.cli.arguments import given_settings
from tapegrad.cli.data import kept_numbers, write_numbers
from tapegrad.cli.device import chosen_device, described, memory
from tapegrad.cli.errors import UserError, first_line
from tapegrad.cli.invocation import program
from tapegrad.cli.loop import Loop, event_writer_class
from tapegrad.cli.run_folder import RunFolder
from tapegrad.cli.settings import Settings
from tapegrad.cli.team import Team
from tapegrad.cli.text import Text, read_text
from tapegrad.cli.trainer import Trainer
from tapegrad.cli.vocabulary import Tokens, learn_vocabulary, restore_vocabulary
from tapegrad.utils._units import clock, human_bytes

__all__ = ["train"]

# What a resumed run may be given anew: how far, and where, which leave the numbers as they are or
# round them otherwise.
_MAY_CHANGE = {"steps", "text", "device", "budget"}


def train(arguments: argparse.Namespace) -> int:
    """Train, and return the exit status: 0, or 128 and the number of the signal that stopped it."""
    if arguments.tensorboard:
        event_writer_class()  # reports a missing package before a folder is made
    team = Team.join()
    if not arguments.resume and _is_restart(arguments.out):
        arguments.resume = arguments.out
    arguments.quiet |= not team.is_first
    arguments.tensorboard &= team.is_first
    try:
        loop = _old_loop(arguments, team) if arguments.resume else _new_loop(arguments, team)
    except tapegrad.OutOfMemoryError as error:
        raise UserError(
            f"out of memory: {first_line(error)}; "
            "the model does not fit: choose fewer --layers or less --width"
        ) from error
    if not arguments.quiet:
        _describe(loop)
    elif team.is_first:
        print(loop.folder.path)
    try:
        loop.run()
    except tapegrad.OutOfMemoryError as error:
        raise loop.explained(error) from error
    if team.is_first:
        _conclude(loop, arguments.quiet)
    team.leave()
    return 0 if loop.stopped_by is None else 128 + loop.stopped_by


def _is_restart(out: str | None) -> bool:
    """Return whether a launcher has started a run again that has saved something."""
    count = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return count != "0" and out is not None and RunFolder(Path(out)).checkpoint.is_file()


def _device_of(settings: Settings, team: Team) -> tapegrad.device:
    device = chosen_device(settings.device)
    if team.size > 1 and device.type != "cpu":
        raise UserError(f"several processes train on the CPU; got --device {settings.device}")
    return device


def _following_loop(
    arguments: argparse.Namespace, settings: Settings, text: Text, team: Team
) -> Loop:
    """Return the loop of a process that another leads into a new run."""
    found = team.share()
    if found is None:
        raise UserError("the first process could not begin")
    path, state = found
    folder = RunFolder(Path(path))
    folder.is_written = False
    vocabulary = restore_vocabulary(state)
    numbers = kept_numbers(vocabulary, folder)
    trainer = Trainer(settings, vocabulary, numbers, _device_of(settings, team), team)
    return Loop(trainer, folder, text, arguments)


def _new_loop(arguments: argparse.Namespace, team: Team) -> Loop:
    settings = Settings.of(given_settings(arguments))
    device = _device_of(settings, team)
    team.part(settings.batch)  # says so before a folder is made if it cannot be divided
    text = read_text(settings.text)
    if not team.is_first:
        return _following_loop(arguments, settings, text, team)
    folder, shared = None, False
    try:
        folder = RunFolder.create(arguments.out, text.name)
        vocabulary = learn_vocabulary(text, settings, arguments.quiet)
        numbers = write_numbers(text, vocabulary, folder, arguments.quiet)
        team.share((str(folder.path.resolve()), vocabulary.state()))
        shared = True
        trainer = Trainer(settings, vocabulary, numbers, device, team)
        folder.write(folder.config, settings.as_json())
        if isinstance(vocabulary, Tokens):
            folder.write(folder.tokenizer, vocabulary.as_json())
    except BaseException:
        if not shared:
            team.share(None)
        if folder is not None:
            folder.discard()  # a text that is too short, or Ctrl-C
        raise
    return Loop(trainer, folder, text, arguments)


def _old_loop(arguments: argparse.Namespace, team: Team) -> Loop:
    folder = RunFolder.open(arguments.resume)
    folder.is_written = team.is_first
    state = folder.load_checkpoint()
    settings = _resumed_settings(arguments, state, folder)
    device = _device_of(settings, team)
    text = read_text(settings.text)
    if text.sha256 != state["text_sha256"]:
        raise UserError(
            f"the text {settings.text} is not the one that {folder.path} was trained on; "
            "restore it, or start a new run"
        )
    vocabulary = restore_vocabulary(state["vocabulary"])
    if not team.is_first:
        team.share()
    numbers = kept_numbers(vocabulary, folder)
    if team.is_first:
        if len(numbers) != state.get("tokens"):  # the file is gone or damaged
            numbers = write_numbers(text, vocabulary, folder, arguments.quiet)
        team.share()
    trainer = Trainer(settings, vocabulary, numbers, device, team)
    trainer.load_state(state)
    folder.write(folder.config, settings.as_json())
    loop = Loop(trainer, folder, text, arguments)
    loop.seconds = state["seconds"]
    folder.metrics.keep(trainer.step)
    folder.samples.keep(trainer.step)
    return loop


def _resumed_settings(
    arguments: argparse.Namespace, state: dict[str, Any], folder: RunFolder
) -> Settings:
    """Return the settings of a run with what may change; what may not is refused by name."""
    before = Settings.from_dict(state["settings"])
    given = given_settings(arguments)
    settings = replace(before, **given)
    fixed = {name for name in given if name not in _MAY_CHANGE}
    if settings.batch * settings.accumulate == before.batch * before.accumulate:
        fixed -= {"batch", "accumulate"}  # the same pieces in each step
    values = before.as_dict()
    changed = [
        f"--{name.replace('_', '-')} (the run has {values[name]}, got {given[name]})"
        for name in sorted(fixed)
        if values[name] != given[name]
    ]
    if changed:
        raise UserError(
            f"{', '.join(changed)} cannot change in a resumed run: "
            f"leave out, or start a new run instead of going on with {folder.path}"
        )
    if settings.steps < state["step"]:
        raise UserError(
            f"--steps: expected at least {state['step']}, where the run stands, "
            f"got {settings.steps}"
        )
    return settings


def _describe(loop: Loop) -> None:
    """Print what is about to happen."""
    settings, trainer = loop.trainer.settings, loop.trainer
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    unit = "tokens" if settings.tokens == "bpe" else settings.tokens
    print(
        f"text   {settings.text or 'the books in the package'}: {trainer.train_size:,} {unit} "
        f"to learn, {trainer.held_out_size:,} held out, {_described_vocabulary(trainer)}\n"
        f"model  {settings.layers} layers, {settings.width} wide, {settings.heads} heads, "
        f"context {settings.context}: {parameters:,} parameters\n"
        f"step   {_described_step(trainer)}\n"
        f"device {described(trainer.device)}\n"
        f"run    {loop.folder.path}, steps {trainer.step} to {settings.steps}; "
        f"open {loop.folder.report} to watch\n",
        flush=True,
    )


def _described_vocabulary(trainer: Trainer) -> str:
    known, wanted = len(trainer.vocabulary), trainer.settings.vocabulary
    if trainer.settings.tokens != "bpe" or known == wanted:
        return f"{known:,} different"
    return f"{known:,} different ({wanted:,} asked for: no other pair occurs twice)"


def _described_step(trainer: Trainer) -> str:
    settings = trainer.settings
    parts = f"{settings.accumulate} x " if settings.accumulate > 1 else ""
    budget = f", tape within {settings.budget}" if settings.budget else ""
    return (
        f"{parts}{settings.batch} x {settings.context} = {trainer.tokens_per_step:,} tokens in "
        f"{settings.dtype}{budget}"
    )


def _conclude(loop: Loop, quiet: bool) -> None:
    """Print how it went and what to do next."""
    path = shlex.quote(str(loop.folder.path))
    if loop.trainer.step < loop.trainer.settings.steps:
        out = sys.stdout if loop.stopped_by is None else sys.stderr
        print(
            f"saved at step {loop.trainer.step}; go on with: {program()} train --resume {path}",
            file=out,
        )
        return
    if quiet:
        return
    losses = [r["val_loss"] for r in loop.folder.metrics.records if "val_loss" in r]
    device = loop.trainer.device
    peak = "" if device.type == "cpu" else f", at most {human_bytes(memory(device))} of {device}"
    print(
        f"\nvalidation loss {losses[0]:.3f} before, {losses[-1]:.3f} after "
        f"{loop.trainer.step} steps in {clock(loop.seconds)}{peak}\n"
        f"curve, samples, settings:  {loop.folder.report}\n"
        f"more text:  {program()} sample {path}\n"
        f"more steps: {program()} train --resume {path} --steps {2 * loop.trainer.step}"
    )
