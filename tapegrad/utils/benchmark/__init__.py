"""Timing small pieces of code, repeatedly, with a number of threads, devices included.

Example:
    >>> timer = torch.utils.benchmark.Timer("x + 1", globals={"x": torch.ones(3)})
    >>> timer.timeit(100).number_per_run
    100
"""

from tapegrad.utils.benchmark.compare import Compare
from tapegrad.utils.benchmark.measurement import Measurement, TaskSpec, select_unit, trim_sigfig
from tapegrad.utils.benchmark.timer import Timer

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "select_unit", "trim_sigfig"]
