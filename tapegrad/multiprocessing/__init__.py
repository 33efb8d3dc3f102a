"""Python's multiprocessing, and `spawn`. Tensors that are sent to another process are copied.

Example:
    >>> torch.multiprocessing.get_start_method(allow_none=True) in (None, "fork", "spawn")
    True
"""

import multiprocessing as _multiprocessing
from multiprocessing import *  # noqa: F403

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
    "spawn",
    "start_processes",
]
