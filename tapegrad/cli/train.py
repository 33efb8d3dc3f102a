"""``tapegrad train``: a new run or the rest of an old one."""

import argparse
import shlex
import sys
from dataclasses import replace

from tapegrad.cli.arguments import given_settings
from tapegrad.cli.device import chosen_device, described, memory
from tapegrad.cli.errors import UserError
from tapegrad.cli.invocation import program
from tapegrad.cli.loop import Loop, event_writer_class
from tapegrad.cli.run_folder import RunFolder
from tapegrad.cli.settings import Settings
from tapegrad.cli.text import read_text
from tapegrad.cli.trainer import Trainer
from tapegrad.utils._units import clock, human_bytes

__all__ = ["train"]


def train(arguments: argparse.Namespace) -> int:
    """Train, and return the exit status: 0, or 128 and the number of the signal that stopped it."""
    if arguments.tensorboard:
        event_writer_class()  # reports a missing package before a folder is made
    loop = _old_loop(arguments) if arguments.resume else _new_loop(arguments)
    if not arguments.quiet:
        _describe(loop)
    else:
        print(loop.folder.path)
    loop.run()
    _conclude(loop, arguments.quiet)
    return 0 if loop.stopped_by is None else 128 + loop.stopped_by


def _new_loop(arguments: argparse.Namespace) -> Loop:
    settings = Settings(**given_settings(arguments))
    device = chosen_device(settings.device)
    text = read_text(settings.text)
    trainer = Trainer(
        settings, text, device
    )  # before the folder: a text that is too short leaves none
    folder = RunFolder.create(arguments.out, text.name)
    folder.write(folder.config, settings.as_json())
    return Loop(trainer, folder, text, arguments)


def _old_loop(arguments: argparse.Namespace) -> Loop:
    folder = RunFolder.open(arguments.resume)
    state = folder.load_checkpoint()
    settings = Settings.from_dict(state["settings"])
    if arguments.steps is not None:
        if arguments.steps < state["step"]:
            raise UserError(
                f"--steps: expected at least {state['step']}, where the run stands, "
                f"got {arguments.steps}"
            )
        settings = replace(settings, steps=arguments.steps)
    if arguments.text is not None:  # the same text, moved
        settings = replace(settings, text=arguments.text)
    if arguments.device is not None:
        settings = replace(settings, device=arguments.device)
    device = chosen_device(settings.device)
    text = read_text(settings.text)
    if text.sha256 != state["text_sha256"]:
        raise UserError(
            f"the text {settings.text} is not the one that {folder.path} was trained on; "
            "restore it, or start a new run"
        )
    trainer = Trainer(settings, text, device)
    trainer.load_state(state)
    folder.write(folder.config, settings.as_json())
    loop = Loop(trainer, folder, text, arguments)
    loop.seconds = state["seconds"]
    folder.metrics.keep(trainer.step)
    folder.samples.keep(trainer.step)
    return loop


def _describe(loop: Loop) -> None:
    """Print what is about to happen."""
    settings, trainer = loop.trainer.settings, loop.trainer
    unit = settings.tokens
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    print(
        f"text   {settings.text or 'the books in the package'}: {trainer.train_size:,} {unit} "
        f"to learn, {trainer.held_out_size:,} held out, {len(trainer.vocabulary)} different\n"
        f"model  {settings.layers} layers, {settings.width} wide, {settings.heads} heads, "
        f"context {settings.context}: {parameters:,} parameters\n"
        f"device {described(trainer.device)}\n"
        f"run    {loop.folder.path}, steps {trainer.step} to {settings.steps}; "
        f"open {loop.folder.report} to watch\n",
        flush=True,
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
