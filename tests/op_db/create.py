"""Rows of the ops that make tensors from shapes, numbers, lists, arrays and grids."""

import warnings

import dtypes as dt
import numpy as np

from op_db.row import Bad, Dtype, Op, Sample, Tolerance, Unspecified
from op_db.sampler import Sampler

EXACT = Tolerance(relative=0, half=0)
MATRIX = Sampler("float32").value((2, 3))
CUBE = Sampler("float32").value((2, 2, 2))
NO_TENSOR = dict.fromkeys(("zero_size", "zero_dim"), "there is no tensor among the arguments")
TOO_MANY = "overflow|memory|address"
BAD_SIZES = (
    Bad((-1,), raises=RuntimeError, text="-1|negative"),
    Bad("a", raises=TypeError, text="str|size"),
    Bad((2**40, 2**40), raises=RuntimeError, text=TOO_MANY),
    Bad((2**62,), raises=RuntimeError, text=TOO_MANY),
    Bad((2,), dtype="float32", raises=TypeError, text="dtype"),
    Bad((2,), device="nowhere", raises=RuntimeError, text="nowhere|device"),
)


def sized(*fill):
    def samples(sampler):
        for shape in ((2, 3), (5,), (), (0, 3), [2, 2]):
            yield Sample(shape, *fill, dtype=Dtype(sampler.dtype))
        yield Sample((2, 3), *fill, dtype=Dtype(sampler.dtype), requires_grad=False)

    return samples


def like(*fill):
    def samples(sampler):
        for shape in ((2, 3), (), (0, 3)):
            yield Sample(sampler.value(shape), *fill)
            yield Sample(sampler.value(shape), *fill, dtype=Dtype("float64"))

    return samples


def given_or_own(sample):
    return str(sample.kwargs.get("dtype") or sample.args[0].dtype)


def constant(value):
    def reference(shape, fill=value, dtype=None, requires_grad=False):
        return np.full(tuple(shape), fill)

    return reference


def constant_like(value):
    def reference(x, fill=value, dtype=None):
        return np.full(x.shape, fill)

    return reference


def arange_samples(sampler):
    dtype = Dtype(sampler.dtype)
    yield Sample(5, dtype=dtype)
    yield Sample(0, dtype=dtype)
    yield Sample(2, 7, dtype=dtype)
    yield Sample(1, 8, 3, dtype=dtype)
    yield Sample(9, 2, -2, dtype=dtype)
    yield Sample(start=1, end=4, step=1, dtype=dtype)
    if dt.is_float(sampler.dtype):
        yield Sample(0.0, 1.0, 0.25, dtype=dtype)
        yield Sample(-1.5, 1.5, 0.5, dtype=dtype)


def arange(*args, start=0, end=None, step=1, dtype=None):
    return np.arange(*args) if args else np.arange(start, end, step)


def arange_default_samples(sampler):
    yield Sample(5)
    yield Sample(1.0, 3.0, 0.5)
    yield Sample(1, 3.5)


def arange_default_dtype(sample):
    return dt.DEFAULT_FLOAT if any(isinstance(arg, float) for arg in sample.args) else "int64"


def spaced_samples(sampler):
    dtype = Dtype(sampler.dtype)
    for start, end, steps in ((0, 4, 5), (-2, 2, 9), (4, 0, 3), (1, 1, 4), (3, 5, 1), (3, 5, 0)):
        if start >= 0 or sampler.dtype != "uint8":
            yield Sample(start, end, steps, dtype=dtype)
    yield Sample(0, 2, steps=3, dtype=dtype)


def linspace(start, end, steps, dtype=None):
    return np.linspace(start, end, steps)


def logspace(start, end, steps, base=10.0, dtype=None):
    return np.logspace(start, end, steps, base=base)


def logspace_samples(sampler):
    dtype = Dtype(sampler.dtype)
    yield Sample(0, 2, 3, dtype=dtype)
    yield Sample(-1, 1, 5, dtype=dtype)
    yield Sample(0, 4, 5, base=2.0, dtype=dtype)
    yield Sample(0, 4, 0, dtype=dtype)


def eye_samples(sampler):
    dtype = Dtype(sampler.dtype)
    for args in ((3,), (2, 4), (4, 2), (0,), (0, 3)):
        yield Sample(*args, dtype=dtype)


def triangle_samples(sampler):
    for shape in ((3, 3), (2, 4), (4, 2), (2, 3, 3)):
        for diagonal in (0, 1, -1, 5, -5):
            yield Sample(sampler.value(shape), diagonal)
    if not sampler.gradient:
        yield Sample(sampler.value((0, 3)))
        yield Sample(sampler.value((2, 0, 3)), diagonal=1)


def diag_samples(sampler):
    for shape in ((3,), (3, 3), (2, 4), (4, 2)):
        for diagonal in (0, 1, -1):
            yield Sample(sampler.value(shape), diagonal)
    if not sampler.gradient:
        yield Sample(sampler.value((0,)))


def meshgrid(*arrays, indexing="ij"):
    arrays = [np.atleast_1d(a) for a in arrays]
    return tuple(np.meshgrid(*arrays, indexing=indexing))


def meshgrid_samples(sampler):
    for indexing in ("ij", "xy"):
        yield Sample(sampler.value((3,)), sampler.value((2,)), indexing=indexing)
        yield Sample(*(sampler.value((n,)) for n in (2, 3, 2)), indexing=indexing)
    yield Sample(sampler.value(()), sampler.value((2,)), indexing="ij")
    if not sampler.gradient:
        yield Sample(sampler.value((0,)), sampler.value((2,)), indexing="ij")


def from_data(data, dtype=None, requires_grad=False):
    return np.array(data)


def data_samples(sampler):
    """Numbers and nested lists, with a dtype."""
    dtype = Dtype(sampler.dtype)
    for data in (1, [1, 0], [[1, 2], [3, 0]], [], [[], []], (1, 2), [True, False]):
        yield Sample(data, dtype=dtype)
    yield Sample([1.5, 2.5] if dt.is_float(sampler.dtype) else [1, 2], dtype=dtype)
    yield Sample(np.arange(6).reshape(2, 3).T, dtype=dtype)


def inferred_samples(sampler):
    """Data without a dtype: the library infers it."""
    for data in (1, 1.0, True, [1, 2], [1, 2.0], [True, False], [True, 2], [[1.0], [2.0]], []):
        yield Sample(data)


def inferred_dtype(sample):
    kind = np.array(sample.args[0]).dtype.kind
    return {"b": "bool", "i": "int64", "f": dt.DEFAULT_FLOAT}[kind]


def deprecated(name):
    """Return a wrapper that calls a function without hearing its warnings."""

    def wrapper(library):
        def call(*args, **kwargs):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return getattr(library, name)(*args, **kwargs)

        return call

    return wrapper


def closed_range(start, end, step=1, dtype=None):
    """Both ends belong to the range."""
    return start + step * np.arange(int((end - start) / step) + 1)


def closed_range_samples(sampler):
    dtype = Dtype(sampler.dtype)
    yield Sample(1, 5, dtype=dtype)
    yield Sample(1, 8, 3, dtype=dtype)
    yield Sample(9, 2, -2, dtype=dtype)
    yield Sample(2, 2, dtype=dtype)
    if dt.is_float(sampler.dtype):
        yield Sample(0.0, 1.0, 0.25, dtype=dtype)


def strided_samples(sampler):
    for size, stride in (((2, 3), (3, 1)), ((2, 3), (1, 2)), ((), ()), ((0, 3), (1, 1))):
        yield Sample(size, stride, dtype=Dtype(sampler.dtype))


def number_samples(sampler):
    for number in (1, 0, True, 2.5) if dt.is_float(sampler.dtype) else (1, 0, True):
        yield Sample(number, dtype=Dtype(sampler.dtype))


def buffer_samples(sampler):
    """Bytes of numbers, whole and in part."""
    array = dt.cast(np.array([1, 0, 3, 1]), sampler.dtype)
    size, dtype = array.itemsize, Dtype(sampler.dtype)
    yield Sample(bytearray(array), dtype=dtype)
    yield Sample(bytearray(array), dtype=dtype, count=2)
    yield Sample(bytearray(array), dtype=dtype, count=2, offset=size)
    yield Sample(bytearray(array), dtype=dtype, offset=3 * size)


def from_buffer(buffer, dtype, count=-1, offset=0):
    return np.frombuffer(bytes(buffer), str(dtype), count, offset)


def array_samples(sampler):
    for shape in ((2, 3), (), (0, 2)):
        yield Sample(sampler.value(shape).array)
    yield Sample(sampler.value((3, 2)).array.T)


def array_dtype(sample):
    return str(sample.args[0].dtype)


BAD_DATA = (
    Bad([[1], [1, 2]], raises=ValueError, text="length|1.*2"),
    Bad(["a"], raises=(ValueError, TypeError), text="str"),
    Bad([None], raises=(RuntimeError, TypeError), text="None"),
    Bad(raises=TypeError, text="data|argument"),
    Bad(2**64, raises=(RuntimeError, ValueError, OverflowError), text="overflow"),
)
HOLDABLE = tuple(dtype for dtype in dt.ALL if dtype != "bfloat16")
CREATES = {
    "dtypes": dt.ALL,
    "result": "dtype",
    "tolerance": EXACT,
    "gradient_order": 0,
    "missing": NO_TENSOR,
}
BAD_LIKE = (
    Bad(3, raises=TypeError, text="int|Tensor"),
    Bad(None, raises=TypeError, text="None|Tensor"),
)

FILLED = (
    Op("zeros", constant(0), sized(), out=True, **CREATES, bad=BAD_SIZES),
    Op("ones", constant(1), sized(), out=True, **CREATES, bad=BAD_SIZES),
    Op(
        "full",
        constant(None),
        sized(1),
        out=True,
        **CREATES,
        bad=(
            Bad((2,), "a", raises=TypeError, text="str|fill_value"),
            Bad((2,), None, raises=TypeError, text="None|fill_value"),
            Bad((-1,), 1, raises=RuntimeError, text="-1|negative"),
        ),
    ),
    Op(
        "empty_strided",
        lambda size, stride, dtype=None: Unspecified(tuple(size)),
        strided_samples,
        **CREATES,
        bad=(
            Bad((2, 3), (1,), raises=RuntimeError, text="2.*1"),
            Bad((2, -3), (1, 1), raises=RuntimeError, text="-3"),
            Bad((2, 3), (1, -1), raises=RuntimeError, text="-1"),
        ),
    ),
    Op(
        "scalar_tensor",
        from_data,
        number_samples,
        **CREATES,
        bad=(
            Bad("a", raises=TypeError, text="str"),
            Bad([1], raises=TypeError, text="list"),
        ),
    ),
    Op(
        "empty",
        lambda shape, **_: Unspecified(tuple(shape)),
        sized(),
        out=True,
        **CREATES,
        bad=BAD_SIZES,
    ),
)

LIKE_FIELDS = {
    "dtypes": dt.ALL,
    "result": given_or_own,
    "tolerance": EXACT,
    "gradient_order": 0,
    "bad": BAD_LIKE,
}
LIKE = (
    Op("zeros_like", constant_like(0), like(), **LIKE_FIELDS),
    Op("ones_like", constant_like(1), like(), **LIKE_FIELDS),
    Op("full_like", constant_like(None), like(1), **LIKE_FIELDS),
    Op("empty_like", lambda x, **_: Unspecified(x.shape), like(), **LIKE_FIELDS),
)

NO_NEGATIVE_STEPS = (
    Bad(0, 1, -1, raises=RuntimeError, text="steps|-1"),
    Bad(0, "a", 3, raises=TypeError, text="str"),
    Bad(0, 1, raises=TypeError, text="steps|argument"),
)
SEQUENCES = (
    Op(
        "arange",
        arange,
        arange_samples,
        out=True,
        **{**CREATES, "dtypes": dt.NUMBERS},
        bad=(
            Bad(0, 5, 0, raises=RuntimeError, text="step"),
            Bad(0, 5, -1, raises=RuntimeError, text="step"),
            Bad(float("nan"), raises=RuntimeError, text="nan"),
            Bad(float("inf"), raises=RuntimeError, text="inf"),
            Bad("a", raises=TypeError, text="str"),
        ),
    ),
    Op(
        "arange.default",
        arange,
        arange_default_samples,
        path="arange",
        out=True,
        **{**CREATES, "dtypes": ("float32",), "result": arange_default_dtype},
    ),
    Op(
        "range",
        closed_range,
        closed_range_samples,
        wrapper=deprecated("range"),
        **{**CREATES, "dtypes": dt.NUMBERS},
        bad=(
            Bad(0, 5, 0, raises=RuntimeError, text="step"),
            Bad(0, 5, -1, raises=RuntimeError, text="step|bound"),
            Bad(0, float("nan"), raises=RuntimeError, text="nan"),
        ),
    ),
    Op(
        "linspace",
        linspace,
        spaced_samples,
        out=True,
        **{**CREATES, "dtypes": dt.NUMBERS, "tolerance": Tolerance(absolute=4)},
        bad=NO_NEGATIVE_STEPS,
    ),
    Op(
        "logspace",
        logspace,
        logspace_samples,
        out=True,
        **{**CREATES, "dtypes": dt.FLOATS, "tolerance": Tolerance(relative=16, half=2)},
        bad=NO_NEGATIVE_STEPS,
    ),
    Op(
        "eye",
        lambda n, m=None, dtype=None: np.eye(n, m),
        eye_samples,
        out=True,
        **CREATES,
        bad=(
            Bad(-1, raises=RuntimeError, text="-1|negative"),
            Bad(2, -1, raises=RuntimeError, text="-1|negative"),
            Bad("a", raises=TypeError, text="str"),
        ),
    ),
)

MATRICES = (
    *(
        Op(
            name,
            lambda x, diagonal=0, of=reference: of(x, diagonal),
            triangle_samples,
            method=name,
            inplace=f"{name}_",
            out=True,
            dtypes=dt.ALL,
            result="same",
            tolerance=EXACT,
            missing={"zero_dim": "a triangle needs a matrix"},
            bad=(
                Bad(Sampler("float32").value((3,)), raises=RuntimeError, text="2|dim"),
                Bad(MATRIX, 1.5, raises=TypeError, text="float|diagonal"),
            ),
        )
        for name, reference in (("tril", np.tril), ("triu", np.triu))
    ),
    Op(
        "diag",
        np.diag,
        diag_samples,
        method="diag",
        out=True,
        dtypes=dt.ALL,
        result="same",
        tolerance=EXACT,
        missing={"zero_dim": "a diagonal needs a vector or a matrix"},
        bad=(Bad(CUBE, raises=RuntimeError, text="3|dim"),),
    ),
    Op(
        "meshgrid",
        meshgrid,
        meshgrid_samples,
        dtypes=dt.ALL,
        result="same",
        tolerance=EXACT,
        view=None,
        bad=(
            Bad(MATRIX, MATRIX, indexing="ij", raises=RuntimeError, text="0-?D|1-?D|dim"),
            Bad(
                Sampler("float32").value((2,)),
                indexing="up",
                raises=RuntimeError,
                text="indexing.*up",
            ),
        ),
    ),
)

CONVERSIONS = (
    Op("tensor", from_data, data_samples, **CREATES, bad=BAD_DATA),
    Op(
        "tensor.inferred",
        from_data,
        inferred_samples,
        path="tensor",
        **{**CREATES, "dtypes": ("float32",), "result": inferred_dtype},
    ),
    Op("as_tensor", from_data, data_samples, **CREATES, bad=BAD_DATA),
    Op("asarray", from_data, data_samples, **CREATES, bad=BAD_DATA),
    Op(
        "frombuffer",
        from_buffer,
        buffer_samples,
        **{**CREATES, "dtypes": HOLDABLE},
        bad=(
            Bad(3, dtype=Dtype("int32"), raises=ValueError, text="buffer"),
            Bad(bytearray(), dtype=Dtype("int32"), raises=ValueError, text="0"),
            Bad(bytearray(4), dtype=Dtype("int32"), offset=2, raises=ValueError, text="multiple"),
            Bad(bytearray(4), dtype=Dtype("int32"), count=2, raises=ValueError, text="2"),
            Bad(bytearray(4), raises=TypeError, text="dtype"),
        ),
    ),
    Op(
        "from_numpy",
        lambda array: array,
        array_samples,
        **{**CREATES, "dtypes": HOLDABLE, "result": array_dtype},
        bad=(
            Bad([1], raises=TypeError, text="ndarray|array"),
            Bad(None, raises=TypeError, text="ndarray|array"),
            Bad(np.array(["a"]), raises=TypeError, text="str|U1"),
        ),
    ),
)

ROWS = FILLED + LIKE + SEQUENCES + MATRICES + CONVERSIONS
