"""``tapegrad launch``: run a program as several processes."""

import argparse
import sys
from typing import Any

from tapegrad.cli.errors import UserError

__all__ = ["add_launch", "launch"]

_LAUNCH = """\
Options stand before the program; what follows it goes to the program, which finds RANK, WORLD_SIZE,
LOCAL_RANK, MASTER_ADDR and MASTER_PORT. Needs MPI: pip install 'tapegrad[distributed]'.

  tapegrad launch -n 4 train.py --epochs 3
  tapegrad launch -n 4 --restarts 3 -m tapegrad train --text novel.txt
  tapegrad launch -n 4 --torch train.py      a script that was written for torch

Lines of processes other than the first begin with their rank. When one dies, stops, or goes another
way, the others raise an error that says which, and all are ended. A program that saves checkpoints
and goes on from them is started again with --restarts: with as many processes as before or, with
--min-ranks, without those that were lost.
"""


def add_launch(commands: Any) -> None:
    """Describe the command line."""
    parser = commands.add_parser(
        "launch",
        help="run a program as several processes of this machine",
        description="Run a program as several processes of this machine, which find each other by\n"
        "torch.distributed.",
        epilog=_LAUNCH,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-n", dest="ranks", type=int, required=True, help="how many processes")
    parser.add_argument(
        "--restarts", type=int, default=0, help="start again after failures (default: 0 times)"
    )
    parser.add_argument(
        "--min-ranks",
        type=int,
        help="restarts go on without processes that were lost, down to this",
    )
    parser.add_argument(
        "--timeout", type=float, help="seconds that a process may be silent (default: 60)"
    )
    parser.add_argument("--quiet", action="store_true", help="no report at the end")
    parser.add_argument("--torch", action="store_true", help="the program was written for torch")
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module's name")
    parser.add_argument("program", metavar="PROGRAM", help="the Python file to run")
    parser.add_argument(
        "arguments", metavar="ARGS", nargs=argparse.REMAINDER, help="its own command line"
    )


def launch(arguments: argparse.Namespace) -> int:
    """Run the program, and return 0 if all processes have ended well."""
    from tapegrad.distributed import _launcher

    python = [sys.executable, *(["-m", "tapegrad", "run"] if arguments.torch else [])]
    options = _launcher.Options(
        [*python, *(["-m"] if arguments.module else []), arguments.program, *arguments.arguments],
        arguments.ranks,
        arguments.restarts,
        arguments.min_ranks,
        arguments.timeout,
        report=not arguments.quiet,
    )
    try:
        return _launcher.launch(options)
    except _launcher.Failure as failure:
        raise UserError(str(failure)) from None
