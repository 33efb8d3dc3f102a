"""Draw the bytes of saved values along a training step: python scripts/draw_offload.py.

Runs a step of a transformer with `tape.offload` and one without, looks at the counts after each
module of the forward and at each gradient of the backward, and writes
docs/tape/images/offload.svg.
"""

import tempfile
from pathlib import Path
from typing import Any

import tapegrad as torch
from tapegrad import tape

IMAGE = Path(__file__).parents[1] / "docs" / "tape" / "images" / "offload.svg"
WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 44


class Probe:
    """Takes a sample at each module's forward and at each module's gradient."""

    def __init__(self, model: Any, sample: Any) -> None:
        self.points: list[tuple[int, ...]] = []
        self.turn = 0
        self.sample = sample
        self.handles = [
            module.register_forward_hook(self.after)
            for module in model.modules()
            if not list(module.children())
        ]

    def after(self, module: Any, arguments: Any, output: Any) -> None:
        self.points.append(self.sample())
        self.turn = len(self.points)
        if output.requires_grad:
            output.register_hook(self.gradient)

    def gradient(self, grad: Any) -> None:
        self.points.append(self.sample())

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def run() -> tuple[list[int], list[tuple[int, ...]], int, int]:
    """Return the curve without, the points with, where the backward begins, and the limit."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 8)
    x = torch.randn(8, 128, 128)
    plain = Probe(model, lambda: (torch.memory_stats()["saved_bytes"],))
    model(x).square().mean().backward()
    plain.remove()
    limit = max(point[0] for point in plain.points) // 4
    with tempfile.TemporaryDirectory() as folder, tape.offload(folder, memory=limit) as o:
        probe = Probe(model, lambda: (o.memory_now, o.file_now))
        model(x).square().mean().backward()
        probe.remove()
    return [point[0] for point in plain.points], probe.points, probe.turn, limit


def curve(values: list[int], top: int) -> str:
    across = (WIDTH - LEFT - RIGHT) / (len(values) - 1)
    return " ".join(f"{LEFT + i * across:.1f},{y_of(v, top):.1f}" for i, v in enumerate(values))


def y_of(value: float, top: int) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)


def axes(title: str, top: int, x_turn: float) -> list[str]:
    """Return the beginning of a picture: its ground, axes, and where the backward begins."""
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#444"/>',
        f'<path d="M{x_turn:.1f} {TOP}V{bottom}" stroke="#999" stroke-dasharray="2 3"/>',
    ]
    for text, x in (("forward", (LEFT + x_turn) / 2), ("backward", (x_turn + right) / 2)):
        lines.append(f'<text x="{x:.0f}" y="{HEIGHT - 24}" text-anchor="middle">{text}</text>')
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = y_of(share * top, top)
        lines.append(
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
            f"{share * top / 2**20:.0f} MiB</text>"
        )
    return lines


def draw() -> str:
    plain, points, turn, limit = run()
    memory, disk = [p[0] for p in points], [p[1] for p in points]
    top = max(*plain, *disk)
    right = WIDTH - RIGHT
    x_turn = LEFT + turn / (len(points) - 1) * (right - LEFT)
    title = "Saved values along a step, without a block and with a quarter allowed"
    lines = axes(title, top, x_turn)
    y = y_of(limit, top)
    lines += [
        f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#c0392b" stroke-dasharray="6 4"/>',
        f'<text x="{right}" y="{y - 5:.1f}" text-anchor="end" fill="#c0392b">'
        f"memory={limit / 2**20:.0f} MiB</text>",
        f'<polyline points="{curve(plain, top)}" fill="none" stroke="#888" stroke-width="1.5"/>',
        f'<polyline points="{curve(disk, top)}" fill="none" stroke="#2471a3" stroke-width="2"/>',
        f'<polyline points="{curve(memory, top)}" fill="none" stroke="#1e8449" stroke-width="2"/>',
    ]
    for i, (text, colour) in enumerate(
        (
            ("in memory, without a block", "#888"),
            ("in the file", "#2471a3"),
            ("in memory", "#1e8449"),
        )
    ):
        x = LEFT + 20 + i * 220
        lines += [
            f'<path d="M{x} 20h24" stroke="{colour}" stroke-width="2"/>',
            f'<text x="{x + 30}" y="24">{text}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    IMAGE.write_text(draw(), encoding="utf-8")
    print(IMAGE)
