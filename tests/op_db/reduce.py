"""Rows of the reductions, scans and softmaxes."""

import dtypes as dt
import numpy as np
from scipy import special

from op_db.row import Bad, Dtype, Op, Sample, Skip, Tolerance, Value
from op_db.sampler import Sampler

MATRIX = Sampler("float32").value((2, 3))
INTEGER_MATRIX = Sampler("int64").value((2, 3))
EMPTY = Sampler("float32").value((0,))

# Rows and columns long enough that both directions run threaded and in blocks, with tails.
LARGE = (300, 257)

SUMS = Tolerance(relative=16, absolute=64)


def bad_dims(**kwargs):
    """Calls with an axis that is out of range, or no axis at all."""
    return (
        Bad(MATRIX, dim=5, raises=IndexError, text=r"dim.*5|5.*dim", **kwargs),
        Bad(MATRIX, dim=-3, raises=IndexError, text=r"dim.*-3|-3.*dim", **kwargs),
        Bad(MATRIX, dim="rows", raises=TypeError, text="str|dim", **kwargs),
        Bad(MATRIX, dim=1.5, raises=TypeError, text="float|dim", **kwargs),
    )


REPEATED_DIMS = (
    Bad(MATRIX, dim=(0, 0), raises=RuntimeError, text="dim.*0|0.*dim"),
    Bad(MATRIX, dim=(1, -1), raises=RuntimeError, text="dim.*1|1.*dim"),
)

ONE_DIM = (
    ((5,), {"dim": 0}),
    ((3, 4), {"dim": 0}),
    ((3, 4), {"dim": -1}),
    ((2, 3, 4), {"dim": 1, "keepdim": True}),
    ((), {"dim": 0}),
    ((), {"dim": -1}),
    ((2, 0, 3), {"dim": 0}),
    ((0, 3), {"dim": 1}),
)
WHOLE = tuple((shape, {}) for shape in ((), (5,), (3, 4), (2, 3, 4)))
SEVERAL_DIMS = (
    ((2, 3, 4), {"dim": (0, 2)}),
    ((2, 3, 4), {"dim": (1, -1), "keepdim": True}),
    ((2, 3, 4), {"dim": None}),
)
EMPTY_DIMS = (
    ((0,), {}),
    ((2, 0), {}),
    ((2, 0), {"dim": 1}),
    ((2, 0, 3), {"dim": -2, "keepdim": True}),
)


def reducing(*cases, low=-3.0, high=3.0, large=True, nan=True, distinct=False, extra=()):
    """Return the sample generator of a reduction.

    Args:
        cases: ``(shape, keyword arguments)`` pairs.
        low, high: the range of the values.
        large: add a sample that runs threaded, in float32.
        nan: add samples that contain NaN and infinities.
        distinct: draw values no two of which are equal.
        extra: further keyword arguments, each tried on a matrix.
    """

    def draw(sampler, shape):
        return sampler.distinct(shape) if distinct else sampler.value(shape, low, high)

    def samples(sampler):
        for shape, kwargs in cases:
            if not (sampler.gradient and 0 in shape):
                yield Sample(draw(sampler, shape), **kwargs)
        for kwargs in extra:
            if sampler.gradient and kwargs.get("dtype") == "float32":
                continue  # Finite differences need float64 throughout.
            yield Sample(draw(sampler, (3, 4)), **kwargs)
        if sampler.gradient or not dt.is_float(sampler.dtype):
            return
        has_dim = "dim" in cases[-1][1] or "dim" in cases[0][1]
        if large and sampler.dtype == "float32":
            for kwargs in ({"dim": 0}, {"dim": 1}) if has_dim else ({},):
                yield Sample(sampler.value(LARGE, low, high), **kwargs)
        if nan:
            array = draw(sampler, (3, 4)).array
            array[0, 1], array[1, 2] = np.nan, np.inf
            yield Sample(Value(array, sampler.dtype), **({"dim": 1} if has_dim else {}))

    return samples


def accumulator(x, dtype=None):
    """Return values in the type that sums are taken in: float64 or int64, after a cast if asked."""
    if dtype is not None:
        x = dt.cast(x, str(dtype))
    return x.astype(np.float64 if x.dtype.kind == "f" else np.int64)


def over(function):
    """Return a NumPy reduction, after widening, as a reference with PyTorch's arguments."""

    def reference(x, dim=None, keepdim=False, dtype=None):
        x = accumulator(x, dtype)
        axis = None if x.ndim == 0 else dim
        return function(x, axis=axis, keepdims=keepdim and x.ndim > 0)

    return reference


def scan(function):
    def reference(x, dim, dtype=None):
        x = accumulator(x, dtype)
        return function(x, axis=dim) if x.ndim else x

    return reference


def running_extreme(better):
    """Reference of cummax and cummin: of equal elements the latest counts, and a NaN stays."""

    def reference(x, dim):
        if x.ndim == 0:
            return x, np.array(0)
        lines = np.moveaxis(x, dim, 0)
        values, places = lines.copy(), np.zeros(lines.shape, np.int64)
        for i in range(1, len(lines)):
            last = values[i - 1]
            wins = np.isnan(lines[i]) | (~np.isnan(last) & better(lines[i], last))
            values[i] = np.where(wins, lines[i], last)
            places[i] = np.where(wins, i, places[i - 1])
        return np.moveaxis(values, 0, dim), np.moveaxis(places, 0, dim)

    return reference


def extreme(function):
    """Reference of amax, amin and the one-argument max and min: the dtype stays."""

    def reference(x, dim=None, keepdim=False):
        if x.ndim == 0:
            return x
        axis = tuple(dim) if isinstance(dim, list) else dim
        return function(x, axis=axis, keepdims=keepdim)

    return reference


def position(function):
    """Reference of argmax and argmin; a NaN wins, as in NumPy."""

    def reference(x, dim=None, keepdim=False):
        if x.ndim == 0:
            return np.array(0)
        return function(x, axis=dim, keepdims=keepdim)

    return reference


def extreme_with_index(value, index):
    def reference(x, dim, keepdim=False):
        return extreme(value)(x, dim, keepdim), position(index)(x, dim, keepdim)

    return reference


def moment(function):
    def reference(x, dim=None, correction=1, keepdim=False, unbiased=None):
        ddof = correction if unbiased is None else int(unbiased)
        if x.ndim == 0:
            dim, keepdim = None, False
        return function(x, axis=dim, ddof=ddof, keepdims=keepdim)

    return reference


def variance_and_mean(x, dim=None, correction=1, keepdim=False):
    mean = np.mean(x, axis=dim, keepdims=keepdim)
    return np.var(x, axis=dim, ddof=correction, keepdims=keepdim), mean


def norm(x, p=2, dim=None, keepdim=False, dtype=None):
    """The p-norm of the elements along the axes, as one long vector, whatever the rank."""
    if x.ndim == 0:
        dim, keepdim = None, False
    x = np.abs(x)
    if p in ("fro", 2):
        return np.sqrt(np.sum(x * x, axis=dim, keepdims=keepdim))
    if p == np.inf:
        return np.max(x, axis=dim, keepdims=keepdim)
    if p == -np.inf:
        return np.min(x, axis=dim, keepdims=keepdim)
    if p == 0:
        return np.sum(x != 0, axis=dim, keepdims=keepdim).astype(np.float64)
    return np.sum(x**p, axis=dim, keepdims=keepdim) ** (1 / p)


def log_sum_exp(x, dim, keepdim=False):
    """SciPy's logsumexp; of nothing at all it is the logarithm of zero."""
    x = x.astype(np.float64)
    if x.ndim == 0:
        return x
    if x.size == 0:
        return np.log(np.sum(np.exp(x), axis=dim, keepdims=keepdim))
    return special.logsumexp(x, axis=dim, keepdims=keepdim)


def soft(function):
    def reference(x, dim, dtype=None):
        x = (x if dtype is None else dt.cast(x, str(dtype))).astype(np.float64)
        if x.ndim == 0 or x.size == 0:
            return function(x.reshape(1)).reshape(()) if x.ndim == 0 else x
        return function(x, axis=dim)

    return reference


def has_dim(sample):
    """Whether a reduction names its axis: only then is there an overload with ``out=``."""
    return sample.kwargs.get("dim") is not None


def own_or_given(sample):
    return str(sample.kwargs.get("dtype") or sample.args[0].dtype)


def value_and_index(sample):
    return [sample.args[0].dtype, "int64"]


DTYPES = tuple({"dim": 1, "dtype": Dtype(name)} for name in ("float64", "float32"))
ARITHMETIC = (*WHOLE, *ONE_DIM, *SEVERAL_DIMS)

OUT_SETS_DTYPE = (
    Skip("test_out_refuses_lower_category", "the result is accumulated in the dtype of out="),
)

ACCUMULATING = (
    Op(
        "sum",
        over(np.sum),
        reducing(*ARITHMETIC, *EMPTY_DIMS, extra=DTYPES),
        method="sum",
        dtypes=dt.ALL,
        result="sum",
        skips=OUT_SETS_DTYPE,
        tolerance=SUMS,
        out=has_dim,
        bad=bad_dims() + REPEATED_DIMS,
    ),
    Op(
        "mean",
        over(np.mean),
        reducing(*ARITHMETIC, extra=DTYPES),
        method="mean",
        dtypes=dt.FLOATS,
        result=own_or_given,
        tolerance=SUMS,
        out=has_dim,
        bad=(
            *bad_dims(),
            *REPEATED_DIMS,
            Bad(INTEGER_MATRIX, raises=RuntimeError, text="int64|Long"),
        ),
    ),
    Op(
        "prod",
        over(np.prod),
        reducing(*WHOLE, *ONE_DIM, *EMPTY_DIMS, low=0.5, high=1.5, large=False, extra=DTYPES),
        method="prod",
        dtypes=dt.ALL,
        result="sum",
        skips=OUT_SETS_DTYPE,
        tolerance=Tolerance(relative=32, half=4),
        out=has_dim,
        bad=bad_dims(),
    ),
    Op(
        "cumsum",
        scan(np.cumsum),
        reducing(*((shape, {"dim": kw["dim"]}) for shape, kw in ONE_DIM), extra=DTYPES),
        method="cumsum",
        dtypes=dt.ALL,
        result="sum",
        skips=OUT_SETS_DTYPE,
        out=True,
        tolerance=Tolerance(relative=64, absolute=1024, half=2),
        bad=bad_dims(),
    ),
    Op(
        "cumprod",
        scan(np.cumprod),
        reducing(
            *((shape, {"dim": kw["dim"]}) for shape, kw in ONE_DIM),
            low=0.5,
            high=1.5,
            large=False,
            extra=DTYPES,
        ),
        method="cumprod",
        dtypes=dt.ALL,
        result="sum",
        skips=OUT_SETS_DTYPE,
        out=True,
        tolerance=Tolerance(relative=32, half=4),
        bad=bad_dims(),
    ),
    Op(
        "count_nonzero",
        lambda x, dim=None: np.asarray(np.count_nonzero(x, axis=dim if x.ndim else None)),
        reducing(
            *WHOLE,
            *((shape, {"dim": kw["dim"]}) for shape, kw in ONE_DIM[:4]),
            *EMPTY_DIMS[:3],
            ((2, 3, 4), {"dim": (0, 2)}),
            nan=False,
            low=-1.0,
            high=1.0,
        ),
        method="count_nonzero",
        dtypes=dt.ALL,
        result="int64",
        gradient_order=0,
        bad=bad_dims(),
    ),
)

LINES = tuple((shape, {"dim": kwargs["dim"]}) for shape, kwargs in ONE_DIM)

SCANS = (
    *(
        Op(
            f"{name}.own_dtype",
            scan(reference),
            reducing(*LINES, low=0.5, high=1.5, large=False),
            path=name,
            method=name,
            inplace=f"{name}_",
            dtypes=dt.NUMBERS,
            result="sum",
            tolerance=Tolerance(relative=32, half=4),
        )
        for name, reference in (("cumsum", np.cumsum), ("cumprod", np.cumprod))
    ),
    *(
        Op(
            name,
            running_extreme(better),
            reducing(*LINES, large=False),
            method=name,
            dtypes=dt.ALL,
            result=lambda sample: [sample.args[0].dtype, "int64"],
            tolerance=Tolerance(relative=0, half=0),
            out=True,
            bad=bad_dims(),
        )
        for name, better in (("cummax", np.greater_equal), ("cummin", np.less_equal))
    ),
    Op(
        "logcumsumexp",
        scan(np.logaddexp.accumulate),
        reducing(*LINES, nan=False),
        method="logcumsumexp",
        tolerance=Tolerance(relative=16, absolute=32),
        out=True,
        bad=(*bad_dims(), Bad(INTEGER_MATRIX, dim=1, raises=RuntimeError, text="int64|Long")),
    ),
)

NO_ELEMENTS = (Bad(EMPTY, raises=RuntimeError, text="numel|empty|no identity|zero|0|dim"),)
NO_ELEMENTS_ALONG = (Bad(EMPTY, dim=0, raises=IndexError, text="empty|zero|size|numel|0"),)
DISTINCT = {"distinct": True, "large": False}

EXTREMES = tuple(
    row
    for name, value, index in (("max", np.max, np.argmax), ("min", np.min, np.argmin))
    for row in (
        Op(
            name,
            extreme(value),
            reducing(*WHOLE, **DISTINCT),
            method=name,
            dtypes=dt.NUMBERS,
            result="same",
            bad=NO_ELEMENTS,
            missing={"zero_size": "no element is the extreme one"},
        ),
        Op(
            f"{name}.dim",
            extreme_with_index(value, index),
            reducing(*ONE_DIM, **DISTINCT),
            path=name,
            method=name,
            dtypes=dt.NUMBERS,
            result=value_and_index,
            out=True,
            bad=bad_dims() + NO_ELEMENTS_ALONG,
        ),
        Op(
            f"a{name}",
            extreme(value),
            reducing(*ARITHMETIC[:-1], **DISTINCT),
            method=f"a{name}",
            dtypes=dt.NUMBERS,
            result="same",
            out=True,
            bad=bad_dims() + REPEATED_DIMS + NO_ELEMENTS_ALONG,
        ),
        Op(
            f"arg{name}",
            position(index),
            reducing(*WHOLE, *ONE_DIM, **DISTINCT),
            method=f"arg{name}",
            dtypes=dt.NUMBERS,
            result="int64",
            gradient_order=0,
            out=True,
            bad=bad_dims() + NO_ELEMENTS_ALONG,
        ),
    )
)

TRUTH = tuple(
    Op(
        name,
        extreme(reference),
        reducing(*WHOLE, *ONE_DIM, *EMPTY_DIMS, low=-1, high=1),
        method=name,
        dtypes=dt.ALL,
        gradient_order=0,
        out=has_dim,
        bad=bad_dims(),
        result=lambda sample: "uint8" if sample.args[0].dtype == "uint8" else "bool",
    )
    for name, reference in (
        ("any", lambda x, **k: np.any(np.atleast_1d(x), **k)),
        ("all", lambda x, **k: np.all(np.atleast_1d(x), **k)),
    )
)

SPREAD = (
    ((5,), {}),
    ((3, 4), {}),
    ((3, 4), {"dim": 0}),
    ((2, 3, 4), {"dim": -1, "keepdim": True}),
    ((2, 3, 4), {"dim": (0, 2)}),
)
CORRECTIONS = ({"dim": 1, "correction": 0}, {"dim": 1, "correction": 2})
BIASES = (*CORRECTIONS, {"dim": 1, "unbiased": False}, {"dim": 0, "unbiased": True})
NOT_FOR_INTEGERS = (Bad(INTEGER_MATRIX, raises=RuntimeError, text="float|int64|Long"),)

NO_FREEDOM = dict.fromkeys(("zero_size", "zero_dim"), "no degrees of freedom: NaN with a warning")

MOMENTS = (
    Op(
        "var",
        moment(np.var),
        reducing(*SPREAD, extra=BIASES),
        method="var",
        tolerance=SUMS,
        out=has_dim,
        missing=NO_FREEDOM,
        bad=bad_dims() + REPEATED_DIMS + NOT_FOR_INTEGERS,
    ),
    Op(
        "std",
        moment(np.std),
        reducing(*SPREAD, extra=BIASES),
        method="std",
        tolerance=SUMS,
        out=has_dim,
        missing=NO_FREEDOM,
        bad=bad_dims() + REPEATED_DIMS + NOT_FOR_INTEGERS,
    ),
    Op(
        "var_mean",
        variance_and_mean,
        reducing(*SPREAD, nan=False, extra=CORRECTIONS),
        tolerance=SUMS,
        bad=bad_dims() + REPEATED_DIMS + NOT_FOR_INTEGERS,
        result=lambda sample: [sample.args[0].dtype] * 2,
        missing=NO_FREEDOM,
    ),
    Op(
        "norm",
        norm,
        reducing(
            *WHOLE,
            *ONE_DIM[:4],
            *ONE_DIM[6:],
            ((2, 3, 4), {"dim": (0, 2)}),
            low=0.2,
            extra=tuple({"p": p, "dim": 1} for p in (1, 2, 3, 0.5, np.inf, -np.inf, "fro")),
        ),
        method="norm",
        tolerance=SUMS,
        out=has_dim,
        bad=bad_dims() + NOT_FOR_INTEGERS,
    ),
    Op(
        "logsumexp",
        log_sum_exp,
        reducing(*ONE_DIM, ((2, 3, 4), {"dim": (0, 2)}), ((2, 0), {"dim": 1})),
        method="logsumexp",
        dtypes=dt.ALL,
        result="float",
        tolerance=Tolerance(absolute=8),
        out=True,
        bad=bad_dims(),
    ),
)

SOFTMAXES = tuple(
    Op(
        f"{prefix}{name}",
        soft(reference),
        reducing(*LINES, nan=False, extra=DTYPES),
        dtypes=dt.FLOATS,
        result=own_or_given,
        tolerance=Tolerance(relative=8, absolute=8),
        method=None if prefix else name,
        out=not prefix,
        bad=(*bad_dims(), Bad(INTEGER_MATRIX, dim=1, raises=RuntimeError, text="int64|Long")),
    )
    for prefix in ("", "nn.functional.")
    for name, reference in (("softmax", special.softmax), ("log_softmax", special.log_softmax))
)
SOFTMIN = (
    Op(
        "softmin",
        soft(lambda x, **axis: special.softmax(-x, **axis)),
        reducing(*LINES, nan=False, extra=DTYPES),
        path="nn.functional.softmin",
        result=own_or_given,
        tolerance=Tolerance(relative=8, absolute=8),
        bad=(*bad_dims(), Bad(INTEGER_MATRIX, dim=1, raises=RuntimeError, text="int64|Long")),
    ),
)

ROWS = ACCUMULATING + SCANS + EXTREMES + TRUTH + MOMENTS + SOFTMAXES + SOFTMIN
