"""Collectives with gradients, in `tapegrad.distributed.nn.functional`."""

from tapegrad._refused import Refused
from tapegrad.distributed.nn import functional
from tapegrad.distributed.nn.functional import (
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)

__all__ = [
    "RemoteModule",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "functional",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


class RemoteModule(Refused):
    """Refuses: there are no remote procedure calls."""

    _why = "remote procedure calls are not supported"
