"""Random programs with branches on values, in-place writes and views, compiled, in float64.

A program is a list of instructions over a few tensors, drawn from a seed, and a function that
interprets it: the Python that a trace leaves out. Every program is called with several inputs, so
that its branches go both ways.
"""

import random

import pytest
from library import IS_TORCH, torch

from compile.pairs import same

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)

from tapegrad.compiler.passes import tiles

PROGRAMS = 100  # of one test; ten tests
UNARY = ("sin", "tanh", "exp", "neg", "relu", "sigmoid", "square")
BINARY = ("add", "mul", "sub", "maximum")


def drawn(seed):
    """Return the instructions of a program."""
    source = random.Random(seed)
    steps = []
    for _ in range(source.randint(3, 12)):
        kind = source.choice(
            ("unary", "binary", "matmul", "view", "write", "write_view", "branch", "loop", "random")
        )
        steps.append(
            (
                kind,
                source.choice(UNARY),
                source.choice(BINARY),
                source.randrange(3),
                source.randrange(3),
            )
        )
    return tuple(steps)


def interpret(steps, values, weight):
    for kind, unary, binary, i, j in steps:
        x, y = values[i], values[j]
        if kind == "unary":
            values[i] = getattr(x, unary)() * 0.5
        elif kind == "binary":
            values[i] = getattr(torch, binary)(x, y) * 0.5
        elif kind == "matmul":
            values[i] = (x @ weight).tanh()
        elif kind == "view":
            values[i] = x.t() if i % 2 else x.reshape(-1).view(3, 3)
        elif kind == "write":
            x = x.clone()
            x.mul_(0.5).add_(y)
            values[i] = x
        elif kind == "write_view":
            x = x.clone()
            x[j].add_(1)
            x.t()[i] *= y[0]
            values[i] = x
        elif kind == "branch":
            values[i] = x * 2 if x.sum() > 0 else x - 1
        elif kind == "loop":
            while x.detach().abs().max().item() > 1.5:
                x = x * 0.5
            values[i] = x
        else:
            values[i] = x + torch.rand(3, 3, dtype=torch.float64)
    return values


def made(steps, with_gradient):
    torch.manual_seed(7)
    weight = torch.randn(3, 3, dtype=torch.float64, requires_grad=with_gradient)
    state = torch.zeros(3, 3, dtype=torch.float64)

    def function(x, y):
        values = interpret(steps, [x, y, x + y], weight)
        total = sum(value.sum() for value in values)
        if with_gradient:
            total.backward()
        with torch.no_grad():
            state.add_(values[2].detach())
            if with_gradient and weight.grad is not None:
                weight.sub_(weight.grad, alpha=0.01)
        return [value.detach().clone() for value in values], total.detach().clone()

    return function, weight, state


@pytest.mark.parametrize("tile", [None, 4])
@pytest.mark.parametrize("with_gradient", [False, True])
@pytest.mark.parametrize("first", range(0, 5 * PROGRAMS, PROGRAMS))
def test_random_programs(first, with_gradient, tile, monkeypatch):
    if tile:  # as if these were large tensors
        monkeypatch.setattr(tiles, "_LEAST", 2)
        monkeypatch.setattr(tiles, "_TILE", tile)
    traces = 0
    for seed in range(first, first + PROGRAMS):
        steps = drawn(seed)
        eager, *world = made(steps, with_gradient)
        function, *other = made(steps, with_gradient)
        compiled = torch.compile(function)
        for call in range(10):  # three inputs: seen, seen again, replayed
            torch.manual_seed(1000 * seed + call % 3)
            x, y = (torch.randn(3, 3, dtype=torch.float64) for _ in range(2))
            rng = torch.get_rng_state()
            given = x.clone().requires_grad_(with_gradient), y.clone()
            expected = eager(*given), given[0].grad, given
            torch.set_rng_state(rng)
            given = x.clone().requires_grad_(with_gradient), y.clone()
            found = compiled(*given), given[0].grad, given
            assert same(expected, found), (seed, call, steps)
            assert same(
                [(each.detach(), each.grad) for each in world],
                [(each.detach(), each.grad) for each in other],
            )
        traces += len(torch.compiler.explain(compiled).traces)
    assert traces > PROGRAMS // 2
