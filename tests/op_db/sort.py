"""Rows of the ops that order elements: sort, topk, mode, unique, searchsorted, bincount."""

import dtypes as dt
import numpy as np

from op_db.row import Bad, Op, Sample, Skip, Tolerance, Value
from op_db.sampler import Sampler

MATRIX = Sampler("float32").value((2, 3))
EXACT = Tolerance(relative=0, half=0)
LONG_ROW = 200


def ordering(*cases):
    """Sample distinct values by ``(shape, positional arguments, keyword arguments)``."""

    def samples(sampler):
        for shape, args, kwargs in cases:
            if not (sampler.gradient and 0 in shape):
                yield Sample(sampler.distinct(shape), *args, **kwargs)

    return samples


def case(shape, *args, **kwargs):
    return shape, args, kwargs


def stable_order(x, dim, descending):
    """Return the indices that sort, equal elements in their first order in both directions."""
    if descending:
        flipped = np.flip(x, axis=dim)
        order = np.argsort(flipped, axis=dim, kind="stable")
        return np.flip(x.shape[dim] - 1 - order, axis=dim)
    return np.argsort(x, axis=dim, kind="stable")


def sort(x, dim=-1, descending=False, stable=False):
    if x.ndim == 0:
        return x, np.array(0)
    order = stable_order(x, dim, descending)
    return np.take_along_axis(x, order, axis=dim), order


def argsort(x, dim=-1, descending=False, stable=False):
    return sort(x, dim, descending)[1]


def topk(x, k, dim=-1, largest=True, sorted=True):
    values, order = sort(x, dim, descending=largest)
    if x.ndim == 0:
        return values, order
    return np.take(values, np.arange(k), axis=dim), np.take(order, np.arange(k), axis=dim)


def mode(x, dim=-1, keepdim=False):
    """The smallest of the most frequent values, and where it comes last."""
    rows = np.moveaxis(x, dim, -1) if x.ndim else x.reshape(1)
    values = np.empty(rows.shape[:-1], x.dtype)
    indices = np.empty(rows.shape[:-1], np.int64)
    for place in np.ndindex(values.shape):
        found, counts = np.unique(rows[place], return_counts=True)
        values[place] = found[counts.argmax()]
        indices[place] = np.flatnonzero(rows[place] == values[place])[-1]
    if keepdim and x.ndim:
        return np.expand_dims(values, dim), np.expand_dims(indices, dim)
    return values, indices


def mode_samples(sampler):
    for shape, args, kwargs in MODES:
        if sampler.gradient and 0 in shape:
            continue
        # A gradient is asked for where a small step changes nothing: among distinct values.
        value = sampler.distinct(shape)
        if not sampler.gradient:
            value = Value(np.round(sampler.value(shape, -1, 1).array) + 0.0, sampler.dtype)
            value = Value(value.array.astype(dt.storage(sampler.dtype)), sampler.dtype)
        yield Sample(value, *args, **kwargs)


def unique(x, sorted=True, return_inverse=False, return_counts=False, dim=None):
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, axis=dim)
    answer = [values]
    if return_inverse:
        answer.append(inverse.reshape(x.shape if dim is None else -1))
    if return_counts:
        answer.append(counts)
    return tuple(answer)


def unique_samples(sampler):
    for shape, kwargs in (
        ((7,), {}),
        ((3, 4), {}),
        ((3, 4), {"return_inverse": True}),
        ((3, 4), {"return_counts": True}),
        ((9,), {"return_inverse": True, "return_counts": True}),
        ((5, 2), {"dim": 0, "return_inverse": True}),
        ((), {}),
        ((0,), {}),
    ):
        value = sampler.value(shape, -1, 1)
        if dt.is_float(sampler.dtype):
            value = Value(np.round(value.array) + 0.0, sampler.dtype)
        yield Sample(value, **kwargs)


def unique_dtypes(sample):
    extra = sample.kwargs.get("return_inverse", False) + sample.kwargs.get("return_counts", False)
    return [sample.args[0].dtype] + ["int64"] * extra


def searchsorted(sequence, values, right=False, side=None, out_int32=False):
    side = side or ("right" if right else "left")
    if sequence.ndim <= 1:
        return np.searchsorted(sequence, values, side=side)
    rows = zip(
        sequence.reshape(-1, sequence.shape[-1]), values.reshape(-1, values.shape[-1]), strict=True
    )
    return np.stack([np.searchsorted(s, v, side=side) for s, v in rows]).reshape(values.shape)


def searchsorted_samples(sampler):
    def ascending(*shape):
        return Value(np.sort(sampler.distinct(shape).array, axis=-1), sampler.dtype)

    yield Sample(ascending(6), sampler.value((4,)))
    yield Sample(ascending(6), sampler.value((2, 3)), right=True)
    yield Sample(ascending(6), sampler.value(()))
    yield Sample(ascending(2, 5), sampler.value((2, 3)))
    yield Sample(ascending(6), sampler.value((0,)))
    sequence = ascending(6)
    yield Sample(sequence, sequence, side="right")
    yield Sample(sequence, sequence, side="left")


def bincount_samples(sampler):
    def counts(*shape):
        return Value(np.abs(sampler.value(shape, 0, 5).array), sampler.dtype)

    yield Sample(counts(9))
    yield Sample(counts(9), minlength=8)
    yield Sample(counts(0))
    yield Sample(counts(0), minlength=3)
    yield Sample(counts(9), Sampler("float64").value((9,)))
    yield Sample(counts(9), weights=Sampler("float32").value((9,)))


def bincount(x, weights=None, minlength=0):
    if x.size == 0:
        return np.zeros(minlength, np.int64)
    return np.bincount(x, weights, minlength)


def bincount_dtype(sample):
    values = sample.values()
    if len(values) == 1:
        return "int64"
    return "float32" if values[1].dtype == "float32" else "float64"


SORTS = (
    case((7,)),
    case((3, 4), 0),
    case((3, 4), -1, True),
    case((2, 3, 4), dim=1, descending=True),
    case((0, 3)),
    case((3, 0)),
    case(()),
    case((LONG_ROW,)),
)
BAD_SORTS = (
    Bad(MATRIX, dim=4, raises=IndexError, text="4"),
    Bad(MATRIX, dim="rows", raises=TypeError, text="str|dim|sort"),
)
TOPKS = (
    case((7,), 3),
    case((3, 4), 2, 0),
    case((3, 4), 1, largest=False),
    case((7,), 0),
    case((7,), 7),
    case((0, 3), 2),
    case((), 1),
    case((LONG_ROW,), 20),
)
# Longer rows have their last place in tapegrad alone: PyTorch sorts them unstably.
MODES = (
    case((7,)),
    case((3, 4), 0),
    case((3, 4), -1, True),
    case((2, 3, 4), dim=1),
    case((2, 3, 4), dim=-2, keepdim=True),
    case((0, 3)),
    case(()),
)
SMALL = ("float32", "float64", "float16", "bfloat16", "int16", "int32", "int64", "uint8")


def values_and_indices(sample):
    return [sample.args[0].dtype, "int64"]


ROWS = (
    Op(
        "sort",
        sort,
        ordering(*SORTS, case((9,), stable=True)),
        method="sort",
        dtypes=SMALL,
        out=True,
        result=values_and_indices,
        tolerance=EXACT,
        bad=BAD_SORTS,
    ),
    Op(
        "argsort",
        argsort,
        ordering(*SORTS, case((9,), stable=True)),
        method="argsort",
        dtypes=SMALL,
        result="int64",
        gradient_order=0,
        bad=BAD_SORTS,
    ),
    Op(
        "topk",
        topk,
        ordering(*TOPKS),
        method="topk",
        dtypes=SMALL,
        out=True,
        result=values_and_indices,
        tolerance=EXACT,
        bad=(
            Bad(MATRIX, 4, raises=RuntimeError, text="k|4|range"),
            Bad(MATRIX, -1, raises=RuntimeError, text="k|-1|range"),
            Bad(MATRIX, 1, dim=4, raises=IndexError, text="4"),
            Bad(MATRIX, 1.5, raises=TypeError, text="float|k"),
        ),
    ),
    Op(
        "mode",
        mode,
        mode_samples,
        method="mode",
        dtypes=(*SMALL, "bool"),
        out=True,
        result=values_and_indices,
        tolerance=EXACT,
        bad=(
            Bad(MATRIX, 4, raises=IndexError, text="4"),
            Bad(Sampler("float32").value((3, 0)), raises=IndexError, text="non-zero size"),
            Bad(MATRIX, 1.5, raises=TypeError, text="float|dim"),
        ),
    ),
    Op(
        "unique",
        unique,
        unique_samples,
        method="unique",
        dtypes=dt.ALL,
        gradient_order=0,
        result=unique_dtypes,
        tolerance=EXACT,
        bad=(Bad(MATRIX, dim=4, raises=IndexError, text="4"),),
    ),
    Op(
        "searchsorted",
        searchsorted,
        searchsorted_samples,
        dtypes=dt.NUMBERS,
        result="int64",
        gradient_order=0,
        out=True,
        skips=(Skip("test_noncontiguous", "PyTorch warns about the copy", library="torch"),),
        missing={"zero_dim": "a sequence to search has a dimension"},
        bad=(
            Bad(
                MATRIX, Sampler("float32").value((3, 2)), raises=RuntimeError, text="dim|size|shape"
            ),
        ),
    ),
    Op(
        "bincount",
        bincount,
        bincount_samples,
        method="bincount",
        dtypes=dt.INTS,
        result=bincount_dtype,
        gradient_order=0,
        tolerance=Tolerance(relative=8, absolute=8),
        missing={"zero_dim": "counts are taken along one dimension"},
        bad=(
            Bad(MATRIX, raises=RuntimeError, text="int|float|1-d"),
            Bad(Sampler("int64").value((2, 3), 0, 3), raises=RuntimeError, text="1-?d|dim"),
            Bad(Value(np.array([1, -2]), "int64"), raises=RuntimeError, text="negative"),
            Bad(
                Value(np.array([1, 2]), "int64"),
                minlength=-1,
                raises=RuntimeError,
                text="minlength|-1",
            ),
            Bad(
                Value(np.array([1, 2]), "int64"),
                Sampler("float32").value((3,)),
                raises=RuntimeError,
                text="length|size|weights",
            ),
        ),
    ),
)
