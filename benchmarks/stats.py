"""Medians, quartiles, and how far a median of few samples can be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


def quantile(values: Sequence[float], fraction: float) -> float:
    """The quantile with linear interpolation between order statistics."""
    ordered = sorted(values)
    position = fraction * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def median(values: Sequence[float]) -> float:
    return quantile(values, 0.5)


def median_interval(values: Sequence[float], confidence: float = 0.99) -> tuple[float, float]:
    """An interval of order statistics that holds the true median with the given confidence.

    It assumes nothing about the shape of the noise: the k-th smallest of n samples lies above the
    median with the probability that a fair coin shows heads fewer than k times in n throws. Too
    few samples for the confidence asked give the whole range.
    """
    ordered = sorted(values)
    count = len(ordered)
    tail = 0.0
    rank = 0
    while rank < count // 2:
        tail += math.comb(count, rank) / 2**count
        if 2 * tail > 1 - confidence:
            break
        rank += 1
    outermost = max(rank - 1, 0)
    return ordered[outermost], ordered[count - 1 - outermost]


@dataclass(frozen=True)
class Summary:
    """A sample reduced to what a table shows."""

    median: float
    lower_quartile: float
    upper_quartile: float
    low: float  # the 99% interval of the median
    high: float
    count: int

    @staticmethod
    def of(values: Sequence[float]) -> Summary:
        low, high = median_interval(values)
        return Summary(
            median(values), quantile(values, 0.25), quantile(values, 0.75), low, high, len(values)
        )

    @property
    def relative_spread(self) -> float:
        """The interquartile range as a share of the median."""
        if self.median == 0:
            return 0.0
        return (self.upper_quartile - self.lower_quartile) / self.median
