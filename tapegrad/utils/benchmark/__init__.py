"""Timing small pieces of code, repeatedly, with a number of threads, devices included.

Example:
    >>> timer = torch.utils.benchmark.Timer("x + 1", globals={"x": torch.ones(3)})
    >>> timer.timeit(100).number_per_run
    100
"""

from tapegrad.utils.benchmark.compare import Compare
from tapegrad.utils.benchmark.measurement import (
    Measurement,
    TaskSpec,
    ordered_unique,
    select_unit,
    set_torch_threads,
    trim_sigfig,
    unit_to_english,
)
from tapegrad.utils.benchmark.timer import Timer

__all__ = [
    "Compare",
    "Measurement",
    "TaskSpec",
    "Timer",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "trim_sigfig",
    "unit_to_english",
]
