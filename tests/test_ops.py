"""Every op against its reference: values, dtypes, shapes, layouts, variants and refusals."""

import itertools
import re

import dtypes as dt
import numpy as np
import pytest
from cases import assert_answer, each, each_op, first_dtype
from checks import assert_close, to_numpy
from library import IS_TORCH, torch
from op_db import OPS
from op_db.row import (
    LAYOUTS,
    Sample,
    Value,
    call,
    expected,
    lift,
    lift_value,
    result_dtype,
    results,
    walk,
)
from op_db.sampler import Sampler, draw


@each("test_forward")
def test_forward(op, dtype):
    for sample in draw(op, dtype):
        assert_answer(op, sample, call(op, sample))


@each("test_noncontiguous", dtypes=first_dtype)
def test_noncontiguous(op, dtype):
    for sample in draw(op, dtype):
        for layout in LAYOUTS[1:]:
            assert_answer(op, sample, call(op, sample, layout=layout), layout)


@each("test_inputs_unchanged", dtypes=first_dtype)
def test_inputs_unchanged(op, dtype):
    for sample in draw(op, dtype):
        values = sample.values()
        tensors = [lift_value(value) for value in values]
        remaining = iter(tensors)
        args, kwargs = walk(
            (sample.args, sample.kwargs),
            lambda leaf, source=remaining: next(source) if isinstance(leaf, Value) else lift(leaf),
        )
        op.function()(*args, **kwargs)
        for value, tensor in zip(values, tensors, strict=True):
            assert_close(to_numpy(tensor), value.array, context=f"after {op.name}{sample}")


def overwrite_inputs(tensors, random):
    """Give every tensor other values, in place, and return them as arrays."""
    fresh = []
    for tensor in tensors:
        dtype = dt.name_of(tensor.dtype)
        value = Sampler(dtype, random.integers(1 << 30)).value(tuple(tensor.shape), 5, 9)
        tensor.copy_(lift_value(value))
        fresh.append(value)
    return fresh


@each("test_aliasing", having=lambda op: op.view is not None, dtypes=first_dtype)
def test_aliasing(op, dtype):
    """A view shows what is written to its base afterwards; any other result does not."""
    random = np.random.default_rng(0)
    for sample in draw(op, dtype):
        args, kwargs = lift((sample.args, sample.kwargs))
        answer = op.function()(*args, **kwargs)
        if op.view:
            (value,) = overwrite_inputs(args[:1], random)
            sample = Sample(value, *sample.args[1:], **sample.kwargs)
        else:
            overwrite_inputs([arg for arg in args if isinstance(arg, torch.Tensor)], random)
        assert_answer(op, sample, answer, "after a write to its input")


@each("test_method", having=lambda op: op.method, dtypes=first_dtype)
def test_method(op, dtype):
    for sample in draw(op, dtype):
        args, kwargs = lift((sample.args, sample.kwargs))
        if isinstance(args[0], torch.Tensor):
            answer = getattr(args[0], op.method)(*args[1:], **kwargs)
            assert_answer(op, sample, answer, "as a method")


def may_hold(target, dtype):
    """Whether an in-place op may store results of a dtype: never into a lower category."""
    return dt.category(target) >= dt.category(dtype)


def run_in_place(op, args, kwargs):
    if op.inplace == "kwarg":
        return op.function()(*args, **kwargs, inplace=True)
    return getattr(args[0], op.inplace)(*args[1:], **kwargs)


@each("test_inplace", having=lambda op: op.inplace)
def test_inplace(op, dtype):
    for sample, layout in itertools.product(draw(op, dtype), LAYOUTS):
        args, kwargs = lift((sample.args, sample.kwargs), layout=layout)
        target = args[0]
        if not isinstance(target, torch.Tensor):
            continue
        (wanted,) = expected(op, sample)
        (result,) = result_dtype(op, sample)
        if np.shape(wanted) != tuple(target.shape) or not may_hold(dtype, result):
            with pytest.raises(RuntimeError):
                run_in_place(op, args, kwargs)
            continue
        version = target._version
        answer = run_in_place(op, args, kwargs)
        assert answer is target, f"{op.name} in place returns its first argument"
        assert target._version > version or target.numel() == 0, "a write bumps the version"
        assert_answer(op, sample, answer, f"in place, {layout}", dtypes=[dtype])


def empty_outputs(op, sample, layout):
    """Return tensors to receive a call's results, in a dtype and shape that fit."""
    answer = results(call(op, sample))
    outputs = []
    for result in answer:
        junk = Value(np.ones(tuple(result.shape), bool), "bool")
        outputs.append(lift_value(junk, layout="contiguous").to(result.dtype))
        if layout == "strided" and result.dim():
            wide = torch.ones((*result.shape[:-1], 2 * result.shape[-1]), dtype=result.dtype)
            outputs[-1] = wide[..., ::2]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


@each("test_out", having=lambda op: op.out, dtypes=first_dtype)
def test_out(op, dtype):
    samples = filter(op.takes_out, draw(op, dtype))
    for sample, layout in itertools.product(samples, ("contiguous", "strided")):
        out = empty_outputs(op, sample, layout)
        args, kwargs = lift((sample.args, sample.kwargs))
        answer = op.function()(*args, **kwargs, out=out)
        for given, returned in zip(results(out), results(answer), strict=True):
            assert returned is given, f"{op.name} returns the tensor given as out="
        assert_answer(op, sample, answer, f"out= {layout}")


@each("test_out_resizes_empty", having=lambda op: op.out, dtypes=first_dtype)
def test_out_resizes_empty(op, dtype):
    for sample in filter(op.takes_out, draw(op, dtype)):
        found = results(call(op, sample))
        outputs = tuple(torch.empty(0, dtype=result.dtype) for result in found)
        args, kwargs = lift((sample.args, sample.kwargs))
        answer = op.function()(*args, **kwargs, out=outputs if len(outputs) > 1 else outputs[0])
        assert_answer(op, sample, answer, "out= empty")


def has_numeric_out(op):
    """Whether ``out=`` receives numbers; a bool result fits every dtype."""
    sample = next(filter(op.takes_out, draw(op, op.dtypes[0])), None)
    return sample is not None and "bool" not in result_dtype(op, sample)


@each("test_out_refuses_lower_category", having=has_numeric_out, dtypes=first_dtype)
def test_out_refuses_lower_category(op, dtype):
    """A floating result does not fit an integer ``out=``, nor an integer result a bool."""
    sample = next(filter(op.takes_out, draw(op, dtype)))
    found = results(call(op, sample))
    lower = {2: torch.int64, 1: torch.bool}
    categories = [dt.category(dt.name_of(result.dtype)) for result in found]
    outputs = tuple(
        torch.empty(tuple(result.shape), dtype=lower[category])
        for result, category in zip(found, categories, strict=True)
    )
    args, kwargs = lift((sample.args, sample.kwargs))
    with pytest.raises((RuntimeError, TypeError)):
        op.function()(*args, **kwargs, out=outputs if len(outputs) > 1 else outputs[0])


@each("test_operator", having=lambda op: op.operator)
def test_operator(op, dtype):
    for sample in draw(op, dtype):
        if sample.kwargs:
            continue
        args, _ = lift((sample.args, sample.kwargs))
        assert_answer(op, sample, op.operator(*args), "as an operator")
        if len(args) == 2 and not isinstance(args[1], torch.Tensor) and dtype != "bool":
            # Magnitudes of one and more, so that the operand may as well be a divisor.
            swapped = Sample(
                sample.args[1], Value(dt.cast(np.abs(sample.args[0].array) + 1, dtype), dtype)
            )
            reflected = op.operator(swapped.args[0], lift(swapped.args[1]))
            assert_answer(op, swapped, reflected, "reflected")


@each("test_inplace_operator", having=lambda op: op.inplace_operator, dtypes=first_dtype)
def test_inplace_operator(op, dtype):
    for sample in draw(op, dtype):
        args, _ = lift((sample.args, sample.kwargs))
        target = args[0]
        if not isinstance(target, torch.Tensor) or expected(op, sample)[0].shape != target.shape:
            continue
        answer = op.inplace_operator(*args)
        assert answer is target
        assert_answer(op, sample, answer, "as an in-place operator", dtypes=[dtype])


def special_values(dtype):
    """Return NaN, infinities, zeros of both signs, ones, a half, and the extremes of a dtype."""
    extremes = [dt.LARGEST[dtype], dt.SMALLEST_NORMAL[dtype], dt.TINIEST[dtype]]
    positive = [0.0, 0.5, 1.0, 2.0, 3.0, np.inf, *extremes]
    return np.array([np.nan, *positive, *(-x for x in positive)])


@each(
    "test_special_values",
    having=lambda op: op.special,
    dtypes=lambda op: [dtype for dtype in op.dtypes if dt.is_float(dtype)],
)
def test_special_values(op, dtype):
    specials = dt.cast(special_values(dtype), dtype)
    arity = len(draw(op, dtype)[0].args)
    columns = [Value(specials.reshape([-1] + [1] * k), dtype) for k in reversed(range(arity))]
    # Twice: vectorized and scalar code meet the same values.
    repeated = Value(np.concatenate([columns[0].array] * 5), dtype)
    sample = Sample(repeated, *columns[1:])
    answer = call(op, sample)
    assert_answer(op, sample, answer, "at special values")
    if op.signed_zero:
        assert_zero_signs(op, sample, answer)


def assert_zero_signs(op, sample, answer):
    """Check that a zero has the sign that IEEE arithmetic gives it."""
    (wanted,) = expected(op, sample)
    found, wanted = to_numpy(answer), dt.cast(wanted, dt.name_of(answer.dtype))
    wrong = (found == 0) & (wanted == 0) & (np.signbit(found) != np.signbit(wanted))
    assert not wrong.any(), f"the sign of zero in {op.name} at {np.argwhere(wrong)[0]}"


PROMOTION_SHAPES = (((2,), (2,)), ((2,), ()), ((), (2,)), ((), ()))


@each_op("test_promotion", having=lambda op: op.promotes)
def test_promotion(op):
    """Operands of any two accepted dtypes and any standing combine as PyTorch's rules say."""
    kwargs = draw(op, op.dtypes[0])[0].kwargs
    for first, second in itertools.product(op.dtypes, repeat=2):
        for left, right in PROMOTION_SHAPES:
            a = Sampler(first).value(left, 1, 2)
            b = Sampler(second).value(right, 1, 2)
            sample = Sample(a, b, **kwargs)
            (wanted,) = result_dtype(op, sample)
            answer = call(op, sample)
            assert dt.name_of(answer.dtype) == wanted, f"for {op.name}{sample}"
    for dtype, number in itertools.product(op.dtypes, numbers_accepted(op)):
        for shape in ((2,), ()):
            sample = Sample(Sampler(dtype).value(shape, 1, 2), number, **kwargs)
            (wanted,) = result_dtype(op, sample)
            assert dt.name_of(call(op, sample).dtype) == wanted, f"for {op.name}{sample}"


def numbers_accepted(op):
    """Return Python numbers, one per category, that a row takes as second operand."""
    if all(isinstance(sample.args[-1], Value) for sample in draw(op, op.dtypes[0])):
        return ()
    numbers = {"bool": True, "int64": 2, "float32": 1.5}
    return tuple(number for dtype, number in numbers.items() if dtype in op.dtypes)


# An op composed of others may refuse in the name of one of them; subscripts have their own names.
OPERATIONS = {"index", "slice", "assignment", "device", "svd"} | {
    name.rsplit(".", maxsplit=1)[-1].rstrip("_")
    for op in OPS
    for name in (op.path, op.name, op.method)
    if name
}

BAD_CALLS = [
    pytest.param(op, bad, id=f"{op.name}-{index}") for op in OPS for index, bad in enumerate(op.bad)
]


def wait_for_device():
    """A kernel on a device that meets what it cannot use is heard of when one waits for it."""
    if torch.get_default_device().type == "cuda":
        torch.cuda.synchronize()


@pytest.mark.parametrize(("op", "bad"), BAD_CALLS)
def test_bad_call(op, bad):
    args, kwargs = lift((bad.sample.args, bad.sample.kwargs))
    with pytest.raises(bad.raises) as caught:
        op.function()(*args, **kwargs)
        wait_for_device()
    message = str(caught.value)
    assert re.search(bad.text, message, re.IGNORECASE), f"{op.name}{bad.sample} says: {message}"
    if not (IS_TORCH or isinstance(caught.value, AttributeError)):
        opening = re.match(r"(?:torch\.)?(?:linalg\.)?(\w+)(\(\))?:? ", message)
        known = opening and opening.group(1).rstrip("_") in OPERATIONS
        assert known, f"{op.name}: an error opens with an operation: {message}"
