"""Every op under the function transforms: forward mode, vmap, and the public gradient checks.

Forward mode is checked against reverse mode: for random u and v, the product of u with what jvp
makes of v is the product of what vjp makes of u with v. vmap is checked against a Python loop.
"""

import numpy as np
import pytest
from cases import each_op
from checks import (
    as_function,
    assert_close,
    gradients,
    inner,
    leaves_of,
    random_like,
    to_numpy,
)
from library import IS_TORCH, torch
from op_db.row import Value, call
from test_op_gradients import generator, gradient_samples
from test_ops import run_in_place

pytestmark = pytest.mark.skipif(IS_TORCH, reason="compares tapegrad's transforms with each other")

BATCH = 3

# Ops that mean something else for a batch than in a loop, and why.
NOT_A_LOOP = {
    "masked_select": "the number of chosen elements",
    "repeat_interleave": "the number of repeats",
    "as_strided": "its offset counts from the storage's beginning, which examples of a loop share",
}


def differentiable(op):
    return op.gradient_order >= 1


@each_op("test_jvp_and_vjp_agree", having=differentiable)
def test_jvp_and_vjp_agree(op):
    random = generator(op)
    for sample in gradient_samples(op):
        leaves, evaluate = as_function(op, sample)
        if not leaves:
            continue
        tangents = random_like(leaves, random)
        outputs, pushed = torch.func.jvp(evaluate, tuple(leaves), tuple(tangents))
        cotangents = random_like(outputs, random)
        recorded = evaluate(*leaves)
        for value, again in zip(outputs, recorded, strict=True):
            assert_close(to_numpy(value.detach()), to_numpy(again.detach()))
        pulled = gradients(recorded, leaves, cotangents)
        forward, reverse = inner(pushed, cotangents), inner(pulled, tangents)
        scale = max(1.0, abs(forward), abs(reverse))
        bound = 1e-9 if is_double(outputs) else 4 * torch.finfo(outputs[0].dtype).eps
        assert abs(forward - reverse) <= bound * scale, f"{op.name}{sample}: {forward} {reverse}"


def is_double(tensors):
    """Return whether nothing was rounded: casts to narrower types are ops, too."""
    return all(tensor.dtype is torch.float64 for tensor in tensors)


@each_op("test_vmap_is_a_loop", having=differentiable)
def test_vmap_is_a_loop(op):
    random = generator(op)
    for sample in gradient_samples(op)[:4]:
        leaves, evaluate = as_function(op, sample)
        if not leaves:
            continue
        batches = [batch_of(leaf.detach(), random) for leaf in leaves]
        if op.name in NOT_A_LOOP:
            continue
        together = torch.func.vmap(evaluate)(*batches)
        for index in range(BATCH):
            alone = evaluate(*(batch[index] for batch in batches))
            for mapped, single in zip(together, alone, strict=True):
                assert_close(
                    to_numpy(mapped[index].detach()),
                    to_numpy(single.detach()),
                    (1e-12, 1e-12),
                    context=f"element {index} of vmap of {op.name}{sample}",
                )


@each_op("test_per_sample_gradients", having=differentiable)
def test_per_sample_gradients(op):
    """vmap(grad(f)) is grad(f) of each example."""
    random = generator(op)
    for sample in gradient_samples(op)[:2]:
        leaves, evaluate = as_function(op, sample)
        if not leaves or op.name in NOT_A_LOOP:
            continue
        batches = [batch_of(leaf.detach(), random) for leaf in leaves]

        def total(*tensors, evaluate=evaluate):
            return sum((result * result).sum() for result in evaluate(*tensors))

        numbers = tuple(range(len(leaves)))
        together = torch.func.vmap(torch.func.grad(total, numbers))(*batches)
        for index in range(BATCH):
            alone = torch.func.grad(total, numbers)(*(batch[index] for batch in batches))
            for mapped, single in zip(together, alone, strict=True):
                assert_close(
                    to_numpy(mapped[index]),
                    to_numpy(single),
                    (1e-10, 1e-10),
                    context=f"gradient {index} of vmap of {op.name}{sample}",
                )


# How an op may write in place, as functions of the tensor to write to and of the op that writes.
WRITES = {
    "the argument": lambda x, write: write(x),
    "a clone": lambda x, write: write(x.clone()),
    "a view of the argument": lambda x, write: write_and_return(x, x.view_as(x), write),
    "a part of a larger tensor": lambda x, write: write_and_return(
        (base := torch.stack([x, x])), base[1], write
    )[1],
    "a transposed part": lambda x, write: write_and_return(
        (base := torch.stack([x, x], -1)), base.movedim(-1, 0)[0], write
    ).movedim(-1, 0)[0],
    "an earlier view's base": lambda x, write: read_after(
        (base := x.clone()), base.view_as(base), write
    ),
}


def write_and_return(base, target, write):
    write(target)
    return base


def read_after(base, view, write):
    write(base)
    return view


@each_op("test_in_place_tangents", having=lambda op: differentiable(op) and op.inplace)
def test_in_place_tangents(op):
    """In forward mode, and forward over forward, an op in place is the op."""
    random = generator(op)
    function = op.function()
    for sample in gradient_samples(op)[:2]:
        leaves, rebuild = leaves_of(sample)
        if not leaves or not writes_first(sample, call(op, sample)):
            continue
        tangents = tuple(random_like(leaves, random))

        def out_of_place(*tensors, rebuild=rebuild):
            args, kwargs = rebuild(tensors)
            return function(*args, **kwargs)

        primals = tuple(leaf.detach() for leaf in leaves)
        wanted = twice(out_of_place, primals, tangents)
        for where, form in WRITES.items():

            def in_place(*tensors, rebuild=rebuild, form=form):
                args, kwargs = rebuild([tensor.clone() for tensor in tensors])
                return form(args[0], lambda x: run_in_place(op, (x, *args[1:]), kwargs))

            found = twice(in_place, primals, tangents)
            for order, (a, b) in enumerate(zip(found, wanted, strict=True)):
                assert_close(
                    to_numpy(a),
                    to_numpy(b),
                    (1e-10, 1e-10),
                    context=f"order {order} of {op.name}{sample} into {where}",
                )


def writes_first(sample, answer):
    """Return whether the call's first argument can take its result."""
    first = sample.args[0]
    fits = isinstance(first, Value) and first.differentiable
    return fits and first.array.shape == tuple(answer.shape) and answer.dtype is torch.float64


def twice(function, primals, tangents):
    """Return a function's value, and its first and second derivative along a direction."""

    def first(*primals):
        return torch.func.jvp(function, primals, tangents)

    (value, slope), (_, curvature) = torch.func.jvp(first, primals, tangents)
    return value, slope, curvature


def batch_of(leaf, random):
    """Return three tensors like a leaf, stacked: near it, so that they stay in the op's domain."""
    values = to_numpy(leaf)
    near = [values * (1 + 1e-3 * random.uniform(size=values.shape)) for _ in range(BATCH)]
    return torch.from_numpy(np.stack(near)).to(leaf.device)


@each_op("test_gradcheck", having=differentiable)
def test_gradcheck(op):
    """The public checks accept every op, in both modes, and to second order."""
    for sample in gradient_samples(op)[:2]:
        leaves, evaluate = as_function(op, sample)
        if not leaves:
            continue
        inputs = tuple(leaf.detach().requires_grad_() for leaf in leaves)
        if not is_double(evaluate(*inputs)):
            continue  # Differences of rounded values say nothing.
        assert torch.autograd.gradcheck(evaluate, inputs, fast_mode=True, check_forward_ad=True)
        if op.gradient_order >= 2:
            assert torch.autograd.gradgradcheck(evaluate, inputs, fast_mode=True)
