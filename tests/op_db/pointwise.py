"""Rows of the one-argument pointwise ops: powers, exponentials, trigonometry, rounding, tests."""

import operator

import dtypes as dt
import numpy as np
from scipy import special

from op_db.row import Bad, Op, Sample, Skip, Tolerance, Value
from op_db.sampler import Sampler, unary

VECTOR = Sampler("float32").value((3,))
# Functions written in Python find out when they call a method that a string does not have.
NOT_A_TENSOR_TYPES = (TypeError, AttributeError)
NOT_A_TENSOR = (
    Bad("text", raises=NOT_A_TENSOR_TYPES, text="Tensor|str"),
    Bad(None, raises=NOT_A_TENSOR_TYPES, text="Tensor|None"),
    Bad(raises=TypeError, text="argument|input"),
    Bad(VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, raises=TypeError, text="argument|takes"),
)
BOOLS = Value(np.array([True, False]), "bool")
INTEGERS = Value(np.array([1, 2]), "int64")
FLOATING = Value(np.array([1.0, 2.0], np.float32), "float32")


def row(name, reference, low=-3.0, high=3.0, *, avoid=(), **fields):
    """Return the row of a one-argument op with every variant: method, in-place and ``out=``."""
    fields = {
        "dtypes": dt.ALL,
        "result": "float",
        "method": name,
        "inplace": f"{name}_",
        "out": True,
        "special": True,
        "bad": (),
        **fields,
    }
    fields["bad"] += NOT_A_TENSOR
    return Op(name, reference, unary(low, high, avoid=avoid), **fields)


def torch_only(reason, dtypes=dt.FLOATS):
    """Return a skip for special values that PyTorch gets wrong and others are held to."""
    return Skip("test_special_values", reason, dtypes, library="torch")


def rsqrt(x):
    return 1 / np.sqrt(x)


def reciprocal(x):
    return 1 / x


def square(x):
    return x.astype(np.int64) ** 2 if x.dtype == bool else x * x


def sign(x):
    """The sign, with PyTorch's 0 for NaN."""
    return x if x.dtype == bool else np.where(np.isnan(x), 0, np.sign(x))


def erfinv(x):
    return special.erfinv(x)


def digamma(x):
    """The logarithmic derivative of gamma; at zero the pole's side follows the zero's sign."""
    return np.where(
        x == 0, np.copysign(np.inf, -x), np.where(np.isneginf(x), np.nan, special.psi(x))
    )


def lgamma(x):
    """The logarithm of the absolute gamma function; -log|x| near zero, where SciPy overflows."""
    tiny = np.abs(x) < 1e-300
    return np.where(np.isinf(x), np.inf, np.where(tiny, -np.log(np.abs(x)), special.gammaln(x)))


def sinc(x):
    # The period is taken out first: at whole numbers the sine is then exactly zero.
    whole = np.round(x)
    sine = np.sin(np.pi * (x - whole)) * np.where(whole % 2 == 0, 1, -1)
    return np.where(x == 0, 1.0, sine / (np.pi * np.where(x == 0, 1, x)))


def signbit_samples(sampler):
    """Signed zeros and infinities, but no NaN: nothing says what sign a NaN has."""
    yield from unary()(sampler)
    if dt.is_float(sampler.dtype):
        signs = dt.cast([0.0, -0.0, np.inf, -np.inf], sampler.dtype)
        yield Sample(Value(signs, sampler.dtype))


def polygamma_samples(sampler):
    for order in (0, 1, 2, 3):
        for shape in ((), (5,), (2, 3)) if sampler.gradient else ((), (5,), (2, 3), (0, 2)):
            yield Sample(order, sampler.value(shape, 0.5, 9.0))


def log_sigmoid(x):
    return -np.logaddexp(0, -x)


def round_decimals(x, decimals=0):
    """Round half to even at a decimal place, scaling in the float64 that references work in."""
    if x.dtype.kind != "f":
        return x
    scale = 10.0 ** abs(decimals)
    return np.round(x * scale) / scale if decimals >= 0 else np.round(x / scale) * scale


def nan_to_num(x, nan=0.0, posinf=None, neginf=None):
    if x.dtype.kind != "f":
        return x
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


def nan_to_num_samples(sampler):
    for shape in ((), (4,), (2, 0), (3, 5)):
        value = sampler.value(shape)
        if dt.is_float(sampler.dtype) and value.array.size > 3 and not sampler.gradient:
            value.array.flat[:3] = (np.nan, np.inf, -np.inf)
        if value.array.size or not sampler.gradient:
            yield Sample(value, nan=2.0, posinf=7.0, neginf=-7.0)
    yield Sample(sampler.value((3,)))
    yield Sample(sampler.value((3,)), nan=1.5)


def round_samples(sampler):
    """Ties, and decimals that are exact in binary so that every float dtype agrees."""
    yield from unary(avoid=tuple(np.arange(-3.5, 4)), wide=False)(sampler)
    if dt.is_float(sampler.dtype) and not sampler.gradient:
        ties = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5])
        yield Sample(Value(dt.cast(ties, sampler.dtype), sampler.dtype))
        yield Sample(sampler.value((6,), -90, 90), decimals=0)


WHOLE = tuple(np.arange(-4.0, 5.0))
LOOSE = Tolerance(relative=8, absolute=1)

POWERS = (
    row(
        "neg",
        np.negative,
        dtypes=dt.NUMBERS,
        result="same",
        operator=operator.neg,
        bad=(Bad(BOOLS, raises=RuntimeError, text="bool|logical_not"),),
    ),
    row(
        "abs",
        np.abs,
        dtypes=dt.NUMBERS,
        result="same",
        avoid=(0.0,),
        operator=operator.abs,
        bad=(Bad(BOOLS, raises=RuntimeError, text="bool"),),
    ),
    row("sign", sign, result="same", avoid=(0.0,)),
    row("sgn", sign, result="same", avoid=(0.0,)),
    row(
        "angle",
        lambda x: np.where(np.isnan(x), x, np.where(np.less(x, 0), np.pi, 0.0)),
        result="float",
        inplace=None,
        avoid=(0.0,),
    ),
    row("reciprocal", reciprocal, 0.3, 4.0),
    row(
        "square", square, result=lambda s: "int64" if s.args[0].dtype == "bool" else s.args[0].dtype
    ),
    row("sqrt", np.sqrt, 0.1, 9.0),
    row("rsqrt", rsqrt, 0.1, 9.0),
)

EXPONENTIALS = (
    row("exp", np.exp),
    row("exp2", np.exp2),
    row("expm1", np.expm1),
    row("log", np.log, 0.1, 9.0),
    row("log2", np.log2, 0.1, 9.0),
    row("log10", np.log10, 0.1, 9.0),
    row("log1p", np.log1p, -0.9, 9.0),
)

TRIGONOMETRY = (
    row("sin", np.sin, -9.0, 9.0),
    row("cos", np.cos, -9.0, 9.0),
    row("tan", np.tan, -1.4, 1.4),
    row("asin", np.arcsin, -0.95, 0.95),
    row("acos", np.arccos, -0.95, 0.95),
    row("atan", np.arctan, -9.0, 9.0),
    row("sinh", np.sinh),
    row("cosh", np.cosh),
    row("tanh", np.tanh),
    row("asinh", np.arcsinh, -9.0, 9.0),
    row("acosh", np.arccosh, 1.1, 9.0),
    row("atanh", np.arctanh, -0.95, 0.95),
    row(
        "sinc",
        sinc,
        avoid=WHOLE,
        tolerance=Tolerance(relative=8, absolute=2),
        signed_zero=False,
        skips=(torch_only("sinc of the largest finite number overflows to NaN"),),
    ),
    row("deg2rad", np.deg2rad, -360.0, 360.0),
    row("rad2deg", np.rad2deg, -9.0, 9.0),
)

SPECIAL_FUNCTIONS = (
    row("sigmoid", special.expit, -9.0, 9.0),
    row(
        "erf",
        special.erf,
        skips=(torch_only("erf flushes the smallest normal number to zero", ("bfloat16",)),),
    ),
    row("erfc", special.erfc, tolerance=LOOSE),
    row("erfinv", erfinv, -0.95, 0.95, signed_zero=False, tolerance=LOOSE),
    row("lgamma", lgamma, 0.2, 9.0, tolerance=LOOSE),
    row("digamma", digamma, 0.2, 9.0, tolerance=Tolerance(relative=8, absolute=8)),
    Op(
        "polygamma",
        special.polygamma,
        polygamma_samples,
        dtypes=dt.ALL,
        result="float",
        tolerance=Tolerance(relative=16, absolute=8),
        skips=(
            Skip("test_forward", "PyTorch's trigamma has ten digits", ("float64",), "torch"),
            Skip("test_parity", "PyTorch's trigamma has ten digits", ("float64",)),
        ),
        bad=(
            Bad(-1, VECTOR, raises=RuntimeError, text="negative"),
            Bad(1, "text", raises=TypeError, text="Tensor|str"),
            Bad(1.5, VECTOR, raises=TypeError, text="int|float"),
        ),
    ),
)

ROUNDING = (
    row("floor", np.floor, dtypes=dt.NUMBERS, result="same", avoid=WHOLE),
    row("ceil", np.ceil, dtypes=dt.NUMBERS, result="same", avoid=WHOLE),
    row("trunc", np.trunc, dtypes=dt.NUMBERS, result="same", avoid=WHOLE),
    Op(
        "round",
        round_decimals,
        round_samples,
        dtypes=dt.NUMBERS,
        method="round",
        inplace="round_",
        out=True,
        special=True,
        bad=NOT_A_TENSOR,
        result="same",
    ),
    row(
        "frac",
        lambda x: x - np.trunc(x),
        dtypes=dt.FLOATS,
        result="same",
        avoid=WHOLE,
        bad=(Bad(INTEGERS, raises=RuntimeError, text="int64|Long"),),
    ),
)

PREDICATES = tuple(
    row(name, reference, result="bool", gradient_order=0, inplace=None, out=False)
    for name, reference in (("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite))
)

SIGNS = (
    Op(
        "signbit",
        np.signbit,
        signbit_samples,
        dtypes=dt.ALL,
        result="bool",
        gradient_order=0,
        method="signbit",
        out=True,
        bad=NOT_A_TENSOR,
    ),
)

LOGIC = (
    row("logical_not", np.logical_not, result="bool", gradient_order=0),
    row(
        "bitwise_not",
        np.invert,
        dtypes=dt.INTEGRAL,
        result="same",
        gradient_order=0,
        special=False,
        operator=operator.invert,
        bad=(Bad(FLOATING, raises=RuntimeError, text="float"),),
    ),
)

REPLACING = (
    Op(
        "nan_to_num",
        nan_to_num,
        nan_to_num_samples,
        dtypes=dt.ALL,
        result="same",
        method="nan_to_num",
        inplace="nan_to_num_",
        out=True,
        bad=NOT_A_TENSOR,
    ),
)

ROWS = (
    POWERS
    + EXPONENTIALS
    + TRIGONOMETRY
    + SPECIAL_FUNCTIONS
    + ROUNDING
    + PREDICATES
    + SIGNS
    + LOGIC
    + REPLACING
)
