"""Random programs of row ops, draws, views, in-place writes and branches, on tiles of a few rows.

As in test_random_programs.py, a program is a list of instructions, drawn from a seed, and a
function that interprets it. Matrices are small, and are taken for large ones.
"""

import random

import pytest
from library import IS_TORCH, torch

from compile.pairs import same

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)

from tapegrad.compiler.passes import rows, tiles

functional = torch.nn.functional
PROGRAMS = 125  # of one test; eight tests
ROWS, LENGTH = 24, 64
KINDS = (
    *("unary", "unary", "binary", "binary", "norm", "rms", "softmax", "reduce", "dropout", "bias"),
    *("view", "columns", "write", "write rows", "write columns", "branch", "matmul", "loss"),
)
UNARY = ("sin", "tanh", "neg", "relu", "sigmoid", "square")
BINARY = ("add", "mul", "sub", "maximum")
REDUCTIONS = ("mean", "amax", "logsumexp", "std", "argmax")


def drawn(seed):
    """Return the instructions of a program."""
    source = random.Random(seed)
    names = UNARY, BINARY, REDUCTIONS, ("softmax", "log_softmax")
    return tuple(
        (source.choice(KINDS), *map(source.choice, names), source.randrange(3), source.randrange(3))
        for _ in range(source.randint(3, 12))
    )


def interpret(steps, values, weight, bias, target):
    losses = []
    for kind, unary, binary, reduction, softmax, i, j in steps:
        x, y = values[i], values[j]
        if kind == "unary":
            x = getattr(x, unary)() * 0.5
        elif kind == "binary":
            x = getattr(torch, binary)(x, y) * 0.5
        elif kind == "norm":
            x = functional.layer_norm(x, (LENGTH,), bias, bias if i else None)
        elif kind == "rms":
            x = functional.rms_norm(x, (LENGTH,), bias if i else None)
        elif kind == "softmax":
            x = getattr(x, softmax)(-1) * y
        elif kind == "reduce":
            x = x * 0.5 + getattr(x, reduction)(-1, keepdim=True)
        elif kind == "dropout":
            x = functional.dropout(x, 0.3)
        elif kind == "bias":
            x = x + bias
        elif kind == "view":
            x = (x.view(4, 6, LENGTH) + y.view(4, 6, LENGTH).sum(-1, True)).flatten(0, 1)
        elif kind == "columns":
            x = torch.cat([x[:, :32] * y[:, 32:], x[:, 32:]], 1)
        elif kind == "write":
            x = x.clone()
            x.mul_(0.5).add_(y)
        elif kind == "write rows":
            x = x.clone()
            x[3 * j : 3 * j + 5] += y[:5]
        elif kind == "write columns":
            x = x.clone()
            x[:, 5:40] *= y[:, 10:45]
        elif kind == "branch":
            x = x * 0.5 if x.sum() > 0 else x - 1
        elif kind == "matmul":
            x = (x @ weight).tanh()
        else:
            losses.append(functional.cross_entropy(x, target))
        values[i] = x
    return values, losses


def made(steps, with_gradient):
    torch.manual_seed(7)
    weight = torch.randn(LENGTH, LENGTH, requires_grad=with_gradient)
    bias = torch.randn(LENGTH, requires_grad=with_gradient)
    state = torch.zeros(ROWS, LENGTH)

    def function(x, y, target):
        values, losses = interpret(steps, [x, y, x + y], weight, bias, target)
        total = sum((value.sum() for value in values), sum(losses))
        if with_gradient:
            total.backward()
        with torch.no_grad():
            state.add_(values[2].detach())
            for each in (weight, bias):
                if with_gradient and each.grad is not None:
                    each.sub_(each.grad, alpha=0.01)
        return [value.detach().clone() for value in values], total.detach().clone()

    return function, weight, bias, state


@pytest.mark.parametrize("with_gradient", [False, True])
@pytest.mark.parametrize("first", range(0, 4 * PROGRAMS, PROGRAMS))
def test_random_programs(first, with_gradient, monkeypatch):
    monkeypatch.setattr(tiles, "_LEAST", 2)
    monkeypatch.setattr(tiles, "_TILE", 4 * LENGTH)
    monkeypatch.setattr(rows, "_LEAST_ROWS", 1)
    grouped = set()
    for seed in range(first, first + PROGRAMS):
        steps = drawn(seed)
        eager, *world = made(steps, with_gradient)
        function, *other = made(steps, with_gradient)
        compiled = torch.compile(function)
        for call in range(6):  # two inputs: seen, seen again, replayed
            results = []
            for each in (eager, compiled):
                torch.manual_seed(1000 * seed + call % 2)
                x, y = torch.randn(ROWS, LENGTH), torch.randn(ROWS, LENGTH)
                target = torch.randint(0, LENGTH, (ROWS,))
                x.requires_grad_(with_gradient)
                found = each(x, y, target)
                results.append((found, x.detach(), x.grad, y, torch.get_rng_state()))
            assert same(*results), (seed, call, steps)
            assert same(
                [(each.detach(), each.grad) for each in world],
                [(each.detach(), each.grad) for each in other],
            ), (seed, call, steps)
        for trace in torch.compiler.explain(compiled).traces:
            grouped.update(name for group in trace.groups for name in group)
    expected = {"softmax", "log_softmax", "layer_norm", "random_bernoulli", "mean", "argmax"}
    if with_gradient:
        expected |= {"softmax_backward", "layer_norm_backward", "cross_entropy_backward"}
    assert expected <= grouped, expected - grouped
