"""Gradients of every op, to second order, against finite differences in float64."""

import zlib

import numpy as np
from cases import each_op
from checks import (
    as_function,
    check_gradient,
    check_second_gradient,
    leaves_of,
    to_numpy,
)
from library import torch
from op_db.row import results
from op_db.sampler import draw

LARGEST_SAMPLE = 100


def gradient_samples(op):
    """Return the samples to differentiate at: none empty, none too large for finite differences."""
    samples = draw(op, "float64", gradient=True)
    chosen = [sample for sample in samples if 0 < sample.numel() <= LARGEST_SAMPLE]
    assert chosen, f"{op.name} has no sample to differentiate"
    return chosen


def generator(op):
    return np.random.default_rng(zlib.crc32(op.name.encode()))


@each_op("test_gradient", having=lambda op: op.gradient_order >= 1)
def test_gradient(op):
    random = generator(op)
    for sample in gradient_samples(op):
        leaves, evaluate = as_function(op, sample)
        if leaves:
            check_gradient(evaluate, leaves, random, context=f"of {op.name}{sample}")


@each_op("test_second_gradient", having=lambda op: op.gradient_order >= 2)
def test_second_gradient(op):
    random = generator(op)
    for sample in gradient_samples(op):
        leaves, evaluate = as_function(op, sample)
        if leaves:
            check_second_gradient(evaluate, leaves, random, context=f"of {op.name}{sample}")


@each_op("test_one_input_at_a_time", having=lambda op: op.gradient_order >= 1)
def test_one_input_at_a_time(op):
    """Only what requires a gradient gets one, and it is the same as when all inputs require one."""
    for sample in gradient_samples(op)[:2]:
        leaves, rebuild = leaves_of(sample)
        function = op.function()
        everything = backward_of(function, rebuild, leaves)
        for index, leaf in enumerate(leaves):
            alone = [tensor.detach() for tensor in leaves]
            alone[index].requires_grad_()
            (grad,) = backward_of(function, rebuild, alone)[index : index + 1]
            others = [tensor.grad for tensor in alone if tensor is not alone[index]]
            assert all(other is None for other in others)
            assert same(grad, everything[index]), f"input {index} of {op.name}{sample}"
            assert grad is None or grad.shape == leaf.shape


def backward_of(function, rebuild, leaves):
    """Run forward and ``backward`` with a cotangent of ones; return every leaf's ``.grad``."""
    args, kwargs = rebuild(leaves)
    outputs = [y for y in results(function(*args, **kwargs)) if y.requires_grad]
    if outputs:
        sum((y.sum() for y in outputs[1:]), outputs[0].sum()).backward()
    return [leaf.grad for leaf in leaves]


def same(a, b):
    if a is None or b is None:
        return a is b
    return np.allclose(to_numpy(a), to_numpy(b), rtol=1e-12, atol=1e-12)


@each_op("test_no_gradient", having=lambda op: op.gradient_order == 0 and "float64" in op.dtypes)
def test_no_gradient(op):
    """An op without a gradient returns something unrecorded, refuses the sweep, or gives zeros."""
    for sample in draw(op, "float64", gradient=True):
        leaves, rebuild = leaves_of(sample)
        args, kwargs = rebuild(leaves)
        for result in results(op.function()(*args, **kwargs)):
            if not result.requires_grad:
                continue
            try:
                result.sum().backward()
            except RuntimeError as error:
                assert "derivative" in str(error) or op.name in str(error)
            assert not any(np.any(to_numpy(leaf.grad)) for leaf in leaves if leaf.grad is not None)


@each_op("test_no_grad_mode", having=lambda op: op.gradient_order >= 1)
def test_no_grad_mode(op):
    sample = gradient_samples(op)[0]
    leaves, rebuild = leaves_of(sample)
    args, kwargs = rebuild(leaves)
    with torch.no_grad():
        for result in results(op.function()(*args, **kwargs)):
            assert result.grad_fn is None, f"{op.name} recorded under no_grad"


def whole(x):
    """Return a tensor to write to, and what to look at afterwards."""
    target = x * 1
    return target, lambda: target


def through_view(x):
    base = torch.stack([x, x])
    held = base.view(-1)
    return base[1], lambda: held


@each_op("test_inplace_gradient", having=lambda op: op.inplace and op.gradient_order >= 1)
def test_inplace_gradient(op):
    """The in-place form has the plain one's gradients to second order, also through a view."""
    order = min(op.gradient_order, 2)
    for sample in gradient_samples(op):
        leaves, rebuild = leaves_of(sample)
        args, kwargs = rebuild(leaves)
        if not isinstance(args[0], torch.Tensor):
            continue
        (plain,) = results(op.function()(args[0] * 1, *args[1:], **kwargs))
        if plain.shape != args[0].shape or not leaves:
            continue
        for place in (whole, through_view):
            target, seen = place(args[0])
            run_in_place(op, target, args[1:], kwargs)
            wanted = plain if place is whole else torch.stack([args[0], plain]).view(-1)
            context = f"of {op.name}{sample}, {place.__name__}"
            check_same_gradients(seen(), wanted, leaves, order, context)


def run_in_place(op, target, args, kwargs):
    if op.inplace == "kwarg":
        return op.function()(target, *args, **kwargs, inplace=True)
    return getattr(target, op.inplace)(*args, **kwargs)


def check_same_gradients(ours, wanted, leaves, order, context):
    """Check that two results have the same gradients, up to an order."""
    assert np.allclose(to_numpy(ours), to_numpy(wanted)), context
    weights = torch.linspace(0.5, 1.5, ours.numel(), dtype=ours.dtype).reshape(ours.shape)
    sums = [(y * weights).sum() for y in (ours, wanted)]
    for _ in range(order):
        grads = [
            torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
            if total.requires_grad
            else [None] * len(leaves)
            for total in sums
        ]
        for mine, other in zip(*grads, strict=True):
            assert same_or_zero(mine, other), context
        sums = [sum((g * g).sum() for g in gs if g is not None) for gs in grads]
        if not all(isinstance(total, torch.Tensor) for total in sums):
            return


def same_or_zero(a, b):
    """Compare gradients of which None means zero, as what is overwritten has none or zeros."""
    a, b = (None if g is None else to_numpy(g) for g in (a, b))
    if a is None or b is None:
        return not np.any(0 if a is None else a) and not np.any(0 if b is None else b)
    return np.allclose(a, b, rtol=1e-10, atol=1e-12)
