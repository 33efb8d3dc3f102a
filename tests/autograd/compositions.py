"""Compositions of function transforms over every differentiable op, against plain reverse mode.

Each op becomes a function of two numbers: its inputs move along two random directions, and its
outputs are weighted, bent by a sine and summed, so that no derivative of any order is trivial.
A composition such as ``jvp(grad(vmap(f)))`` is evaluated twice: by `torch.func`, and by loops over
`autograd.grad` with ``create_graph``, which know neither forward mode nor batches. The loops are
checked against finite differences by `check_reference`, one order above what `test_op_gradients`
does.

    python tests/autograd/compositions.py --all            every composition up to depth 3
    python tests/autograd/compositions.py --op exp --all   of one op
    python tests/autograd/compositions.py                  the few of each op that CI runs
    python tests/autograd/compositions.py --programs 1000  of random functions instead of ops
"""

import argparse
import itertools
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from checks import as_function, random_like, to_numpy
from library import torch
from op_db import OPS
from test_op_gradients import generator, gradient_samples

func = torch.func
POINT = (0.1, -0.2)
DIRECTION = (0.7, -1.3)
OFFSETS = ((0.0, 0.0), (0.02, -0.01))
DEEPEST = 3
FEW = 12  # of each op, in CI


# ---- the transforms, as they are and by loops
#
# Each turns a function of a vector into another. Where a transform needs a scalar function, or a
# cotangent, the outputs are weighted.


def weights(y):
    """Return a fixed weight for each element of an output."""
    return torch.cos(torch.arange(1.0, y.numel() + 1, dtype=torch.float64)).reshape(y.shape)


def weighted(f):
    def scalar(p):
        y = f(p)
        return (weights(y) * y).sum()

    return scalar


def vector(values):
    return torch.tensor(values, dtype=torch.float64)


def vjp_of(f):
    def pulled(p):
        y, pull = func.vjp(f, p)
        return pull(weights(y))[0]

    return pulled


TRANSFORMS = {
    "grad": lambda f: func.grad(weighted(f)),
    "vjp": vjp_of,
    "jvp": lambda f: lambda p: func.jvp(f, (p,), (vector(DIRECTION),))[1],
    "vmap": lambda f: lambda p: func.vmap(f)(p + vector(OFFSETS)),
    "jacrev": func.jacrev,
    "jacfwd": func.jacfwd,
    "hessian": func.hessian,
}


def jacobian(f):
    """Return the Jacobian, one row at a time, by reverse mode."""

    def rows(p):
        p = p if p.requires_grad else p.detach().requires_grad_()
        y = f(p)
        elements = [row(element, p) for element in y.reshape(-1)]
        return torch.stack(elements).reshape(*y.shape, *p.shape)

    return rows


def derivatives(f, order):
    """Return the tensor of derivatives of an order, each of which is computed once.

    Orders of differentiation commute: of the ``2 ** order`` places only ``order + 1`` differ. With
    all of them, the graphs of the sixth order take gigabytes.
    """

    def places(p):
        p = p if p.requires_grad else p.detach().requires_grad_()
        y = f(p)
        tensors = [tensor_of_partials(element, p, order) for element in y.reshape(-1)]
        return torch.stack(tensors).reshape(*y.shape, *p.shape * order)

    return places


def tensor_of_partials(y, p, order):
    """Return all derivatives of a number by two numbers."""
    partials = [y]  # by how often they are by the second number
    for _ in range(order):
        grads = [row(each, p) for each in partials]
        partials = [grads[0][0], *(grad[1] for grad in grads)]
    return torch.stack([partials[place.bit_count()] for place in range(2**order)])


def row(y, p):
    if not y.requires_grad:
        return torch.zeros_like(p)
    (grad,) = torch.autograd.grad(y, p, create_graph=True, allow_unused=True)
    return torch.zeros_like(p) if grad is None else grad


def loop(f):
    return lambda p: torch.stack([f(p + vector(offset)) for offset in OFFSETS])


REFERENCES = {
    "grad": lambda f: jacobian(weighted(f)),
    "vjp": lambda f: jacobian(weighted(f)),
    "jvp": lambda f: lambda p: (jacobian(f)(p) * vector(DIRECTION)).sum(-1),
    "vmap": loop,
}
ORDERS = {"vmap": 0, "hessian": 2}  # the others take one derivative
WHOLE = ("jacrev", "jacfwd", "hessian")  # of which several in a row are one tensor of derivatives


def compositions():
    """Return all compositions, innermost transform first."""
    depths = range(1, DEEPEST + 1)
    return [c for depth in depths for c in itertools.product(TRANSFORMS, repeat=depth)]


def order(composition):
    return sum(ORDERS.get(name, 1) for name in composition)


def spelled(composition):
    return "(".join(reversed(composition)) + "(f" + ")" * len(composition)


# ---- the functions


def is_covered(op):
    return op.gradient_order >= 1 and op.family != "random"


def function_of(op, sample):
    """Return the op on a sample as a function of two numbers; None if it has no derivative."""
    leaves, evaluate = as_function(op, sample)
    if not leaves:
        return None
    bases = [leaf.detach() for leaf in leaves]
    random = generator(op)
    # Short steps: the op stays where it is defined, on the same branch.
    first, second = (
        [0.02 * direction for direction in random_like(bases, random)] for _ in range(2)
    )
    bend = float(random.uniform(0.5, 1.5))

    def f(p):
        moved = (
            (base + p[0] * u + p[1] * v).to(base.dtype)
            for base, u, v in zip(bases, first, second, strict=True)
        )
        outputs = [y.to(torch.float64) for y in evaluate(*moved)]
        return sum((weights(y) * torch.sin(bend * y)).sum() for y in outputs)

    return f


def transformed(composition, f):
    """Return what a composition of transforms gives."""
    for name in composition:
        f = TRANSFORMS[name](f)
    return to_numpy(f(vector(POINT)))


def reference(composition, f):
    """Return what a composition must give."""
    for is_whole, names in itertools.groupby(composition, WHOLE.__contains__):
        if is_whole:
            f = derivatives(f, order(names))
            continue
        for name in names:
            f = REFERENCES[name](f)
    return to_numpy(f(vector(POINT)))


def tolerance(op, sample):
    """Return the relative error allowed: a cast to a narrower type rounds derivatives, too."""
    leaves, evaluate = as_function(op, sample)
    return max((50 * torch.finfo(y.dtype).eps for y in evaluate(*leaves)), default=0)


def difference(op, sample, composition):
    """Return what is wrong with a composition on a sample, or None."""
    f = function_of(op, sample)
    if f is None:
        return None
    wanted = reference(composition, f)
    try:
        found = transformed(composition, f)
    except Exception as error:
        return f"raises {type(error).__name__}: {error}"
    if found.shape != wanted.shape:
        return f"has shape {found.shape}, wanted {wanted.shape}"
    # Derivatives of an order differ by many powers of ten where directions nearly cancel.
    scale = max(np.abs(wanted).max(initial=0), 1e-6)
    error = np.abs(found - wanted).max(initial=0)
    if not error <= max(1e-9, tolerance(op, sample)) * scale:
        return f"gives {found.tolist()}, wanted {wanted.tolist()}"
    return None


def check(op, chosen, samples=1):
    """Return a line for each composition of an op that is wrong."""
    reports = []
    for sample in gradient_samples(op)[:samples]:
        for composition in chosen:
            if order(composition) > 1 and op.gradient_order < 2:
                continue
            wrong = difference(op, sample, composition)
            if wrong:
                reports.append(f"{spelled(composition)} of {op.name}{sample} {wrong}")
    return reports


def few(op):
    """Return the compositions of an op that CI checks: all depths, others for each op."""
    everything = compositions()
    chosen = generator(op).choice(len(everything), FEW, replace=False)
    return [everything[i] for i in chosen]


def check_reference(op):
    """Compare the third derivative along a direction with differences of the second."""
    for sample in gradient_samples(op)[:1]:
        f = function_of(op, sample)
        if f is None or tolerance(op, sample) > 1e-9:  # Differences of rounded values say nothing.
            continue
        second = jacobian(jacobian(f))
        third = (jacobian(second)(vector(POINT)) * vector(DIRECTION)).sum(-1)
        along, step = vector(DIRECTION), 1e-2
        slopes = [
            (second(vector(POINT) + h * along) - second(vector(POINT) - h * along)) / (2 * h)
            for h in (step, step / 2, step / 4)
        ]
        measured = to_numpy((64 * slopes[2] - 20 * slopes[1] + slopes[0]) / 45)
        scale = max(np.abs(measured).max(), np.abs(to_numpy(second(vector(POINT)))).max(), 1e-3)
        error = np.abs(to_numpy(third) - measured).max()
        assert error <= 1e-6 * scale, f"{op.name}{sample}: {to_numpy(third)}, {measured}"


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every composition up to depth 3")
    parser.add_argument("--samples", type=int, default=1, help="of each op (default 1)")
    parser.add_argument("--op", nargs="+", metavar="NAME", help="only these rows of the database")
    parser.add_argument("--programs", type=int, default=0, help="that many random functions")
    parser.add_argument("--seed", type=int, default=0, help="of the first one (default 0)")
    return parser.parse_args()


def check_programs(count, seed):
    """Check random functions; return how many are wrong."""
    from autograd.transform_programs import check as check_program

    failures = 0
    for number in range(seed, seed + count):
        report = check_program(number)
        if report:
            failures += 1
            print(report, flush=True)
    print(f"{count} programs: {failures} differ")
    return failures


def main():
    """Check ops, show progress and differences; return 1 if there was a difference."""
    arguments = read_arguments()
    if arguments.programs:
        return int(check_programs(arguments.programs, arguments.seed) > 0)
    ops = [op for op in OPS if is_covered(op) and (not arguments.op or op.name in arguments.op)]
    start, failures, count = time.perf_counter(), 0, 0
    live = sys.stderr.isatty()
    for number, op in enumerate(ops):
        chosen = compositions() if arguments.all else few(op)
        count += len(chosen)
        for report in check(op, chosen, arguments.samples):
            failures += 1
            print(report, flush=True)
        if live:
            print(f"\r{number + 1}/{len(ops)} ops, {failures} differ", end="", file=sys.stderr)
    seconds = time.perf_counter() - start
    print(f"{count} compositions of {len(ops)} ops in {seconds:.1f} s: {failures} differ")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
