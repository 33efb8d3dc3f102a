"""Rows of torch.special: error, Bessel, gamma and zeta functions, orthogonal polynomials."""

import dtypes as dt
import numpy as np
from scipy import special

from op_db.pointwise import INTEGERS, NOT_A_TENSOR
from op_db.row import Bad, Op, Sample, Skip, Tolerance, Value
from op_db.sampler import (
    BINARY_GRADIENT_SHAPES,
    BINARY_SHAPES,
    THREADED_LENGTH,
    Sampler,
    binary,
    unary,
)

VECTOR = Sampler("float32").value((3,))
FOUR = Sampler("float32").value((4,))
# What PyTorch computes in float32 and float64 only.
WIDE = ("float32", "float64", *dt.INTEGRAL)
HALF = Value(np.ones(3, np.float16), "float16")
REFUSES_HALF = (Bad(HALF, raises=RuntimeError, text="float16|Half"),)
LOOSE = Tolerance(relative=8, absolute=8)


def row(name, reference, low=-3.0, high=3.0, *, avoid=(), **fields):
    """Return the row of a function of one argument."""
    fields = {
        "dtypes": dt.ALL,
        "result": "float",
        "path": f"special.{name}",
        "tolerance": LOOSE,
        "out": True,
        "special": True,
        "signed_zero": False,
        "bad": (),
        **fields,
    }
    fields["bad"] += NOT_A_TENSOR
    return Op(name, reference, unary(low, high, avoid=avoid), **fields)


def wide_row(name, reference, low=-3.0, high=3.0, **fields):
    """Return the row of a function that refuses 16-bit floats."""
    return row(name, reference, low, high, dtypes=WIDE, bad=REFUSES_HALF, **fields)


def bessel_row(name, reference, low=-9.0, high=9.0, **fields):
    """Return the row of a function without a derivative in PyTorch."""
    digits = Skip("test_parity", "PyTorch has eight digits", ("float64",))
    fields = {"pytorch_gradient": False, "special": False, **fields}
    if name in ("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"):
        fields["skips"] = (digits,)
    return wide_row(name, reference, low, high, **fields)


def logit_samples(sampler):
    yield from unary(0.05, 0.95)(sampler)
    yield from unary(-0.5, 1.5, avoid=(0.25, 0.75), kwargs=({"eps": 0.25},))(sampler)


def logit(x, eps=None):
    return special.logit(x if eps is None else np.clip(x, eps, 1 - eps))


def mvlgamma_samples(sampler):
    for p in (1, 3):
        for shape in ((), (5,), (2, 3)) if sampler.gradient else ((), (5,), (2, 3), (0, 2)):
            yield Sample(sampler.value(shape, 1.2, 9.0), p)


def mvlgamma(x, p):
    return sum(special.gammaln(x - j / 2) for j in range(p)) + p * (p - 1) / 4 * np.log(np.pi)


def first_fixed(samples):
    """Return samples with the first operand not differentiated by."""

    def changed(sampler):
        for sample in samples(sampler):
            first, *rest = sample.args
            yield Sample(Value(first.array, first.dtype, False), *rest, **sample.kwargs)

    return changed


def polynomial_samples(low, high):
    """Return the samples of a polynomial: degrees are whole numbers, without a derivative."""

    def degrees(sampler, shape):
        value = sampler.value(shape, 0, 6)
        return Value(np.round(value.array).astype(value.array.dtype), value.dtype, False)

    def samples(sampler):
        shapes = BINARY_GRADIENT_SHAPES if sampler.gradient else BINARY_SHAPES
        for left, right in shapes:
            yield Sample(sampler.value(left, low, high), degrees(sampler, right))
        if not sampler.gradient:
            yield Sample(sampler.value((3, 4), low, high), 3)
        if sampler.dtype == "float32" and not sampler.gradient:
            x = sampler.value((THREADED_LENGTH,), low, high)
            yield Sample(x, degrees(sampler, (THREADED_LENGTH,)))

    return samples


def pair_row(name, reference, samples, **fields):
    """Return the row of a function of two arguments."""
    fields = {
        "result": "float",
        "path": f"special.{name}",
        "tolerance": Tolerance(relative=16, absolute=16),
        "out": True,
        "promotes": True,
        **fields,
    }
    fields["bad"] = (
        *fields.get("bad", ()),
        Bad(VECTOR, FOUR, raises=RuntimeError, text=r"3[^0-9]+4|4[^0-9]+3"),
        Bad(VECTOR, "text", raises=TypeError, text="str|Tensor"),
        Bad(VECTOR, raises=TypeError, text="argument|other|n"),
    )
    return Op(name, reference, samples, **fields)


def polynomial_row(name, reference, low=-1.2, high=1.2):
    """Return the row of a polynomial; test_special.py has the ``out=`` of the composed ones."""
    return pair_row(
        name,
        lambda x, n: reference(np.asarray(n).astype(int), x),
        polynomial_samples(low, high),
        dtypes=WIDE,
        tolerance=Tolerance(relative=16, absolute=256),
        pytorch_gradient=False,
        out=not name.startswith("shifted"),
        bad=(Bad(HALF, HALF, raises=RuntimeError, text="float16|Half"),),
    )


def third_kind(n, x):
    """Chebyshev's polynomials cos((n + 1/2) t) / cos(t / 2) of x = cos(t)."""
    return special.eval_chebyu(n, x) - np.where(n > 0, special.eval_chebyu(n - 1, x), 0)


def fourth_kind(n, x):
    return special.eval_chebyu(n, x) + np.where(n > 0, special.eval_chebyu(n - 1, x), 0)


def shifted(polynomial):
    return lambda n, x: polynomial(n, 2 * x - 1)


ONE = (
    Op(
        "logit",
        logit,
        logit_samples,
        dtypes=dt.ALL,
        result="float",
        tolerance=LOOSE,
        method="logit",
        inplace="logit_",
        bad=NOT_A_TENSOR,
    ),
    row("entr", special.entr, 0.1, 4.0),
    wide_row("erfcx", special.erfcx),
    row("ndtr", special.ndtr),
    wide_row("log_ndtr", special.log_ndtr),
    wide_row("ndtri", special.ndtri, 0.02, 0.98),
    row("i0", special.i0, path="i0", method="i0", inplace="i0_", special=False),
    row("i0e", special.i0e, avoid=(0.0,)),
    row("i1", special.i1, special=False),
    row("i1e", special.i1e, avoid=(0.0,)),
    bessel_row("bessel_j0", special.j0),
    bessel_row("bessel_j1", special.j1),
    bessel_row("bessel_y0", special.y0, 0.2, 9.0),
    bessel_row("bessel_y1", special.y1, 0.2, 9.0),
    bessel_row("modified_bessel_k0", special.k0, 0.2, 9.0),
    bessel_row("modified_bessel_k1", special.k1, 0.2, 9.0),
    bessel_row("scaled_modified_bessel_k0", special.k0e, 0.2, 9.0),
    bessel_row("scaled_modified_bessel_k1", special.k1e, 0.2, 9.0),
    bessel_row("spherical_bessel_j0", lambda x: np.sinc(x / np.pi)),
    bessel_row(
        "airy_ai",
        lambda x: special.airy(x)[0],
        -6.0,
        6.0,
        skips=(Skip("test_parity", "PyTorch has five digits", ("float32", "float64")),),
    ),
    Op(
        "mvlgamma",
        mvlgamma,
        mvlgamma_samples,
        dtypes=dt.NUMBERS,
        result="float",
        tolerance=Tolerance(relative=16, absolute=16, half=4),
        method="mvlgamma",
        inplace="mvlgamma_",
        bad=(
            Bad(VECTOR, 0, raises=RuntimeError, text="p has to be"),
            Bad(VECTOR, 1.5, raises=TypeError, text="int|float"),
            Bad("text", 1, raises=TypeError, text="Tensor|str"),
        ),
    ),
)

GAMMAS = tuple(
    pair_row(
        name,
        reference,
        first_fixed(binary((0.3, 6.0), (0.1, 9.0), scalar=False)),
        path=name,
        dtypes=dt.FLOATS,
        method=name,
        inplace=f"{name}_",
        bad=(Bad(INTEGERS, INTEGERS, raises=RuntimeError, text="int64|Long"),),
    )
    for name, reference in (("igamma", special.gammainc), ("igammac", special.gammaincc))
)

TWO = (
    pair_row("xlog1py", special.xlog1py, binary((0.1, 4.0)), dtypes=dt.ALL),
    pair_row(
        "zeta",
        special.zeta,
        first_fixed(binary((1.5, 6.0), (0.2, 9.0))),
        dtypes=WIDE,
        bad=(Bad(HALF, HALF, raises=RuntimeError, text="float16|Half"),),
    ),
    *GAMMAS,
)

POLYNOMIALS = (
    polynomial_row("chebyshev_polynomial_t", special.eval_chebyt),
    polynomial_row("chebyshev_polynomial_u", special.eval_chebyu),
    polynomial_row("chebyshev_polynomial_v", third_kind),
    polynomial_row("chebyshev_polynomial_w", fourth_kind),
    polynomial_row("hermite_polynomial_h", special.eval_hermite),
    polynomial_row("hermite_polynomial_he", special.eval_hermitenorm),
    polynomial_row("laguerre_polynomial_l", special.eval_laguerre, -2.0, 5.0),
    polynomial_row("legendre_polynomial_p", special.eval_legendre),
    polynomial_row("shifted_chebyshev_polynomial_t", shifted(special.eval_chebyt), -0.2, 1.2),
    polynomial_row("shifted_chebyshev_polynomial_u", shifted(special.eval_chebyu), -0.2, 1.2),
    polynomial_row("shifted_chebyshev_polynomial_v", shifted(third_kind), -0.2, 1.2),
    polynomial_row("shifted_chebyshev_polynomial_w", shifted(fourth_kind), -0.2, 1.2),
)

ROWS = ONE + TWO + POLYNOMIALS
