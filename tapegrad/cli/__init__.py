"""The command ``tapegrad``: train a model, let it write; run a script; show a tape; serve.

``import tapegrad`` does not load this package. Where to start reading: `loop` is the training,
`trainer` its numbers, `model` the network, `presets` and `settings` what can be chosen. A text goes
through `text`, `vocabulary` (and `bpe`) and `data`. `run_folder` is what a run leaves on disk,
`report` its page, `flops` how much of a GPU is used.
`run` runs a script that was written for torch, `tape` a script of the user's, and shows the tape of
its last backward. `launch` runs a program as several processes. `serve` answers requests for a
traced module.
"""

import os
import sys

from tapegrad.cli.arguments import read_arguments
from tapegrad.cli.errors import UserError

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    arguments = read_arguments(argv)
    try:
        # Each command imports what it needs, so that --help answers at once.
        if arguments.command == "train":
            from tapegrad.cli.train import train

            return train(arguments)
        if arguments.command == "tape":
            from tapegrad.cli.tape import tape

            return tape(arguments)
        if arguments.command == "serve":
            from tapegrad.cli.serve import serve

            return serve(arguments)
        if arguments.command == "run":
            from tapegrad.cli.run import run

            return run(arguments)
        if arguments.command == "launch":
            from tapegrad.cli.launch import launch

            return launch(arguments)
        from tapegrad.cli.sample import sample

        return sample(arguments)
    except UserError as error:
        print(f"tapegrad {arguments.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nquit", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor at exit
        return 1
