"""Optimizers of several processes."""

from tapegrad._refused import Refused
from tapegrad.distributed.optim.post_localSGD_optimizer import PostLocalSGDOptimizer
from tapegrad.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]


class DistributedOptimizer(Refused):
    """Refuses: it steps by remote procedure calls."""

    _why = "remote procedure calls are not supported; use ZeroRedundancyOptimizer"
