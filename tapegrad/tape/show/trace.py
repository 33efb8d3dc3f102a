"""A tape as a trace for Perfetto and ``chrome://tracing``: two tracks, modules, live bytes.

The forward comes first, then the sweep, each entry right after the one before: the tape knows how
long entries took, not when. A module is a slice around the entries recorded inside it.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tapegrad.tape.show.labels import type_text
from tapegrad.tape.show.timeline import timeline

__all__ = ["trace_events", "write_perfetto"]

_PROCESS = 1
_TRACKS = {"forward": 1, "backward": 2}
_UNKNOWN_US = 1.0  # what an entry without a time is drawn with
COUNTER = "live saved bytes"


def write_perfetto(document: Mapping[str, Any], path: str | Path) -> Path:
    """Write a tape's document as a trace that ui.perfetto.dev opens, and return the path."""
    path = Path(path)
    path.write_text(json.dumps(trace_events(document), allow_nan=False), encoding="utf-8")
    return path


def trace_events(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the trace of a tape's document as an object to be written as JSON.

    Leaves do nothing in the forward and appear in the sweep only. Under ``metadata`` it says how
    many entries have no time and were drawn with a microsecond each.
    """
    entries = document["entries"]
    live = timeline(document)
    writer = _Writer()
    recorded = [index for index, entry in enumerate(entries) if entry.get("leaf") is None]
    writer.name_tracks(str(document.get("title") or "tape"))
    writer.count(0)
    writer.track("forward", entries, recorded, live.forward)
    order = range(len(entries) - 1, -1, -1)
    at = {index: live.backward[len(entries) - 1 - index] for index in order}
    writer.track("backward", entries, order, at)
    unknown = {track: sum(guessed) for track, guessed in writer.guessed.items()}
    note = "every duration is measured"
    if any(unknown.values()):
        note = (
            f"{unknown['forward']} of {len(recorded)} entries forward and {unknown['backward']} of "
            f"{len(entries)} backward have no time and are drawn with {_UNKNOWN_US:g} us each"
        )
    return {
        "traceEvents": writer.events,
        "displayTimeUnit": "ns",
        "metadata": {
            "format": document.get("format", "tapegrad.tape/1"),
            "title": document.get("title", ""),
            "peak_live_bytes": live.peak,
            "durations": note,
            "unknown_durations": unknown,
        },
    }


class _Writer:
    """Events in the order of time; slices of a track nest."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.now = 0  # nanoseconds, whole, so that sums do not drift
        self.guessed: dict[str, list[bool]] = {}

    def name_tracks(self, title: str) -> None:
        names = [("process_name", 0, title), *(("thread_name", t, n) for n, t in _TRACKS.items())]
        for kind, thread, name in names:
            self.events.append(
                {"ph": "M", "name": kind, "pid": _PROCESS, "tid": thread, "args": {"name": name}}
            )

    def count(self, live: int) -> None:
        self._event("C", COUNTER, 0, {"bytes": live})

    def track(
        self,
        track: str,
        entries: list[Mapping[str, Any]],
        order: Iterable[int],
        live: Mapping[int, int] | list[int],
    ) -> None:
        """Write the entries of a track, in order, inside their modules."""
        thread = _TRACKS[track]
        guessed = self.guessed[track] = []
        opened: list[str] = []
        for index in order:
            entry = entries[index]
            path = _path(entry)
            same = _common(opened, path)
            self._close(opened, same, thread)
            for name in path[same:]:
                opened.append(name)
                self._event("B", ".".join(opened), thread, cat="module")
            duration = entry.get(f"{track}_us")
            guessed.append(duration is None)
            name = entry["op"] if track == "forward" else entry["name"]
            self._event("B", name, thread, _arguments(index, entry), cat="entry")
            self.now += round(1000 * max(0.0, _UNKNOWN_US if duration is None else duration))
            self._event("E", name, thread)
            self.count(live[index])
        self._close(opened, 0, thread)

    def _close(self, opened: list[str], keep: int, thread: int) -> None:
        while len(opened) > keep:
            self._event("E", ".".join(opened), thread)
            opened.pop()

    def _event(
        self, phase: str, name: str, thread: int, args: dict[str, Any] | None = None, cat: str = ""
    ) -> None:
        event = {"ph": phase, "name": name, "pid": _PROCESS, "tid": thread, "ts": self.now / 1000}
        self.events.append(event | ({"args": args} if args else {}) | ({"cat": cat} if cat else {}))


def _path(entry: Mapping[str, Any]) -> list[str]:
    return [name for name in (entry.get("module") or "").split(".") if name]


def _common(a: list[str], b: list[str]) -> int:
    """Return how many names two paths begin with together."""
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return length


def _arguments(index: int, entry: Mapping[str, Any]) -> dict[str, Any]:
    shapes = [type_text(output) for output in entry["outputs"]]
    known = {
        "index": index,
        "line": entry.get("line"),
        "leaf": entry.get("leaf"),
        "outputs": ", ".join(shapes),
        "saved_bytes": entry["bytes"],
    }
    return {name: value for name, value in known.items() if value not in (None, "")}
