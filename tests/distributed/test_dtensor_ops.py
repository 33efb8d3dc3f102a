"""Each op of the database on DTensors: right, with its gradients, or refused in words."""

import random

import pytest
from op_db import OPS
from op_db.row import Dtype, Value
from op_db.sampler import Sampler

import tapegrad as torch
from distributed.processes import UNDER_MPI
from tapegrad import distributed as dist
from tapegrad.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

LEFT_OUT = {
    "random": "numbers at random are tested by themselves",
    "create": "nothing divided goes in",
}
ROWS = [op for op in OPS if op.family not in LEFT_OUT]
SAMPLES, LARGEST = 4, 400
# What a call that is not supported says.
WORDS = (
    "redistribute", "no rule", "not supported", "mixed torch.Tensor", "cannot be", "DTensor",
    "does not require grad",
)  # fmt: skip

# Not refused, whatever the placements.
COMPUTED = {
    "add", "addmm", "cat", "clamp", "cumsum", "exp", "logsumexp", "matmul", "max.dim", "mean",
    "mul", "gelu", "pow", "reshape", "softmax", "sum",
    "transpose", "where",
}  # fmt: skip

if UNDER_MPI:
    pytest.skip("one run on threads is enough", allow_module_level=True)


def lifted(value, make):
    """Return arguments of a sample with tensors in the place of values."""
    if isinstance(value, Value):
        return make(value)
    if isinstance(value, Dtype):
        return getattr(torch, str(value))
    if type(value) in (list, tuple):
        return type(value)(lifted(each, make) for each in value)
    if type(value) is dict:
        return {key: lifted(each, make) for key, each in value.items()}
    return value


def leaves_of(value):
    """Return what a result is made of, with whole tensors."""
    if isinstance(value, DTensor):
        return [value.full_tensor()]
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return [leaf for each in value for leaf in leaves_of(each)]
    return [value]


def close(a, b):
    if not isinstance(b, torch.Tensor):
        assert a == b or (a != a and b != b)
        return
    assert a.shape == b.shape and a.dtype == b.dtype
    if a.numel():
        a, b = a.detach().to(torch.complex128), b.detach().to(torch.complex128)
        assert torch.allclose(a, b, rtol=2e-4, atol=2e-4, equal_nan=True)


def differentiated(results):
    """Run backward from all floating results, each with a gradient of its own."""
    total = None
    for number, leaf in enumerate(results):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            generator = torch.Generator().manual_seed(number)
            term = (leaf * torch.randn(leaf.shape, generator=generator).to(leaf.dtype)).sum()
            total = term if total is None else total + term
    if total is not None and total.is_floating_point():
        total.backward()


def compare(op, sample, ways):
    """Return whether an op computes with divided tensors; fail if it computes wrongly."""
    mesh = dist.init_device_mesh("cpu", (2,))
    way, plain, divided = iter(ways), [], []

    def whole(value):
        x = torch.tensor(value.array).to(getattr(torch, value.dtype))
        wants = op.gradient_order and value.differentiable and x.is_floating_point()
        plain.append(x.requires_grad_(bool(wants)))
        return x

    def spread(value):
        x = plain[len(divided)].detach().clone()
        y = distribute_tensor(x, mesh, [next(way)])
        divided.append(y.requires_grad_(plain[len(divided)].requires_grad))
        return y

    args, kwargs = lifted((sample.args, sample.kwargs), whole)
    # In-place ops write into leaves: what the whole sample held is kept for the divided one.
    before = [x.detach().clone() for x in plain]
    function = op.function()
    try:
        expected = leaves_of(function(*args, **kwargs))
    except RuntimeError:
        return False  # a leaf that requires grad, written in place
    for x, value in zip(plain, before, strict=True):
        x.data = value
    args, kwargs = lifted((sample.args, sample.kwargs), spread)
    try:
        got = leaves_of(function(*args, **kwargs))
    except (NotImplementedError, RuntimeError, TypeError) as error:
        assert any(word in str(error) for word in WORDS), error
        return False
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        close(a, b)
    differentiated(expected)
    differentiated(got)
    for a, b in zip(divided, plain, strict=True):
        assert (a.grad is None) == (b.grad is None)
        if b.grad is not None:
            close(a.grad.full_tensor(), b.grad)
    return True


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_right_or_refused(ranks, op):
    choose = random.Random(op.name)
    samples = [s for s in op.samples(Sampler("float32", 1)) if s.values() and s.numel() < LARGEST]
    calls = []
    for sample in samples[:SAMPLES]:
        ways = [
            choose.choice([Replicate(), *(2 * [Shard(d) for d in range(value.array.ndim)])])
            for value in sample.values()
        ]
        calls.append((sample, ways))

    def run(rank):
        return [compare(op, sample, ways) for sample, ways in calls]

    results = ranks(2, run)
    assert results[0] == results[1]
    assert any(results[0]) or op.name not in COMPUTED
