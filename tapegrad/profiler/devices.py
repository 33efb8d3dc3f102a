"""What devices did while a profile ran: kernels, copies and fills, and whose they are."""

import enum
import glob
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tapegrad import _C
from tapegrad._settings import is_warn_always_enabled

__all__ = ["Activity", "DeviceType", "attach", "find_cupti", "warn_of_events"]

_VERSIONS = (13, 12)


class DeviceType(enum.Enum):
    """What an event happened on, by PyTorch's numbers; here it is the CPU or a CUDA device."""

    CPU = 0
    CUDA = 1
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    MTIA = 19
    PrivateUse1 = 20


# ---- CUPTI, NVIDIA's library for profilers


def find_cupti() -> list[str]:
    """Return the paths or names of libraries that may be loaded, the best one first.

    ``$TAPEGRAD_CUPTI`` is the only one where it is set; else there are NVIDIA's wheels, then the
    system's library, of versions that the driver has. With a library that stands in for the driver
    there is none.
    """
    if chosen := os.environ.get("TAPEGRAD_CUPTI"):
        return [chosen]
    if os.environ.get("TAPEGRAD_CUDA_DRIVER"):
        return []
    usable = [each for each in _VERSIONS if each <= _C._cuda_driver_version() // 1000]
    return [path for version in usable for path in _libraries(version)]


def _libraries(version: int) -> list[str]:
    file = f"libcupti.so.{version}"
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(each) for each in (spec.submodule_search_locations or ())] if spec else []
    wheels = [
        str(folder / place / file)
        for folder in folders
        for place in (f"cu{version}/lib", "cuda_cupti/lib")
        if (folder / place / file).exists()
    ]
    toolkits = [
        path
        for place in ("extras/CUPTI/lib64", "lib64", "lib")
        for path in glob.glob(f"/usr/local/cuda*/{place}/{file}")
    ]
    return [*wheels, file, *toolkits]


_has_warned = False


def warn_of_events(reason: str) -> None:
    """Say once in a process why kernels are not seen one by one."""
    global _has_warned
    if not _has_warned or is_warn_always_enabled():
        _has_warned = True
        warnings.warn(
            f"profile: CUPTI cannot be used ({reason}); each op on a CUDA device is timed as a "
            "whole, by events. pip install nvidia-cuda-cupti-cu12, or end other profilers",
            stacklevel=_level_outside(),
        )


def _level_outside() -> int:
    """Return the stacklevel for a warning of the caller that names the program's line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("tapegrad."):
        level, frame = level + 1, frame.f_back
    return level


# ---- activities


class Activity:
    """A kernel, a copy or a fill on a device, or the driver's call that asked for it.

    Attributes:
        kind: ``"kernel"``, ``"copy"``, ``"fill"`` or ``"launch"``; ``"op"`` for all that an op did,
            where it is timed as a whole.
        name: of the kernel, or of the driver's function.
        device: the number of the device.
        stream: a number among the streams of the device.
        start, end: in microseconds of the profile's clock.
        event: during which it was asked for, or None.
        launch: the same number for a launch and for what it asked for.
        nbytes: of a copy or a fill.
    """

    def __init__(self, fields: tuple[Any, ...], sees_kernels: bool) -> None:
        kind, name, self.device, self.stream, start, end, self.call, self.launch, self.nbytes = (
            fields
        )
        self.kind: str = kind if sees_kernels else "op"
        self.name: str = kernel_name(name) if kind == "kernel" else name
        self.start: float = start / 1000
        self.end: float = end / 1000
        self.event: Any = None

    @property
    def duration(self) -> float:
        """How long it took, in microseconds."""
        return self.end - self.start

    def __repr__(self) -> str:
        return (
            f"Activity(kind={self.kind!r}, name={self.name!r}, device={self.device}, "
            f"stream={self.stream}, duration={self.duration:.3f})"
        )


@cache
def kernel_name(description: str) -> str:
    """Return a short name for what csrc/cuda describes a kernel by; others stay as they are.

    Example:
        >>> from tapegrad.profiler.devices import kernel_name
        >>> kernel_name("file matmul.cu\\nProductArguments\\nproduct<float, 1>")
        'product<float, 1>'
        >>> kernel_name("ampere_sgemm_128x64_tn")
        'ampere_sgemm_128x64_tn'
    """
    family, _, rest = description.partition(" ")
    if family == "pointwise":
        from tapegrad.cuda import pointwise_source

        found = pointwise_source.described(rest)
        derivative = "" if found.derivative is None else f" derivative {found.derivative}"
        return f"pointwise {found.line.name}{derivative} {found.dtype}"
    lines = rest.splitlines()
    return lines[2] if family == "file" and len(lines) > 2 else description.strip()


def attach(events: Sequence[Any], activities: Iterable[Activity]) -> None:
    """Give events the times of what they asked devices for: their own, and with what is inside."""
    for activity in activities:
        if activity.call < 0:
            continue
        event = activity.event = events[activity.call]
        if activity.kind == "launch":
            continue
        if activity.kind == "op":
            activity.name = event.name
            _take_from_outer(event, activity.duration)
        elif activity.name == "kernel":  # one of ours that is not launched by itself
            activity.name = f"kernel of {event.name}"
        event.kernels.append(activity)
        event.self_device_time_total += activity.duration
    for event in reversed(events):  # children come after their parents
        event.self_device_time_total = max(event.self_device_time_total, 0.0)
        event.device_time_total += event.self_device_time_total
        if event.cpu_parent is not None:
            event.cpu_parent.device_time_total += event.device_time_total


def _take_from_outer(event: Any, duration: float) -> None:
    """Take the time of an op inside another one, each timed as a whole, out of the outer's own."""
    around = event.cpu_parent
    while around is not None and not around.kernels:
        around = around.cpu_parent
    if around is not None:
        around.self_device_time_total -= duration
