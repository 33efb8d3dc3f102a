"""`python -m torch.distributed.run`, under the switch: torchrun's options for our launcher.

Example:
    python -m tapegrad.distributed.run --nproc-per-node 4 train.py --epochs 2
"""

import argparse
import sys

from tapegrad.distributed._launcher import Failure, Options, launch

__all__ = ["main"]

# What concerns several machines or where logs go: taken, and without effect on one machine.
_WITHOUT_EFFECT = (
    "node_rank", "rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf", "monitor_interval",
    "start_method", "role", "log_dir", "redirects", "tee", "local_addr", "local_ranks_filter",
    "max_nodes",
)  # fmt: skip


def _both(name: str) -> list[str]:
    """Return an option with dashes and with underscores."""
    return list(dict.fromkeys((f"--{name.replace('_', '-')}", f"--{name}")))


def _read(words: list[str] | None, name: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=name, allow_abbrev=False, description=__doc__)
    parser.add_argument(*_both("nproc_per_node"), default="1", help="the number of processes")
    parser.add_argument("--nnodes", default="1", help="1: there is one machine")
    parser.add_argument(*_both("max_restarts"), type=int, default=0, help="restarts after failures")
    parser.add_argument(*_both("master_addr"), default=None, help="what MASTER_ADDR says")
    parser.add_argument(*_both("master_port"), type=int, default=29500, help="and MASTER_PORT")
    parser.add_argument("--standalone", action="store_true", help="accepted")
    parser.add_argument("-m", "--module", action="store_true", help="the program is a module")
    parser.add_argument(*_both("no_python"), action="store_true", help="it is no Python")
    parser.add_argument(*_both("use_env"), action="store_true", help="accepted")
    for other in _WITHOUT_EFFECT:
        parser.add_argument(*_both(other), default=None, help=argparse.SUPPRESS)
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(words)


def main(args: list[str] | None = None, *, name: str = "torch.distributed.run") -> None:
    """Run a program as several processes, and leave with its exit status.

    Args:
        args: the command line; that of this process if left out.
        name: how the command is called.
    """
    found = _read(args, name)
    try:
        if found.nnodes not in ("1", "1:1"):
            raise Failure(
                f"--nnodes {found.nnodes}: one machine is supported; start programs for several by "
                "mpiexec or srun"
            )
        if found.nproc_per_node in ("auto", "cpu", "gpu"):
            raise Failure(f"--nproc-per-node {found.nproc_per_node}: expected a number")
        python = [] if found.no_python else [sys.executable, *(["-m"] if found.module else [])]
        command = [*python, found.program, *found.arguments]
        options = Options(
            command,
            int(found.nproc_per_node),
            restarts=found.max_restarts,
            port=found.master_port,
            report=False,
        )
        status = launch(options)
    except Failure as failure:
        print(f"{name}: {failure}", file=sys.stderr)
        status = 1
    if status:
        raise SystemExit(status)


if __name__ == "__main__":
    main()
