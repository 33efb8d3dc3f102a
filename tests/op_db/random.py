"""Rows of the random ops: shapes, dtypes and refusals. Distributions are in ``test_random.py``."""

import dtypes as dt
import numpy as np

from op_db.create import BAD_SIZES, NO_TENSOR, given_or_own, like, sized
from op_db.row import Bad, Dtype, Op, Sample, Skip, Unspecified, Value
from op_db.sampler import Sampler

MATRIX = Sampler("float32").value((2, 3))
INTEGERS = Sampler("int64").value((2, 3))


def shape_only(shape, *_, **__):
    return Unspecified(tuple(shape))


def shape_of(x, *_, **__):
    return Unspecified(np.shape(x))


def last_size(*args, **_):
    """The shape is the last of the positional arguments, after bounds or moments."""
    return Unspecified(tuple(args[-1]))


def written(name):
    """Return a wrapper that runs an in-place random method on a copy."""

    def wrapper(library):
        method = getattr(library.Tensor, name)

        def fill(x, *args, **kwargs):
            return method(x.clone(), *args, **kwargs)

        return fill

    return wrapper


def integer_samples(sampler):
    dtype = Dtype(sampler.dtype)
    yield Sample(5, (2, 3), dtype=dtype)
    yield Sample(2, 9, (4,), dtype=dtype)
    yield Sample(1, 2, (), dtype=dtype)
    yield Sample(3, (0, 2), dtype=dtype)


def normal_samples(sampler):
    yield Sample(sampler.value((2, 3)), sampler.value((3,), 0.5, 2.0))
    yield Sample(sampler.value((2, 3)), 1.5)
    yield Sample(1.0, sampler.value((), 0.5, 2.0))
    yield Sample(sampler.value((0,)), 1.0)


def normal_shape(mean, std):
    return Unspecified(np.broadcast_shapes(np.shape(mean), np.shape(std)))


def probability_samples(sampler):
    for shape in ((2, 3), (), (0,)):
        yield Sample(sampler.value(shape, 0.0, 1.0))


def weight_samples(sampler):
    yield Sample(sampler.value((5,), 0.1, 1.0), 3)
    yield Sample(sampler.value((2, 5), 0.1, 1.0), 5)
    yield Sample(sampler.value((2, 5), 0.1, 1.0), 7, True)


def multinomial_shape(weights, count, replacement=False):
    return Unspecified((*weights.shape[:-1], count))


def in_place(name, *args, bad, dtypes=dt.FLOATS):
    def samples(sampler):
        for shape in ((2, 3), (), (0, 2)):
            yield Sample(sampler.value(shape))
            yield Sample(sampler.value(shape), *args)

    integers = (
        (Bad(INTEGERS, raises=RuntimeError, text="int64|Long"),) if "bool" not in dtypes else ()
    )
    return Op(
        name,
        shape_of,
        samples,
        wrapper=written(name),
        path=f"Tensor.{name}",
        dtypes=dtypes,
        result="same",
        gradient_order=0,
        bad=bad + integers,
    )


def geometric_samples(sampler):
    for shape in ((2, 3), (), (0, 2)):
        yield Sample(sampler.value(shape), 0.25)


def bounded_samples(sampler):
    """Random integers in the shape of a tensor, below a bound and between two."""
    for shape in ((2, 3), (), (0, 2)):
        yield Sample(sampler.value(shape), 5)
        yield Sample(sampler.value(shape), 2, 9)
        yield Sample(sampler.value(shape), 2, 9, dtype=Dtype("int32"))


def rate_samples(sampler):
    for shape in ((2, 3), (), (0,)):
        yield Sample(sampler.value(shape, 0.0, 9.0))


def values(*numbers):
    return Value(np.array(numbers, np.float32), "float32")


MAKES = {"dtypes": dt.FLOATS, "result": "dtype", "gradient_order": 0, "missing": NO_TENSOR}
SIZES = (*BAD_SIZES, Bad((2,), generator=3, raises=TypeError, text="generator|int"))

ROWS = (
    Op("rand", shape_only, sized(), out=True, **MAKES, bad=SIZES),
    Op("randn", shape_only, sized(), out=True, **MAKES, bad=SIZES),
    Op("rand_like", shape_of, like(), dtypes=dt.FLOATS, result=given_or_own, gradient_order=0),
    Op("randn_like", shape_of, like(), dtypes=dt.FLOATS, result=given_or_own, gradient_order=0),
    Op(
        "randint",
        last_size,
        integer_samples,
        out=True,
        **{**MAKES, "dtypes": dt.NUMBERS},
        bad=(
            Bad(5, 5, (2,), raises=RuntimeError, text="5"),
            Bad(-5, (2,), raises=RuntimeError, text="-5"),
            Bad(0, 300, (2,), dtype=Dtype("uint8"), raises=RuntimeError, text="300|bounds|range"),
            Bad(0, 5, (-1,), raises=RuntimeError, text="-1|negative"),
            Bad(
                0,
                2**63,
                (2,),
                raises=(RuntimeError, ValueError, OverflowError, TypeError),
                text="overflow|range|argument",
            ),
        ),
    ),
    Op(
        "randperm",
        lambda n, dtype=None: Unspecified((n,)),
        lambda sampler: (Sample(n, dtype=Dtype(sampler.dtype)) for n in (0, 1, 7)),
        out=True,
        **{**MAKES, "dtypes": ("int64", "int32", "float32")},
        bad=(
            Bad(-1, raises=RuntimeError, text="-1|negative"),
            Bad("a", raises=TypeError, text="str"),
        ),
    ),
    Op(
        "normal",
        normal_shape,
        normal_samples,
        out=True,
        dtypes=dt.FLOATS,
        result="promoted",
        gradient_order=0,
        skips=(Skip("test_out_resizes_empty", "PyTorch does not broadcast here", library="torch"),),
        bad=(
            Bad(values(0.0), values(-1.0), raises=RuntimeError, text="std"),
            Bad(0.0, -1.0, (2,), raises=RuntimeError, text="std.*-1"),
        ),
    ),
    Op(
        "normal.size",
        last_size,
        lambda sampler: (Sample(0.0, 1.0, shape) for shape in ((2, 3), (), (0,))),
        path="normal",
        **{**MAKES, "dtypes": ("float32",)},
    ),
    Op(
        "bernoulli",
        shape_of,
        probability_samples,
        method="bernoulli",
        out=True,
        dtypes=dt.FLOATS,
        result="same",
        gradient_order=0,
        skips=(Skip("test_out_refuses_lower_category", "zeros and ones fit every dtype"),),
        bad=(
            Bad(values(1.5), raises=RuntimeError, text="p|1.5"),
            Bad(values(-0.5), raises=RuntimeError, text="p|-0.5"),
            Bad(INTEGERS, raises=RuntimeError, text="int64|Long"),
        ),
    ),
    Op(
        "multinomial",
        multinomial_shape,
        weight_samples,
        method="multinomial",
        out=True,
        dtypes=dt.FLOATS,
        result="int64",
        gradient_order=0,
        missing={"zero_size": "there is nothing to choose from", "zero_dim": "as before"},
        bad=(
            Bad(values(1.0, -1.0), 1, raises=RuntimeError, text="prob|negative|< 0"),
            Bad(values(0.0, 0.0), 1, raises=RuntimeError, text="sum|zero|invalid"),
            Bad(values(1.0, float("nan")), 1, raises=RuntimeError, text="nan|finite"),
            Bad(values(1.0, 1.0), 3, raises=RuntimeError, text="replacement|3"),
            Bad(values(1.0, 1.0), 0, raises=RuntimeError, text="sample|0"),
            Bad(Sampler("float32").value((2, 2, 2), 0.5, 1), 1, raises=RuntimeError, text="dim"),
            Bad(INTEGERS, 1, raises=RuntimeError, text="float|int64|Long"),
        ),
    ),
    in_place("uniform_", 2.0, 5.0, bad=(Bad(MATRIX, 2.0, 1.0, raises=RuntimeError, text="2.*1"),)),
    in_place(
        "normal_", 2.0, 0.5, bad=(Bad(MATRIX, 0.0, -1.0, raises=RuntimeError, text="std.*-1"),)
    ),
    in_place(
        "exponential_",
        2.0,
        bad=(
            Bad(MATRIX, -1.0, raises=RuntimeError, text="lambda|-1"),
            Bad(MATRIX, 0.0, raises=RuntimeError, text="lambda|0"),
        ),
    ),
    Op(
        "randint_like",
        shape_of,
        bounded_samples,
        dtypes=dt.NUMBERS,
        result=given_or_own,
        gradient_order=0,
        bad=(
            Bad(MATRIX, 5, 5, raises=RuntimeError, text="5"),
            Bad("a", 5, raises=TypeError, text="str|Tensor"),
        ),
    ),
    Op(
        "poisson",
        shape_of,
        rate_samples,
        dtypes=dt.FLOATS,
        result="same",
        gradient_order=0,
        bad=(
            Bad(values(-1.0), raises=RuntimeError, text="rate"),
            Bad(INTEGERS, raises=RuntimeError, text="int64|Long"),
        ),
    ),
    in_place(
        "cauchy_", 2.0, 0.5, bad=(Bad(MATRIX, 0.0, -1.0, raises=RuntimeError, text="sigma.*-1"),)
    ),
    in_place(
        "log_normal_", 2.0, 0.5, bad=(Bad(MATRIX, 0.0, -1.0, raises=RuntimeError, text="std.*-1"),)
    ),
    in_place(
        "random_", 0, 2, dtypes=dt.ALL, bad=(Bad(MATRIX, 5, 5, raises=RuntimeError, text="5"),)
    ),
    Op(
        "geometric_",
        shape_of,
        geometric_samples,
        wrapper=written("geometric_"),
        path="Tensor.geometric_",
        dtypes=dt.NUMBERS,
        result="same",
        gradient_order=0,
        bad=(
            Bad(MATRIX, 0.0, raises=RuntimeError, text="p.*0"),
            Bad(MATRIX, 1.5, raises=RuntimeError, text="p.*1.5"),
        ),
    ),
    in_place(
        "bernoulli_",
        0.25,
        dtypes=dt.ALL,
        bad=(Bad(MATRIX, 2.0, raises=RuntimeError, text="p.*2|2.*p"),),
    ),
)
