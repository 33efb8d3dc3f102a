"""The page of a tape: one file of HTML that needs nothing outside itself.

The tape goes in as columns of small numbers with one table of strings, deflated and in base64,
which no text of the tape can break out of; the scripts in ``assets/`` draw it.
"""

import base64
import html
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from tapegrad.tape.show.lines import short_lines

__all__ = ["html_page", "write_html"]

# In order: each may use the ones before.
_SCRIPTS = (
    *("data.js", "modules.js", "layout.js", "graph.js", "timeline.js", "bytes.js"),
    *("table.js", "detail.js", "main.js"),
)


def write_html(document: Mapping[str, Any], path: str | Path) -> Path:
    """Write the page of a tape's document to a file and return its path."""
    path = Path(path)
    path.write_text(html_page(document), encoding="utf-8", errors="replace")
    return path


def html_page(document: Mapping[str, Any]) -> str:
    """Return the page of a tape's document as text."""
    packed = json.dumps(_pack(document), separators=(",", ":"), ensure_ascii=True)
    data = base64.b64encode(zlib.compress(packed.encode(), 9)).decode()
    pieces = {
        "title": html.escape(_title(document)),
        "style": _resource("page.css"),
        "script": _script(),
        "data": data,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: pieces[found[1]], _resource("page.html"))


def _title(document: Mapping[str, Any]) -> str:
    return str(document.get("title") or "tape")


@cache
def _resource(name: str) -> str:
    return (files("tapegrad.tape.show") / "assets" / name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    parts = "\n".join(_resource(name) for name in _SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();'


class _Numbers:
    """Numbers for things in the order in which they are first met."""

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}

    def __call__(self, thing: Any) -> int:
        return self.known.setdefault(thing, len(self.known))


def _pack(document: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a document into columns."""
    entries = document["entries"]
    strings, types = _Numbers(), _Numbers()

    def type_of(value: Mapping[str, Any]) -> int:
        # What hooks packed or a sweep dropped has no type any more.
        dtype = value["dtype"] or "unknown"
        device = value.get("device") or "cpu"
        return types((strings(dtype), strings(device), *(value["shape"] or ())))

    saved = [value for entry in entries for value in entry["saved"]]
    source = document.get("source") or {}
    short = short_lines([*(entry.get("line") or "" for entry in entries), *source])
    packed = {
        "title": _title(document),
        "memory": document.get("memory", {}),
        "op": [strings(entry["op"]) for entry in entries],
        "name": [strings(entry["name"]) for entry in entries],
        "module": [strings(entry.get("module") or "") for entry in entries],
        "line": [strings(short[entry.get("line") or ""]) for entry in entries],
        "leaf": [-1 if entry.get("leaf") is None else strings(entry["leaf"]) for entry in entries],
        "sequence": _differences(entry["sequence"] for entry in entries),
        "bytes": [sum(value["bytes"] for value in entry["saved"]) for entry in entries],
        **_inputs(entries),
        "out_count": [len(entry["outputs"]) for entry in entries],
        "out_type": [type_of(output) for entry in entries for output in entry["outputs"]],
        "saved_count": [len(entry["saved"]) for entry in entries],
        "saved_name": [strings(value["name"]) for value in saved],
        "saved_role": [strings(value["role"]) for value in saved],
        "saved_state": [strings(value["state"]) for value in saved],
        "saved_type": [type_of(value) for value in saved],
        "saved_bytes": [value["bytes"] for value in saved],
        "saved_storage": _storages(saved),
        "forward_us": _times(entries, "forward_us"),
        "backward_us": _times(entries, "backward_us"),
        "source": {short[line]: text for line, text in source.items()},
        "lines": {name: line for line, name in short.items() if name != line},
    }
    return packed | {"strings": list(strings.known), "types": list(types.known)}


def _inputs(entries: list[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Return producers as distances back along the tape; 0 stands for none."""
    pairs = [
        (index - producer if producer >= 0 else 0, output)
        for index, entry in enumerate(entries)
        for producer, output in entry["inputs"]
    ]
    return {
        "in_count": [len(entry["inputs"]) for entry in entries],
        "in_from": [distance for distance, _ in pairs],
        "in_output": [output for _, output in pairs],
    }


def _storages(saved: Iterable[Mapping[str, Any]]) -> list[int]:
    number = _Numbers()
    return [number(value["storage"]) for value in saved]


def _differences(numbers: Iterable[int]) -> list[int]:
    before, found = 0, []
    for number in numbers:
        found.append(number - before)
        before = number
    return found


def _times(entries: list[Mapping[str, Any]], name: str) -> list[float | None] | None:
    """Return times in microseconds to a hundredth, or None if there are none."""
    times = [entry.get(name) for entry in entries]
    if all(time is None for time in times):
        return None
    return [None if time is None else round(time, 2) for time in times]
