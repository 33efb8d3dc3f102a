"""Draw the saved bytes along a training step under budgets: python scripts/draw_budget.py.

Runs a step of a transformer without a budget and with three, looks at the count after each module
of the forward and at each gradient of the backward, and writes docs/tape/images/budget.svg.
"""

from pathlib import Path

from draw_offload import LEFT, RIGHT, WIDTH, Probe, axes, curve, y_of

import tapegrad as torch
from tapegrad import tape

IMAGE = Path(__file__).parents[1] / "docs" / "tape" / "images" / "budget.svg"
FRACTIONS = (0.6, 0.4, 0.2)
COLOURS = ("#888", "#2471a3", "#1e8449", "#c0392b")


def run() -> tuple[list[list[int]], list[int]]:
    """Return the curves, the first without a budget, and where each begins its backward."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 8)
    x = torch.randn(8, 128, 128)
    curves: list[list[int]] = []
    turns = []
    for fraction in (None, *FRACTIONS):
        limit = int(fraction * max(curves[0])) if fraction else 1 << 40
        probe = Probe(model, lambda: (torch.memory_stats()["saved_bytes"],))
        with tape.budget(limit):
            model(x).square().mean().backward()
        probe.remove()
        curves.append([point[0] for point in probe.points])
        turns.append(probe.turn)
    return curves, turns


def draw() -> str:
    curves, turns = run()
    top = max(curves[0])
    x_turn = LEFT + turns[0] / (len(curves[0]) - 1) * (WIDTH - LEFT - RIGHT)
    right = WIDTH - RIGHT
    lines = axes("Saved bytes along a step, without a budget and with three", top, x_turn)
    names = ["no budget", *(f"{fraction:.0%}" for fraction in FRACTIONS)]
    for i, (values, name, colour) in enumerate(zip(curves, names, COLOURS, strict=True)):
        x = LEFT + 20 + i * 150
        lines += [
            f'<polyline points="{curve(values, top)}" fill="none" stroke="{colour}" '
            'stroke-width="1.8"/>',
            f'<path d="M{x} 20h24" stroke="{colour}" stroke-width="2"/>',
            f'<text x="{x + 30}" y="24">{name}</text>',
        ]
    for fraction, colour in zip(FRACTIONS, COLOURS[1:], strict=True):
        y = y_of(fraction * top, top)
        lines.append(
            f'<path d="M{LEFT} {y:.1f}H{right}" stroke="{colour}" stroke-dasharray="2 4" '
            'stroke-width="0.8"/>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    IMAGE.write_text(draw(), encoding="utf-8")
    print(IMAGE)
