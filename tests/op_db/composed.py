"""Rows of operations written in Python that reduce slices, and of powers of two."""

import numpy as np

from op_db.row import Bad, Op, Sample, Tolerance, Value
from op_db.sampler import Sampler

EXACT = Tolerance(relative=0, half=0)
MATRIX = Sampler("float32").value((2, 3))
VECTOR = Sampler("float32").value((3,))
INTEGERS = Sampler("int64").value((3,))
NO_DIMENSION = {"zero_dim": "there is no dimension to work along"}


def indices(*values):
    return Value(np.array(values, np.int64), "int64", differentiable=False)


# ---- reductions into slices and to a norm


def index_reduce(x, dim, index, source, reduce, include_self=True):
    x, source = np.moveaxis(x.copy(), dim, 0), np.moveaxis(source, dim, 0)
    for place in np.unique(index):
        parts = source[index == place]
        if include_self:
            parts = np.concatenate([x[place : place + 1], parts])
        x[place] = {"prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[reduce](
            parts, 0
        )
    return np.moveaxis(x, 0, dim)


def index_reduce_samples(sampler):
    for reduce in ("prod", "mean", "amax", "amin"):
        yield Sample(
            sampler.distinct((3, 4)), 0, sampler.index((5,), 3), sampler.distinct((5, 4)), reduce
        )
    yield Sample(
        sampler.distinct((3, 4)),
        1,
        indices(0, 2, 2),
        sampler.distinct((3, 3), step=0.375),
        "amax",
        include_self=False,
    )
    if not sampler.gradient:
        yield Sample(sampler.value((3, 4)), 0, indices(), sampler.value((0, 4)), "mean")


def renorm(x, p, dim, maxnorm):
    others = tuple(d for d in range(x.ndim) if d != dim)
    norms = (np.abs(x) ** p).sum(others, keepdims=True) ** (1 / p)
    return np.where(norms > maxnorm, x * (maxnorm / (norms + 1e-7)), x)


def renorm_samples(sampler):
    yield Sample(sampler.value((3, 4), 0.5, 3), 2, 0, 2.0)
    yield Sample(sampler.value((3, 4), 0.5, 3), 1, 1, 4.0)
    yield Sample(sampler.value((2, 3, 4), 0.5, 3), 3, 1, 2.5)
    if not sampler.gradient:
        yield Sample(sampler.value((0, 4)), 2, 0, 1.0)


# ---- slopes, and powers of two


def slopes(x, spacing=1, dim=None, edge_order=1):
    axes = tuple(range(x.ndim)) if dim is None else dim
    found = np.gradient(x, spacing, axis=axes, edge_order=edge_order)
    return found if isinstance(found, list | tuple) else [found]


def slope_samples(sampler):
    yield Sample(sampler.value((5,)))
    yield Sample(sampler.value((3, 4)), spacing=0.5)
    yield Sample(sampler.value((4, 3)), dim=0, edge_order=2)
    if not sampler.gradient:
        yield Sample(sampler.value((0, 4)), dim=1)


def ldexp_samples(sampler):
    for a, b in (((), ()), ((5,), (5,)), ((3, 1), (1, 4)), ((2, 3), ())):
        yield Sample(sampler.value(a), sampler.value(b, 0, 3, differentiable=False))
    if not sampler.gradient:
        yield Sample(sampler.value((0,)), sampler.value((0,)))


def mantissa(library):
    return lambda x: library.frexp(x)[0]


def frexp_samples(sampler):
    for shape in ((), (7,), (3, 4), *(() if sampler.gradient else ((0,),))):
        yield Sample(sampler.value(shape, 0.6, 40))


ROWS = (
    Op(
        "index_reduce",
        index_reduce,
        index_reduce_samples,
        method="index_reduce",
        inplace="index_reduce_",
        out=True,
        dtypes=("float32", "float64"),
        result="same",
        tolerance=Tolerance(relative=8, absolute=8),
        missing=NO_DIMENSION,
        bad=(
            Bad(
                MATRIX,
                0,
                indices(7),
                Sampler("float32").value((1, 3)),
                "amax",
                raises=IndexError,
                text="7",
            ),
            Bad(
                MATRIX,
                0,
                indices(0),
                Sampler("float32").value((1, 3)),
                "sum",
                raises=RuntimeError,
                text="sum",
            ),
            Bad(
                MATRIX,
                0,
                indices(0, 1),
                Sampler("float64").value((2, 3)),
                "amax",
                raises=RuntimeError,
                text="type",
            ),
        ),
    ),
    Op(
        "renorm",
        renorm,
        renorm_samples,
        method="renorm",
        inplace="renorm_",
        out=True,
        result="same",
        tolerance=Tolerance(relative=16, absolute=16, half=2),
        missing=NO_DIMENSION,
        bad=(
            Bad(VECTOR, 2, 0, 1.0, raises=RuntimeError, text="2 dimensions"),
            Bad(MATRIX, -1, 0, 1.0, raises=RuntimeError, text="norm"),
            Bad(MATRIX, 2, 0, -1.0, raises=RuntimeError, text="maxnorm"),
        ),
    ),
    Op(
        "gradient",
        slopes,
        slope_samples,
        dtypes=("float32", "float64"),
        result=lambda sample: (
            [sample.values()[0].dtype]
            * (1 if "dim" in sample.kwargs else sample.values()[0].array.ndim)
        ),
        tolerance=Tolerance(relative=8, absolute=32),
        missing=NO_DIMENSION,
        bad=(
            Bad(Sampler("float32").value((1,)), raises=RuntimeError, text="edge_order"),
            Bad(VECTOR, edge_order=3, raises=RuntimeError, text="edge_order"),
        ),
    ),
    Op(
        "ldexp",
        lambda x, other: x * 2.0**other,
        ldexp_samples,
        method="ldexp",
        inplace="ldexp_",
        out=True,
        dtypes=("float32", "float64"),
        tolerance=Tolerance(relative=4),
        bad=(Bad(VECTOR, 2, raises=TypeError, text="other"),),
    ),
    Op(
        "frexp",
        lambda x: np.frexp(x)[0],
        frexp_samples,
        path="frexp",
        wrapper=mantissa,
        result="same",
        tolerance=EXACT,
        bad=(Bad(INTEGERS, raises=RuntimeError, text="float"),),
    ),
)
