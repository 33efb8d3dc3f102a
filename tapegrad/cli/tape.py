"""``tapegrad tape``: run a script and show the tape of its last backward."""

import argparse
import os
import sys
import webbrowser
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tapegrad
from tapegrad.cli.errors import UserError, writing
from tapegrad.cli.script import run_script
from tapegrad.tape import show
from tapegrad.tape.last_backward import LastBackward
from tapegrad.utils._units import human_bytes

__all__ = ["tape"]

_Writer = Callable[[Mapping[str, Any], Path], Path]


def tape(arguments: argparse.Namespace) -> int:
    """Run the script, write the page, and return the script's own exit status."""
    script = Path(arguments.script)
    watcher = LastBackward(only=arguments.backward, profile=arguments.profile)
    with watcher, tapegrad.tape.record():
        status, message = run_script(script, arguments.arguments)
    sys.stdout.flush()
    if message:
        print(message, file=sys.stderr, end="")
    if watcher.document is None:
        if status:
            print("tapegrad tape: the script ended before a backward ran", file=sys.stderr)
            return status
        raise UserError(_nothing(watcher))
    document = {**watcher.document, "title": _title(script, watcher)}
    if not arguments.quiet:
        print(f"\n{document['title']}, called at {_short(watcher.place)}")
        print(show.totals_table(document))
        print()
    _write(document, arguments, script)
    return status


def _nothing(watcher: LastBackward) -> str:
    if watcher.only is not None and watcher.count:
        return (
            f"the script ran {watcher.count} backwards, so there is none with number {watcher.only}"
        )
    return (
        "the script ran no backward, so there is no tape to show; "
        "it must call loss.backward(), autograd.backward or autograd.grad"
    )


def _title(script: Path, watcher: LastBackward) -> str:
    return f"{script.name}: backward {watcher.number:,} of {watcher.count:,}"


def _short(place: str) -> str:
    name, _, line = place.rpartition(":")
    relative = os.path.relpath(name) if os.path.isabs(name) else name
    return f"{relative if not relative.startswith('..') else name}:{line}"


def _write(document: Mapping[str, Any], arguments: argparse.Namespace, script: Path) -> None:
    page = Path(arguments.out or f"{script.stem}.tape.html")
    wanted: list[tuple[str, Path | None, _Writer]] = [
        ("page", page, show.write_html),
        ("json", arguments.json, show.write_json),
        ("dot", arguments.dot, show.write_dot),
        ("trace", arguments.perfetto, show.write_perfetto),
    ]
    for name, path, write in wanted:
        if path is None:
            continue
        with writing(path, "choose another place for the file"):
            write(document, path)
        print(f"{name:<6} {path} ({human_bytes(path.stat().st_size)})")
    if arguments.open:
        webbrowser.open(page.resolve().as_uri())
