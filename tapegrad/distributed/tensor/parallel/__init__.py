"""Layers that are divided between processes: refused in words."""

from tapegrad._refused import Refused, refused

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "loss_parallel",
    "parallelize_module",
]

_WHY = "layers that are divided between processes are not supported"

loss_parallel = refused("loss_parallel", _WHY)
parallelize_module = refused("parallelize_module", _WHY)


class ParallelStyle(Refused):
    """Refuses to be made; so do the styles below."""

    _why = _WHY


class ColwiseParallel(ParallelStyle):
    """Refuses: layers are not divided."""


class RowwiseParallel(ParallelStyle):
    """Refuses: layers are not divided."""


class SequenceParallel(ParallelStyle):
    """Refuses: layers are not divided."""


class PrepareModuleInput(ParallelStyle):
    """Refuses: layers are not divided."""


class PrepareModuleOutput(ParallelStyle):
    """Refuses: layers are not divided."""
