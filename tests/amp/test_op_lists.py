"""What autocast makes of each function on the CPU, beside PyTorch: dtypes, values, gradients."""

import contextlib

import dtypes as dt
import numpy as np
import pytest
from cases import each
from library import IS_TORCH, pytorch_for_parity, torch
from op_db.row import Sample, Value, call, results, walk
from op_db.sampler import draw

from amp.calls import CALLS, Maker

pytorch, REASON = pytorch_for_parity()
if pytorch is None or IS_TORCH:
    pytest.skip(REASON or "PyTorch beside itself", allow_module_level=True)

KINDS = ("float32", "lower", "mixed", "float64")
# A result, and the gradients behind it, are rounded a few times on both sides.
ROUNDINGS = {"bfloat16": 4 * 2**-8, "float16": 4 * 2**-11, "float64": 1e-12}

# What PyTorch refuses although autocast, or promotion, makes operands agree.
MORE = {
    "chain_matmul": "wants one dtype before anything is cast",
    "cross": "has no promotion on the CPU",
    "pdist": "has no kernel for half precision on the CPU",
    "convolution": "takes a bias of another dtype here",
    "layer_norm": "wants weight and bias of one dtype",
    "group_norm": "wants weight and bias of one dtype",
    "batch_norm": "wants weight and bias of one dtype",
}


def outcome(library, call, x, lower):
    """Return the results of a call under autocast, or what it raised."""
    try:
        with library.autocast("cpu", getattr(library, lower)):
            answer = call(library, x)
    except (RuntimeError, TypeError, ValueError) as error:
        return error
    return list(answer) if isinstance(answer, (tuple, list)) else [answer]


def assert_near(ours, theirs, allowed, context):
    """Compare arrays with the largest element of all: what is near zero may be a difference."""
    ours, theirs = ([to_array(each) for each in several] for several in (ours, theirs))
    largest = max((np.abs(each).max(initial=0) for each in theirs), default=0)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.shape == other.shape, context
        assert np.abs(mine - other).max(initial=0) <= allowed * largest, (
            f"{context}: {mine} here, {other} in PyTorch"
        )


def to_array(tensor):
    return tensor.detach().double().numpy()


def sweep(library, answer):
    """Run backward from results, each element of which has a weight of its own."""
    total = 0
    for result in answer:
        if result.requires_grad:
            weights = np.cos(np.arange(result.numel())).reshape(result.shape)
            total = total + (result.double() * library.tensor(weights)).sum()
    total.backward()


@pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated")
@pytest.mark.filterwarnings("ignore:torch.(cholesky|qr|triangular_solve) is deprecated")
@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")  # PyTorch's rms_norm
@pytest.mark.parametrize("lower", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_call(name, kind, lower):
    made = [Maker(library, kind, lower) for library in (torch, pytorch)]
    ours = outcome(torch, CALLS[name], made[0], lower)
    theirs = outcome(pytorch, CALLS[name], made[1], lower)
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception) or name in MORE, f"here {ours}, in PyTorch {theirs}"
        return
    assert not isinstance(ours, Exception), f"here {ours!r}, in PyTorch {theirs}"
    assert [str(each.dtype) for each in ours] == [str(each.dtype) for each in theirs]
    allowed = ROUNDINGS["float64" if kind == "float64" else lower]
    assert_near(ours, theirs, allowed, name)
    if name == "addr" and kind == "mixed":
        return  # PyTorch's derivative fails on operands of two dtypes
    sweep(torch, ours)
    sweep(pytorch, theirs)
    grads = [[each.grad for each in x.made] for x in made]
    assert [each is None for each in grads[0]] == [each is None for each in grads[1]]
    for leaf in made[0].made:
        assert leaf.grad is None or leaf.grad.dtype is leaf.dtype
    known = [[each for each in several if each is not None] for several in grads]
    assert_near(*known, 2 * allowed, f"gradients of {name}")


def test_every_function_that_autocast_knows_is_called():
    from tapegrad._casts import cast_rules

    source = (name.split(" ")[0] for name in CALLS)
    called = set(source) | {"interpolate", "pad", "lstm", "gru", "rnn_tanh", "rnn_relu"}
    missing = {rule.function for rule in cast_rules()} - called - FRACTIONAL
    assert not missing


# Their places are random; tests/amp/test_layers.py calls the layers.
FRACTIONAL = {"fractional_max_pool2d", "fractional_max_pool3d"}


# ---- the rows of the op database, which tell of functions that autocast leaves alone

# PyTorch makes these of cat() or stack(), which refuse half precision of the other kind.
JOINING = {"roll", "unique", "matrix_exp", "fft.fftshift", "fft.ifftshift"}
# A product, which is cast in the middle of it; here it is one op, which is not.
JOINING |= {"linalg.pinv"}


def answered_dtypes(op, sample, library, lower):
    block = library.autocast("cpu", getattr(library, lower)) if lower else contextlib.nullcontext()
    try:
        with block:
            answer = results(call(op, sample, library))
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        return type(error)
    return [dt.name_of(each.dtype) if hasattr(each, "dtype") else None for each in answer]


def with_a_half_operand(sample):
    """Return a sample whose first tensor is of bfloat16."""
    found = []

    def visit(leaf):
        if isinstance(leaf, Value) and leaf.dtype == "float32":
            found.append(leaf)
            if len(found) == 1:
                return Value(leaf.array, "bfloat16")
        return leaf

    args, kwargs = walk((sample.args, sample.kwargs), visit)
    return Sample(*args, **kwargs)


@each("test_amp", dtypes=lambda op: [d for d in op.dtypes if dt.is_float(d)])
def test_row(op, dtype):
    samples = [each for each in draw(op, dtype) if each.numel() <= 1000]
    if dtype == "float32":
        samples += [with_a_half_operand(each) for each in samples]
    for sample in samples:
        for lower in ("bfloat16", "float16"):
            mine, other = (
                answered_dtypes(op, sample, library, lower) for library in (torch, pytorch)
            )
            if mine == other or (isinstance(mine, type) and isinstance(other, type)):
                continue
            plain = [answered_dtypes(op, sample, each, "") for each in (torch, pytorch)]
            assert op.name in JOINING or plain[0] != plain[1], (
                f"{op.name}{sample}: {mine} here, {other} in PyTorch"
            )
