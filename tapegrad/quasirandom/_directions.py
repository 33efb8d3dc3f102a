"""The direction numbers of Sobol sequences: S. Joe and F. Y. Kuo's table new-joe-kuo-6.21201.

S. Joe and F. Y. Kuo, Constructing Sobol sequences with better two-dimensional projections, SIAM
J. Sci. Comput. 30, 2635-2654 (2008); https://web.maths.unsw.edu.au/~fkuo/sobol/. Its license is in
LICENSE.txt beside this file.

A dimension has a primitive polynomial over the field of two elements, of degree d, and d odd
numbers m_1, ..., m_d below 2, 4, ..., 2**d. All primitive polynomials up to degree 18 are in the
table, in the order of the numbers that their coefficients spell, so that one bit for each odd
number below 2**19 tells which they are. Behind those bits, directions.bin holds m_2, m_3, ..., each
of every dimension that has it: m_j without its last bit, which is 1, in j - 1 bits, the lowest
first. The first dimension has neither polynomial nor numbers, and counts as of degree 0.
"""

from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

__all__ = ["BITS", "DIMENSIONS", "directions", "pack"]

BITS = 30
DIMENSIONS = 21201
HIGHEST_DEGREE = 18
FLAGS = 1 << HIGHEST_DEGREE  # of polynomials

Integers = NDArray[np.int64]


def _degrees(polynomials: Integers) -> Integers:
    return np.frexp(polynomials.astype(np.float64))[1].astype(np.int64) - 1


def _unpack(data: bytes, dimensions: int) -> tuple[Integers, Integers]:
    """Return the polynomials of the first dimensions, and m_1, m_2, ... in columns."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    polynomials = np.flatnonzero(bits[:FLAGS]) * 2 + 1
    degrees = _degrees(polynomials)
    numbers = np.zeros((dimensions, HIGHEST_DEGREE), np.int64)
    numbers[:, 0] = 1
    at = FLAGS
    for j in range(1, HIGHEST_DEGREE):
        first = int(np.searchsorted(degrees, j + 1))  # degrees never fall
        wanted = max(dimensions - first, 0)
        rows = bits[at : at + wanted * j].reshape(wanted, j).astype(np.int64)
        numbers[first:, j] = 2 * (rows << np.arange(j)).sum(1) + 1
        at += (DIMENSIONS - first) * j
    return polynomials[:dimensions], numbers


def pack(polynomials: Integers, numbers: Integers) -> bytes:
    """Return what `directions.bin` holds, of the columns of the table."""
    flags = np.zeros(FLAGS, np.uint8)
    flags[polynomials >> 1] = 1
    parts = [flags]
    degrees = _degrees(polynomials)
    for j in range(1, HIGHEST_DEGREE):
        halves = numbers[degrees > j, j] >> 1
        parts.append(((halves[:, None] >> np.arange(j)) & 1).astype(np.uint8).ravel())
    return np.packbits(np.concatenate(parts), bitorder="little").tobytes()


def directions(dimensions: int) -> Integers:
    """Return the directions of the first dimensions: a row of `BITS` numbers for each."""
    data = (files("tapegrad.quasirandom") / "directions.bin").read_bytes()
    polynomials, numbers = _unpack(data, dimensions)
    degrees = _degrees(polynomials)
    found = np.ones((dimensions, BITS), np.int64)
    for degree in range(1, HIGHEST_DEGREE + 1):
        rows = degrees == degree
        if rows.any():
            found[rows] = _recurrence(polynomials[rows], numbers[rows], degree)
    return found << np.arange(BITS - 1, -1, -1)


def _recurrence(polynomials: Integers, numbers: Integers, degree: int) -> Integers:
    """Continue m_1, ..., m_d of polynomials of one degree to `BITS` numbers."""
    found = np.zeros((len(polynomials), BITS), np.int64)
    found[:, :degree] = numbers[:, :degree]
    for j in range(degree, BITS):
        value = found[:, j - degree].copy()
        for k in range(1, degree + 1):
            coefficient = (polynomials >> (degree - k)) & 1
            value ^= (coefficient * found[:, j - k]) << k
        found[:, j] = value
    return found
