"""Programs for sizes that were not traced: numbers of a document as functions of sizes.

A function is run with several sizes of its dynamic axes. Where the documents of the runs differ in
a whole number (a size, a stride, an offset, a count of bytes), it must be a polynomial of the
sizes, of degree two at most in each; runs that the polynomial is not made from must agree with it.
Anything else that differs means that the function did something else.
"""

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

__all__ = ["MOST_AXES", "Misfit", "evaluate", "merge", "points"]

_DEGREES = 3  # numbers of degrees: 0, 1 and 2
_STEPS = (0, 1, 3)  # from the smallest size
_CHECKS = (9, 6)  # of all sizes at once, from the smallest
MOST_AXES = 3


class Misfit(Exception):
    """Runs with other sizes differ in what is no function of sizes."""


def points(base: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the sizes to run a function with.

    Args:
        base: the example's sizes, one for each dynamic axis.
    """
    first = [max(size, 2) for size in base]  # ones would hide what is repeated
    grid = itertools.product(*([size + step for step in _STEPS] for size in first))
    checks = [tuple(size + step + k for k, size in enumerate(first)) for step in _CHECKS]
    return [*grid, *checks]


def merge(documents: Sequence[Any], sizes: Sequence[tuple[int, ...]]) -> Any:
    """Return documents as one, in which ``{"size": ...}`` stands for what depends on sizes.

    Args:
        documents: of the runs.
        sizes: of the dynamic axes in each run, as `points` gives them.
    """
    fit = _Fit(sizes)

    def merged(found: Sequence[Any], where: str) -> Any:
        first = found[0]
        if any(type(each) is not type(first) for each in found):
            raise Misfit(f"{where} is of another kind")
        if isinstance(first, list):
            if any(len(each) != len(first) for each in found):
                counts = " and ".join(sorted({str(len(each)) for each in found}))
                raise Misfit(f"there are {counts} {where}")
            return [merged(each, where) for each in zip(*found, strict=True)]
        if isinstance(first, dict):
            if any(each.keys() != first.keys() for each in found):
                raise Misfit(f"{where} is of another kind")
            name = f"{where} of {first['op']}" if "op" in first else where
            return {key: merged([each[key] for each in found], name) for key in first}
        if all(each == first or each != each for each in found):
            return first
        if isinstance(first, int) and not isinstance(first, bool):
            return fit(found, where)
        raise Misfit(f"{where} is {found[0]} in one run and {_other(found)} in another")

    return {
        key: merged([each[key] for each in documents], key if key != "steps" else "calls")
        for key in documents[0]
    }


def _other(found: Sequence[Any]) -> Any:
    return next(each for each in found if each != found[0])


class _Fit:
    """Finds the polynomial through numbers of the runs."""

    def __init__(self, sizes: Sequence[tuple[int, ...]]) -> None:
        self._sizes = sizes
        self._powers = list(itertools.product(range(_DEGREES), repeat=len(sizes[0])))
        self._rows = [[_term(size, power) for power in self._powers] for size in sizes]
        self._inverse = _inverse([row[:] for row in self._rows[: len(self._powers)]])
        self._known: dict[tuple[int, ...], Any] = {}

    def __call__(self, found: Sequence[int], where: str) -> Any:
        key = tuple(found)
        if key not in self._known:
            self._known[key] = self._fit(key, where)
        return self._known[key]

    def _fit(self, found: tuple[int, ...], where: str) -> Any:
        numbers = found[: len(self._powers)]
        factors = [sum(a * b for a, b in zip(row, numbers, strict=True)) for row in self._inverse]
        for row, number in zip(self._rows, found, strict=True):
            if sum(a * b for a, b in zip(row, factors, strict=True)) != number:
                raise Misfit(f"{where}: {list(found)} is no polynomial of the sizes {self._sizes}")
        terms = [
            [factor.numerator, factor.denominator, list(power)]
            for factor, power in zip(map(Fraction, factors), self._powers, strict=True)
            if factor
        ]
        return {"size": terms}


def _term(sizes: Sequence[int], powers: Sequence[int]) -> Fraction:
    result = Fraction(1)
    for size, power in zip(sizes, powers, strict=True):
        result *= Fraction(size) ** power
    return result


def _inverse(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    """Return the inverse of a matrix, exactly."""
    count = len(rows)
    rows = [row + [Fraction(int(i == k)) for k in range(count)] for i, row in enumerate(rows)]
    for i in range(count):
        pivot = next(k for k in range(i, count) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [each / rows[i][i] for each in rows[i]]
        for k in range(count):
            if k != i and rows[k][i]:
                factor = rows[k][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[count:] for row in rows]


def evaluate(document: Any, sizes: Sequence[int]) -> Any:
    """Return a merged document for some sizes."""
    if isinstance(document, list):
        return [evaluate(each, sizes) for each in document]
    if isinstance(document, dict):
        if "size" not in document:
            return {key: evaluate(each, sizes) for key, each in document.items()}
        total = Fraction(0)
        for numerator, denominator, powers in document["size"]:
            if len(powers) != len(sizes) or not all(each in range(_DEGREES) for each in powers):
                raise ValueError(f"expected powers below {_DEGREES}, got {powers}")
            total += Fraction(numerator, denominator) * _term(sizes, powers)
        if total.denominator != 1 or total < 0:
            raise ValueError(f"there is no program for sizes {list(sizes)}")
        return int(total)
    return document
