"""The page of a compiled function: one file of HTML that needs nothing outside itself.

It is made as the page of a tape is (tapegrad/tape/show/page.py), with its style and its helpers:
facts go in deflated and in base64, which no text can break out of, and the script puts them on the
page as text, never as markup.
"""

import base64
import html
import json
import re
import zlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapegrad.tape.show.lines import short_lines

if TYPE_CHECKING:
    from tapegrad.compiler._explain import Explanation, TraceInfo
    from tapegrad.compiler._facts import CallInfo

__all__ = ["write_page"]

Times = list[float | None]


def write_page(told: "Explanation", path: str | Path, times: list[Times] | None) -> Path:
    """Write the page of an explanation, with the seconds of the steps of each trace or without."""
    path = Path(path)
    path.write_text(_page(told, times), encoding="utf-8", errors="replace")
    return path


def _page(told: "Explanation", times: list[Times] | None) -> str:
    document = {
        "title": told.name,
        "traces": [
            _trace(trace, times[number] if times else None)
            for number, trace in enumerate(told.traces)
        ],
        "misses": [[count, why] for why, count in told.misses.items()],
        "reasons": told.reasons,
        "eager": told.eager_reason,
    }
    packed = json.dumps(document, separators=(",", ":"), ensure_ascii=True)
    pieces = {
        "title": html.escape(told.name),
        "style": _resource("tape.show", "page.css") + _resource("compiler", "page.css"),
        "script": _script(),
        "data": base64.b64encode(zlib.compress(packed.encode(), 9)).decode(),
    }
    text = _resource("compiler", "page.html")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: pieces[found[1]], text)


@cache
def _resource(package: str, name: str) -> str:
    return (files(f"tapegrad.{package}") / "assets" / name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    parts = "\n".join((_resource("tape.show", "data.js"), _resource("compiler", "page.js")))
    return f'(() => {{\n"use strict";\n{parts}\n}})();'


def _trace(trace: "TraceInfo", times: Times | None) -> dict[str, Any]:
    lines = [call.line for call in (*trace.before, *trace.after)]
    short = short_lines([*lines, *(guard.line for guard in trace.guards)])
    return {
        "before": {"calls": _rows(trace.before, short), "live": trace.live_before},
        "after": {"calls": _rows(trace.after, short), "live": trace.live_after},
        "times": times and [None if each is None else round(1e6 * each, 2) for each in times],
        "guards": [[guard.value, short[guard.line]] for guard in trace.guards],
        "watched": trace.watched,
        "lifted": trace.lifted,
        "groups": len(trace.groups),
        "calls": len(trace.calls),
        "captured": trace.calls_captured,
        "arena": trace.arena_bytes,
        "peak": trace.peak_bytes,
        "made": trace.made_bytes,
        "tensors": [trace.arguments, trace.tensors],
        "seconds": [trace.capture_seconds, trace.passes_seconds, trace.plan_seconds],
    }


def _rows(calls: list["CallInfo"], short: dict[str, str]) -> list[list[Any]]:
    return [
        [
            call.op,
            ", ".join(call.inputs),
            ", ".join(call.outputs),
            ", ".join(call.attributes),
            short[call.line],
            call.group,
        ]
        for call in calls
    ]
