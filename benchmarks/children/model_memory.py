"""Memory that a training step needs: model_memory.py MODULE MODEL.

`peak` is how far the process grows over a few steps beyond what it is with model and data made: all
that forward, backward and optimizer allocate, allocator slack included, at the worst moment. Code
that is loaded on the way lies in files, and is left out. `allocator` is the same by the library's
own count, where it says.
"""

import ctypes
import importlib
import json
import sys
from typing import Any

from models import MODELS

STEPS = 3
KIB = 1024


def status() -> dict[str, int]:
    """The process's memory, in bytes, by the kernel's names."""
    found = {}
    with open("/proc/self/status") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if value.endswith(" kB\n"):
                found[name] = int(value.split()[0]) * KIB
    return found


def counts(torch: Any) -> dict[str, int]:
    return dict(torch.memory_stats()) if hasattr(torch, "memory_stats") else {}


def give_back(torch: Any) -> None:
    """Return to the system what making the model has left, lest the steps live on that."""
    if hasattr(torch, "empty_cache"):
        torch.empty_cache()
        torch.reset_peak_memory_stats()
    ctypes.CDLL(None).malloc_trim(0)


def main(module: str, name: str) -> None:
    torch: Any = importlib.import_module(module)
    optimizer, loss_of = MODELS[name](torch)
    give_back(torch)
    with open("/proc/self/clear_refs", "w") as switch:
        switch.write("5")  # the peak counts from here
    before, live = status(), counts(torch)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()
    after = status()
    files = after["RssFile"] - before["RssFile"]
    metrics = {"peak": after["VmHWM"] - before["VmRSS"] - files}
    if live:
        metrics["allocator"] = counts(torch)["peak_bytes"] - live["live_bytes"]
    print(json.dumps(metrics))


main(*sys.argv[1:])
