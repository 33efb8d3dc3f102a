"""Random programs: 5 to 30 ops over the public API, run here and in PyTorch, compared throughout.

A program is a list of Python statements (``v7 = torch.tanh(v3)``). PyTorch runs each statement as
it is drawn: what it refuses is dropped, or, now and then, kept as the last statement, which must
be refused here too. Guards keep values moderate and away from jumps, where a difference in the
last bit would be magnified. A failing program is shrunk and printed as source that runs.

``python tests/test_random_programs.py --count 10000 --seed 1`` runs more of them.
"""

import argparse
import re
import sys
from dataclasses import dataclass, field

import dtypes as dt
import numpy as np
import pytest
from library import NAME, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
if pytorch is None and __name__ != "__main__":
    pytest.skip(REASON, allow_module_level=True)

PROGRAMS_IN_SUITE = 200
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError)
LARGEST_VALUE = 1e3
LARGEST_NUMEL = 400
MARGIN = 1e-3
KEEP_REFUSED = 0.05
SECOND_ORDER = 0.3
VARIABLE = r"\b(?:[vgh]\d+|loss|again)\b"

RELATIVE = {"float64": 1e-7, "float32": 5e-3}

FLOAT_UNARY = [
    "sin",
    "cos",
    "tan",
    "tanh",
    "sigmoid",
    "exp",
    "expm1",
    "atan",
    "asinh",
    "erf",
    "square",
    "neg",
    "sinh",
    "cosh",
    "exp2",
    "sinc",
    "log1p",
    "sqrt",
    "rsqrt",
    "log",
    "reciprocal",
    "lgamma",
    "abs",
    "relu",
    "frac",
    "floor",
    "round",
    "sign",
]
ACTIVATIONS = [
    "silu",
    "gelu",
    "softplus",
    "elu",
    "selu",
    "mish",
    "leaky_relu",
    "hardtanh",
    "softsign",
    "logsigmoid",
]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "atan2",
    "hypot",
    "maximum",
    "minimum",
    "logaddexp",
    "fmod",
    "remainder",
]
JUMPS = {
    "floor",
    "round",
    "frac",
    "sign",
    "fmod",
    "remainder",
    "reciprocal",
    "rsqrt",
    "sqrt",
    "log",
}
INTEGER_BINARY = [
    "add",
    "sub",
    "mul",
    "maximum",
    "minimum",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
]
COMPARISONS = ["lt", "le", "gt", "ge"]


@dataclass
class Program:
    """Statements, and what PyTorch made of them.

    Attributes:
        lines: the statements; the first ones make the inputs.
        values: PyTorch's value of every variable.
        leaves: names of the variables that require a gradient.
        refused: whether the last statement is one that PyTorch refuses.
    """

    lines: list = field(default_factory=list)
    values: dict = field(default_factory=dict)
    leaves: list = field(default_factory=list)
    refused: bool = False

    def source(self):
        return "\n".join([f"import {NAME} as torch", *self.lines])


def literal(random, shape, dtype):
    """Return source for a tensor of a dtype, with few digits so that it reads well."""
    if dtype == "bool":
        array = random.integers(0, 2, shape).astype(bool)
    elif dt.is_float(dtype):
        array = np.round(random.uniform(-2, 2, shape), 3)
    else:
        array = random.integers(0 if dtype == "uint8" else -4, 5, shape)
    return f"torch.tensor({np.asarray(array).tolist()}, dtype=torch.{dtype})"


class Writer:
    """Draws statements that fit the variables a program has so far."""

    def __init__(self, random, program):
        self.random = random
        self.program = program

    def pick(self, test=lambda value: True):
        """Return the name of a random variable that passes a test, later ones more often."""
        names = [name for name, value in self.program.values.items() if test(value)]
        if not names:
            raise LookupError("no variable fits")
        weights = np.arange(1, len(names) + 1, dtype=float)
        return str(self.random.choice(names, p=weights / weights.sum()))

    def choice(self, items):
        return items[int(self.random.integers(len(items)))]

    def floating(self):
        return self.pick(lambda value: value.is_floating_point())

    def dim(self, name):
        rank = self.program.values[name].dim()
        return int(self.random.integers(-rank, rank)) if rank else 0

    def unary(self):
        name = self.floating()
        if self.random.random() < 0.3:
            return f"torch.nn.functional.{self.choice(ACTIVATIONS)}({name})"
        return f"torch.{self.choice(FLOAT_UNARY)}({name})"

    def binary(self):
        if self.random.random() < 0.2:
            first = self.pick(lambda value: not value.is_floating_point())
            return f"torch.{self.choice(INTEGER_BINARY)}({first}, {self.pick()})"
        if self.random.random() < 0.3:
            number = self.choice([2, 0.5, -1.5, 3])
            operator = self.choice(["+", "-", "*", "/"])
            name = self.pick()
            flipped = self.random.random() < 0.5
            return f"{number} {operator} {name}" if flipped else f"{name} {operator} {number}"
        return f"torch.{self.choice(BINARY)}({self.floating()}, {self.pick()})"

    def ternary(self):
        a, b, c = self.floating(), self.pick(), self.floating()
        return self.choice(
            [
                f"torch.where({a} > {b}, {a}, {c})",
                f"torch.lerp({a}, {c}, 0.25)",
                f"torch.addcmul({a}, {c}, {a}, value=0.5)",
                f"torch.clamp({a}, -0.75, 0.8)",
                f"{a}.masked_fill({b} > 0.1, 0.5)",
            ]
        )

    def compare(self):
        return f"torch.{self.choice(COMPARISONS)}({self.pick()}, {self.pick()})"

    def reduce(self):
        name = self.pick()
        dim, keep = self.dim(name), bool(self.random.integers(2))
        return self.choice(
            [
                f"{name}.sum()",
                f"{name}.sum(dim={dim}, keepdim={keep})",
                f"{name}.mean(dim={dim}, keepdim={keep})",
                f"{name}.amax(dim={dim}, keepdim={keep})",
                f"{name}.max(dim={dim}).values",
                f"torch.logsumexp({name}, dim={dim}, keepdim={keep})",
                f"torch.softmax({name}, dim={dim})",
                f"torch.log_softmax({name}, dim={dim})",
                f"torch.cumsum({name}, dim={dim})",
                f"torch.var({name}, dim={dim}, correction=0)",
                f"{name}.prod(dim={dim})",
                f"{name}.norm()",
            ]
        )

    def reshape(self):
        name = self.pick()
        value = self.program.values[name]
        first, second = self.dim(name), self.dim(name)
        order = self.random.permutation(value.dim()).tolist()
        size = value.shape[first] if value.dim() else 1
        start = int(self.random.integers(max(size, 1)))
        return self.choice(
            [
                f"{name}.transpose({first}, {second})",
                f"{name}.permute({order})",
                f"{name}.reshape(-1)",
                f"{name}.unsqueeze({self.choice([0, -1])})",
                f"{name}.squeeze()",
                f"{name}.flatten()",
                f"{name}.expand(2, {', '.join(['-1'] * value.dim())})",
                f"{name}.narrow({first}, {start}, {size - start})",
                f"{name}.select({first}, {start})",
                f"{name}[..., ::2]",
                f"{name}[{start}:]",
                f"{name}[None, ...]",
                f"torch.flip({name}, ({first},))",
                f"torch.roll({name}, {start}, {first})",
                f"{name}.repeat(2, {', '.join(['1'] * value.dim())})",
                f"{name}.unbind({first})[0]",
                f"{name}.chunk(2, {first})[-1]",
                f"{name}.contiguous()",
            ]
        )

    def join(self):
        name = self.pick()
        shape = tuple(self.program.values[name].shape)
        other = self.pick(lambda value: tuple(value.shape) == shape)
        function = self.choice(["cat", "stack"])
        return f"torch.{function}([{name}, {other}], dim={self.dim(name)})"

    def index(self):
        name = self.pick(lambda value: value.dim() > 0)
        dim = self.dim(name)
        size = self.program.values[name].shape[dim]
        places = self.random.integers(0, max(size, 1), 3).tolist()
        rows = self.random.integers(0, max(self.program.values[name].shape[0], 1), 2).tolist()
        return self.choice(
            [
                f"torch.index_select({name}, {dim}, torch.tensor({places}))",
                f"{name}[torch.tensor({rows})]",
                f"{name}[{name} > 0.05]",
                f"torch.sort({name}, dim={dim}).values",
                f"torch.take({name}, torch.tensor({rows}))",
            ]
        )

    def matmul(self):
        name = self.floating()
        other = self.floating()
        return self.choice(
            [
                f"torch.matmul({name}, {other})",
                f"torch.matmul({name}, {name}.transpose(-1, -2))",
                f"torch.einsum('...i,...i->...', {name}, {other})",
                f"torch.outer({name}.reshape(-1), {other}.reshape(-1))",
            ]
        )

    def convert(self):
        name = self.pick()
        return self.choice(
            [
                f"{name}.to(torch.float64)",
                f"{name}.to(torch.float32)",
                f"{name}.detach()",
                f"{name}.clone()",
                f"({name} > 0.05).to(torch.int64)",
            ]
        )

    def statement(self):
        """Return the right-hand side of a new statement."""
        kinds = [
            (self.unary, 6),
            (self.binary, 6),
            (self.ternary, 2),
            (self.reduce, 3),
            (self.reshape, 5),
            (self.join, 1),
            (self.index, 1),
            (self.matmul, 1),
            (self.convert, 1),
            (self.compare, 0.5),
        ]
        weights = np.array([weight for _, weight in kinds], dtype=float)
        index = int(self.random.choice(len(kinds), p=weights / weights.sum()))
        return kinds[index][0]()


def moderate(value):
    """Whether a value is small, finite and not empty, so that the program stays comparable."""
    if not 0 < value.numel() <= LARGEST_NUMEL or dt.name_of(value.dtype) not in (
        *RELATIVE,
        *dt.INTEGRAL,
    ):
        return False
    wide = value.detach().to(pytorch.float64)
    return bool(pytorch.isfinite(wide).all()) and float(wide.abs().max()) <= LARGEST_VALUE


def far_from_jumps(expression, values):
    """Whether the operands of an expression keep a margin from where it jumps or has a kink."""
    names = re.findall(r"v\d+", expression)
    operands = [values[name].detach().to(pytorch.float64) for name in dict.fromkeys(names)]
    function = expression.removeprefix("torch.").split("(")[0]
    if function in ("fmod", "remainder") and len(operands) == 2:
        try:
            quotient = operands[0] / operands[1]
        except RuntimeError:
            return True
        return bool(((quotient - quotient.round()).abs() > MARGIN).all())
    if function in JUMPS or "relu" in function or function in ("abs", "div"):
        halves = operands[-1] * 2
        return bool(((halves - halves.round()).abs() > MARGIN).all())
    if function in ("maximum", "minimum", *COMPARISONS, "where", "clamp") or ">" in expression:
        flat = pytorch.cat([operand.reshape(-1) for operand in operands])
        levels = pytorch.tensor([0.0, 0.05, 0.1, -0.75, 0.8], dtype=pytorch.float64)
        return well_spaced(pytorch.cat([flat, levels]))
    if any(word in expression for word in (".amax", ".max(", "sort", "hardtanh", "norm")):
        return well_spaced(operands[0].reshape(-1))
    return True


def differentiable_twice(value, program):
    """Whether PyTorch can sweep the value, and sweep again, as the end of the program will."""
    if not value.requires_grad:
        return True
    leaves = [program.values[name] for name in program.leaves]
    try:
        output = value.to(pytorch.float64).tanh().sum()
        grads = pytorch.autograd.grad(output, leaves, create_graph=True, allow_unused=True)
        squares = [(g.to(pytorch.float64) ** 2).sum() for g in grads if differentiable(g)]
        if squares:
            pytorch.autograd.grad(sum(squares), leaves, retain_graph=True, allow_unused=True)
    except RuntimeError:
        return False
    return True


def well_spaced(flat):
    """Whether no two elements are close to equal."""
    ordered = flat.sort().values
    return bool((ordered.diff() > MARGIN).all())


def evaluate(expression, values, library):
    return eval(expression, {"torch": library}, dict(values))


def generate(seed):
    """Draw a program; the same seed gives the same program."""
    random = np.random.default_rng(seed)
    program = Program()
    writer = Writer(random, program)
    shape = writer.choice([(3,), (2, 3), (3, 3), (2, 3, 2)])
    start_inputs(program, random, shape)
    length = int(random.integers(5, 31)) + len(program.lines)
    attempts = 0
    while len(program.lines) < length and attempts < 40 * length:
        attempts += 1
        try:
            expression = writer.statement()
        except LookupError:
            continue
        name = f"v{len(program.lines)}"
        try:
            value = evaluate(expression, program.values, pytorch)
        except REFUSALS:
            if random.random() < KEEP_REFUSED:
                program.lines.append(f"{name} = {expression}")
                program.refused = True
                return program
            continue
        usable = moderate(value) and far_from_jumps(expression, program.values)
        if usable and differentiable_twice(value, program):
            program.lines.append(f"{name} = {expression}")
            program.values[name] = value
    finish(program, second_order=random.random() < SECOND_ORDER)
    return program


def start_inputs(program, random, shape):
    """Add the inputs: shapes that broadcast, several dtypes, the floating ones with gradients."""
    wide = "float64" if random.random() < 0.8 else "float32"
    scalar = "float32" if random.random() < 0.3 else wide
    inputs = [
        (shape, wide),
        (shape[-1:], wide),
        ((), scalar),
        (shape, "int64"),
        (shape[-1:], "bool"),
    ]
    for number, (size, dtype) in enumerate(inputs):
        name = f"v{number}"
        source = literal(random, size, dtype)
        if dt.is_float(dtype):
            source = f"{source}.requires_grad_()"
            program.leaves.append(name)
        program.lines.append(f"{name} = {source}")
        program.values[name] = evaluate(source, {}, pytorch)


def finish(program, *, second_order):
    """Add the loss and the sweeps, one term and one leaf per line, so that each can be dropped."""
    text = "\n".join(line.split(" = ", 1)[1] for line in program.lines)
    used = set(re.findall(r"\bv\d+\b", text))
    recorded = [name for name, value in program.values.items() if value.requires_grad]
    # Everything that nothing else consumes, so that every recorded statement reaches the loss.
    outputs = [name for name in recorded if name not in used] or recorded[-1:]
    append(program, "loss", "torch.zeros((), dtype=torch.float64)")
    for name in outputs:
        append(program, "loss", f"loss + torch.tanh({name}.to(torch.float64) * 0.1).sum()")
    first = sweep(program, "loss", "g", "create_graph=True")
    again = [name for name in first if differentiable(program.values[name])]
    if not second_order or not again:
        return
    append(program, "again", "torch.zeros((), dtype=torch.float64)")
    for name in again:
        append(program, "again", f"again + ({name}.to(torch.float64) ** 2).sum()")
    sweep(program, "again", "h", "retain_graph=True")


def append(program, name, expression):
    program.lines.append(f"{name} = {expression}")
    program.values[name] = evaluate(expression, program.values, pytorch)


def sweep(program, output, prefix, option):
    """Add the gradients of an output by every leaf; return their names."""
    names = [leaf.replace("v", prefix) for leaf in program.leaves]
    for leaf, name in zip(program.leaves, names, strict=True):
        append(
            program, name, f"torch.autograd.grad({output}, {leaf}, {option}, allow_unused=True)[0]"
        )
    return names


def differentiable(gradient):
    return gradient is not None and gradient.requires_grad


def run(lines, library):
    """Run statements in a library; return the variables, and where and why it stopped."""
    names = {"torch": library}
    for number, line in enumerate(lines):
        try:
            exec(line, names)
        except REFUSALS as error:
            return names, (number, error)
    return names, None


def differences(program):
    """Return a description of the first difference between the libraries, or None."""
    theirs, their_error = run(program.lines, pytorch)
    ours, our_error = run(program.lines, torch)
    if (our_error and our_error[0]) != (their_error and their_error[0]):
        return f"here {describe(our_error)}, in PyTorch {describe(their_error)}"
    rough = rounded_in_single(program.lines, theirs)
    for name in theirs:
        if re.fullmatch(VARIABLE, name):
            problem = compare(ours[name], theirs[name], rough=name in rough)
            if problem:
                return f"{name}: {problem}"
    return None


def rounded_in_single(lines, values):
    """Return the variables that float32 went into: float64 results of those are rough as well."""
    rough = set()
    for line in lines:
        name, expression = line.split(" = ", 1)
        single = dt.name_of(getattr(values.get(name), "dtype", "")) == "float32"
        if single or "float32" in expression or rough & set(re.findall(VARIABLE, expression)):
            rough.add(name)
    return rough


def describe(error):
    return (
        "nothing is refused" if error is None else f"statement {error[0]} is refused: {error[1]!r}"
    )


def compare(mine, other, *, rough):
    """Return what differs between two values; ``rough`` ones have float32's precision."""
    if mine is None or other is None:
        return None if mine is other else f"{mine} here, {other} in PyTorch"
    dtype = dt.name_of(other.dtype)
    if dt.name_of(mine.dtype) != dtype or tuple(mine.shape) != tuple(other.shape):
        return (
            f"{mine.dtype} {tuple(mine.shape)} here, {other.dtype} {tuple(other.shape)} in PyTorch"
        )
    a = mine.detach().clone().numpy().astype(np.float64)
    b = other.detach().clone().numpy().astype(np.float64)
    relative = RELATIVE["float32" if rough else dtype] if dtype in RELATIVE else 0.0
    scale = np.abs(b[np.isfinite(b)]).max(initial=1.0)
    if np.allclose(a, b, rtol=relative, atol=relative * scale, equal_nan=True):
        return None
    return f"{a.reshape(-1)[:6].tolist()} here, {b.reshape(-1)[:6].tolist()} in PyTorch"


def shrink(program):
    """Remove statements one at a time, from the end, as long as the program still fails."""
    lines, number = list(program.lines), len(program.lines) - 1
    while number >= 0:
        shorter = Program(lines=lines[:number] + lines[number + 1 :])
        if fails_alike(shorter):
            lines = shorter.lines
        number = min(number, len(lines)) - 1
    return Program(lines=lines)


def fails_alike(program):
    """Whether a shortened program still shows a difference that is not only a missing variable."""
    try:
        return differences(program) is not None
    except NameError:
        return False


def check(seed):
    """Return the report of a failing program, shrunk, or None when the libraries agree."""
    program = generate(seed)
    if differences(program) is None:
        return None
    smallest = shrink(program)
    return f"seed {seed}: {differences(smallest)}\n\n{smallest.source()}\n"


@pytest.mark.parametrize("seed", range(PROGRAMS_IN_SUITE))
def test_random_program(seed):
    report = check(seed)
    assert report is None, report


def test_programs_are_varied():
    """The generator writes long and short programs, with many ops, some refused."""
    programs = [generate(seed) for seed in range(60)]
    lengths = [len(program.lines) for program in programs]
    called = set(re.findall(r"[.](\w+)\(", "\n".join(p.source() for p in programs)))
    assert max(lengths) > 25
    assert min(lengths) < 20
    assert len(called) > 60
    assert any(program.refused for program in programs)


def main():
    parser = argparse.ArgumentParser(description="Compare random programs with PyTorch.")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if pytorch is None:
        sys.exit(REASON)
    failures = 0
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        report = check(seed)
        if report:
            failures += 1
            print(report)
    print(f"{arguments.count} programs, {failures} failed")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
