"""Random functions for transforms: views, in-place ops, custom functions, transforms inside.

A program is a short list of steps, each a function of a vector of three. As in `compositions`, a
composition of transforms of the program must give what loops over reverse mode give; there, every
vmap inside the program is a loop, too.
"""

import random

import numpy as np
from library import torch

from .compositions import compositions, order, reference, spelled, transformed

func = torch.func
LONGEST = 4
HIGHEST = 4  # order of derivatives


class Mapping:
    """Maps a function over the first dimension of its arguments, by vmap or by a loop."""

    by_vmap = True

    def __call__(self, f, *batched, shared=()):
        if self.by_vmap:
            in_dims = (0,) * len(batched) + (None,) * len(shared)
            return func.vmap(f, in_dims=in_dims)(*batched, *shared)
        rows = zip(*(each.unbind(0) for each in batched), strict=True)
        return torch.stack([f(*row, *shared) for row in rows])


each = Mapping()


class Sine(torch.autograd.Function):
    """Without a jvp: forward mode transposes its backward."""

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].cos()


class Exp(torch.autograd.Function):
    """With a jvp, and a derivative written with its output."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return (x * 0.3).exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0] * 0.3

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * ctx.saved_tensors[0] * 0.3


def constant(*values):
    return torch.tensor(values, dtype=torch.float64)


def written(y, write):
    y = y * 1
    write(y)
    return y


def view_read_later(y):
    y = y * 1
    view = y[1:]
    y.mul_(1.3)
    return view.sum() * 0.1 + y


def written_and_read(y):
    y = y * 1
    view = y.view(-1)
    y.add_(view)
    return view * 0.5 + y * 0.1


def filled(y):
    z = torch.zeros(3, dtype=torch.float64)
    z[0] = y[1] * 2
    z[1:] = y[:2].sin()
    return z


ROWS = ((0.3, -0.5, 0.2), (0.7, 0.1, -0.4))

STEPS = {
    "sin": lambda y: y.sin(),
    "exp": lambda y: (y * 0.3).exp(),
    "tanh": lambda y: y.tanh(),
    "softmax": lambda y: y.softmax(0) * 3,
    "square": lambda y: y * y * 0.5,
    "cumprod": lambda y: (y * 0.5 + 1).cumprod(0),
    "logsumexp": lambda y: y.logsumexp(0) + y * 0.2,
    "norm": lambda y: (y + 2).norm() * 0.3 + y,
    "std": lambda y: y.std() + y,
    "gather": lambda y: y[torch.tensor([2, 0, 2])] * y,
    "join": lambda y: torch.cat([y.sin(), y])[1:4],
    "outer": lambda y: (y[:, None] * y[None]).sum(0).tanh(),
    "custom function": Sine.apply,
    "custom function with jvp": Exp.apply,
    "exp_": lambda y: written(y, lambda v: v.mul_(0.3).exp_()),
    "sin_ of a part": lambda y: written(y, lambda v: v[1:].sin_()),
    "mul_ by another part": lambda y: written(y, lambda v: v[:2].mul_(v[1:] * 1)),
    "mul_ by itself": lambda y: written(y, lambda v: v.mul_(v)),
    "view read later": view_read_later,
    "written and read": written_and_read,
    "filled": filled,
    "vmap over a constant": lambda y: (
        each(lambda r: (r * y).sin().sum() + (r * y * y).tanh().sum(), constant(*ROWS)).sum() * 0.3
        + y
    ),
    "vmap over itself": lambda y: each(lambda e: (e.exp() * y).sum() * 0.2 + e * e, y),
    "vmap with a shared argument": lambda y: each(
        lambda e, r: (e * r).tanh(), y, shared=(constant(*ROWS[0]),)
    ).sum(1),
    "vmap of grad": lambda y: (
        each(func.grad(lambda e, r: ((e * r).sin() * y).sum()), y[:2], constant(*ROWS)).sum() * 0.5
        + y
    ),
    "grad": lambda y: func.grad(lambda z: (z * y).sin().sum() + (z**3).sum() * 0.1)(y * 0.7),
    "jvp": lambda y: func.jvp(lambda z: (z * y).sigmoid() * z, (y * 0.5,), (y * y,))[1],
    "vjp": lambda y: func.vjp(lambda z: (z * y).softmax(0), y * 0.5)[1](y)[0] + y,
    "jacfwd": lambda y: func.jacfwd(lambda z: (z * y).exp() * 0.2)(y).sum(0),
}


def program(seed):
    """Return the names of a program's steps, and a composition of transforms."""
    choose = random.Random(seed)
    steps = [choose.choice(list(STEPS)) for _ in range(choose.randint(1, LONGEST))]
    return steps, choose.choice([c for c in compositions() if order(c) <= HIGHEST])


def function_of(steps):
    """Return the program as a function of two numbers."""

    def f(p):
        y = constant(0.4, -0.3, 0.8) + p @ constant((0.5, -0.2, 0.3), (0.1, 0.7, -0.4))
        for step in steps:
            y = STEPS[step](y)
        return (y * constant(1.0, -0.5, 0.7)).sum()

    return f


def check(seed):
    """Return what is wrong with a program, or None."""
    steps, composition = program(seed)
    f = function_of(steps)
    each.by_vmap = False
    wanted = reference(composition, f)
    each.by_vmap = True
    what = f"program {seed}: {spelled(composition)} of {' | '.join(steps)}"
    try:
        found = transformed(composition, f)
    except Exception as error:
        return f"{what} raises {type(error).__name__}: {error}"
    scale = max(np.abs(wanted).max(), 1e-6)
    if found.shape != wanted.shape or not np.abs(found - wanted).max() <= 1e-8 * scale:
        return f"{what} gives {found.tolist()}, wanted {wanted.tolist()}"
    return None
