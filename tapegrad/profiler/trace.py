"""The trace of a profile in the format of Chrome's trace viewer, which Perfetto reads, too.

Threads are tracks of the process; every device is a process of its own, whose tracks are its
streams. Arrows lead from the launch of a kernel, which lies inside its op, to the kernel.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from tapegrad.profiler.devices import DeviceType

__all__ = ["write_trace"]

_CATEGORIES = {"op": "cpu_op", "backward": "cpu_op", "user": "user_annotation"}
_DEVICE_CATEGORIES = {
    "kernel": "kernel",
    "op": "kernel",
    "copy": "gpu_memcpy",
    "fill": "gpu_memset",
}
_OUTSIDE = 0  # the track of what no op asked for


def write_trace(
    events: Iterable[Any],
    activities: Sequence[Any],
    path: str | os.PathLike[str],
    with_memory: bool,
    metadata: dict[str, Any] | None = None,
) -> None:
    """Write events and what devices did for them to a file; one that ends in .gz is compressed."""
    import json

    tracks = _Tracks(event for event in events if event.device_type is DeviceType.CPU)
    content = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        **(metadata or {}),
        "traceEvents": [*tracks.of_threads(with_memory), *tracks.of_devices(activities)],
    }
    with _opened(os.fspath(path)) as file:
        json.dump(content, file)


def _opened(path: str) -> IO[str]:
    if path.endswith(".gz"):
        import gzip

        return gzip.open(path, "wt", encoding="utf-8")
    return open(path, "w", encoding="utf-8")


class _Tracks:
    """The numbers of processes and threads in a trace, and what lies on them."""

    def __init__(self, events: Iterable[Any]) -> None:
        self.events = list(events)
        self.process = os.getpid()
        # Viewers want small numbers for threads.
        threads = dict.fromkeys(event.thread for event in self.events)
        self.threads = {thread: number for number, thread in enumerate(threads, 1)}

    def place(self, event: Any) -> dict[str, int]:
        """Return the track of an event, or of what none asked for."""
        thread = _OUTSIDE if event is None else self.threads[event.thread]
        return {"pid": self.process, "tid": thread}

    def device(self, activity: Any) -> dict[str, int]:
        """Return the track of what a device did."""
        return {"pid": self.process + 1 + activity.device, "tid": activity.stream}

    def of_threads(self, with_memory: bool) -> Iterator[dict[str, Any]]:
        yield _name("process_name", {"pid": self.process, "tid": 0}, "tapegrad")
        held = {"memory since start": 0, "memory of devices since start": 0}
        for event in self.events:
            yield {
                "name": event.name,
                "ph": "X",
                "cat": _CATEGORIES[event.kind],
                **self.place(event),
                "ts": event.time_range.start,
                "dur": event.time_range.elapsed_us(),
                "args": {
                    "External id": event.id,
                    "Backward": event.is_backward,
                    "Bytes allocated": event.self_cpu_memory_usage,
                    **({"Input Dims": event.input_shapes} if event.input_shapes else {}),
                    **({"Source": event.stack[0]} if event.stack else {}),
                },
            }
            if with_memory and event.kind == "op":
                on_host = event.self_cpu_memory_usage - event.freed
                on_device = event.self_device_memory_usage - event.device_freed
                for name, change in zip(held, (on_host, on_device), strict=True):
                    held[name] += change
                    if change or name == "memory since start":
                        yield self.counter(name, event.time_range.end, held[name])

    def counter(self, name: str, time: float, value: int) -> dict[str, Any]:
        track = {"pid": self.process, "tid": 0}
        return {"name": name, "ph": "C", **track, "ts": time, "args": {"bytes": value}}

    def of_devices(self, activities: Sequence[Any]) -> Iterator[dict[str, Any]]:
        yield from self.names(activities)
        launches: dict[int, Any] = {}
        for activity in activities:
            if activity.kind == "launch":
                # The runtime's call comes before the driver's that it makes, under the same number.
                launches.setdefault(activity.launch, activity)
                yield self.launch(activity)
        for number, activity in enumerate(activities):
            if activity.kind == "launch":
                continue
            yield self.span(activity)
            if activity.kind == "op":
                yield from self.arrow(
                    number, activity.event, activity.event.time_range.start, activity
                )
            elif (launch := launches.get(activity.launch)) is not None:
                yield from self.arrow(activity.launch, launch.event, launch.start, activity)

    def names(self, activities: Sequence[Any]) -> Iterator[dict[str, Any]]:
        places = {(a.device, a.stream): a for a in activities if a.kind != "launch"}
        for (device, stream), activity in sorted(places.items()):
            yield _name("process_name", self.device(activity), f"cuda:{device}")
            yield _name("thread_name", self.device(activity), f"stream {stream}")

    def launch(self, activity: Any) -> dict[str, Any]:
        return {
            "name": activity.name,
            "ph": "X",
            "cat": "cuda_runtime" if activity.name.startswith("cuda") else "cuda_driver",
            **self.place(activity.event),
            "ts": activity.start,
            "dur": activity.duration,
            "args": {"correlation": activity.launch},
        }

    def span(self, activity: Any) -> dict[str, Any]:
        event = activity.event
        told: dict[str, Any] = {"device": activity.device, "stream": activity.stream}
        if activity.kind != "op":
            told["correlation"] = activity.launch
        if activity.nbytes:
            told["bytes"] = activity.nbytes
        if event is not None:
            told |= {"External id": event.id, "Op": event.name, "Backward": event.is_backward}
            told |= {"Source": event.stack[0]} if event.stack else {}
        return {
            "name": activity.name,
            "ph": "X",
            "cat": _DEVICE_CATEGORIES[activity.kind],
            **self.device(activity),
            "ts": activity.start,
            "dur": activity.duration,
            "args": told,
        }

    def arrow(
        self, number: int, event: Any, start: float, activity: Any
    ) -> Iterator[dict[str, Any]]:
        """Lead from what the host did to what a device did then."""
        both = {"name": "ac2g", "cat": "ac2g", "id": number}
        yield {**both, "ph": "s", **self.place(event), "ts": start}
        yield {**both, "ph": "f", "bp": "e", **self.device(activity), "ts": activity.start}


def _name(what: str, track: dict[str, int], name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", **track, "args": {"name": name}}
