"""What a timer gives: times of repeated runs, and what was timed."""

import math
import statistics
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tapegrad import _C

__all__ = [
    "Measurement",
    "TaskSpec",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "trim_sigfig",
    "unit_to_english",
]

_UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
_WIDE_SPREAD = 0.1  # of the median, from which a measurement is not to be trusted
_Z_OF_95_PERCENT = 1.645


def select_unit(t: float) -> tuple[str, float]:
    """Return the unit in which a time in seconds reads best, and its length in seconds.

    Example:
        >>> from tapegrad.utils.benchmark import select_unit
        >>> select_unit(0.002)
        ('ms', 0.001)
    """
    fitting = [unit for unit in _UNITS if t >= unit[1]]
    return fitting[-1] if fitting else _UNITS[0]


def unit_to_english(u: str) -> str:
    """Return the name of a unit of time: ``"ms"`` is a millisecond."""
    return {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}[u]


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Return what there is, once each, in the order of the first ones."""
    return list(dict.fromkeys(elements))


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Use a number of threads in a block."""
    before = _C.get_num_threads()
    try:
        _C.set_num_threads(n)
        yield
    finally:
        _C.set_num_threads(before)


def trim_sigfig(x: float, n: int) -> float:
    """Round to a number of significant figures.

    Example:
        >>> from tapegrad.utils.benchmark import trim_sigfig
        >>> trim_sigfig(1234.5, 2)
        1200.0
    """
    if x == 0 or not math.isfinite(x):
        return x
    scale = 10.0 ** (math.ceil(math.log10(abs(x))) - n)
    return float(round(x / scale) * scale)


@dataclass(frozen=True)
class TaskSpec:
    """What was timed."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, and the sub-label if there is one; else the statement."""
        if self.label is None:
            return " ".join(self.stmt.split())
        return self.label + (f": {self.sub_label}" if self.sub_label else "")


@dataclass(repr=False)
class Measurement:
    """Times of repeated runs of one task.

    Attributes:
        number_per_run: how often each run executed the statement.
        raw_times: the seconds that each run took.
        task_spec: what was timed.
        metadata: anything that belongs to it.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None
    _sorted: list[float] = field(default_factory=list, init=False, repr=False)

    @property
    def times(self) -> list[float]:
        """Seconds for one execution, of each run."""
        return [time / self.number_per_run for time in self.raw_times]

    @property
    def median(self) -> float:
        """The median of the times."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """The mean of the times."""
        return statistics.fmean(self.times)

    def _quartile(self, share: float) -> float:
        ordered = sorted(self.times)
        place = share * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles of the times."""
        return self._quartile(0.75) - self._quartile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many figures of the median the spread of the times leaves."""
        deviation = self.iqr / 1.349  # of a normal distribution with these quartiles
        half_width = _Z_OF_95_PERCENT * deviation / math.sqrt(len(self.raw_times))
        if half_width <= 0 or self.median <= 0:
            return 3
        figures = math.floor(math.log10(self.median / half_width))
        return min(max(figures, 1), 5)

    @property
    def has_warnings(self) -> bool:
        """Whether the times are spread wide."""
        return self.iqr > _WIDE_SPREAD * self.median

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Return whether the quartiles lie within a share of the median of each other."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """What was timed."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """The name of the environment, if the task has one."""
        return self.task_spec.env or "Unspecified env"

    @property
    def as_row_name(self) -> str:
        """The sub-label, or the statement."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    @staticmethod
    def merge(measurements: Iterable["Measurement"]) -> list["Measurement"]:
        """Join measurements of the same task."""
        grouped: dict[TaskSpec, list[Measurement]] = {}
        for measurement in measurements:
            grouped.setdefault(measurement.task_spec, []).append(measurement)
        return [
            Measurement(1, [time for each in group for time in each.times], task)
            for task, group in grouped.items()
        ]

    def __repr__(self) -> str:
        lines = [f"<{type(self).__module__}.{type(self).__name__} object>", self.title]
        unit, length = select_unit(self.median)
        runs = len(self.raw_times)
        if runs == 1:
            lines.append(f"  {self.median / length:.2f} {unit}")
        else:
            lines.append(f"  Median: {self.median / length:.2f} {unit}")
            lines.append(f"  IQR:    {self.iqr / length:.2f} {unit}")
        threads = self.task_spec.num_threads
        plural = "measurement" if runs == 1 else "measurements"
        lines.append(
            f"  {runs} {plural}, {self.number_per_run} runs per measurement, "
            f"{threads} thread{'' if threads == 1 else 's'}"
        )
        if runs > 1 and self.has_warnings:
            lines.append("  WARNING: the times are spread wide; the machine may be busy.")
        return "\n".join(lines)
