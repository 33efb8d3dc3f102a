"""Accuracy of the transcendental functions against mpmath, in units in the last place.

Every function is held to 2 ULP in float32 and float64 over its whole range: random bit patterns,
its interesting interval, the neighbourhood of its hard points, subnormal numbers. lgamma, digamma
and erfinv are held to 8 ULP; on the negative axis, where lgamma and digamma cross zero between any
two poles, to as many ULP of the value at the mirrored argument; lgamma of float32 is held to 2 ULP
everywhere. Special values are exact.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
from library import torch

INF, NAN = math.inf, math.nan
DTYPES = [np.float32, np.float64]
PRECISION = 140  # bits of the references; a double holds 53

# The neighbourhood of each anchor is sampled at these distances, relative and signed.
OFFSETS = [s * 2.0**-k for k in range(1, 53, 3) for s in (-1, 1)] + [0.0]


@dataclass(frozen=True)
class Case:
    """A function, its reference, where to look hard and what it must return exactly."""

    name: str
    reference: Callable
    interval: tuple[float, float] = (-20.0, 20.0)
    anchors: Sequence[float] = (1.0,)
    domain: tuple[float, float] = (-INF, INF)
    exact: Sequence[tuple[float, float]] = ()
    bound: float = 2.0


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def sinc(x):
    return mp.sinpi(x) / (mp.pi * x) if x else mp.mpf(1)


def lgamma(x):
    return mp.re(mp.loggamma(x))


def erfinv(x):
    """Newton's method on erf, or on erfc where erf saturates."""
    a = abs(x)
    if a < mp.mpf(2) ** -40:
        return x * mp.sqrt(mp.pi) / 2
    y = mp.mpf(math.sqrt(-math.log(float((1 - a) * (1 + a))))) * mp.mpf("0.9")
    for _ in range(60):
        error = a - mp.erf(y) if y < 1 else mp.erfc(y) - (1 - a)
        newton = error * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        step = newton / (1 - y * newton) if abs(y * newton) < 0.5 else newton / 2
        y += step
        if abs(step) < y * mp.mpf(2) ** -100:
            break
    return mp.sign(x) * y


QUARTER_TURNS = [k * math.pi / 2 for k in (1, 2, 3, 4, 7, 22, 355, 710, 103993, 2**20, 3 * 2**26)]
HUGE_ANGLES = [1e10, 1e15, 2.0**60 * 1.1, 6381956970095103.0 * 2.0**797, 1e30, 1e38]
ODD = [(0.0, 0.0), (-0.0, -0.0)]

CASES = [
    Case("exp", mp.exp, (-746, 711), (-745.13, -708.4, -103.9, -87.3, 88.72, 709.78, 1.0),
         exact=[(0.0, 1.0), (-0.0, 1.0), (-INF, 0.0), (INF, INF)]),
    Case("exp2", lambda x: mp.mpf(2) ** x, (-1076, 1025), (-1074, -1022, -149, -126, 128, 1024),
         exact=[(0.0, 1.0), (10.0, 1024.0), (-1.0, 0.5), (-INF, 0.0), (INF, INF)]),
    Case("expm1", mp.expm1, (-45, 711), (-37.4, 0.35, -0.35, 1.0, 88.72, 709.78),
         exact=[*ODD, (-INF, -1.0), (INF, INF)]),
    Case("log", mp.log, (0, 30), (1.0, 2**0.5, 0.5**0.5), (0, INF),
         exact=[(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (-1.0, NAN), (-INF, NAN), (INF, INF)]),
    Case("log2", lambda x: mp.log(x) / mp.ln2, (0, 30), (1.0, 2**0.5, 0.5**0.5), (0, INF),
         exact=[(0.0, -INF), (1.0, 0.0), (8.0, 3.0), (2.0**-140, -140.0), (-1.0, NAN), (INF, INF)]),
    Case("log10", lambda x: mp.log(x) / mp.ln10, (0, 30), (1.0, 2**0.5, 0.5**0.5), (0, INF),
         exact=[(0.0, -INF), (1.0, 0.0), (-1.0, NAN), (INF, INF)]),
    Case("log1p", mp.log1p, (-1, 30), (-1.0, 2**0.5 - 1, 0.5**0.5 - 1), (-1, INF),
         exact=[*ODD, (-1.0, -INF), (-2.0, NAN), (-INF, NAN), (INF, INF)]),
    Case("sin", mp.sin, (-30, 30), (*QUARTER_TURNS, *HUGE_ANGLES),
         exact=[*ODD, (INF, NAN), (-INF, NAN)]),
    Case("cos", mp.cos, (-30, 30), (*QUARTER_TURNS, *HUGE_ANGLES),
         exact=[(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)]),
    Case("tan", mp.tan, (-30, 30), (*QUARTER_TURNS, *HUGE_ANGLES),
         exact=[*ODD, (INF, NAN), (-INF, NAN)]),
    Case("asin", mp.asin, (-1, 1), (0.5, -0.5, 1.0, -1.0), (-1, 1),
         exact=[*ODD, (1.5, NAN), (-INF, NAN), (1.0, math.pi / 2), (-1.0, -math.pi / 2)]),
    Case("acos", mp.acos, (-1, 1), (0.5, -0.5, 1.0, -1.0), (-1, 1),
         exact=[(1.0, 0.0), (1.5, NAN), (INF, NAN), (-1.0, math.pi), (0.0, math.pi / 2)]),
    Case("atan", mp.atan, (-10, 10), (0.5, 1.0, 2.0, -0.5, 0.4375, 2.4375),
         exact=[*ODD, (INF, math.pi / 2), (-INF, -math.pi / 2), (1.0, math.pi / 4)]),
    Case("sinh", mp.sinh, (-711, 711), (1.0, -1.0, 0.3, 89.41, 710.47),
         exact=[*ODD, (INF, INF), (-INF, -INF)]),
    Case("cosh", mp.cosh, (-711, 711), (1.0, 0.3, 89.41, 710.47),
         exact=[(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF)]),
    Case("tanh", mp.tanh, (-22, 22), (0.625, -0.625, 0.55, 1.0, 9.01, 19.06),
         exact=[*ODD, (INF, 1.0), (-INF, -1.0)]),
    Case("asinh", mp.asinh, (-30, 30), (1.0, 0.12, 0.45, 2.0**14, 2.0**28),
         exact=[*ODD, (INF, INF), (-INF, -INF)]),
    Case("acosh", mp.acosh, (1, 30), (1.0, 1.03, 1.1, 2.0**14, 2.0**28), (1, INF),
         exact=[(1.0, 0.0), (0.5, NAN), (-INF, NAN), (INF, INF)]),
    Case("atanh", mp.atanh, (-1, 1), (1.0, -1.0, 0.06, 0.125, 0.5), (-1, 1),
         exact=[*ODD, (1.0, INF), (-1.0, -INF), (2.0, NAN), (-INF, NAN)]),
    Case("sigmoid", sigmoid, (-746, 60), (-745.1, -708.4, -103.9, -87.3, -3.44, -1.95, 17.0),
         exact=[(0.0, 0.5), (-0.0, 0.5), (-INF, 0.0), (INF, 1.0)]),
    Case("erf", mp.erf, (-6, 6), (1.0, -1.0, 0.5, 3.9, 5.9),
         exact=[*ODD, (INF, 1.0), (-INF, -1.0)]),
    Case("erfc", mp.erfc, (-6, 27.5), (1.0, 0.0107, 0.5, 9.2, 10.05, 26.5, 27.2),
         exact=[(0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, 2.0)]),
    Case("erfinv", erfinv, (-1, 1), (1.0, -1.0, 0.98, 0.99905, 0.5), (-1, 1), bound=8,
         exact=[*ODD, (1.0, INF), (-1.0, -INF), (1.5, NAN), (INF, NAN)]),
    Case("lgamma", lgamma, (-40, 60), (0.5, 1.0, 1.25, 1.494, 2.0, 2.5, 8.5), (-40, INF), bound=8,
         exact=[(0.0, INF), (-0.0, INF), (1.0, 0.0), (2.0, 0.0), (-3.0, INF), (INF, INF)]),
    Case("digamma", mp.digamma, (-40, 60), (0.5, 1.0, 1.4616321449683623, 2.017, 8.5), (-40, INF),
         bound=8, exact=[(0.0, -INF), (-0.0, INF), (-3.0, NAN), (INF, INF)]),
    Case("sinc", sinc, (-50, 50), (0.25, 0.5, 1.0, 2.0, 1000.0, 1e6),
         exact=[(0.0, 1.0), (-0.0, 1.0)]),
    Case("sqrt", mp.sqrt, (0, 30), (1.0, 2.0), (0, INF), bound=0.5,
         exact=[*ODD, (-1.0, NAN), (INF, INF)]),
    Case("rsqrt", lambda x: 1 / mp.sqrt(x), (0, 30), (1.0, 2.0), (0, INF),
         exact=[(0.0, INF), (-0.0, -INF), (-1.0, NAN), (INF, 0.0)]),
]  # fmt: skip


def ulp_distance(got: float, expected: mp.mpf, dtype: type) -> float:
    """|got - expected| in units of the last place of `expected` in `dtype`."""
    info = np.finfo(dtype)
    if expected == 0:
        return 0.0 if got == 0 else INF
    size = abs(expected)
    exponent = min(max(mp.frexp(size)[1] - 1, int(info.minexp)), int(info.maxexp) - 1)
    ulp = mp.mpf(2) ** (exponent - info.nmant)
    if math.isinf(got):
        # Infinity stands for the number after the largest one and for all beyond.
        beyond = mp.mpf(2) ** int(info.maxexp)
        if mp.sign(expected) != math.copysign(1, got):
            return INF
        return float(max(beyond - ulp / 2 - size, 0) / ulp)
    return INF if math.isnan(got) else float(abs(mp.mpf(got) - expected) / ulp)


def random_bits(count: int, dtype: type, generator: np.random.Generator) -> np.ndarray:
    """Numbers with uniformly random bit patterns: every exponent, both signs, subnormals."""
    width = np.dtype(dtype).itemsize
    return np.frombuffer(generator.bytes(count * width), dtype=dtype)


def points(case: Case, dtype: type, count: int = 300) -> np.ndarray:
    """Arguments within the case's domain; the same for every run."""
    generator = np.random.default_rng(20240229)
    tiny = float(np.finfo(dtype).smallest_subnormal)
    low, high = case.interval
    anchors = np.asarray(case.anchors, dtype=np.float64)
    parts = [
        random_bits(count, dtype, generator),
        generator.uniform(low, high, count),
        generator.uniform(max(low, -2), min(high, 2), count),
        generator.choice([-1, 1], count) * 2.0 ** generator.uniform(-70, 3, count),
        (anchors[:, None] * (1 + np.asarray(OFFSETS))).ravel(),
        np.asarray([-3 * tiny, -tiny, tiny, 5 * tiny, float(np.finfo(dtype).tiny)]),
        [float(np.finfo(dtype).max), -float(np.finfo(dtype).max)],
    ]
    with np.errstate(over="ignore"):
        x = np.concatenate([np.asarray(part).astype(dtype) for part in parts])
    inside = (x >= case.domain[0]) & (x <= case.domain[1]) & np.isfinite(x)
    # The references of the exponentials stop at a magnitude where every result has saturated.
    if case.name in {"exp", "exp2", "expm1", "sinh", "cosh", "tanh", "sigmoid", "erf", "erfc"}:
        inside &= np.abs(x) < 2000
    special = np.asarray([argument for argument, _ in case.exact]).astype(dtype)
    return x[inside & ~np.isin(x, special)]


def evaluate(name: str, *arguments: np.ndarray) -> np.ndarray:
    function = getattr(torch, name, None) or getattr(torch.nn.functional, name)
    return function(*(torch.from_numpy(x.copy()) for x in arguments)).numpy()


def allowed_ulps(case: Case, x: float, expected: mp.mpf, dtype: type) -> float:
    """The bound, widened on the negative axis where lgamma and digamma cancel."""
    if case.name == "lgamma" and dtype is np.float32:
        return 2.0
    if case.name not in {"lgamma", "digamma"} or x > 0:
        return case.bound
    mirrored = max(abs(case.reference(abs(mp.mpf(x)))), mp.mpf(1))
    return case.bound * float(max(mirrored / abs(expected), 1))


def assert_close(name: str, dtype: type, distances: list, arguments: Sequence[np.ndarray]) -> None:
    """Fails with the argument whose distance exceeds its allowance by the largest factor."""
    excess = [distance / allowed for distance, allowed in distances]
    worst = int(np.argmax(excess))
    distance, allowed = distances[worst]
    at = ", ".join(repr(float(x[worst])) for x in arguments)
    assert distance <= allowed, (
        f"{name} ({dtype.__name__}): {distance:.3f} ULP at ({at}), allowed {allowed:.2f}; "
        f"{sum(e > 1 for e in excess)} of {len(excess)} points exceed their bound"
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_unary(case: Case, dtype: type) -> None:
    x = points(case, dtype)
    got = evaluate(case.name, x)
    assert got.dtype == dtype
    distances = []
    with mp.workprec(PRECISION):
        for argument, value in zip(x.tolist(), got.tolist(), strict=True):
            expected = case.reference(mp.mpf(argument))
            allowed = allowed_ulps(case, argument, expected, dtype)
            distances.append((ulp_distance(value, expected, dtype), allowed))
    assert_close(case.name, dtype, distances, [x])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_special_values(case: Case, dtype: type) -> None:
    # Forty copies put every value through the vector loop and its remainder.
    x, expected = np.asarray([*case.exact, (NAN, NAN)], dtype=dtype).repeat(40, axis=0).T
    got = evaluate(case.name, np.ascontiguousarray(x))
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_result_does_not_depend_on_position(case: Case, dtype: type) -> None:
    x = points(case, dtype, count=40)
    whole = evaluate(case.name, x)
    for start in (1, 3, len(x) - 5):
        np.testing.assert_array_equal(evaluate(case.name, x[start:]), whole[start:])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("name", ["exp", "log", "log2", "log10", "lgamma", "sigmoid", "gelu"])
def test_result_does_not_depend_on_hard_neighbours(name: str, dtype: type) -> None:
    # Kernels test a tile of arguments and leave out what none of them needs.
    easy = np.random.default_rng(3).uniform(0.01, 11.9, 100).astype(dtype)
    hard = np.asarray([NAN, INF, -INF, 0.0, -1.0, 1e-310, 1e-40, 700.0, -800.0], dtype=dtype)
    alone = evaluate(name, easy)
    if name != "gelu":  # which has no method
        in_place = torch.from_numpy(easy.copy())
        getattr(in_place, f"{name}_")()
        np.testing.assert_array_equal(in_place.numpy(), alone)
    for argument in hard:
        together = evaluate(name, np.append(easy, argument))
        np.testing.assert_array_equal(together[:-1], alone)
        np.testing.assert_array_equal(together[-1:], evaluate(name, np.asarray([argument])))
        if name == "gelu":
            continue
        in_place = torch.from_numpy(np.append(easy, argument))
        getattr(in_place, f"{name}_")()
        np.testing.assert_array_equal(in_place.numpy(), together)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
def test_gelu(dtype: type) -> None:
    """A few ULP, and in the left tail those that the rounding of x^2 / 2 costs."""
    generator = np.random.default_rng(13)
    tail = -12.9 if dtype is np.float32 else -37.0
    x = np.concatenate([generator.uniform(-4, 4, 600), generator.uniform(tail, 0, 300)])
    x = np.concatenate([x, [-1e-30, 1e-30, 12.0, -12.0, 30.0, 1e30]]).astype(dtype)
    distances = []
    with mp.workprec(PRECISION):
        for argument, value in zip(x.tolist(), evaluate("gelu", x).tolist(), strict=True):
            expected = mp.mpf(argument) * mp.ncdf(mp.mpf(argument))
            allowed = 6 + (argument**2 / 2 if argument < 0 else 0)
            distances.append((ulp_distance(value, expected, dtype), allowed))
    assert_close("gelu", dtype, distances, [x])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
def test_trigamma(dtype: type) -> None:
    generator = np.random.default_rng(17)
    parts = [generator.uniform(-40, 60, 300), generator.uniform(-2, 9, 300)]
    parts.append(2.0 ** generator.uniform(-60, 60, 200))
    x = np.concatenate(parts).astype(dtype)
    got = torch.polygamma(1, torch.from_numpy(x.copy())).numpy()
    distances = []
    with mp.workprec(PRECISION):
        for argument, value in zip(x.tolist(), got.tolist(), strict=True):
            expected = mp.psi(1, mp.mpf(argument))
            distances.append((ulp_distance(value, expected, dtype), 8.0))
    assert_close("trigamma", dtype, distances, [x])
    special = torch.polygamma(1, torch.tensor([0.0, -0.0, -3.0, INF, NAN])).numpy()
    np.testing.assert_array_equal(special, np.asarray([INF, INF, INF, 0.0, NAN]))


def pow_points(dtype: type, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Bases and exponents whose powers spread over the whole range of the type."""
    limit = 740.0 if dtype is np.float64 else 100.0
    near_one = 1 + generator.choice([-1, 1], 300) * 2.0 ** generator.uniform(-22, -2, 300)
    base = np.concatenate([np.exp(generator.uniform(-5, 5, 300)), near_one]).astype(dtype)
    base = base[base != 1]
    logarithm = np.log(base.astype(np.float64))
    exponent = (generator.uniform(-limit, 0.955 * limit, base.size) / logarithm).astype(dtype)
    any_base = np.abs(random_bits(300, dtype, generator))
    any_base = any_base[np.isfinite(any_base) & (any_base > 0)]
    small = generator.uniform(-1.1, 1.1, any_base.size).astype(dtype)
    integer = generator.integers(-20, 20, 200).astype(dtype)
    signed = generator.uniform(-9, 9, 200).astype(dtype)
    return np.concatenate([base, any_base, signed]), np.concatenate([exponent, small, integer])


def plane_points(dtype: type, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points of the plane: near the diagonals, of all magnitudes, subnormal."""
    near = generator.standard_normal((2, 400))
    spread = generator.standard_normal((2, 300)) * 2.0 ** generator.uniform(-60, 60, (2, 300))
    tiny = generator.standard_normal((2, 100)) * 300 * float(np.finfo(dtype).smallest_subnormal)
    bits = random_bits(600, dtype, generator).reshape(2, 300)
    bits = bits[:, np.isfinite(bits).all(axis=0)]
    both = np.concatenate([near.astype(dtype), spread.astype(dtype), tiny.astype(dtype), bits], 1)
    return tuple(both[:, (both != 0).all(axis=0)])


BINARY = [("pow", mp.power, pow_points), ("atan2", mp.atan2, plane_points),
          ("hypot", mp.hypot, plane_points)]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize(("name", "reference", "make"), BINARY, ids=[b[0] for b in BINARY])
def test_binary(name: str, reference: Callable, make: Callable, dtype: type) -> None:
    x, y = make(dtype, np.random.default_rng(7))
    got = evaluate(name, x, y)
    distances = []
    with mp.workprec(PRECISION):
        for a, b, value in zip(x.tolist(), y.tolist(), got.tolist(), strict=True):
            distances.append((ulp_distance(value, reference(mp.mpf(a), mp.mpf(b)), dtype), 2.0))
    assert_close(name, dtype, distances, [x, y])


POW_EXACT = [
    (0.0, 0.0, 1.0), (NAN, 0.0, 1.0), (1.0, NAN, 1.0), (1.0, INF, 1.0), (-1.0, INF, 1.0),
    (-1.0, -INF, 1.0), (2.0, INF, INF), (2.0, -INF, 0.0), (0.5, INF, 0.0), (0.5, -INF, INF),
    (0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (0.0, -1.0, INF), (-0.0, -3.0, -INF),
    (-0.0, -2.0, INF), (INF, 2.0, INF), (INF, -2.0, 0.0), (-INF, 3.0, -INF), (-INF, 2.0, INF),
    (-INF, -3.0, -0.0), (-2.0, 0.5, NAN), (-2.0, 3.0, -8.0), (-2.0, -1.0, -0.5), (NAN, 1.0, NAN),
    (2.0, NAN, NAN), (2.0, 1e30, INF), (0.5, 1e30, 0.0), (-2.0, 1e30, INF), (3.0, 4.0, 81.0),
]  # fmt: skip
ATAN2_EXACT = [
    (0.0, 1.0, 0.0), (-0.0, 1.0, -0.0), (0.0, -1.0, math.pi), (-0.0, -1.0, -math.pi),
    (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -0.0, math.pi), (1.0, 0.0, math.pi / 2),
    (-1.0, -0.0, -math.pi / 2), (INF, INF, math.pi / 4), (INF, -INF, 3 * math.pi / 4),
    (-INF, 1.0, -math.pi / 2), (1.0, INF, 0.0), (-1.0, INF, -0.0), (1.0, -INF, math.pi),
    (NAN, 1.0, NAN), (1.0, NAN, NAN),
]  # fmt: skip
HYPOT_EXACT = [
    (3.0, 4.0, 5.0), (-3.0, 4.0, 5.0), (0.0, -0.0, 0.0), (INF, NAN, INF), (NAN, -INF, INF),
    (INF, 1.0, INF), (NAN, 1.0, NAN), (0.0, -7.0, 7.0),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize(
    ("name", "exact"), [("pow", POW_EXACT), ("atan2", ATAN2_EXACT), ("hypot", HYPOT_EXACT)]
)
def test_binary_special_values(name: str, exact: list, dtype: type) -> None:
    x, y, expected = np.asarray(exact, dtype=dtype).repeat(40, axis=0).T
    got = evaluate(name, np.ascontiguousarray(x), np.ascontiguousarray(y))
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(expected)[numbers])


def division_points(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Dividends and divisors: quotients small, near integers, and too large for a word."""
    generator = np.random.default_rng(11)
    y = generator.standard_normal(600) * 2.0 ** generator.uniform(-30, 30, 600)
    x = generator.standard_normal(600) * 2.0 ** generator.uniform(-30, 30, 600)
    near_integer = y[:300] * generator.integers(1, 2**20, 300)
    x = np.concatenate([x, near_integer, y[:100] * 2.0**60]).astype(dtype)
    y = np.concatenate([y, y[:300], y[:100]]).astype(dtype)
    return x, y


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
def test_fmod_and_remainder_are_exact(dtype: type) -> None:
    x, y = division_points(dtype)
    rest = np.asarray([math.fmod(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)], dtype)
    np.testing.assert_array_equal(evaluate("fmod", x, y), rest)
    moved = np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)
    np.testing.assert_array_equal(evaluate("remainder", x, y), moved)
