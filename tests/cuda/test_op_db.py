"""Every row of the op database on a CUDA device: the values, dtypes and gradients of the CPU."""

import re

import pytest
from cases import each_op
from library import torch
from op_db.row import lift, results, walk
from op_db.sampler import draw

from .missing import ROWS_WITHOUT_KERNELS

NO_KERNEL = "no kernel for device 'cuda|complex tensors are not supported on CUDA"
# Other orders of sums and other math functions: by how much a result may differ, relative to the
# largest element, in units of its dtype's rounding.
UNITS = 64
# Derivatives that cancel: near zero that of sinc is a difference of almost equal numbers over x.
CANCELLING = {"sinc": 1 << 16}
STAY_ON_THE_HOST = {"from_numpy", "frombuffer"}
UNDEFINED = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_"}


def moved(tree, device):
    """Return a sample's arguments on a device, with gradients wanted where they can be."""

    def visit(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        copy = leaf.detach().to(device)
        return copy.requires_grad_() if copy.is_floating_point() else copy

    return walk(tree, visit)


def tensors(tree):
    found = []
    walk(tree, lambda leaf: isinstance(leaf, torch.Tensor) and found.append(leaf))
    return found


def outcome(op, sample, device):
    """Return the results of a call and the gradients of its arguments, or the error's type."""
    torch.manual_seed(0)
    arguments = moved(lift((sample.args, sample.kwargs)), device)
    args, kwargs = arguments
    try:
        with torch.device(device):
            answer = op.function()(*args, **kwargs)
        found = [y for y in results(answer) if isinstance(y, torch.Tensor)]
        losses = [y.sum() for y in found if y.requires_grad]
        if losses and op.gradient_order:
            sum(losses).backward()
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        if re.search(NO_KERNEL, str(error)):
            raise
        return type(error)
    return found, [leaf.grad for leaf in tensors(arguments)]


def assert_same(found, wanted, context, *, eps, units=UNITS, has_values=True):
    """Check a tensor of a device against that of the CPU."""
    assert (found is None) == (wanted is None), context
    if found is None:
        return
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), context
    assert found.stride() == wanted.stride(), context
    if not has_values:
        return
    a, b = found.detach().cpu(), wanted.detach()
    if not wanted.dtype.is_floating_point:
        assert torch.equal(a, b), f"{context}: {a} and {b}"
        return
    a, b = a.double(), b.double()
    finite = b.isfinite()
    assert torch.equal(finite, a.isfinite()), f"{context}: {a} and {b}"
    assert torch.equal(a.nan_to_num(nan=1.5)[~finite], b.nan_to_num(nan=1.5)[~finite]), context
    if finite.any():
        scale = max(1.0, b[finite].abs().max().item())
        allowed = units * eps * scale
        worst = (a[finite] - b[finite]).abs().max().item()
        assert worst <= allowed, f"{context}: differ by {worst}: {a} and {b}"


def rounding(outcomes):
    """Return the coarsest rounding on the way: a gradient through float32 is no better."""
    tensors = [each for group in outcomes for each in group if each is not None]
    return max((torch.finfo(t.dtype).eps for t in tensors if t.is_floating_point()), default=0.0)


def check(op, dtype):
    for sample in draw(op, dtype):
        found, wanted = outcome(op, sample, "cuda"), outcome(op, sample, "cpu")
        context = f"{op.name}{sample}"
        if isinstance(wanted, type) or isinstance(found, type):
            assert found == wanted, context
            continue
        eps = rounding(wanted)
        for ours, theirs in zip(found, wanted, strict=True):
            for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
                place = "cpu" if op.name in STAY_ON_THE_HOST else "cuda"
                assert a is None or a.device.type == place, context
                assert_same(
                    a,
                    b,
                    f"{context}, number {k}",
                    eps=eps,
                    units=CANCELLING.get(op.name, UNITS),
                    has_values=op.name not in UNDEFINED,
                )


@each_op("test_cuda")
def test_values_and_gradients(op):
    if op.name in ROWS_WITHOUT_KERNELS:
        with pytest.raises(NotImplementedError, match=NO_KERNEL):
            check(op, op.dtypes[0])
    else:
        check(op, op.dtypes[0])


@each_op("test_cuda", having=lambda op: len(op.dtypes) > 1)
def test_other_dtypes(op):
    """One floating dtype of 16 bits and one integer, where a row has them."""
    if op.name in ROWS_WITHOUT_KERNELS:
        pytest.skip("no kernel yet: listed in missing.py")
    others = [d for d in op.dtypes[1:] if d in ("bfloat16", "int64", "bool", "float64")]
    for dtype in others:
        check(op, dtype)
