"""Rows of the pointwise ops that choose or blend: where, clamp, lerp, addcmul, masked_fill."""

import dtypes as dt
import numpy as np

from op_db.pointwise import BOOLS, FLOATING, INTEGERS
from op_db.row import Bad, Op, Sample, Skip, Tolerance, Value, operand_dtypes
from op_db.sampler import Sampler

SHAPES = (((3,), (3,), (3,)), ((), (), ()), ((2, 3), (3,), (2, 1)), ((2, 0), (2, 0), (1, 0)))
GRADIENT_SHAPES = SHAPES[:3]

MISMATCHED = tuple(Sampler("float32").value((size,)) for size in (3, 4, 5))
TWO_BOOLS = Sampler("bool").mask((2,))


def shapes_for(sampler):
    return GRADIENT_SHAPES if sampler.gradient else SHAPES


def where_samples(sampler):
    for condition, a, b in shapes_for(sampler):
        yield Sample(sampler.mask(condition), sampler.value(a), sampler.value(b))


def where_scalar_samples(sampler):
    yield Sample(sampler.mask((2, 3)), sampler.value((3,)), sampler.scalar())
    yield Sample(sampler.mask((2, 3)), sampler.scalar(), sampler.value((3,)))
    yield Sample(sampler.mask(()), sampler.value(()), sampler.scalar())
    if not sampler.gradient:
        yield Sample(sampler.mask((0,)), sampler.value((0,)), sampler.scalar())


def where_result(sample):
    _, *chosen = sample.args
    return dt.promote(operand_dtypes(Sample(*chosen)))


def clamp_samples(sampler):
    """Bounds as numbers and as tensors, one-sided and two-sided, also crossed (then max wins)."""
    inside = {"avoid": (-1.0, 1.0)}
    bounds = [{"min": -1, "max": 1}, {"min": 1}, {"max": 1}, {"min": 1, "max": -1}]
    if sampler.dtype == "uint8":
        bounds = [{"min": 1, "max": 2}, {"min": 1}, {"max": 2}, {"min": 2, "max": 1}]
    for shape in ((4,), (), (2, 3)) if sampler.gradient else ((4,), (), (2, 3), (0, 2), (67,)):
        for bound in bounds:
            yield Sample(sampler.value(shape, **inside), **bound)
    first = sampler.value((2, 3), 1.2, 4.0)
    low, high = sampler.value((3,), -1.0, 1.0), sampler.value((2, 1), 2.0, 3.0)
    if sampler.gradient:
        high = Value(first.array.max(axis=1, keepdims=True) + 0.5, sampler.dtype)
        low = Value(first.array.max(axis=0) - 0.17, sampler.dtype)
    yield Sample(first, low, high)
    yield Sample(first, min=low)
    yield Sample(first, max=high)


def bound_samples(sampler):
    """One bound, a number or a tensor, with its place away from the values under gradients."""
    for shape in ((4,), (), (2, 3)) if sampler.gradient else ((4,), (), (2, 3), (0, 2), (67,)):
        yield Sample(sampler.value(shape, avoid=(1.0,)), 1)
    if sampler.gradient:
        values = sampler.distinct((2, 3))
        yield Sample(values, Value(values.array[0] + 0.1, sampler.dtype))
    else:
        yield Sample(sampler.value((2, 3)), sampler.value((3,)))


def clamp(x, min=None, max=None):
    if min is not None:
        x = np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


def clamp_result(sample):
    return dt.promote(operand_dtypes(Sample(*sample.args, *sample.kwargs.values())))


def lerp_samples(sampler):
    for start, end, weight in shapes_for(sampler):
        yield Sample(sampler.value(start), sampler.value(end), sampler.value(weight, 0.0, 1.0))
    yield Sample(sampler.value((2, 3)), sampler.value((3,)), 0.25)
    yield Sample(sampler.value((2, 3)), sampler.value((3,)), 0.75)


def addc_samples(low, high):
    def samples(sampler):
        for base, first, second in shapes_for(sampler):
            args = sampler.value(base), sampler.value(first), sampler.value(second, low, high)
            yield Sample(*args)
            yield Sample(*args, value=2)

    return samples


def masked_fill_samples(sampler):
    for shape, mask in (((3, 4), (3, 4)), ((3, 4), (4,)), ((), ()), ((67,), (67,))):
        yield Sample(sampler.value(shape), sampler.mask(mask), sampler.scalar())
        fill = sampler.value(())
        yield Sample(sampler.value(shape), sampler.mask(mask), fill)
    if not sampler.gradient:
        yield Sample(sampler.value((0, 2)), sampler.mask((0, 2)), sampler.scalar())


def variants(name, **fields):
    return {"method": name, "inplace": f"{name}_", **fields}


ROWS = (
    Op(
        "where",
        lambda c, a, b: np.where(c, a, b),
        where_samples,
        dtypes=dt.ALL,
        result=where_result,
        out=True,
        bad=(
            Bad(TWO_BOOLS, MISMATCHED[0], MISMATCHED[1], raises=RuntimeError, text="size|shape"),
            Bad(FLOATING, FLOATING, FLOATING, raises=RuntimeError, text="bool"),
            Bad(TWO_BOOLS, FLOATING, "text", raises=TypeError, text="str|Tensor"),
        ),
    ),
    Op(
        "where.scalar",
        lambda c, a, b: np.where(c, a, b),
        where_scalar_samples,
        path="where",
        dtypes=dt.ALL,
        result=where_result,
    ),
    Op(
        "clamp",
        clamp,
        clamp_samples,
        dtypes=dt.NUMBERS,
        result=clamp_result,
        out=True,
        **variants("clamp"),
        bad=(
            Bad(FLOATING, raises=RuntimeError, text="min.*max|None"),
            Bad(FLOATING, MISMATCHED[0], raises=RuntimeError, text="size|shape"),
            Bad(FLOATING, "low", "high", raises=TypeError, text="str|clamp|clip"),
        ),
    ),
    *(
        Op(
            name,
            lambda x, bound, of=reference: of(x, bound),
            bound_samples,
            dtypes=dt.NUMBERS,
            **variants(name),
            bad=(
                Bad(FLOATING, MISMATCHED[0], raises=RuntimeError, text="size|shape"),
                Bad(FLOATING, "low", raises=TypeError, text="str|clamp"),
            ),
        )
        for name, reference in (("clamp_min", np.maximum), ("clamp_max", np.minimum))
    ),
    Op(
        "lerp",
        lambda a, b, w: a + w * (b - a),
        lerp_samples,
        dtypes=dt.FLOATS,
        out=True,
        **variants("lerp"),
        tolerance=Tolerance(absolute=8, half=2),
        bad=(
            Bad(MISMATCHED[0], MISMATCHED[1], 0.5, raises=RuntimeError, text="size|shape"),
            Bad(INTEGERS, INTEGERS, 0.5, raises=RuntimeError, text="int64|Long"),
            Bad(FLOATING, INTEGERS, 0.5, raises=RuntimeError, text="dtype|type"),
            Bad(FLOATING, FLOATING, "half", raises=TypeError, text="str|weight"),
        ),
    ),
    Op(
        "addcmul",
        lambda x, a, b, value=1: x + value * a * b,
        addc_samples(-3.0, 3.0),
        dtypes=dt.NUMBERS,
        out=True,
        **variants("addcmul"),
        tolerance=Tolerance(absolute=16, half=3),
        bad=(
            Bad(*MISMATCHED, raises=RuntimeError, text="size|shape"),
            Bad(BOOLS, BOOLS, BOOLS, raises=RuntimeError, text="bool"),
        ),
    ),
    Op(
        "addcdiv",
        lambda x, a, b, value=1: x + value * a / b,
        addc_samples(0.5, 3.0),
        dtypes=dt.FLOATS,
        out=True,
        **variants("addcdiv"),
        tolerance=Tolerance(absolute=16, half=3),
        bad=(
            Bad(*MISMATCHED, raises=RuntimeError, text="size|shape"),
            Bad(INTEGERS, INTEGERS, INTEGERS, raises=RuntimeError, text="integer"),
        ),
    ),
    Op(
        "masked_fill",
        lambda x, mask, value: np.where(mask, value, x),
        masked_fill_samples,
        dtypes=dt.ALL,
        result="same",
        **variants("masked_fill"),
        skips=(Skip("test_inplace_refuses_expanded", "PyTorch warns only", library="torch"),),
        bad=(
            Bad(FLOATING, FLOATING, 1.0, raises=RuntimeError, text="bool"),
            Bad(MISMATCHED[0], TWO_BOOLS, 1.0, raises=RuntimeError, text="size|shape"),
            Bad(FLOATING, TWO_BOOLS, FLOATING, raises=RuntimeError, text="0-dim|scalar|dimension"),
        ),
    ),
)
