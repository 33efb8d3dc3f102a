"""The loss curve as a picture: SVG, written by hand, which every browser shows."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

__all__ = ["draw_curve"]

_WIDTH, _HEIGHT = 860, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 20, 20, 48
_MOST_POINTS = 700  # of a line: more than one a pixel shows nothing more

_STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #57606a }
.name { fill: #24292f }
.grid { stroke: #eaeef2 }
.axis { stroke: #8c959f }
.raw { fill: none; stroke: #b6d4fb; stroke-width: 1 }
.train { fill: none; stroke: #0969da; stroke-width: 2; stroke-linejoin: round }
.held { fill: none; stroke: #d1571e; stroke-width: 2; stroke-linejoin: round }
.dot { fill: #fff; stroke: #d1571e; stroke-width: 2 }
"""

Points = list[tuple[float, float]]


def draw_curve(records: Sequence[dict[str, Any]], last_step: int) -> str:
    """Return an SVG picture of training and validation loss over the steps.

    Args:
        records: with ``step`` and, each where there is one, ``loss`` and ``val_loss``.
        last_step: where the run is to end.
    """
    train = [(float(r["step"]), float(r["loss"])) for r in records if "loss" in r]
    held = [(float(r["step"]), float(r["val_loss"])) for r in records if "val_loss" in r]
    raw = _thin(train)
    smooth = _thin(_smooth(train))
    values = [y for _, y in raw + held] or [0.0, 1.0]
    low, high, y_ticks = _scale(min(values), max(values))
    x_ticks = [tick for tick in _scale(0, last_step)[2] if tick <= last_step]
    frame = _Frame(last_step, low, high)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        'aria-label="training and validation loss over the steps">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        *frame.grid(x_ticks, y_ticks),
        frame.line(raw, "raw"),
        frame.line(smooth, "train"),
        frame.line(held, "held"),
        *frame.dots(held),
        *_legend(held),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class _Frame:
    """Steps and losses to places in the picture."""

    def __init__(self, last_step: float, low: float, high: float) -> None:
        self.last_step, self.low, self.high = max(1.0, last_step), low, high

    def x(self, step: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * step / self.last_step

    def y(self, loss: float) -> float:
        share = (loss - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share

    def line(self, points: Points, name: str) -> str:
        places = " ".join(f"{self.x(step):.1f},{self.y(loss):.1f}" for step, loss in points)
        return f'<polyline class="{name}" points="{places}"/>'

    def dots(self, points: Points) -> list[str]:
        """Mark each evaluation, with its numbers under the pointer, unless they are too many."""
        if len(points) > 100:
            return []
        return [
            f'<circle class="dot" cx="{self.x(step):.1f}" cy="{self.y(loss):.1f}" r="3">'
            f"<title>step {step:.0f}: validation loss {loss:.4f}</title></circle>"
            for step, loss in points
        ]

    def grid(self, x_ticks: list[float], y_ticks: list[float]) -> list[str]:
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        parts = []
        for tick in y_ticks:
            y = f"{self.y(tick):.1f}"
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y}" y2="{y}"/>')
            parts.append(_text(_LEFT - 8, self.y(tick) + 4, _number(tick), "end"))
        for tick in x_ticks:
            x = f"{self.x(tick):.1f}"
            parts.append(f'<line class="axis" x1="{x}" x2="{x}" y1="{bottom}" y2="{bottom + 5}"/>')
            parts.append(_text(self.x(tick), bottom + 20, f"{tick:,.0f}", "middle"))
        parts.append(f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
        parts.append(_text((_LEFT + right) / 2, _HEIGHT - 8, "step", "middle"))
        parts.append(
            f'<text transform="translate(16 {(_TOP + bottom) / 2}) rotate(-90)" '
            'text-anchor="middle">loss (nats per token)</text>'
        )
        return parts


def _legend(held: Points) -> list[str]:
    last = f", now {held[-1][1]:.3f}" if held else ""
    x = _WIDTH - _RIGHT - 215
    parts = []
    for row, (name, style) in enumerate([("training", "train"), (f"validation{last}", "held")]):
        y = _TOP + 14 + 22 * row
        parts.append(f'<line class="{style}" x1="{x}" x2="{x + 26}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="name" x="{x + 34}" y="{y + 4}">{name}</text>')
    return parts


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def _number(value: float) -> str:
    return f"{value:.6g}"


def _scale(low: float, high: float) -> tuple[float, float, list[float]]:
    """Return the ends of an axis and its ticks: 4 to 9 round numbers around all values."""
    span = high - low or abs(high) or 1.0
    step = 10 ** math.floor(math.log10(span / 4))
    step *= next((factor for factor in (5, 2) if span / (step * factor) >= 4), 1)
    first, last = math.floor(low / step), math.ceil(high / step)
    last += first == last
    return first * step, last * step, [n * step for n in range(first, last + 1)]


def _smooth(points: Points) -> Points:
    """Return averages over windows around each point, which shrink towards both ends."""
    sums = [0.0, *itertools.accumulate(loss for _, loss in points)]
    most = len(points) // 100
    out = []
    for index, (step, _) in enumerate(points):
        reach = min(most, index, len(points) - 1 - index)
        total = sums[index + reach + 1] - sums[index - reach]
        out.append((step, total / (2 * reach + 1)))
    return out


def _thin(points: Points) -> Points:
    """Return averages over neighbours, so many that the picture stays small."""
    size = math.ceil(len(points) / _MOST_POINTS)
    if size <= 1:
        return points
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return [(group[-1][0], sum(y for _, y in group) / len(group)) for group in groups]
