"""Draw the pictures of docs/tape/look.md and docs/tape/replay.md: python scripts/draw_tape.py

One is the bytes that the tape of a small GPT keeps as it grows, by module; the other the norms of
the gradients that a rewind meets in two deep networks.
"""

from pathlib import Path

import tapegrad as torch
from tapegrad import nn, tape

FOLDER = Path(__file__).parents[1] / "docs" / "tape" / "images"
COLOURS = ("#4269d0", "#efb118", "#3ca951", "#ff725c", "#a463f2", "#6cc5b0", "#9c6b4e")
WIDTH, HEIGHT, MARGIN = 720, 260, 48


class Block(nn.Module):
    """A block of GPT."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


def text(x, y, words, anchor="start", size=12):
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" '
        f'font-family="sans-serif" fill="#444">{words}</text>'
    )


def write(name, parts):
    """Write a picture of lines, areas and words."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">'
    ground = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / name).write_text("\n".join([head, ground, *parts, "</svg>\n"]), encoding="utf-8")


def place(column, columns, share):
    """Return where a point lies: the column of so many, at a share of the height."""
    x = MARGIN + (WIDTH - 2 * MARGIN) * column / max(columns - 1, 1)
    return x, HEIGHT - MARGIN + share * (2 * MARGIN - HEIGHT)


def draw_growth():
    """Draw what is kept after each entry, an area for each part of the model."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Embedding(64, 64), *(Block(64, 4) for _ in range(4)), nn.Linear(64, 64)
    )
    tokens = torch.randint(64, (8, 64))
    with tape.record(model=model) as t:
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    owners = [(entry.module or "loss").split(".")[0] for entry in t]
    names = list(dict.fromkeys(owners))
    kept = dict.fromkeys(names, 0)
    layers = []
    for entry, owner in zip(t, owners, strict=True):
        kept[owner] += entry.bytes
        layers.append([sum(list(kept.values())[: i + 1]) for i in range(len(names))])
    total, parts = layers[-1][-1], []
    for number in reversed(range(len(names))):
        tops = [place(i, len(t), layer[number] / total) for i, layer in enumerate(layers)]
        ends = [place(len(t) - 1, len(t), 0), place(0, len(t), 0)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in tops + ends)
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<polygon points="{points}" fill="{colour}" fill-opacity="0.85"/>')
    for number, name in enumerate(names):
        x, y = MARGIN + 8, MARGIN + 16 * number
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<rect x="{x}" y="{y}" width="10" height="10" fill="{colour}"/>')
        label = name if name == "loss" else f"{name}: {type(model[int(name)]).__name__}"
        parts.append(text(x + 16, y + 10, label))
    title = f"what the tape keeps, entry by entry: {total / 2**20:.1f} MiB after {len(t)} entries"
    parts.append(text(MARGIN, 24, title, size=14))
    write("look-growth.svg", parts)
    del loss


def norms_of(act):
    """Return the norms of the gradients that a rewind through a deep network meets."""
    torch.manual_seed(0)
    layers = [layer for _ in range(20) for layer in (nn.Linear(64, 64), act())]
    loss = nn.Sequential(*layers).double()(torch.randn(16, 64).double()).square().mean()
    steps = tape.of(loss).rewind()
    return [step.grads[0].norm().item() for step in steps if step.entry.op == "addmm"]


def draw_norms():
    """Draw the norms, on a logarithmic scale, for two activations."""
    import math

    lines = {"Sigmoid": norms_of(nn.Sigmoid), "SELU": norms_of(nn.SELU)}
    logs = {name: [math.log10(norm) for norm in norms] for name, norms in lines.items()}
    low = math.floor(min(map(min, logs.values())))
    high = math.ceil(max(map(max, logs.values())))
    parts = [text(MARGIN, 24, "norm of the gradient at each layer, last layer first", size=14)]
    for power in range(low, high + 1, max(1, (high - low) // 5)):
        x, y = place(0, 2, (power - low) / (high - low))
        parts.append(f'<path d="M{x:.0f} {y:.1f}H{WIDTH - MARGIN}" stroke="#ddd"/>')
        parts.append(text(x - 6, y + 4, f"1e{power}", anchor="end"))
    for number, (name, values) in enumerate(logs.items()):
        points = [
            place(i, len(values), (value - low) / (high - low)) for i, value in enumerate(values)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        colour = COLOURS[number]
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x, y = points[-1]
        parts.append(text(x - 4, y - 8, name, anchor="end"))
    write("replay-norms.svg", parts)


if __name__ == "__main__":
    draw_growth()
    draw_norms()
