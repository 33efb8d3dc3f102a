"""Bytes one tape entry costs: tape_memory.py MODULE ENTRIES.

A chain `y = y * w` on 4 floats where both operands need a gradient: every entry keeps its node, its
edges, and its left operand for the derivative of w. `total` is the growth of the process (what the
user pays, allocator slack included), `beyond_data` the same less the 16 bytes of payload per entry,
`live` what the library's own allocator counts, where it says.
"""

import importlib
import json
import os
import sys
from typing import Any

PAYLOAD = 16


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def live_bytes() -> int:
    """What the library's allocator says; 0 where there is none to ask."""
    counts = torch.memory_stats() if hasattr(torch, "memory_stats") else {}
    return int(counts.get("live", counts.get("live_bytes", 0)))


def build(length: int) -> Any:
    y = w
    for _ in range(length):
        y = y * w
    return y


torch = importlib.import_module(sys.argv[1])
entries = int(sys.argv[2])
w = torch.ones(4).requires_grad_()
build(1000).backward(torch.ones(4))  # whatever is loaded or reserved on first use
resident, live = resident_bytes(), live_bytes()
chain = build(entries)
total = (resident_bytes() - resident) / entries
metrics = {"total": total, "beyond_data": total - PAYLOAD}
if live:
    metrics["live"] = (live_bytes() - live) / entries
print(json.dumps(metrics))
