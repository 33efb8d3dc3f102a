"""Python's multiprocessing, `spawn`, and memory that processes share.

A tensor that is sent to another process is copied; after `Tensor.share_memory_` it is not, and both
processes see what either writes.

Example:
    >>> torch.multiprocessing.get_start_method(allow_none=True) in (None, "fork", "spawn")
    True
"""

import multiprocessing as _multiprocessing
from multiprocessing import *  # noqa: F403

from tapegrad.multiprocessing.shared import (
    get_all_sharing_strategies,
    get_sharing_strategy,
    set_sharing_strategy,
)
from tapegrad.multiprocessing.spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *_multiprocessing.__all__,
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]
