"""Which part of a program NVIDIA's profilers look at.

``nsys profile --capture-range=cudaProfilerApi python train.py`` records what lies between `start`
and `stop`. Without a profiler they do nothing.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tapegrad.cuda.devices import init

__all__ = ["profile", "start", "stop"]


def _tell(function: str) -> None:
    init()  # a profiler belongs to a device in use; where there is none, this says so
    driver = ctypes.CDLL(os.environ.get("TAPEGRAD_CUDA_DRIVER") or "libcuda.so.1")
    if hasattr(driver, function):  # what it returns is whether a profiler listens
        getattr(driver, function)()


def start() -> None:
    """Let the profiler begin."""
    _tell("cuProfilerStart")


def stop() -> None:
    """Let the profiler end."""
    _tell("cuProfilerStop")


@contextmanager
def profile() -> Iterator[None]:
    """Let the profiler look at a block."""
    start()
    try:
        yield
    finally:
        stop()
