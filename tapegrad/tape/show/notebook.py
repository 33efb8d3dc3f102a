"""A tape as a few lines of HTML: what a notebook shows for a tape as a cell's value."""

import html
from collections.abc import Mapping
from typing import Any

from tapegrad.tape.show.lines import short_lines
from tapegrad.tape.show.totals import totals
from tapegrad.utils._units import human_bytes

__all__ = ["short_html"]

_ROWS = 5


def short_html(document: Mapping[str, Any]) -> str:
    """Return the largest lines of a tape as a small table; the page is `Tape.html`'s business."""
    entries = document["entries"]
    whole = sum(entry["bytes"] for entry in entries)
    short = short_lines(entry.get("line") or "" for entry in entries)
    rows = []
    for line, size, count in totals(document, "line")[:_ROWS]:
        if size:
            name = html.escape(short[line] or "no line known")
            cells = (human_bytes(size), f"{size / whole:.1%}", f"{count:,}")
            numbers = "".join(f'<td style="text-align: right">{cell}</td>' for cell in cells)
            rows.append(f'<tr>{numbers}<td style="text-align: left"><code>{name}</code></td></tr>')
    head = f"<p><b>Tape</b>: {len(entries):,} entries keep {human_bytes(whole)}</p>"
    if not rows:
        return head
    names = "<tr><th>bytes</th><th>share</th><th>entries</th><th>line</th></tr>"
    return f"{head}<table>{names}{''.join(rows)}</table>"
