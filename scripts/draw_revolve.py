#!/usr/bin/env python3
"""Draw plans of tapegrad.tape.revolve: position in the loop across, time down.

python scripts/draw_revolve.py docs/tape/images/revolve.svg
"""

import sys
from pathlib import Path

from tapegrad import tape
from tapegrad.tape.revolve_plan import OnlinePlaces

STEPS = 20
SIZE = 11  # of a step, in pixels
TOP, LEFT, GAP = 58, 24, 46
STYLE = """
  text { font: 12px sans-serif; fill: #222 }
  .title { font-weight: bold }
  .advance { stroke: #3b6fb6; stroke-width: 1.6 }
  .reverse { stroke: #c8452f; stroke-width: 2.6 }
  .slot { stroke: #2c9a5b; stroke-width: 2.4; stroke-linecap: round }
  .grid { stroke: #ddd; stroke-width: 0.6 }
"""


def segments(actions, stored=(), time=0):
    """Return the lines of a plan, (kind, position, time, position, time), and when it ends.

    Args:
        actions: the plan.
        stored: (position, time) of states that are stored before it begins.
        time: when it begins.
    """
    lines = []
    since = dict(stored)
    for action in actions:
        kind, position = action[:2]
        if kind == "store":
            since[position] = time
        elif kind == "free":
            lines.append(("slot", position, since.pop(position), position, time))
        elif kind == "advance":
            end = time + action[2] - position
            lines.append(("advance", position, time, action[2], end))
            time = end
        elif kind == "reverse":
            lines.append(("reverse", position + 1, time, position, time + 1))
            time += 1
    return lines, time


def online(n, slots):
    """Return the lines of a loop whose length was not known, and when it ends."""
    places = OnlinePlaces(slots)
    lines = [("advance", 0, 0, n - 1, n - 1), ("reverse", n, n - 1, n - 1, n)]
    since = {0: 0}
    for position in range(1, n):
        if places.wants(position - 1):
            gone = places.place()
            if gone is not None:
                lines.append(("slot", gone, since.pop(gone), gone, position))
            since[position - 1] = position - 1
    rest, time = segments(places.unwind(n), since.items(), n)
    return lines + rest, time


def panel(lines, end, left, title, note):
    """Return the SVG of one plan."""
    out = [f'<text class="title" x="{left}" y="20">{title}</text>']
    out.append(f'<text x="{left}" y="36">{note}</text>')
    for position in range(0, STEPS + 1, 5):
        x = left + position * SIZE
        out.append(f'<line class="grid" x1="{x}" y1="{TOP}" x2="{x}" y2="{TOP + end * SIZE}"/>')
        out.append(f'<text x="{x}" y="{TOP - 5}" text-anchor="middle">{position}</text>')
    for kind, x1, y1, x2, y2 in sorted(lines, key=lambda line: line[0] != "slot"):
        a, b = left + x1 * SIZE, left + x2 * SIZE
        c, d = TOP + y1 * SIZE, TOP + y2 * SIZE
        out.append(f'<line class="{kind}" x1="{a}" y1="{c}" x2="{b}" y2="{d}"/>')
    return out


def draw():
    """Return the picture."""
    panels = []
    for slots in (4, 2):
        lines, end = segments(tape.revolve_schedule(STEPS, slots))
        cost = tape.revolve_cost(STEPS, slots)
        panels.append((lines, end, f"{slots} slots", f"{cost} advances"))
    lines, end = online(STEPS, 4)
    cost = end - STEPS
    panels.append((lines, end, "4 slots, length unknown", f"{cost} advances"))
    width = LEFT + len(panels) * (STEPS * SIZE + GAP)
    height = TOP + max(end for _, end, _, _ in panels) * SIZE + 40
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, (lines, end, title, note) in enumerate(panels):
        out += panel(lines, end, LEFT + number * (STEPS * SIZE + GAP), title, note)
    x, y = LEFT, height - 14
    for kind, text in (
        ("advance", "a step is advanced"),
        ("reverse", "a step is recorded and swept back"),
        ("slot", "a state is stored"),
    ):
        out.append(f'<line class="{kind}" x1="{x}" y1="{y - 4}" x2="{x + 24}" y2="{y - 4}"/>')
        out.append(f'<text x="{x + 30}" y="{y}">{text}</text>')
        x += 60 + 7 * len(text)
    return "\n".join([*out, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(), encoding="utf-8")
