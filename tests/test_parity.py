"""Agreement with PyTorch 2.13: values, dtypes, shapes, strides of views, gradients, refusals.

References in the op database say what is right; here PyTorch itself says what its users expect,
also where no reference speaks: which dtypes are refused, subgradients at kinks, the layout of
views.
"""

import itertools

import dtypes as dt
import numpy as np
import pytest
from cases import each, each_op
from checks import assert_close
from library import pytorch_for_parity, torch
from op_db.row import (
    Sample,
    Tolerance,
    Unspecified,
    Value,
    call,
    expected,
    lift,
    lift_value,
    results,
    walk,
)
from op_db.sampler import Sampler, draw

pytorch, REASON = pytorch_for_parity()
if pytorch is None:
    pytest.skip(REASON, allow_module_level=True)

REFUSALS = (RuntimeError, TypeError, ValueError, IndexError)

POLE = 1e6

# Gradients add a few roundings to an op's own, and sum over broadcast dimensions.
GRADIENT_TOLERANCE = Tolerance(relative=64, absolute=64)


def outcome(function, *args, **kwargs):
    """Return the results of a call as a list, or the exception it raised."""
    try:
        return results(function(*args, **kwargs))
    except REFUSALS as error:
        return error


def to_array(tensor):
    tensor = tensor.detach().clone()
    return (tensor.float() if dt.name_of(tensor.dtype) == "bfloat16" else tensor).numpy()


def assert_same_outcome(ours, theirs, context):
    """Check that both calls returned, or both raised exceptions of one kind."""
    refused = isinstance(theirs, Exception)
    assert isinstance(ours, Exception) == refused, (
        f"{context}: here {describe(ours)}, in PyTorch {describe(theirs)}"
    )
    if refused:
        related = issubclass(type(ours), type(theirs)) or issubclass(type(theirs), type(ours))
        related = related or type(ours).__name__ == type(theirs).__name__.lstrip("_")
        assert related, f"{context}: here {describe(ours)}, in PyTorch {describe(theirs)}"
    return refused


def describe(answer):
    if isinstance(answer, Exception):
        return f"{type(answer).__name__}: {answer}"
    return f"{len(answer)} results"


def layout_of(tensor):
    """Return strides and offset, leaving out dimensions of size one: nobody steps along those."""
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    return [stride for stride, size in pairs if size > 1], tensor.storage_offset()


def assert_same_results(ours, theirs, tolerance, context, *, values=True, strides=False):
    assert len(ours) == len(theirs), f"{context}: {len(ours)} results, PyTorch has {len(theirs)}"
    for mine, other in zip(ours, theirs, strict=True):
        dtype = dt.name_of(other.dtype)
        assert dt.name_of(mine.dtype) == dtype, f"{context}: {mine.dtype}, PyTorch has {dtype}"
        assert tuple(mine.shape) == tuple(other.shape), f"{context}: shapes differ"
        if strides and mine.numel():
            layout, wanted = layout_of(mine), layout_of(other)
            assert layout == wanted, f"{context}: (strides, offset) {layout}, PyTorch has {wanted}"
        if values:
            relative, absolute = tolerance.bounds(dtype)
            bounds = 2 * relative, 2 * absolute
            assert_close(to_array(mine), to_array(other), bounds, context)


def is_empty(answer):
    return not isinstance(answer, Exception) and all(result.numel() == 0 for result in answer)


def is_unspecified(op, sample):
    return any(isinstance(value, Unspecified) for value in expected(op, sample))


@each("test_parity", dtypes=lambda op: dt.ALL)
def test_parity(op, dtype):
    """Every dtype is tried, listed in the row or not: both accept it or both refuse it."""
    for sample in draw(op, dtype):
        context = f"{op.name}{sample}"
        ours = outcome(call, op, sample, torch)
        theirs = outcome(call, op, sample, pytorch)
        if dtype not in op.dtypes and is_empty(theirs):
            continue  # With nothing to compute, PyTorch never gets to look at the dtype.
        if not assert_same_outcome(ours, theirs, context):
            values = dtype in op.dtypes and not is_unspecified(op, sample)
            strides = op.view is True
            assert_same_results(ours, theirs, op.tolerance, context, values=values, strides=strides)


KINKS = np.array([-6.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 6.0])


def gradient_cases(op):
    """Return float32 samples, among them, for pointwise ops, one at every kink and every tie."""
    samples = [
        sample
        for sample in draw(op, "float32")
        if sample.numel() <= 100 and all(np.isfinite(v.array).all() for v in sample.values())
    ]
    if op.special:
        arity = len(samples[0].args)
        columns = [
            Value(KINKS.astype(np.float32).reshape([-1] + [1] * k), "float32")
            for k in reversed(range(arity))
        ]
        samples.append(Sample(*columns))
    return samples


def backward(op, sample, library):
    """Return results and leaf gradients of a call whose floating results are summed and swept."""
    leaves = []

    def visit(leaf):
        if not isinstance(leaf, Value):
            return lift(leaf, library)
        tensor = lift_value(leaf, library)
        if leaf.differentiable and dt.is_float(leaf.dtype):
            tensor = tensor.detach().requires_grad_()
            leaves.append(tensor)
        return tensor

    args, kwargs = walk((sample.args, sample.kwargs), visit)
    answer = results(op.function(library)(*args, **kwargs))
    swept = [y for y in answer if y.requires_grad]
    for index, y in enumerate(swept):
        # Unequal weights tell the elements of a result apart.
        weights = np.linspace(0.5, 1.5, y.numel()).reshape(tuple(y.shape))
        weight = lift_value(Value(weights.astype(np.float32), "float32"), library).to(y.dtype)
        y.backward(weight, retain_graph=index + 1 < len(swept))
    return answer, [leaf.grad for leaf in leaves]


def has_two_gradients(op):
    return op.gradient_order and op.pytorch_gradient and "float32" in op.dtypes


@each_op("test_gradient_parity", having=has_two_gradients)
def test_gradient_parity(op):
    for sample in gradient_cases(op):
        context = f"gradient of {op.name}{sample}"
        try:
            theirs, their_grads = backward(op, sample, pytorch)
        except RuntimeError:
            continue  # PyTorch cannot differentiate this call: there is nothing to compare with.
        ours, our_grads = backward(op, sample, torch)
        recorded = [y.requires_grad for y in theirs]
        assert [y.requires_grad for y in ours] == recorded, f"{context}: recorded differently"
        for index, (mine, other) in enumerate(zip(our_grads, their_grads, strict=True)):
            missing = (mine is None or other is None) and mine is not other
            assert not missing, f"{context}: input {index} has a gradient in one library only"
            if other is not None:
                where = f"{context}, input {index}"
                assert_same_results([mine], [other], GRADIENT_TOLERANCE, where, values=False)
                bounds = GRADIENT_TOLERANCE.bounds("float32")
                assert_close(below_poles(mine), below_poles(other), bounds, where)


def below_poles(gradient):
    """Return a gradient with everything huge made equal: at a pole, rounding decides how huge."""
    return np.clip(to_array(gradient), -POLE, POLE)


STANDINGS = (((2,), (2,)), ((2,), ()), ((), (2,)), ((), ()))


@each_op("test_promotion_parity", having=lambda op: op.promotes)
def test_promotion_parity(op):
    """Any two of all dtypes: the same result dtype, or a refusal on both sides."""
    kwargs = draw(op, op.dtypes[0])[0].kwargs
    pairs = itertools.product(dt.ALL, dt.ALL, STANDINGS)
    for first, second, (left, right) in pairs:
        a, b = Sampler(first).value(left, 1, 2), Sampler(second).value(right, 1, 2)
        compare_promotion(op, Sample(a, b, **kwargs))
    for dtype, number in itertools.product(dt.ALL, (True, 2, 1.5)):
        for shape in ((2,), ()):
            compare_promotion(op, Sample(Sampler(dtype).value(shape, 1, 2), number, **kwargs))


def compare_promotion(op, sample):
    ours, theirs = outcome(call, op, sample, torch), outcome(call, op, sample, pytorch)
    context = f"{op.name}{sample}"
    if not assert_same_outcome(ours, theirs, context):
        assert_same_results(ours, theirs, op.tolerance, context, values=False)


@each_op("test_variants_parity")
def test_variants_parity(op):
    """What a row claims about names is what PyTorch offers."""
    assert op.wrapper or callable(op.function(pytorch))
    for name in (op.method, op.inplace):
        assert name in (None, "kwarg") or callable(getattr(pytorch.Tensor, name))
