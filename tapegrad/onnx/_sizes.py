"""Sizes that are known in several runs.

A model with dynamic axes is captured several times, with other sizes of these axes in each run.
Every number of geometry (a size, a stride, an offset) is then a `Size`: what it was in each run.
What is true of sizes in all runs is taken to be true always, and sums, products and quotients of
sizes are those of the runs. Without dynamic axes there is one run, and a size is a number.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

__all__ = ["Size", "Sizes", "in_order", "product"]


class Size:
    """A number that is known in every run."""

    __slots__ = ("runs",)

    def __init__(self, runs: Iterable[int]) -> None:
        self.runs = tuple(runs)

    @property
    def constant(self) -> int | None:
        """The number, if it is the same in all runs."""
        return self.runs[0] if len(set(self.runs)) == 1 else None

    def _with(self, other: "Size | int", function: Callable[[int, int], int]) -> "Size":
        others = other.runs if isinstance(other, Size) else (other,) * len(self.runs)
        return Size(map(function, self.runs, others))

    def _all(self, other: "Size | int", function: Callable[[int, int], bool]) -> bool:
        others = other.runs if isinstance(other, Size) else (other,) * len(self.runs)
        return all(map(function, self.runs, others))

    def __add__(self, other: "Size | int") -> "Size":
        return self._with(other, int.__add__)

    __radd__ = __add__

    def __sub__(self, other: "Size | int") -> "Size":
        return self._with(other, int.__sub__)

    def __rsub__(self, other: int) -> "Size":
        return self._with(other, int.__rsub__)

    def __mul__(self, other: "Size | int") -> "Size":
        return self._with(other, int.__mul__)

    __rmul__ = __mul__

    def __floordiv__(self, other: "Size | int") -> "Size":
        return self._with(other, int.__floordiv__)

    def __mod__(self, other: "Size | int") -> "Size":
        return self._with(other, int.__mod__)

    def __neg__(self) -> "Size":
        return Size(-each for each in self.runs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Size):
            return self.runs == other.runs
        return isinstance(other, int) and all(each == other for each in self.runs)

    def __hash__(self) -> int:
        return hash(self.runs)

    # Of an order these are half: neither of two sizes need be the smaller one in all runs.
    def __lt__(self, other: "Size | int") -> bool:
        return self._all(other, int.__lt__)

    def __le__(self, other: "Size | int") -> bool:
        return self._all(other, int.__le__)

    def __gt__(self, other: "Size | int") -> bool:
        return self._all(other, int.__gt__)

    def __ge__(self, other: "Size | int") -> bool:
        return self._all(other, int.__ge__)

    def __repr__(self) -> str:
        known = self.constant
        return str(known) if known is not None else f"({' | '.join(map(str, self.runs))})"

    def divides(self, other: "Size") -> bool:
        """Return whether another size is a multiple of this one."""
        return all(a != 0 and b % a == 0 for a, b in zip(self.runs, other.runs, strict=True))


Sizes = Sequence[Size]


def product(sizes: Iterable[Size], one: Size) -> Size:
    """Return the product of sizes; `one` is a size that is one."""
    for each in sizes:
        one = one * each
    return one


def in_order(strides: Sequence[Size]) -> list[int] | None:
    """Return the places of strides from the largest to the smallest, or None if runs differ."""
    places = sorted(range(len(strides)), key=lambda i: [-each for each in strides[i].runs])
    is_sure = all(strides[a] >= strides[b] for a, b in pairwise(places))
    return places if is_sure else None
