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
    random_like,
    to_numpy,
)
from library import IS_TORCH, torch
from test_op_gradients import generator, gradient_samples

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


def batch_of(leaf, random):
    """Return three tensors like a leaf, stacked: near it, so that they stay in the op's domain."""
    values = to_numpy(leaf)
    near = [values * (1 + 1e-3 * random.uniform(size=values.shape)) for _ in range(BATCH)]
    return torch.from_numpy(np.stack(near))


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
