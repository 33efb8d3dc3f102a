"""``tapegrad run``: run a script that was written for torch."""

import argparse
import sys
from pathlib import Path

from tapegrad.cli.errors import UserError
from tapegrad.cli.script import run_module, run_script
from tapegrad.compat import torch as switch

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Run the script with ``import torch`` meaning tapegrad, and return its own exit status."""
    script = Path(arguments.script)
    if not arguments.module and not script.exists():
        raise UserError(f"there is no file {script}")
    try:
        switch.install()
    except RuntimeError as error:
        raise UserError(str(error)) from None
    switch.install_in_children()
    if arguments.module:
        status, message = run_module(arguments.script, arguments.arguments)
    else:
        status, message = run_script(script, arguments.arguments)
    sys.stdout.flush()
    if message:
        print(message, file=sys.stderr, end="")
    if arguments.report:
        print(f"\n{switch.report()}", file=sys.stderr, end="")
    return status
