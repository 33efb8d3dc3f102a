"""Seeded inputs for the rows of the op database."""

import zlib

import dtypes as dt
import numpy as np

from op_db.row import Sample, Value

INTEGER_LIMIT = 9

# Long enough for full vectors with a tail, and for the threaded path of a kernel.
VECTOR_LENGTH = 67
THREADED_LENGTH = 70_001


class Sampler:
    """Draws values of one dtype.

    Attributes:
        dtype: the dtype under test.
        gradient: True when the samples serve a gradient check: small, never empty, and away from
            points where the op has no derivative.
    """

    def __init__(self, dtype, seed=0, *, gradient=False):
        self.dtype = dtype
        self.gradient = gradient
        self.random = np.random.default_rng(seed)

    def value(self, shape=(), low=-3.0, high=3.0, *, dtype=None, avoid=(), differentiable=True):
        """Draw uniformly from ``[low, high]``, as far as the dtype can hold it.

        In gradient mode the values keep a distance from the points in ``avoid``.
        """
        dtype = dtype or self.dtype
        if dtype == "bool":
            array = self.random.integers(0, 2, shape).astype(bool)
        elif dt.is_float(dtype):
            array = self.random.uniform(low, high, shape)
            if self.gradient:
                for point in avoid:
                    near = np.abs(array - point) < 0.1
                    array = np.where(near, np.clip(point + 0.2, low, high), array)
        else:
            array = self.random.integers(*integer_range(dtype, low, high), shape, endpoint=True)
        return Value(dt.cast(np.asarray(array), dtype), dtype, differentiable)

    def distinct(self, shape, *, dtype=None, step=0.25):
        """Draw values no two of which are equal, in random order, centred on zero."""
        dtype = dtype or self.dtype
        count = int(np.prod(shape))
        ranks = self.random.permutation(count).reshape(shape)
        if dt.is_float(dtype):
            return Value(dt.cast((ranks - count // 2) * step, dtype), dtype)
        return Value(dt.cast(ranks if dtype == "uint8" else ranks - count // 2, dtype), dtype)

    def index(self, shape, size, *, dtype="int64", negative=False):
        """Draw indices into a dimension of ``size``."""
        array = self.random.integers(-size if negative else 0, size, shape)
        return Value(np.asarray(array, dtype), dtype, differentiable=False)

    def permutation(self, size):
        return Value(self.random.permutation(size).astype(np.int64), "int64", differentiable=False)

    def mask(self, shape):
        array = np.asarray(self.random.integers(0, 2, shape).astype(bool))
        return Value(array, "bool", differentiable=False)

    def scalar(self, low=-3.0, high=3.0):
        """Draw a Python number of the dtype's category.

        Floats are whole eighths, exact in every dtype: whether a library rounds a number to a half
        dtype before or after the computation is then not seen.
        """
        if dt.is_float(self.dtype):
            return float(np.ceil(self.random.uniform(low, high - 0.125) * 8) / 8)
        if self.dtype == "bool":
            return bool(self.random.integers(0, 2))
        return int(self.random.integers(*integer_range(self.dtype, low, high), endpoint=True))


def draw(op, dtype, *, gradient=False):
    """Return a row's samples for a dtype: the same ones in every run and on every machine."""
    seed = zlib.crc32(f"{op.name} {dtype} {gradient}".encode())
    return list(op.samples(Sampler(dtype, seed, gradient=gradient)))


def integer_range(dtype, low, high):
    """Return the first and last of the small integers that stand for ``[low, high]``."""
    limits = np.iinfo(dtype)
    first = max(int(np.ceil(max(low, -INTEGER_LIMIT))), limits.min)
    last = max(first, min(int(np.floor(min(high, INTEGER_LIMIT))), limits.max))
    return first, last


UNARY_SHAPES = ((), (5,), (3, 4), (2, 3, 4), (0,), (2, 0, 3), (VECTOR_LENGTH,))
UNARY_GRADIENT_SHAPES = ((), (5,), (2, 3))

BINARY_SHAPES = (
    ((), ()),
    ((5,), (5,)),
    ((3, 4), (4,)),
    ((3, 1), (1, 4)),
    ((), (2, 3)),
    ((2, 3), ()),
    ((2, 1, 3), (4, 1)),
    ((0,), (0,)),
    ((0, 3), (1, 3)),
    ((1,), (0,)),
    ((VECTOR_LENGTH,), (VECTOR_LENGTH,)),
)
BINARY_GRADIENT_SHAPES = (((), ()), ((4,), (4,)), ((2, 3), (3,)), ((3, 1), (1, 2)), ((), (2,)))


def unary(low=-3.0, high=3.0, *, avoid=(), kwargs=({},), wide=True):
    """Return the sample generator of a one-argument pointwise op over ``[low, high]``."""

    def samples(sampler):
        shapes = UNARY_GRADIENT_SHAPES if sampler.gradient else UNARY_SHAPES
        for shape in shapes:
            for extra in kwargs:
                yield Sample(sampler.value(shape, low, high, avoid=avoid), **extra)
        if wide and sampler.dtype == "float32" and not sampler.gradient:
            yield Sample(sampler.value((THREADED_LENGTH,), low, high), **kwargs[0])

    return samples


def binary(
    first=(-3.0, 3.0),
    second=None,
    *,
    smooth=lambda a, b: True,
    whole=False,
    kwargs=({},),
    scalar=True,
):
    """Return the sample generator of a two-argument pointwise op.

    Args:
        first, second: the ranges of the operands; ``second`` is ``first`` when left out.
        smooth: whether the op is differentiable, with a margin, at all pairs of two arrays;
            gradient samples are drawn until it says yes.
        whole: round the operands to whole numbers, so that equal pairs occur.
        kwargs: keyword arguments to try, one dictionary per variant.
        scalar: whether the second operand may be a Python number.
    """
    second = second or first

    def operand(sampler, shape, bounds):
        value = sampler.value(shape, *bounds)
        rounds = whole and dt.is_float(value.dtype)
        return Value(np.round(value.array), value.dtype) if rounds else value

    def samples(sampler):
        shapes = BINARY_GRADIENT_SHAPES if sampler.gradient else BINARY_SHAPES
        for left, right in shapes:
            for extra in kwargs:
                a, b = operand(sampler, left, first), operand(sampler, right, second)
                while sampler.gradient and not np.all(smooth(a.array, b.array)):
                    a, b = operand(sampler, left, first), operand(sampler, right, second)
                yield Sample(a, b, **extra)
        if scalar and not sampler.gradient:
            for extra in kwargs:
                yield Sample(operand(sampler, (3, 4), first), sampler.scalar(*second), **extra)
        if sampler.dtype == "float32" and not sampler.gradient:
            a = operand(sampler, (THREADED_LENGTH,), first)
            yield Sample(a, operand(sampler, (THREADED_LENGTH,), second), **kwargs[0])

    return samples
