"""Random programs, run in tapegrad and in PyTorch side by side and compared after every step.

A program is a list of statements, plain lines of Python such as ``v7 = torch.tanh(v3)`` or
``v3[..., 1:] = v5``, drawn by `program_writer`. Both libraries run a statement, then everything
that can be seen is compared: values, dtype, shape, strides, requires_grad, is_leaf, _version,
which variables are views of one base, gradients, what hooks saw, and whether and with which
exception the statement was refused. A program that shows a difference is shrunk, statement by
statement, and printed as source that runs. With ``--device cuda`` tapegrad runs it on the CPU and
on that device instead, and PyTorch is not needed.

Some differences are intended: sweeps that PyTorch refuses and tapegrad need not. PyTorch refuses
when any part of a saved tensor's storage was written since, tapegrad only when the bytes it needs
were; PyTorch frees writes through views and cannot sweep them twice, whether or not they saved
anything; PyTorch cannot find a saved result that was detached in place. There the gradients must be
those of the same program run leniently in PyTorch: saved tensors kept apart from later writes,
every graph retained, nothing detached in place.
"""

import argparse
import functools
import multiprocessing
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

if not __package__:  # Run as a script: the folder above this one has the packages of the tests.
    sys.path.insert(0, str(Path(__file__).parents[1]))

from library import torch

from autograd.program_comparison import Comparison
from autograd.program_machine import (
    PRELUDE,
    REASON,
    Machine,
    ends_when_refused,
    has_history,
    is_sweep,
    pytorch,
    writes,
)
from autograd.program_terms import NAME, NoFit
from autograd.program_writer import KINDS, Writer

SHORTEST, LONGEST = 10, 40
SHAPES = [(3,), (2, 3), (3, 3), (2, 3, 2), (4, 1)]
LARGEST_VALUE = 1e3
LARGEST_GRADIENT = 1e5
LARGEST_NUMEL = 200
MOST_REFUSED = 3
KEEP_REFUSED = 0.12
SECOND_ORDER = 0.7
MOST_OUTPUTS = 3


# ---- drawing programs


def literal(random, shape, dtype):
    """Return source for a tensor, with few digits so that it reads well."""
    if dtype == "bool":
        array = random.integers(0, 2, shape).astype(bool)
    elif dtype.startswith("float"):
        array = np.round(random.uniform(-2, 2, shape), 3)
    else:
        array = random.integers(-4, 5, shape)
    return f"torch.tensor({np.asarray(array).tolist()}, dtype=torch.{dtype})"


def inputs(writer):
    """Return the statements that make the inputs: shapes that broadcast, and several dtypes."""
    random = writer.random
    shape = writer.choice(SHAPES)
    wide = "float64" if writer.chance(0.8) else "float32"
    scalar = "float32" if writer.chance(0.2) else wide
    kinds = [
        (shape, wide),
        (shape[-1:], wide),
        ((), scalar),
        (shape, "int64"),
        (shape[-1:], "bool"),
        (shape, wide),
    ]
    lines = []
    for number, (size, dtype) in enumerate(kinds):
        leaf = dtype.startswith("float") and number < 5
        source = literal(random, size, dtype) + (".requires_grad_()" if leaf else "")
        lines.append(f"{writer.new()} = {source}")
    return lines


class Generator:
    """Draws a program, with a library beside it to see what each statement makes of the tensors."""

    def __init__(self, seed, without=(), library=pytorch):
        self.library = library
        self.random = np.random.default_rng(seed)
        self.without = tuple(without)
        self.lines = []
        self.refused = 0
        self.machine = Machine(self.library)
        self.writer = Writer(self.random, {})
        self.ended = False
        self.inputs = 0
        self.lost = set()

    def program(self):
        """Return the statements of the program."""
        for line in inputs(self.writer):
            self.accept(line)
            self.machine.run(line)
        self.refresh()
        length = int(self.random.integers(SHORTEST, LONGEST + 1))
        attempts = 0
        self.inputs = len(self.lines)
        while self.operations() < length and attempts < 20 * length and not self.ended:
            attempts += 1
            try:
                line, _ = self.writer.statement(self.without)
            except NoFit:
                continue
            self.offer(line)
        if not self.ended:
            self.finish()
        self.machine.clear()
        return self.lines

    def operations(self):
        """Return how many statements there are after those that make the inputs."""
        return len(self.lines) - self.inputs

    def accept(self, line):
        self.lines.append(line)

    def refresh(self):
        """Let the writer see the tensors, apart from those of which PyTorch has lost the history.

        It refuses to look at a view of which the base was written to, if it was made under no_grad
        or by an op with several outputs. Such a view is not used any more.
        """
        tensors = self.machine.tensors()
        self.lost = {name for name, value in tensors.items() if not has_history(value)}
        self.writer.values = {n: value for n, value in tensors.items() if n not in self.lost}

    def restart(self):
        """Bring the tensors back to what the accepted statements make, after one was dropped."""
        self.machine.clear()
        self.machine = Machine(self.library)
        for line in self.lines:
            self.machine.run(line)
        self.refresh()

    def offer(self, line):
        """Run a statement; accept it if it works and its values stay moderate."""
        error = self.machine.run(line)
        if error is None:
            self.refresh()
            if self.in_usual_layout(line) and self.moderate(line):
                self.accept(line)
            else:
                self.restart()
        elif self.may_stay_refused(line):
            self.accept(line)
            self.refused += 1
            self.refresh()
            self.ended = ends_when_refused(line)
        elif writes(line):
            self.restart()

    def may_stay_refused(self, line):
        """Whether to keep a refused statement: a few, and none that ends a short program."""
        if self.refused >= MOST_REFUSED or self.random.random() >= KEEP_REFUSED:
            return False
        return self.operations() + 1 >= SHORTEST or not ends_when_refused(line)

    def in_usual_layout(self, line):
        """Whether new memory is contiguous: where it is not, the libraries may choose differently.

        The choice decides whether a later reshape() is a view, so a program would fork there.
        """
        if writes(line) and not is_sweep(line):
            return True
        values = [self.writer.values[n] for n in NAME.findall(line) if n in self.writer.values]
        return all(value.is_contiguous() or value._base is not None for value in values)

    def moderate(self, line):
        """Whether all values are small and finite, so that rounding cannot grow beyond bounds."""
        values = self.writer.values
        names = values if writes(line) else [n for n in NAME.findall(line) if n in values]
        if not all(is_moderate(values[name], LARGEST_VALUE) for name in names):
            return False
        return not is_sweep(line) or all(
            is_moderate(value.grad, LARGEST_GRADIENT)
            for value in values.values()
            if (value.is_leaf or value.retains_grad) and value.grad is not None
        )

    def finish(self):
        """Add sweeps from what nothing else consumes, and sweeps of those sweeps."""
        values = self.writer.values
        text = "\n".join(line.split(" = ", 1)[-1] for line in self.lines)
        used = Counter(NAME.findall(text))
        recorded = [name for name, value in values.items() if value.requires_grad]
        leaves = [name for name in recorded if values[name].is_leaf]
        outputs = [n for n in recorded if not used[n] and not values[n].is_leaf] or recorded
        if not leaves:
            return
        inputs_of_sweep = f"[{', '.join(leaves)}]"
        for output in outputs[-MOST_OUTPUTS:]:
            twice = self.writer.higher_order and self.random.random() < SECOND_ORDER
            result = f"g{self.writer.new()[1:]}"
            option = "create_graph=True" if twice else "retain_graph=True"
            line = (
                f"{result} = torch.autograd.grad(torch.tanh({output} * 0.1).sum(), "
                f"{inputs_of_sweep}, allow_unused=True, {option})"
            )
            found = self.offer_sweep(line, result)
            if twice and any(g is not None for g in found):
                again = f"g{self.writer.new()[1:]}"
                squares = f"sum((g * g).sum() for g in {result} if g is not None)"
                self.offer_sweep(
                    f"{again} = torch.autograd.grad({squares} + {leaves[0]}.sum() * 0, "
                    f"{inputs_of_sweep}, materialize_grads=True, retain_graph=True)",
                    again,
                )
        self.offer(f"torch.sin({outputs[-1]}).sum().backward()")

    def offer_sweep(self, line, result):
        """Add a sweep unless its gradients are out of bounds; return them."""
        error = self.machine.run(line)
        found = () if error else self.machine.variables[result]
        if all(g is None or is_moderate(g, LARGEST_GRADIENT) for g in found):
            self.accept(line)
            return found
        del self.machine.variables[result]
        return ()


def is_moderate(value, largest):
    if not 0 < value.numel() <= LARGEST_NUMEL or value.is_complex():
        return False
    array = value.numpy(force=True)
    return bool(np.isfinite(array).all()) and float(np.abs(array.astype(float)).max()) <= largest


def generate(seed, without=(), library=pytorch):
    """Return the statements of a program; the same seed gives the same program."""
    return Generator(seed, without, library).program()


# ---- shrinking and reporting


def shrink(lines, device=None):
    """Remove statements, from the end, as long as the program still shows a difference."""
    lines = lines[: Comparison(lines, device).run().step + 1]
    removed = True
    while removed:
        removed = False
        for number in reversed(range(len(lines))):
            shorter = lines[:number] + lines[number + 1 :]
            if still_differs(shorter, device):
                lines, removed = shorter, True
    return lines


def still_differs(lines, device):
    """Whether a shortened program shows a difference that is not only a missing variable."""
    try:
        return Comparison(lines, device).run().mismatch is not None
    except NameError:
        return False


def source(lines):
    """Return a program as a script."""
    hooks = ["log = []"] if any("log" in line for line in lines) else []
    helped = any("apart(" in line or "AddInPlace" in line for line in lines)
    return "\n".join(["import tapegrad as torch", *[PRELUDE] * helped, *hooks, *lines])


def check(seed, without=(), device=None):
    """Run the program of a seed; return its outcome and, on a difference, a report."""
    lines = generate(seed, without, torch if device else pytorch)
    outcome = Comparison(lines, device).run()
    if outcome.mismatch is None:
        return outcome, None
    smallest = shrink(lines, device)
    mismatch = Comparison(smallest, device).run().mismatch
    return outcome, f"seed {seed}: {mismatch}\n\n{source(smallest)}\n"


# ---- the command

HELP_AFTER = """
what it prints
  A progress line, then for the first program that differs (or, with --all, for each one) the seed,
  the difference, and the shortest program that still shows it. Run that text with
  "import tapegrad as torch" and again with "import torch" to see both answers.

examples
  python tests/autograd/random_programs.py                          1,000 programs
  python tests/autograd/random_programs.py --count 5000 --seed 7    5,000 more, seeds 7 to 5006
  python tests/autograd/random_programs.py --count 100000 --jobs 2  many, in two processes
  python tests/autograd/random_programs.py --seed 42 --show         one program as source, not run
  python tests/autograd/random_programs.py --without hook sweep     leave kinds of statements out
  python tests/autograd/random_programs.py --device cuda            on a GPU, beside the CPU
"""


def read_arguments():
    parser = argparse.ArgumentParser(
        description="Draw random programs, run each in tapegrad and in PyTorch, and compare "
        "everything that can be seen after every statement.",
        epilog=HELP_AFTER,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=1000, help="programs to run (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first one (default 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes to use (default 1)")
    parser.add_argument("--all", action="store_true", help="go on after the first difference")
    parser.add_argument("--show", action="store_true", help="print the program of --seed and stop")
    parser.add_argument(
        "--without",
        nargs="+",
        default=[],
        choices=sorted(KINDS),
        metavar="KIND",
        help=f"leave out kinds of statements: {', '.join(sorted(KINDS))}",
    )
    parser.add_argument("--device", help="run on that device and on the CPU, without PyTorch")
    arguments = parser.parse_args()
    for name in ("count", "jobs"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name}: expected at least 1, got {getattr(arguments, name)}")
    return arguments


def prepare():
    """Set a process up for programs: PyTorch on one thread and without its warnings."""
    if pytorch is not None:
        pytorch.set_num_threads(1)
    warnings.simplefilter("ignore")


def outcomes(arguments):
    """Yield the outcome and report of every program, as they are found."""
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    run = functools.partial(check, without=tuple(arguments.without), device=arguments.device)
    if arguments.jobs == 1:
        yield from map(run, seeds)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(arguments.jobs, initializer=prepare) as pool:
        yield from pool.imap_unordered(run, seeds, chunksize=25)


def main():
    """Run programs, show progress and differences; return 1 if there was a difference."""
    arguments = read_arguments()
    if pytorch is None and not arguments.device:
        print(REASON, file=sys.stderr)
        return 2
    prepare()
    if arguments.show:
        library = torch if arguments.device else pytorch
        print(source(generate(arguments.seed, arguments.without, library)))
        return 0
    totals, failures, done, start = Counter(), 0, 0, time.perf_counter()
    live = sys.stderr.isatty()
    for outcome, report in outcomes(arguments):
        done += 1
        totals.update(
            excused=int(outcome.excused),
            measured=int(outcome.measured),
            unverified=int(outcome.unverified),
            unsteady=int(outcome.unsteady),
            refused=outcome.refused,
            sweeps=outcome.sweeps,
        )
        if report:
            failures += 1
            print(f"{chr(13) if live else ''}{report}", flush=True)
            if not arguments.all:
                break
        if live and done % 10 == 0:
            seconds = time.perf_counter() - start
            text = f"{done}/{arguments.count} programs, {failures} differ, {seconds:.0f} s"
            print(f"\r{text}", end="", file=sys.stderr, flush=True)
    if live:
        print(file=sys.stderr)
    seconds = time.perf_counter() - start
    print(
        f"{done} programs in {seconds:.1f} s, {done / seconds:.0f} a second: {failures} differ; "
        f"{totals['sweeps']} sweeps agree, {totals['refused']} statements refused by both, "
        f"{totals['excused']} stale values that only PyTorch refuses with equal gradients, "
        f"{totals['measured']} with those of finite differences, "
        f"{totals['unverified']} not verified, "
        f"{totals['unsteady']} differ as PyTorch does when its inputs are rounded otherwise"
    )
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
