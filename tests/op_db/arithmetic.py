"""Rows of the pointwise ops with two arguments: arithmetic, comparisons, logic and bits."""

import operator

import dtypes as dt
import numpy as np
from scipy import special

from op_db.pointwise import FLOATING, INTEGERS, torch_only
from op_db.row import Bad, Op, Sample, Tolerance, Value
from op_db.sampler import Sampler, binary

THREE, FOUR = Sampler("float32").value((3,)), Sampler("float32").value((4,))
THREE_INTEGERS, FOUR_INTEGERS = Sampler("int64").value((3,)), Sampler("int64").value((4,))
TRUTHS = Value(np.array([True, True]), "bool")
ZEROS = Value(np.array([0, 0]), "int64")

REFUSES_BOOL = (Bad(TRUTHS, TRUTHS, raises=RuntimeError, text="bool"),)
REFUSES_FLOAT = (Bad(FLOATING, FLOATING, raises=RuntimeError, text="float"),)
REFUSES_INTEGER = (Bad(INTEGERS, INTEGERS, raises=RuntimeError, text="int64|Long"),)


def row(name, reference, samples, *, path=None, **fields):
    """Return the row of a two-argument op with every variant, which refuses what no pair may be."""
    path = path or name
    fields = {
        "dtypes": dt.ALL,
        "method": path,
        "inplace": f"{path}_",
        "out": True,
        "promotes": True,
        "special": True,
        "bad": (),
        **fields,
    }
    three, four = (
        (THREE, FOUR) if "float32" in fields["dtypes"] else (THREE_INTEGERS, FOUR_INTEGERS)
    )
    fields["bad"] += (
        Bad(three, four, raises=RuntimeError, text=r"3[^0-9]+4|4[^0-9]+3"),
        Bad(three, "text", raises=TypeError, text="str|Tensor"),
        Bad(three, None, raises=TypeError, text="None|Tensor"),
        Bad(three, raises=TypeError, text="argument|other|exponent"),
    )
    return Op(name, reference, samples, path=path, **fields)


def apart(a, b):
    """Whether no pair of operands is close to equal, where max and min have their kink."""
    return np.abs(np.subtract.outer(a, b)) > 0.1


def between_multiples(a, b):
    """Whether no quotient is close to a whole number, where remainders jump."""
    quotient = np.divide.outer(a, b)
    return np.abs(quotient - np.round(quotient)) > 0.1


def away_from_zero(a, b):
    return np.logical_and.outer(np.abs(a) > 0.2, np.abs(b) > 0.2)


def is_floating(*arrays):
    return np.result_type(*arrays).kind == "f"


def add(a, b, alpha=1):
    return np.add(a, b if alpha == 1 else np.multiply(b, alpha))


def subtract(a, b, alpha=1):
    return np.subtract(a, b if alpha == 1 else np.multiply(b, alpha))


def floor_divide(a, b):
    """Floor of the quotient; by zero NumPy says NaN where IEEE division says infinity."""
    quotient = np.floor_divide(a, b)
    return (
        np.where(np.equal(b, 0), np.true_divide(a, b), quotient) if is_floating(a, b) else quotient
    )


def trunc_divide(a, b):
    if is_floating(a, b):
        return np.trunc(np.true_divide(a, b))
    return np.trunc(np.true_divide(a, b)).astype(np.result_type(a, b))


def divide(a, b, rounding_mode=None):
    if rounding_mode is None:
        return np.true_divide(a, b)
    return floor_divide(a, b) if rounding_mode == "floor" else trunc_divide(a, b)


def heaviside(x, values):
    return np.where(x == 0, values, np.greater(x, 0))


def copysign(a, b):
    return np.copysign(a, b if isinstance(b, np.ndarray) else np.float64(b))


def copysign_samples(sampler):
    """Signed zeros and infinities, but no NaN as sign: nothing says what sign a NaN has."""
    yield from binary(smooth=away_from_zero)(sampler)
    if dt.is_float(sampler.dtype) and not sampler.gradient:
        signs = dt.cast([0.0, -0.0, np.inf, -np.inf], sampler.dtype)
        magnitudes = dt.cast([[0.0], [-0.0], [1.0], [np.inf], [np.nan]], sampler.dtype)
        yield Sample(Value(magnitudes, sampler.dtype), Value(signs, sampler.dtype))


def power_samples(sampler):
    """Positive bases, and exponents that integers can take: not negative, and small."""
    exponents = (-3.0, 3.0) if dt.is_float(sampler.dtype) else (0, 3)
    yield from binary((0.2, 4.0), exponents)(sampler)
    whole = (0, 1, 2, 3)
    for exponent in whole:
        yield Sample(sampler.value((5,), -4, 4), exponent)
    if dt.is_float(sampler.dtype):
        for exponent in (-2, -1, -0.5, 0.5, 2.0, 2.5):
            yield Sample(sampler.value((5,), 0.2, 4), exponent)
        yield Sample(2.0, sampler.value((5,)))
    else:
        yield Sample(2, sampler.value((5,), 0, 3))


def quotients(**pairs):
    """Sample dividends and divisors of both signs, the divisors away from zero."""

    def samples(sampler):
        yield from binary((-9.0, 9.0), (0.5, 4.0), **pairs)(sampler)
        if sampler.dtype not in ("uint8", "bool"):
            yield from binary((-9.0, 9.0), (-4.0, -1.0), **pairs)(sampler)

    return samples


def zero_divisor(**kwargs):
    return (Bad(INTEGERS, ZEROS, raises=RuntimeError, text="[Zz]ero", **kwargs),)


FMOD_SKIP = torch_only("the quotient by the smallest divisor overflows", ("float32", "float64"))

ARITHMETIC = (
    row("add", add, binary(), operator=operator.add, inplace_operator=operator.iadd),
    row(
        "add.alpha",
        add,
        binary(kwargs=({"alpha": 2},)),
        path="add",
        dtypes=dt.NUMBERS,
        special=False,
        tolerance=Tolerance(absolute=4, half=2),
        bad=(Bad(INTEGERS, INTEGERS, alpha=0.5, raises=RuntimeError, text="alpha"),),
    ),
    row(
        "sub",
        subtract,
        binary(),
        dtypes=dt.NUMBERS,
        operator=operator.sub,
        inplace_operator=operator.isub,
        bad=REFUSES_BOOL,
    ),
    row(
        "sub.alpha",
        subtract,
        binary(kwargs=({"alpha": 2},)),
        path="sub",
        dtypes=dt.NUMBERS,
        special=False,
        tolerance=Tolerance(absolute=4, half=2),
    ),
    row("mul", np.multiply, binary(), operator=operator.mul, inplace_operator=operator.imul),
    row(
        "div",
        divide,
        binary((-9.0, 9.0), (0.5, 4.0)),
        result="float",
        operator=operator.truediv,
        inplace_operator=operator.itruediv,
        bad=(Bad(THREE, THREE, rounding_mode="up", raises=RuntimeError, text="rounding_mode.*up"),),
    ),
    row(
        "div.floor",
        divide,
        quotients(kwargs=({"rounding_mode": "floor"},), smooth=between_multiples),
        path="div",
        dtypes=dt.NUMBERS,
        bad=zero_divisor(rounding_mode="floor"),
    ),
    row(
        "div.trunc",
        divide,
        quotients(kwargs=({"rounding_mode": "trunc"},), smooth=between_multiples),
        path="div",
        dtypes=dt.NUMBERS,
        bad=zero_divisor(rounding_mode="trunc"),
    ),
    row(
        "floor_divide",
        floor_divide,
        quotients(),
        dtypes=dt.NUMBERS,
        gradient_order=0,
        operator=operator.floordiv,
        inplace_operator=operator.ifloordiv,
        bad=REFUSES_BOOL + zero_divisor(),
    ),
    row(
        "remainder",
        np.remainder,
        quotients(smooth=between_multiples),
        dtypes=dt.NUMBERS,
        operator=operator.mod,
        signed_zero=False,
        inplace_operator=operator.imod,
        tolerance=Tolerance(absolute=8),
        bad=REFUSES_BOOL + zero_divisor(),
        skips=(FMOD_SKIP,),
    ),
    row(
        "fmod",
        np.fmod,
        quotients(smooth=between_multiples),
        dtypes=dt.NUMBERS,
        tolerance=Tolerance(absolute=8),
        bad=REFUSES_BOOL + zero_divisor(),
        skips=(FMOD_SKIP,),
    ),
    row(
        "pow",
        np.power,
        power_samples,
        dtypes=dt.NUMBERS,
        operator=operator.pow,
        inplace_operator=operator.ipow,
        tolerance=Tolerance(half=2),
        bad=(*REFUSES_BOOL, Bad(INTEGERS, -1, raises=RuntimeError, text="negative")),
    ),
)

FUNCTIONS = (
    row("atan2", np.arctan2, binary(smooth=away_from_zero, scalar=False), result="float"),
    row(
        "hypot",
        np.hypot,
        binary(smooth=away_from_zero, scalar=False),
        dtypes=dt.FLOATS,
        bad=REFUSES_INTEGER,
    ),
    row("copysign", copysign, copysign_samples, result="float", special=False),
    row(
        "nextafter",
        np.nextafter,
        binary(smooth=apart, scalar=False),
        dtypes=("float32", "float64"),
        promotes=False,
        native=True,
        tolerance=Tolerance(relative=0),
        bad=REFUSES_INTEGER,
    ),
    row(
        "logaddexp",
        np.logaddexp,
        binary(scalar=False),
        dtypes=dt.FLOATS,
        inplace=None,
        tolerance=Tolerance(absolute=4),
        signed_zero=False,
        bad=REFUSES_INTEGER,
    ),
    row(
        "logaddexp2",
        np.logaddexp2,
        binary(scalar=False),
        dtypes=dt.FLOATS,
        inplace=None,
        tolerance=Tolerance(absolute=4),
        signed_zero=False,
        bad=REFUSES_INTEGER,
    ),
    row("xlogy", special.xlogy, binary((0.1, 4.0)), result="float"),
    row(
        "heaviside",
        heaviside,
        binary(whole=True, scalar=False),
        gradient_order=0,
        promotes=False,
        bad=(Bad(FLOATING, INTEGERS, raises=RuntimeError, text="dtype|type"),),
    ),
    row("maximum", np.maximum, binary(smooth=apart, scalar=False), inplace=None, signed_zero=False),
    row("minimum", np.minimum, binary(smooth=apart, scalar=False), inplace=None, signed_zero=False),
    row("fmax", np.fmax, binary(smooth=apart, scalar=False), inplace=None, signed_zero=False),
    row("fmin", np.fmin, binary(smooth=apart, scalar=False), inplace=None, signed_zero=False),
)

COMPARISONS = tuple(
    row(
        name,
        reference,
        binary(whole=True),
        result="bool",
        gradient_order=0,
        operator=getattr(operator, name),
    )
    for name, reference in (
        ("eq", np.equal),
        ("ne", np.not_equal),
        ("lt", np.less),
        ("le", np.less_equal),
        ("gt", np.greater),
        ("ge", np.greater_equal),
    )
)

LOGIC = tuple(
    row(name, reference, binary((-1, 1), whole=True, scalar=False), result="bool", gradient_order=0)
    for name, reference in (
        ("logical_and", np.logical_and),
        ("logical_or", np.logical_or),
        ("logical_xor", np.logical_xor),
    )
)

BITS = tuple(
    row(
        f"bitwise_{name}",
        reference,
        binary((-9, 9)),
        dtypes=dt.INTEGRAL,
        gradient_order=0,
        special=False,
        operator=getattr(operator, word),
        bad=REFUSES_FLOAT,
        inplace_operator=getattr(operator, f"i{name}"),
    )
    for name, word, reference in (
        ("and", "and_", np.bitwise_and),
        ("or", "or_", np.bitwise_or),
        ("xor", "xor", np.bitwise_xor),
    )
) + tuple(
    row(
        f"bitwise_{side}_shift",
        reference,
        binary((0, 9), (0, 3)),
        dtypes=dt.INTS,
        gradient_order=0,
        special=False,
        bad=REFUSES_FLOAT,
        operator=getattr(operator, word),
        inplace_operator=getattr(operator, f"i{word}"),
    )
    for side, word, reference in (
        ("left", "lshift", np.left_shift),
        ("right", "rshift", np.right_shift),
    )
)

DIVISORS = tuple(
    row(
        name,
        reference,
        binary((-9, 9), scalar=False),
        dtypes=dt.INTS,
        gradient_order=0,
        special=False,
        bad=REFUSES_FLOAT,
    )
    for name, reference in (("gcd", np.gcd), ("lcm", np.lcm))
)

ROWS = ARITHMETIC + FUNCTIONS + COMPARISONS + LOGIC + BITS + DIVISORS
