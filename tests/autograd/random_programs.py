"""Random programs, run in tapegrad and in PyTorch side by side and compared after every step.

A program is a list of statements, plain lines of Python such as ``v7 = torch.tanh(v3)`` or
``v3[..., 1:] = v5``, drawn by `program_writer`. Both libraries run a statement, then everything
that can be seen is compared: values, dtype, shape, strides, requires_grad, is_leaf, _version,
which variables are views of one base, gradients, what hooks saw, and whether and with which
exception the statement was refused. A program that shows a difference is shrunk, statement by
statement, and printed as source that runs.

Some differences are intended: sweeps that PyTorch refuses and tapegrad need not. PyTorch refuses
when any part of a saved tensor's storage was written since, tapegrad only when the bytes it needs
were; PyTorch frees writes through views and cannot sweep them twice, whether or not they saved
anything; PyTorch cannot find a saved result that was detached in place. There the gradients must be
those of the same program run leniently in PyTorch: saved tensors kept apart from later writes,
every graph retained, nothing detached in place.
"""

import argparse
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

if __package__:
    from .program_writer import KINDS, NAME, NoFit, Writer
else:  # Run as a script: the folder of this file is on the path, its parent must be too.
    sys.path.append(str(Path(__file__).parents[1]))
    from program_writer import KINDS, NAME, NoFit, Writer

from library import pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()

SHORTEST, LONGEST = 10, 40
SHAPES = [(3,), (2, 3), (3, 3), (2, 3, 2), (4, 1)]
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, AttributeError)
LARGEST_VALUE = 1e3
LARGEST_GRADIENT = 1e5
LARGEST_NUMEL = 200
MOST_REFUSED = 3
KEEP_REFUSED = 0.12
SECOND_ORDER = 0.7
MOST_OUTPUTS = 3
NOTHING = 1e-6
RELATIVE = {"double": 1e-7, "single": 5e-3}
EXCUSES = (
    "modified by an inplace operation",
    "backward through the graph a second time",
    "has been detached in-place",
)


@dataclass
class Machine:
    """A library and the variables that statements run in it have made.

    It is alone with them: a statement may use ``torch``, ``log`` and earlier variables.
    """

    library: object
    variables: dict = field(default_factory=dict)

    def __post_init__(self):
        self.variables |= {"torch": self.library, "log": []}

    def run(self, line):
        """Run one statement; return the exception that it raised, or None."""
        try:
            exec(compiled(line), self.variables)
        except REFUSALS as error:
            error.__traceback__ = None
            return error
        return None

    def tensors(self):
        kind = self.library.Tensor
        return {
            name: value
            for name, value in self.variables.items()
            if name[0] == "v" and isinstance(value, kind)
        }


_COMPILED = {}


def compiled(line):
    code = _COMPILED.get(line)
    if code is None:
        if len(_COMPILED) > 1000:
            _COMPILED.clear()
        code = _COMPILED[line] = compile(line, "<program>", "exec")
    return code


def is_sweep(line):
    return ".backward(" in line or "autograd.grad(" in line


def ends_when_refused(line):
    """Whether a refused statement leaves gradients and buffers behind that are nobody's promise."""
    return ".backward(" in line or (is_sweep(line) and "retain_graph=True" not in line)


def writes(line):
    """Whether a statement may change tensors other than those it names on its left."""
    if line.startswith("with torch.no_grad(): "):
        line = line.removeprefix("with torch.no_grad(): ")
    return not re.match(r"(?:[vg]\d+,? ?)+= ", line) or is_sweep(line)


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
    """Draws a program, with PyTorch beside it to see what each statement makes of the tensors."""

    def __init__(self, seed, without=()):
        self.random = np.random.default_rng(seed)
        self.without = without
        self.lines = []
        self.refused = 0
        self.machine = Machine(pytorch)
        self.writer = Writer(self.random, {})
        self.ended = False
        self.inputs = 0

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
        return self.lines

    def operations(self):
        """Return how many statements there are after those that make the inputs."""
        return len(self.lines) - self.inputs

    def accept(self, line):
        self.lines.append(line)

    def refresh(self):
        self.writer.values = self.machine.tensors()

    def restart(self):
        """Bring the tensors back to what the accepted statements make, after one was dropped."""
        self.machine = Machine(pytorch)
        for line in self.lines:
            self.machine.run(line)
        self.refresh()

    def offer(self, line):
        """Run a statement; accept it if it works and its values stay moderate."""
        error = self.machine.run(line)
        if error is None:
            self.refresh()
            if self.readable(line) and self.in_usual_layout(line) and self.moderate(line):
                self.accept(line)
            else:
                self.restart()
        elif self.may_stay_refused(line):
            self.accept(line)
            self.refused += 1
            self.ended = ends_when_refused(line)
        elif writes(line):
            self.restart()

    def may_stay_refused(self, line):
        """Whether to keep a refused statement: a few, and none that ends a short program."""
        if self.refused >= MOST_REFUSED or self.random.random() >= KEEP_REFUSED:
            return False
        return self.operations() + 1 >= SHORTEST or not ends_when_refused(line)

    def readable(self, line):
        """Whether every tensor can still say what it is.

        PyTorch forgets the history of a view made under no_grad whose base is then written to, and
        refuses to look at it at all.
        """
        try:
            return not writes(line) or all(v.is_leaf in (0, 1) for v in self.writer.values.values())
        except RuntimeError:
            return False

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


def generate(seed, without=()):
    """Return the statements of a program; the same seed gives the same program."""
    return Generator(seed, without).program()


# ---- comparing


@dataclass
class Outcome:
    """What became of a program.

    Attributes:
        mismatch: the first difference in words, or None.
        step: the number of the statement that showed it.
        excused: whether it ended where PyTorch alone refused a stale value, with equal gradients.
        unverified: whether it ended there, and PyTorch could not give the gradients otherwise.
        refused: how many statements both libraries refused.
        sweeps: how many sweeps both libraries ran.
    """

    mismatch: str | None = None
    step: int = 0
    excused: bool = False
    unverified: bool = False
    refused: int = 0
    sweeps: int = 0


class Comparison:
    """Two machines in step, and which variables float32 went into."""

    def __init__(self, lines):
        self.lines = lines
        self.ours, self.theirs = Machine(torch), Machine(pytorch)
        self.rough = set()
        self.rough_grads = False
        self.outcome = Outcome()

    def run(self):
        """Run the program until it ends or shows a difference; return the outcome."""
        for step, line in enumerate(self.lines):
            self.outcome.step = step
            their_error, our_error = self.theirs.run(line), self.ours.run(line)
            if their_error is None and our_error is None:
                self.outcome.sweeps += is_sweep(line)
                try:
                    problem = self.differences(line)
                except RuntimeError as error:  # PyTorch looked at every tensor while generating.
                    problem = f"looking at a tensor gives {shown(error)} here"
            elif their_error is None or our_error is None:
                if our_error is None and any(excuse in str(their_error) for excuse in EXCUSES):
                    self.compare_leniently(step)
                    return self.outcome
                problem = f"{shown(our_error)} here, {shown(their_error)} in PyTorch"
            elif type(our_error).__name__ != type(their_error).__name__:
                problem = f"{shown(our_error)} here, {shown(their_error)} in PyTorch"
            elif type(our_error) is AttributeError or isinstance(our_error, NameError):
                problem = f"{shown(our_error)} here and in PyTorch: not a program"
            else:
                self.outcome.refused += 1
                if ends_when_refused(line):
                    return self.outcome
                problem = self.flag_differences()
            if problem:
                self.outcome.mismatch = problem
                return self.outcome
        return self.outcome

    def differences(self, line):
        self.spread_roughness(line)
        names = self.theirs.variables if writes(line) else NAME.findall(line)
        for name in names:
            if not NAME.fullmatch(name) or name not in self.theirs.variables:
                continue
            mine, other = self.ours.variables[name], self.theirs.variables[name]
            problem = compare(mine, other, rough=name in self.rough)
            if problem:
                return f"{name}: {problem}"
        return (
            self.flag_differences()
            or (is_sweep(line) and self.gradient_differences())
            or self.log_differences()
        )

    def log_differences(self):
        """Compare what hooks saw, apart from zeros: whether those are passed on is no promise.

        A gradient that cancels is zero in one library and the last bit of something in the other.
        """
        mine, other = (
            [grad for grad in machine.variables["log"] if bool((grad.abs() > NOTHING).any())]
            for machine in (self.ours, self.theirs)
        )
        problem = compare(mine, other, rough=bool(self.rough))
        return f"seen by hooks: {problem}" if problem else None

    def flag_differences(self):
        ours, theirs = self.ours.tensors(), self.theirs.tensors()
        our_families, their_families = {}, {}
        for name, other in theirs.items():
            mine = flags(name, ours[name], our_families)
            wanted = flags(name, other, their_families)
            if mine != wanted:
                pairs = [
                    f"{flag} is {a} here, {b} in PyTorch"
                    for flag, a, b in zip(FLAGS, mine, wanted, strict=True)
                    if a != b
                ]
                return f"{name}: {'; '.join(pairs)}"
        return None

    def gradient_differences(self):
        for name, other in self.theirs.tensors().items():
            if other.is_leaf or other.retains_grad:
                rough = self.rough_grads
                problem = compare(self.ours.variables[name].grad, other.grad, rough=rough)
                if problem:
                    return f"{name}.grad: {problem}"
        return None

    def spread_roughness(self, line):
        """Mark what a statement made of float32: float64 results of that are rough as well."""
        tensors = self.theirs.tensors()
        named = [name for name in NAME.findall(line) if name in self.theirs.variables]
        single = "float32" in line or any(
            name in self.rough or (name in tensors and tensors[name].dtype == pytorch.float32)
            for name in named
        )
        if not single:
            return
        self.rough_grads |= is_sweep(line)
        memory = {tensors[name].untyped_storage().data_ptr() for name in named if name in tensors}
        self.rough |= set(named)
        self.rough |= {n for n, t in tensors.items() if t.untyped_storage().data_ptr() in memory}

    def compare_leniently(self, step):
        """Compare a sweep that only PyTorch refuses with PyTorch's answer to a lenient program."""
        line = lenient(self.lines[step])
        with pytorch.autograd.graph.allow_mutation_on_saved_tensors():
            machine = Machine(pytorch)
            for earlier in self.lines[:step]:
                machine.run(lenient(earlier))
            if machine.run(line) is not None:
                self.outcome.unverified = True
                return
            self.theirs = machine
            self.spread_roughness(line)
            result = NAME.match(line)
            problem = result and compare(
                self.ours.variables[result.group()],
                machine.variables[result.group()],
                rough=result.group() in self.rough,
            )
            problem = problem or self.gradient_differences()
        if problem:
            self.outcome.mismatch = f"a sweep that PyTorch refuses, run leniently there: {problem}"
        self.outcome.excused = not problem


def lenient(line):
    """Return a statement with every graph retained and nothing detached in place."""
    line = re.sub(r"(v\d+)\.detach_\(\)", r"\1 = \1.detach()", line)
    if is_sweep(line) and "_graph=True" not in line:
        line = line.replace(".backward()", ".backward(retain_graph=True)")
        line = line.replace("allow_unused=True, )", "allow_unused=True, retain_graph=True)")
    return line


FLAGS = ("dtype", "shape", "stride", "requires_grad", "is_leaf", "_version", "base")


def flags(name, tensor, families):
    """Return what can be seen of a tensor besides its values.

    Instead of its base it gives the first variable with the same base, so that it makes no
    difference whether an op returns a view of a tensor that nobody can name.
    """
    shape = tuple(tensor.shape)
    stride = tensor.stride() if tensor.numel() else ()
    base = tensor._base
    return (
        str(tensor.dtype),
        shape,
        # The stride of a dimension of size 1 moves nothing, and is nobody's promise.
        tuple(step for step, size in zip(stride, shape, strict=False) if size != 1),
        tensor.requires_grad,
        tensor.is_leaf,
        tensor._version,
        families.setdefault(id(tensor if base is None else base), name),
    )


def shown(error):
    return "nothing is refused" if error is None else f"{type(error).__name__}({str(error)[:300]})"


def compare(mine, other, *, rough):
    """Return what differs between two values; ``rough`` ones have float32's precision."""
    if isinstance(other, (tuple, list)):
        if len(mine) != len(other):
            return f"{len(mine)} values here, {len(other)} in PyTorch"
        problems = (compare(a, b, rough=rough) for a, b in zip(mine, other, strict=True))
        return next((problem for problem in problems if problem), None)
    if mine is None or other is None:
        return None if mine is other else f"{mine} here, {other} in PyTorch"
    if not isinstance(other, pytorch.Tensor):
        return None
    if str(mine.dtype) != str(other.dtype) or tuple(mine.shape) != tuple(other.shape):
        return (
            f"{mine.dtype} {tuple(mine.shape)} here, {other.dtype} {tuple(other.shape)} in PyTorch"
        )
    a, b = mine.detach().clone().numpy(), other.numpy(force=True)
    if np.array_equal(a, b):
        return None
    if b.dtype.kind == "f":
        relative = RELATIVE["single" if rough or b.dtype == np.float32 else "double"]
        scale = np.abs(b[np.isfinite(b)]).max(initial=1.0)
        if np.allclose(a, b, rtol=relative, atol=relative * scale, equal_nan=True):
            return None
    return f"{a.reshape(-1)[:6].tolist()} here, {b.reshape(-1)[:6].tolist()} in PyTorch"


# ---- shrinking and reporting


def shrink(lines):
    """Remove statements, from the end, as long as the program still shows a difference."""
    lines = lines[: Comparison(lines).run().step + 1]
    removed = True
    while removed:
        removed = False
        for number in reversed(range(len(lines))):
            shorter = lines[:number] + lines[number + 1 :]
            if still_differs(shorter):
                lines, removed = shorter, True
    return lines


def still_differs(lines):
    """Whether a shortened program shows a difference that is not only a missing variable."""
    try:
        return Comparison(lines).run().mismatch is not None
    except NameError:
        return False


def source(lines):
    """Return a program as a script."""
    hooks = ["log = []"] if any("log" in line for line in lines) else []
    return "\n".join(["import tapegrad as torch", *hooks, *lines])


def check(seed, without=()):
    """Run the program of a seed; return its outcome and, on a difference, a report."""
    lines = generate(seed, without)
    outcome = Comparison(lines).run()
    if outcome.mismatch is None:
        return outcome, None
    smallest = shrink(lines)
    mismatch = Comparison(smallest).run().mismatch
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
  python tests/autograd/random_programs.py --seed 42 --show         one program as source, not run
  python tests/autograd/random_programs.py --without hook sweep     leave kinds of statements out
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
    arguments = parser.parse_args()
    if arguments.count < 1:
        parser.error(f"--count: expected at least 1, got {arguments.count}")
    return arguments


def main():
    """Run programs, show progress and differences; return 1 if there was a difference."""
    arguments = read_arguments()
    if pytorch is None:
        print(REASON, file=sys.stderr)
        return 2
    pytorch.set_num_threads(1)
    if arguments.show:
        print(source(generate(arguments.seed, arguments.without)))
        return 0
    totals, failures, start = Counter(), 0, time.perf_counter()
    live = sys.stderr.isatty()
    for number in range(arguments.count):
        outcome, report = check(arguments.seed + number, arguments.without)
        totals.update(
            excused=outcome.excused,
            unverified=outcome.unverified,
            refused=outcome.refused,
            sweeps=outcome.sweeps,
        )
        done = number + 1
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
    print(
        f"{done} programs in {time.perf_counter() - start:.1f} s: {failures} differ; "
        f"{totals['sweeps']} sweeps agree, {totals['refused']} statements refused by both, "
        f"{totals['excused']} stale values that only PyTorch refuses with equal gradients, "
        f"{totals['unverified']} not verified"
    )
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
