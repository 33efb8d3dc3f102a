"""Gradients of every op, to second order, against finite differences in float64."""

import zlib

import numpy as np
from cases import each_op
from checks import (
    as_function,
    check_gradient,
    check_second_gradient,
    leaves_of,
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
    return np.allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)


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
            assert not any(np.any(leaf.grad.numpy()) for leaf in leaves if leaf.grad is not None)


@each_op("test_no_grad_mode", having=lambda op: op.gradient_order >= 1)
def test_no_grad_mode(op):
    sample = gradient_samples(op)[0]
    leaves, rebuild = leaves_of(sample)
    args, kwargs = rebuild(leaves)
    with torch.no_grad():
        for result in results(op.function()(*args, **kwargs)):
            assert result.grad_fn is None, f"{op.name} recorded under no_grad"
