"""Accuracy of torch.special against mpmath, in units in the last place.

float32 is computed in float64 and rounded, 1 ULP; entr, logit and ndtr are vector code. In
float64 a function is held to the bound of its case; beside the zeros of J, Y and Ai to as many ULP
of the size of the oscillation, and the incomplete gamma functions to ULP that grow with the
logarithm of a small result, as the rounding of the exponent does.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
from library import resolve, torch
from test_accuracy import INF, NAN, ulp_distance

DTYPES = [np.float32, np.float64]
PRECISION = 160


@dataclass(frozen=True)
class Case:
    """A function of torch.special, its reference, where it is looked at, what it must be exactly.

    Attributes:
        bound: the ULP allowed in float64.
        size: what the error is measured against where it is larger than the result.
    """

    name: str
    reference: Callable
    intervals: Sequence[tuple[float, float]]
    bound: float = 3.0
    size: Callable | None = None
    exact: Sequence[tuple[float, float]] = ()


def wave(x):
    """The size of J(x) and Y(x) where they oscillate."""
    return mp.sqrt(2 / (mp.pi * x)) if abs(x) > 1 else mp.mpf(0.5)


def airy_wave(x):
    return 1 / mp.sqrt(mp.pi * mp.sqrt(abs(x))) if x < -1 else mp.mpf(0)


def scaled_erfc(x):
    if x > 1000:
        return (1 - 1 / (2 * x * x) + 3 / (4 * x**4) - 15 / (8 * x**6)) / (x * mp.sqrt(mp.pi))
    return mp.exp(x * x) * mp.erfc(x)


def tail(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def log_tail(x):
    return mp.log(tail(x)) if x < 0 else mp.log1p(-tail(-x))


def quantile(p):
    """Newton's method from the value in float64, on the smaller of the two tails."""
    q = p if p < 0.5 else 1 - p
    x = mp.mpf(torch.special.ndtri(torch.tensor(float(q), dtype=torch.float64)).item())
    for _ in range(4):
        x -= (tail(x) - q) * mp.sqrt(2 * mp.pi) * mp.exp(x * x / 2)
    return x if p < 0.5 else -x


def entropy(x):
    return -x * mp.log(x)


OSCILLATING = ((1e-3, 2), (2, 5), (5, 8), (8, 40), (40, 1e4))
GROWING = ((-4, 4), (-8, 8), (8, 40), (40, 700))
DECAYING = ((1e-6, 1), (1, 3), (3, 8), (8, 40), (40, 700))
SCALED = ((1e-6, 1), (1, 3), (3, 8), (8, 40), (40, 700))
AT_POLE = ((0.0, -INF), (-0.0, -INF), (-1.0, NAN), (-INF, NAN))
DECAYS = ((0.0, INF), (-0.0, INF), (-1.0, NAN), (INF, 0.0))

CASES = [
    Case("bessel_j0", mp.j0, OSCILLATING, 4, wave, ((0.0, 1.0), (-0.0, 1.0))),
    Case("bessel_j1", mp.j1, OSCILLATING, 4, wave, ((0.0, 0.0), (-0.0, -0.0))),
    Case("bessel_y0", lambda x: mp.bessely(0, x), OSCILLATING, 4, wave, AT_POLE),
    Case("bessel_y1", lambda x: mp.bessely(1, x), OSCILLATING, 4, wave, AT_POLE),
    Case("i0", lambda x: mp.besseli(0, x), GROWING, exact=((0.0, 1.0), (INF, INF), (-INF, INF))),
    Case("i1", lambda x: mp.besseli(1, x), GROWING, exact=((0.0, 0.0), (INF, INF), (-INF, -INF))),
    Case("i0e", lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), GROWING, exact=((INF, 0.0),)),
    Case("i1e", lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), GROWING, exact=((-INF, -0.0),)),
    Case("modified_bessel_k0", lambda x: mp.besselk(0, x), DECAYING, 3.5, exact=DECAYS),
    Case("modified_bessel_k1", lambda x: mp.besselk(1, x), DECAYING, 3.5, exact=DECAYS),
    Case("scaled_modified_bessel_k0", lambda x: mp.exp(x) * mp.besselk(0, x), SCALED, exact=DECAYS),
    Case("scaled_modified_bessel_k1", lambda x: mp.exp(x) * mp.besselk(1, x), SCALED, exact=DECAYS),
    Case("spherical_bessel_j0", lambda x: mp.sin(x) / x, ((-1, 1), (-50, 50)), 2,
         exact=((0.0, 1.0), (INF, 0.0), (-INF, 0.0))),
    Case("airy_ai", mp.airyai, ((-100, -8), (-8, -1), (-1, 2), (2, 8), (8, 100)), 5, airy_wave,
         exact=((INF, NAN), (-INF, NAN))),
    Case("erfcx", scaled_erfc, ((-26, 0), (0, 5), (5, 30), (30, 1e6)), 2,
         exact=((0.0, 1.0), (INF, 0.0), (-INF, INF), (-30.0, INF))),
    Case("ndtr", tail, ((-1, 8), (-8, -1), (-37, -8)), 2,
         exact=((-INF, 0.0), (INF, 1.0), (0.0, 0.5))),
    Case("log_ndtr", log_tail, ((-1, 5), (5, 37), (-5, -1), (-1e4, -5)),
         exact=((-INF, -INF), (INF, -0.0))),
    Case("ndtri", quantile, ((1e-300, 1e-3), (1e-3, 0.2), (0.2, 0.8), (0.8, 0.9999)),
         exact=((0.0, -INF), (1.0, INF), (0.5, 0.0), (-0.1, NAN), (1.1, NAN))),
    Case("entr", entropy, ((1e-30, 1), (0.9, 1.1), (1, 50)), 2,
         exact=((0.0, 0.0), (-1.0, -INF), (INF, -INF), (-INF, -INF))),
    Case("logit", lambda p: mp.log(p / (1 - p)), ((1e-30, 0.2), (0.2, 0.8), (0.45, 0.55), (0.8, 1)),
         exact=((0.0, -INF), (1.0, INF), (0.5, 0.0), (-1.0, NAN), (2.0, NAN))),
]  # fmt: skip


def points(case, dtype, count=120):
    """Arguments in the intervals, uniform and, where one is wide, uniform in their logarithms."""
    generator = np.random.default_rng(20240311)
    parts = []
    for low, high in case.intervals:
        if low > 0 and high / low > 100:
            parts.append(np.exp(generator.uniform(math.log(low), math.log(high), count)))
        else:
            parts.append(generator.uniform(low, high, count))
    with np.errstate(under="ignore"):
        x = np.concatenate(parts).astype(dtype)
    special = np.asarray([argument for argument, _ in case.exact]).astype(dtype)
    return x[~np.isin(x, special)]


def evaluate(name, *arguments):
    function = getattr(torch.special, name, None) or resolve(name)
    return function(*(torch.from_numpy(x.copy()) for x in arguments)).numpy()


def distance(got, expected, size, dtype):
    """ULP between a result and its reference, of `size` where that is larger than the reference."""
    if size is None or size <= abs(expected):
        return ulp_distance(got, expected, dtype)
    ulp = mp.mpf(2) ** (mp.frexp(size)[1] - 1 - int(np.finfo(dtype).nmant))
    return float(abs(mp.mpf(got) - expected) / ulp)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_unary(case, dtype):
    x = points(case, dtype)
    got = evaluate(case.name, x)
    bound = case.bound if dtype is np.float64 or case.name in ("entr", "logit", "ndtr") else 1.0
    with mp.workprec(PRECISION):
        for argument, value in zip(x.tolist(), got.tolist(), strict=True):
            expected = case.reference(mp.mpf(argument))
            size = case.size(mp.mpf(argument)) if case.size and dtype is np.float64 else None
            found = distance(value, expected, size, dtype)
            assert found <= bound, f"{case.name}: {found:.2f} ULP at {argument!r}, allowed {bound}"


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_special_values(case, dtype):
    x, expected = np.asarray([*case.exact, (NAN, NAN)], dtype=dtype).repeat(40, axis=0).T
    got = evaluate(case.name, np.ascontiguousarray(x))
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(expected)[numbers])


def test_airy_far_left():
    """The phase keeps its precision: what is left is what rounding costs a sine of that size."""
    x = -np.logspace(2, 6, 80)
    with mp.workprec(PRECISION):
        for argument, value in zip(x.tolist(), evaluate("airy_ai", x).tolist(), strict=True):
            at = mp.mpf(argument)
            assert distance(value, mp.airyai(at), airy_wave(at), np.float64) < 40, argument


def test_airy_beyond_all_precision():
    """Where the phase has no digit left the wave keeps its size."""
    x = -np.logspace(16, 200, 40)
    with mp.workprec(PRECISION):
        for argument, value in zip(x.tolist(), evaluate("airy_ai", x).tolist(), strict=True):
            assert abs(value) <= airy_wave(mp.mpf(argument)) * (1 + 1e-12), argument


GAMMA_RANGES = {
    "small": lambda r: (2.0 ** r.uniform(-20, 0), 2.0 ** r.uniform(-30, 3)),
    "middle": lambda r: (r.uniform(0.5, 10), r.uniform(0.01, 30)),
    "large": lambda r: (lambda a: (a, a * r.uniform(0.3, 2.5)))(r.uniform(10, 100)),
    "uniform": lambda r: (lambda a: (a, a + r.uniform(-6, 6) * a**0.5))(r.uniform(100, 1000)),
    "edge": lambda r: (lambda a: (a, a * r.uniform(0.68, 1.32)))(r.uniform(95, 120)),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("case", GAMMA_RANGES)
def test_incomplete_gamma(case, dtype):
    generator = np.random.default_rng(5)
    pairs = [GAMMA_RANGES[case](generator) for _ in range(80)]
    a, x = np.asarray(pairs).T.astype(dtype)
    lower, upper = evaluate("gammainc", a, x), evaluate("gammaincc", a, x)
    with mp.workprec(240):
        for b, y, p, q in zip(*(each.tolist() for each in (a, x, lower, upper)), strict=True):
            below = mp.gammainc(mp.mpf(b), 0, mp.mpf(y), regularized=True)
            above = mp.gammainc(mp.mpf(b), mp.mpf(y), mp.inf, regularized=True)
            for name, value, expected in (("P", p, below), ("Q", q, above)):
                if expected < np.finfo(dtype).tiny:
                    continue
                bound = 1.0 if dtype is np.float32 else 8 + 6 * abs(float(mp.log(expected)))
                found = ulp_distance(value, expected, dtype)
                assert found <= bound, f"{name}({b!r}, {y!r}): {found:.2f} ULP, allowed {bound:.1f}"


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
def test_zeta(dtype):
    generator = np.random.default_rng(9)
    s = np.concatenate([generator.uniform(1.01, 3, 60), generator.uniform(3, 60, 60)])
    q = np.concatenate([generator.uniform(0.1, 3, 60), generator.uniform(1, 500, 60)])
    s, q = s.astype(dtype), q.astype(dtype)
    with mp.workprec(800):  # zeta keeps absolute precision
        for order, shift, value in zip(s.tolist(), q.tolist(), evaluate("zeta", s, q), strict=True):
            expected = mp.zeta(mp.mpf(order), mp.mpf(shift))
            if expected < np.finfo(dtype).tiny:
                continue
            # The rounding of q + k counts s times.
            bound = 5 + (0.6 * order if dtype is np.float64 else 0)
            assert ulp_distance(float(value), expected, dtype) < bound, (order, shift)


def second_kind(n, x):
    """Chebyshev's recurrence, where the bits it loses do not count."""
    before, now = mp.mpf(0), mp.mpf(1)
    for _ in range(n):
        before, now = now, 2 * x * now - before
    return now


POLYNOMIALS = {
    "chebyshev_polynomial_t": mp.chebyt,
    "chebyshev_polynomial_u": second_kind,
    "hermite_polynomial_h": mp.hermite,
    "legendre_polynomial_p": mp.legendre,
}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    """Each step of a recurrence may add a rounding: the bound is 4 n ULP of the largest value."""
    x = np.linspace(-1.25, 1.25, 41)
    for n in (0, 1, 2, 5, 12, 30, 64, 65, 90):
        with mp.workprec(400):
            wanted = [POLYNOMIALS[name](n, mp.mpf(value)) for value in x.tolist()]
        got = evaluate(name, x, np.full_like(x, n))
        inside = np.abs(x) <= 1
        size = np.where(
            inside, max(abs(float(w)) for w, i in zip(wanted, inside, strict=True) if i), 0
        )
        for value, expected, least in zip(got.tolist(), wanted, size.tolist(), strict=True):
            found = distance(value, expected, mp.mpf(least) if least else None, np.float64)
            assert found <= 4 + 4 * n, f"{name} of degree {n}: {found:.1f} ULP"
