"""The command line: options, their defaults and their checks."""

import argparse
import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from tapegrad._version import __version__
from tapegrad.cli.bpe import BYTES
from tapegrad.cli.launch import add_launch
from tapegrad.cli.presets import PRESETS
from tapegrad.cli.settings import Settings
from tapegrad.utils._units import parse_bytes

__all__ = ["given_settings", "read_arguments"]

_LIMIT = {int: 2**63, float: math.inf}  # what numbers stay below; nan is below nothing

_MOST_TOKENS = 1_000_000

_FILES = """\
  tapegrad train --text novel.txt
  tapegrad train --device cuda --preset gpt2 --text library.txt

The preset gpt2 is GPT-2 small: 124 million parameters, byte pairs learned from the text, bfloat16;
gpt2-medium, gpt2-large and gpt2-xl are larger.

A run is a folder: config.json (settings), metrics.jsonl (one line per step), samples.jsonl,
checkpoint, tokens, curve.svg and report.html, which is updated during the run: open it to watch.
Ctrl-C saves and stops; `tapegrad train --resume RUN` then continues and gives exactly the numbers
that an uninterrupted run would have given.
"""

_RUN = """\
Options go before the script; anything after it is passed to the script. Processes that the script
starts also get tapegrad as torch. The exit status is the script's.

  tapegrad run train.py --epochs 1
  tapegrad run --report -m mypackage.train
  pytest -p tapegrad.compat.pytest tests     run tests the same way

In your own program:  import tapegrad.compat.torch as switch; switch.install()
"""

_TAPE = """\
Options go before the script; anything after it is passed to the script. The page works offline,
without a server. It is written even if the script fails after a backward pass; the exit status is
the script's.

  tapegrad tape train.py --epochs 1
  tapegrad tape -o step.html --open train.py
  tapegrad tape --backward 3 --profile --perfetto step.json train.py
"""

_SERVE = """\
PROGRAM is a file that torch.jit.save or traced.save wrote; the model's source is not needed:

  torch.jit.trace(model.eval(), example).save("model.tg")
  tapegrad serve model.tg --port 8000

  curl localhost:8000/                                   what the model takes: names, dtypes, shapes
  curl localhost:8000/run -d '{"inputs": {"x": [[1.0, 2.0]]}}'
                                                         returns {"outputs": [[...]]}
  curl localhost:8000/run -H 'Content-Type: application/x-npy' --data-binary @x.npy -o y.npy
  curl localhost:8000/health
  curl localhost:8000/metrics                            metrics in Prometheus format

Request bodies are JSON, .npy (application/x-npy) or safetensors (application/x-safetensors, with
tensors named after the arguments); the response has the format of the request, or the one in its
Accept header.

If the model computes each row independently of the others, waiting requests are batched together.
GET / says whether it does (rows_are_joined); --max-batch 1 turns batching off.

Status 400: the body is invalid; a line of JSON says what was expected. 413: too large. 503: the
queue is full. 504: timed out. SIGTERM and Ctrl-C finish waiting requests, then stop.
There is no encryption or authentication: put a proxy that provides them in front.
"""


def read_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse a command line; errors print usage and leave with status 2."""
    parser = argparse.ArgumentParser(
        prog="tapegrad",
        description="Train a small language model on a text and sample from it; "
        "run a script written for torch, in one process or several; inspect the tape of a script; "
        "serve a traced model.",
        epilog="`tapegrad COMMAND --help` lists the options of a command.",
    )
    parser.add_argument("--version", action="version", version=f"tapegrad {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_train(commands)
    _add_sample(commands)
    _add_torch_script(commands)
    add_launch(commands)
    _add_tape(commands)
    _add_serve(commands)
    arguments = parser.parse_args(argv)
    if arguments.command == "train":
        _check_train(commands.choices["train"], arguments)
    if arguments.command == "tape":
        _check_tape(commands.choices["tape"], arguments)
    return arguments


def given_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings given on the command line, by name; the others are left out."""
    named = {field.name: getattr(arguments, field.name, None) for field in fields(Settings)}
    return {name: value for name, value in named.items() if value is not None}


def _add_train(commands: Any) -> None:
    parser = commands.add_parser(
        "train",
        help="train a GPT on a text",
        description="Train a GPT on a text, by default in about two minutes on two cores.\n"
        "Defaults are those of the preset small.",
        epilog=_FILES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_run(parser.add_argument_group("run"))
    _add_training(parser.add_argument_group("training"))
    _add_model(parser.add_argument_group("model"))


def _add_run(run: Any) -> None:
    run.add_argument(
        "--preset",
        choices=list(PRESETS),
        help="named model and training settings; other options override them (default: small)",
    )
    run.add_argument(
        "--text", metavar="FILE", help="text to train on (default: the one in the package)"
    )
    run.add_argument("--out", metavar="RUN", help="folder for the run (default: runs/NAME-N)")
    run.add_argument("--resume", metavar="RUN", help="resume from the checkpoint of a run")
    _add_device(run, "default: cpu, or where the resumed run was")
    run.add_argument(
        "--minutes",
        type=_above_zero(float),
        help="save and stop after this many minutes (default: no limit)",
    )
    run.add_argument(
        "--quiet", action="store_true", help="print only the folder of the run and errors"
    )
    run.add_argument(
        "--tensorboard", action="store_true", help="also write event files for TensorBoard"
    )
    run.add_argument(
        "--peak-tflops",
        metavar="X",
        type=_above_zero(float),
        help="peak throughput of the device, to compute utilization (default: by its name)",
    )


def _add_training(training: Any) -> None:
    _setting(training, "steps", _above_zero(int), "gradient steps")
    _setting(training, "batch", _above_zero(int), "sequences per batch")
    _setting(
        training,
        "accumulate",
        _above_zero(int),
        "batches whose gradients are accumulated for one step",
    )
    training.add_argument(
        "--tokens-per-step",
        metavar="N",
        type=_above_zero(int),
        help="set --accumulate by the product batch * context * accumulate",
    )
    _setting(training, "lr", _above_zero(float), "peak learning rate")
    _setting(training, "last_lr", _share, "final learning rate, as a fraction of the peak")
    _setting(training, "warmup", _not_negative(int), "steps of linear warmup")
    _setting(
        training, "weight_decay", _not_negative(float), "AdamW's weight decay, on matrices only"
    )
    _setting(training, "beta1", _share, "AdamW's decay rate for the mean of gradients")
    _setting(training, "beta2", _share, "AdamW's decay rate for the mean of squared gradients")
    _setting(training, "clip", _above_zero(float), "clip the gradient norm to this value")
    training.add_argument(
        "--dtype",
        choices=["float32", "tf32", "bfloat16", "float16"],
        help="dtype of matrix products; weights stay in float32 (default: float32)",
    )
    training.add_argument(
        "--budget",
        metavar="SIZE",
        type=_budget,
        help='memory for the tape of a batch, such as "20 GiB", or a fraction of its need, such as '
        "0.4; the rest is recomputed (default: no limit)",
    )
    _setting(training, "every", _above_zero(int), "steps between evaluations and checkpoints")
    _setting(
        training, "sample_tokens", _not_negative(int), "length of the text samples; 0 disables them"
    )
    _setting(training, "seed", _not_negative(int), "seed for weights, data order and dropout")


def _add_model(model: Any) -> None:
    _setting(model, "layers", _above_zero(int), "transformer blocks")
    _setting(model, "width", _above_zero(int), "embedding dimension")
    _setting(model, "heads", _above_zero(int), "attention heads; must divide the width")
    _setting(model, "context", _above_zero(int), "context length in tokens")
    _setting(model, "dropout", _share, "dropout probability")
    model.add_argument(
        "--gelu",
        choices=["exact", "tanh"],
        help="exact GELU, or the tanh approximation of GPT-2 (default: exact)",
    )
    model.add_argument(
        "--tie",
        action=argparse.BooleanOptionalAction,
        help="tie the output matrix to the embedding (default: no)",
    )
    model.add_argument(
        "--tokens",
        choices=["characters", "bytes", "bpe"],
        help="kind of tokens (default: characters); bytes work for any file; bpe learns words and "
        "parts of words from the text",
    )
    _setting(model, "vocabulary", _vocabulary, "maximum number of bpe tokens")
    _setting(
        model,
        "pad_vocabulary",
        _above_zero(int),
        "round the number of embedding rows up to a multiple of this",
    )


def _add_sample(commands: Any) -> None:
    parser = commands.add_parser(
        "sample",
        help="sample text from a trained model",
        description="Sample text from a trained model.",
    )
    parser.add_argument(
        "run", nargs="?", metavar="RUN", help="folder of the run (default: the newest in runs/)"
    )
    parser.add_argument("--prompt", default="", help="text to continue (default: a new line)")
    parser.add_argument(
        "--tokens",
        type=_above_zero(int),
        default=500,
        help="number of tokens to generate (default: 500)",
    )
    parser.add_argument(
        "--temperature",
        type=_not_negative(float),
        default=0.8,
        help="sampling temperature; 0 always takes the likeliest token (default: 0.8)",
    )
    parser.add_argument(
        "--top-k", type=_above_zero(int), help="sample from the K likeliest tokens (default: all)"
    )
    parser.add_argument(
        "--seed", type=_not_negative(int), default=0, help="random seed (default: 0)"
    )
    _add_device(parser, "default: cpu")


def _add_device(group: Any, default: str) -> None:
    group.add_argument(
        "--device", metavar="DEVICE", help=f"device to use: cpu, cuda or cuda:N ({default})"
    )


def _add_torch_script(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="run a script written for torch",
        description="Run a script as `python SCRIPT ARGS` does, with `import torch` meaning\n"
        "tapegrad: nothing in the script or in the packages that it uses is changed.",
        epilog=_RUN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="at the end, list the names of torch that were used but are missing, and where",
    )
    parser.add_argument(
        "-m", dest="module", action="store_true", help="SCRIPT is a module name, as for python -m"
    )
    parser.add_argument("script", metavar="SCRIPT", help="the Python file to run")
    parser.add_argument(
        "arguments", metavar="ARGS", nargs=argparse.REMAINDER, help="arguments for the script"
    )


def _add_tape(commands: Any) -> None:
    parser = commands.add_parser(
        "tape",
        help="run a script and show what its last backward pass kept in memory",
        description="Run a script as `python SCRIPT ARGS` does, and write a page about the tape\n"
        "of its last backward pass: the graph, live bytes over time, and the modules, lines and\n"
        "ops that keep them.",
        epilog=_TAPE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        *("-o", "--out"), metavar="FILE", type=Path, help="the page (default: SCRIPT.tape.html)"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the tape as JSON")
    parser.add_argument("--dot", metavar="FILE", type=Path, help="also write it for Graphviz")
    parser.add_argument(
        "--perfetto", metavar="FILE", type=Path, help="also write a trace for ui.perfetto.dev"
    )
    parser.add_argument(
        "--backward",
        metavar="N",
        type=_above_zero(int),
        help="show the N-th backward pass instead of the last",
    )
    parser.add_argument("--profile", action="store_true", help="also show how long each entry took")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument("--quiet", action="store_true", help="print only the paths of the files")
    parser.add_argument("script", metavar="SCRIPT", help="the Python file to run")
    parser.add_argument(
        "arguments", metavar="ARGS", nargs=argparse.REMAINDER, help="arguments for the script"
    )


def _add_serve(commands: Any) -> None:
    parser = commands.add_parser(
        "serve",
        help="answer requests over HTTP with a traced model",
        description="Answer requests over HTTP with a traced model.",
        epilog=_SERVE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("program", metavar="PROGRAM", help="file written by torch.jit.save")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; 0.0.0.0 accepts other machines (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--port",
        type=_port,
        default=8000,
        metavar="N",
        help="port to listen on; 0 picks a free one (default: 8000)",
    )
    _add_device(parser, "default: where the file's tensors were")
    parser.add_argument(
        "--max-batch",
        metavar="ROWS",
        type=_above_zero(int),
        default=32,
        help="maximum rows in a request, and in a batch of requests (default: 32)",
    )
    parser.add_argument(
        "--batch-wait",
        metavar="MS",
        type=_not_negative(float),
        default=2.0,
        help="milliseconds to wait for more requests to batch (default: 2)",
    )
    parser.add_argument(
        "--queue",
        metavar="N",
        type=_above_zero(int),
        default=256,
        help="maximum waiting requests; further ones get status 503 (default: 256)",
    )
    parser.add_argument(
        "--connections",
        metavar="N",
        type=_above_zero(int),
        default=512,
        help="maximum simultaneous connections (default: 512)",
    )
    parser.add_argument(
        "--max-bytes",
        metavar="SIZE",
        type=_size,
        default=64 << 20,
        help='maximum size of a request body, such as "64 MiB" (default: 64 MiB)',
    )
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=_above_zero(float),
        default=30.0,
        help="seconds until a request times out (default: 30)",
    )
    parser.add_argument(
        "--read-timeout",
        metavar="S",
        type=_above_zero(float),
        default=15.0,
        help="seconds for a request to be received (default: 15)",
    )
    parser.add_argument("--quiet", action="store_true", help="print only the address and errors")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 65535, got {text!r}")
    return int(text)


def _size(text: str) -> int:
    try:
        found = parse_bytes(text, "size")
    except (ValueError, TypeError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if found < 1:
        raise argparse.ArgumentTypeError(f"expected at least a byte, got {text!r}")
    return found


def _check_tape(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    script = arguments.script
    if not Path(script).is_file():
        what = "a folder" if Path(script).is_dir() else "no such file"
        parser.error(f"SCRIPT: expected a Python file, got {script!r}: {what}")


def _setting(group: Any, name: str, kind: Callable[[str], Any], text: str) -> None:
    """Add the option of a setting; None stands for "not given", which a resumed run needs."""
    default = getattr(Settings, name)
    group.add_argument(
        f"--{name.replace('_', '-')}",
        type=kind,
        metavar="N" if isinstance(default, int) else "X",
        help=f"{text} (default: {default:g})",
    )


def _check_train(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Refuse combinations that no single option can see."""
    given = given_settings(arguments)
    text = arguments.text
    if text is not None and not Path(text).is_file():
        what = "a folder" if Path(text).is_dir() else "no such file"
        parser.error(f"--text: expected a text file, got {text!r}: {what}")
    if arguments.resume is not None:  # what else cannot change depends on the run
        named = {"--out": arguments.out, "--tokens-per-step": arguments.tokens_per_step}
        fixed = [option for option, value in named.items() if value is not None]
        if fixed:
            parser.error(
                f"{', '.join(fixed)} cannot change in a resumed run: leave out, or start a new run"
            )
        return
    settings = Settings.of(given)
    if settings.width % settings.heads:
        parser.error(
            f"--heads: expected a divisor of the width {settings.width}, got {settings.heads}"
        )
    if settings.tokens != "bpe" and arguments.vocabulary is not None:
        parser.error(f"--vocabulary: {settings.tokens} have their own; add --tokens bpe")
    if arguments.tokens_per_step is not None:
        arguments.accumulate = _parts_of_step(parser, arguments, settings)


def _parts_of_step(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace, settings: Settings
) -> int:
    """Return in how many batches a step of so many tokens is taken."""
    wanted, batch = arguments.tokens_per_step, settings.batch * settings.context
    if arguments.accumulate is not None:
        parser.error("--tokens-per-step and --accumulate say the same: leave one of them out")
    if wanted % batch:
        below = wanted // batch * batch
        near = f"{below:,} or {below + batch:,}" if below else f"{batch:,}"
        parser.error(
            f"--tokens-per-step: expected a multiple of {batch:,} (batch {settings.batch} times "
            f"context {settings.context}), got {wanted:,}; take {near}"
        )
    return int(wanted // batch)


def _above_zero(kind: type) -> Callable[[str], Any]:
    return _number(kind, lambda value: value > 0, "above 0")


def _not_negative(kind: type) -> Callable[[str], Any]:
    return _number(kind, lambda value: value >= 0, "of at least 0")


def _number(kind: type, fits: Callable[[Any], bool], words: str) -> Callable[[str], Any]:
    """Return a function that reads a number, for argparse."""
    noun = "a whole number" if kind is int else "a number"

    def read(word: str) -> Any:
        try:
            value = kind(word)
        except ValueError:
            value = math.nan
        if not abs(value) < _LIMIT[kind] or not fits(value):
            raise argparse.ArgumentTypeError(f"expected {noun} {words}, got {word!r}")
        return value

    return read


def _share(word: str) -> float:
    value: float = _number(float, lambda value: 0 <= value < 1, "of at least 0 and below 1")(word)
    return value


def _vocabulary(word: str) -> int:
    def fits(value: int) -> bool:
        return BYTES <= value <= _MOST_TOKENS

    words = f"from {BYTES}, one for each byte, to {_MOST_TOKENS:,}"
    value: int = _number(int, fits, words)(word)
    return value


def _budget(word: str) -> str:
    """Check a size or a share as `tape.budget` takes it."""
    try:
        share = float(word)
    except ValueError:
        share = None
    try:
        fits = parse_bytes(word, "budget") > 0 if share is None or share > 1 else share > 0
    except ValueError:
        fits = False
    if not fits:
        raise argparse.ArgumentTypeError(
            f'expected a size such as "20 GiB" or a share of 1 such as 0.4, got {word!r}'
        )
    return word
