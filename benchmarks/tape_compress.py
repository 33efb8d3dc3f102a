"""What compressing the tape costs and saves: python -m benchmarks.tape_compress [--quick].

Four questions, for the codecs of `tape.compress`:

- bytes: what the tape keeps of a step's forward pass, by the allocator's own count;
- time: a training step as a multiple of a step without, medians of interleaved steps;
- loss: the digits CNN of examples/cnn_digits.py and the small GPT of `tapegrad train`, trained for
  500 steps from the same seeds with and without;
- masks: whether gradients through bits and bytes are bitwise those without.

Writes benchmarks/results/tape-compress.md and .json, and the picture of docs/tape/compress.md.
"""

import argparse
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tapegrad as torch
from benchmarks.children.models import MODELS
from tapegrad import tape
from tapegrad.utils._units import human_bytes

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PICTURE = ROOT / "docs" / "tape" / "images" / "compress.svg"
CODECS = ("int8", "int4", "bf16", "exact")
NAMES = {
    "gpt_128": "GPT, 4 layers, 128 wide, 8 x 128 tokens",
    "resnet18": "ResNet-18, 8 images of 64 x 64",
    "digits": "digits CNN, 32 images of 8 x 8",
    "cnn": "CNN of 6 convolutions, 32 images of 32 x 32",
    "lstm": "LSTM, 128 features, 64 steps",
}
SEEDS = (0, 1, 2)
LAST = 50  # steps whose mean loss is the final one


def example(name: str) -> Any:
    """Return an example program as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- models


def digits(library: Any, seed: int = 0) -> tuple[Any, Callable[[], Any], Any]:
    """Return optimizer, a function that draws a batch and returns its loss, and the schedule."""
    program = example("cnn_digits")
    library.manual_seed(seed)
    (pictures, labels), _ = program.load(library, seed)
    model = program.make_model(library.nn, 16)
    optimizer = library.optim.SGD(
        model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4
    )
    schedule = library.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=500)
    generator = library.Generator().manual_seed(seed)

    def loss() -> Any:
        chosen = library.randint(0, len(labels), (32,), generator=generator)
        scores = model(program.moved(library, pictures[chosen], generator))
        return library.nn.functional.cross_entropy(scores, labels[chosen], label_smoothing=0.05)

    return optimizer, loss, schedule


def training_of(name: str) -> tuple[Any, Callable[[], Any]]:
    if name == "digits":
        optimizer, loss, _ = digits(torch)
        return optimizer, loss
    return MODELS[name](torch)


# ---- bytes and time


def saved_bytes(loss: Callable[[], Any], codec: str | None) -> tuple[int, dict[str, Any]]:
    """Return what the tape keeps after a forward pass, and what became of the values."""
    before = torch.memory_stats()["saved_bytes"]
    with tape.compress(codec) as c:
        result = loss()
    kept = torch.memory_stats()["saved_bytes"] - before
    result.backward()
    return kept, c.by_codec()


def step_times(name: str, rounds: int) -> dict[str, float]:
    """Return the time of a step without, and the ratios of those with: medians."""
    optimizer, loss = training_of(name)
    ratios: dict[str, list[float]] = {codec: [] for codec in CODECS}
    plain: list[float] = []

    def step(codec: str | None) -> float:
        start = time.perf_counter()
        with tape.compress(codec):
            value = loss()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return time.perf_counter() - start

    repeats = 1
    while sum(step(None) for _ in range(repeats)) < 0.02:
        repeats *= 2
    for codec in CODECS:
        step(codec)
    for _ in range(rounds):
        for codec in CODECS:
            with_codes = min(sum(step(codec) for _ in range(repeats)) for _ in range(2))
            without = min(sum(step(None) for _ in range(repeats)) for _ in range(2))
            plain.append(without / repeats)
            ratios[codec].append(with_codes / without)
    result = {codec: statistics.median(values) for codec, values in ratios.items()}
    return {"plain": statistics.median(plain), **result}


def measure_models(rounds: int) -> dict[str, Any]:
    table = {}
    for name in NAMES:
        optimizer, loss = training_of(name)
        saved_bytes(loss, None)
        optimizer.zero_grad()
        full, _ = saved_bytes(loss, None)
        row: dict[str, Any] = {"full": full, "times": step_times(name, rounds), "bytes": {}}
        for codec in CODECS:
            kept, by_codec = saved_bytes(loss, codec)
            row["bytes"][codec] = {"saved": kept, "by_codec": by_codec}
        table[name] = row
        print(name, human_bytes(full), {c: row["bytes"][c]["saved"] / full for c in CODECS})
        print("   ", {key: round(value, 4) for key, value in row["times"].items()}, flush=True)
    return table


# ---- loss


def train_digits(codec: str | None, seed: int, steps: int) -> list[float]:
    optimizer, loss, schedule = digits(torch, seed)
    losses = []
    for _ in range(steps):
        with tape.compress(codec):
            value = loss()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        schedule.step()
        losses.append(value.item())
    return losses


def train_gpt(codec: str | None, seed: int, steps: int) -> list[float]:
    from tapegrad.cli.settings import Settings
    from tapegrad.cli.text import read_text
    from tapegrad.cli.trainer import Trainer

    trainer = Trainer(Settings(steps=steps, seed=seed), read_text(None))
    losses = []
    for _ in range(steps):
        with tape.compress(codec):
            losses.append(trainer.take_step()["loss"])
    return losses


def train_all(steps: int, seeds: tuple[int, ...]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, train in (("digits", train_digits), ("gpt", train_gpt)):
        table[name] = {}
        for codec in (None, "int8", "int4", "bf16"):
            curves = [train(codec, seed, steps) for seed in seeds]
            finals = [statistics.mean(curve[-LAST:]) for curve in curves]
            curve = [round(value, 4) for value in curves[0]]
            table[name][codec or "none"] = {"finals": finals, "curve": curve}
            print(name, codec, [round(final, 5) for final in finals], flush=True)
    return table


# ---- masks


def masks_are_exact() -> bool:
    """Whether gradients through ReLU, dropout and max-pooling are bitwise equal in every codec."""
    functional = torch.nn.functional
    results = []
    for codec in (None, *CODECS):
        torch.manual_seed(0)
        leaf = torch.randn(8, 16, 32, 32, requires_grad=True)
        with tape.compress(codec):
            y = functional.max_pool2d(functional.dropout(torch.relu(leaf + 0), 0.3), 3, 2, 1)
        results.append(torch.autograd.grad((y * torch.sin(y.detach())).sum(), leaf)[0])
    return all(torch.equal(results[0], other) for other in results[1:])


# ---- reports


def report(figures: dict[str, Any]) -> str:
    lines = [
        "# Compressing the tape",
        "",
        "Written by `python -m benchmarks.tape_compress`. Bytes are the allocator's count of what",
        "the tape keeps after the forward pass (`memory_stats()`); times are medians of",
        "interleaved steps.",
        f"{figures['machine']}.",
        "",
        "## Bytes that the tape keeps, as a share of the full ones",
        "",
        "| model | full | " + " | ".join(CODECS) + " |",
        "|---|---:|" + "---:|" * len(CODECS),
    ]
    for name, row in figures["models"].items():
        shares = [f"{row['bytes'][codec]['saved'] / row['full']:.3f}" for codec in CODECS]
        lines.append(f"| {NAMES[name]} | {human_bytes(row['full'])} | {' | '.join(shares)} |")
    lines += [
        "",
        "## Time of a training step, as a multiple of one without",
        "",
        "| model | without | " + " | ".join(CODECS) + " |",
        "|---|---:|" + "---:|" * len(CODECS),
    ]
    for name, row in figures["models"].items():
        times = row["times"]
        cells = [f"{times[codec]:.2f}" for codec in CODECS]
        lines.append(f"| {NAMES[name]} | {1e3 * times['plain']:.2f} ms | {' | '.join(cells)} |")
    lines += [
        "",
        f"## Final loss after {figures['steps']} steps",
        "",
        f"Mean over the last {LAST} steps, of {len(figures['seeds'])} seeds; in brackets the",
        "difference of the means, and of each seed.",
        "",
        "| model | without | int8 | int4 | bf16 |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, title in (("digits", "digits CNN"), ("gpt", "small GPT")):
        rows = figures["losses"][name]
        plain = rows["none"]["finals"]
        cells = [f"{statistics.mean(plain):.4f}"]
        for codec in ("int8", "int4", "bf16"):
            finals = rows[codec]["finals"]
            change = statistics.mean(finals) / statistics.mean(plain) - 1
            each = ", ".join(f"{b / a - 1:+.1%}" for a, b in zip(plain, finals, strict=True))
            cells.append(f"{statistics.mean(finals):.4f} ({change:+.2%}: {each})")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    exact = "bitwise equal" if figures["masks"] else "NOT EQUAL"
    lines += ["", f"Gradients through ReLU, dropout and max-pooling, all codecs: {exact}.", ""]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one seed and few rounds")
    parser.add_argument("--draw", action="store_true", help="only draw what was measured before")
    arguments = parser.parse_args()
    stored = RESULTS / "tape-compress.json"
    if not arguments.draw:
        seeds = SEEDS[:1] if arguments.quick else SEEDS
        steps = 60 if arguments.quick else 500
        isa = torch._C.build_info()["instruction_set"]
        figures = {
            "machine": f"{torch.get_num_threads()} threads, {isa}",
            "steps": steps,
            "seeds": seeds,
            "models": measure_models(3 if arguments.quick else 15),
            "losses": train_all(steps, seeds),
            "masks": masks_are_exact(),
        }
        if not arguments.quick:
            stored.write_text(json.dumps(figures) + "\n", encoding="utf-8")
        text = report(figures)
        print(text)
        if arguments.quick:
            return 0
        (RESULTS / "tape-compress.md").write_text(text, encoding="utf-8")
    draw(json.loads(stored.read_text(encoding="utf-8")))
    return 0


# ---- picture

COLORS = {"none": "#8d8d8d", "int8": "#1f6fb2", "bf16": "#3a9a57", "int4": "#c8561b"}
WIDTH, HEIGHT, MARGIN = 880, 300, 44


def smoothed(values: list[float], window: int = 15) -> list[float]:
    return [statistics.mean(values[max(0, i - window + 1) : i + 1]) for i in range(len(values))]


def text(x: float, y: float, content: str, extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{content}</text>'


def draw_curves(rows: dict[str, Any], left: float, title: str) -> list[str]:
    """Return loss curves in a panel 260 wide."""
    width, top, bottom = 250.0, 40.0, HEIGHT - MARGIN
    curves = {codec: smoothed(rows[codec]["curve"])[5:] for codec in COLORS}
    low = min(min(curve) for curve in curves.values())
    high = max(curve[0] for curve in curves.values())
    parts = [text(left, 22, title, 'font-weight="bold"')]
    for part in range(4):
        value = low + (high - low) * part / 3
        y = bottom - (bottom - top) * part / 3
        parts.append(f'<line x1="{left}" x2="{left + width}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        parts.append(text(left - 6, y + 4, f"{value:.2f}", 'text-anchor="end"'))
    for codec, curve in curves.items():
        points = " ".join(
            f"{left + width * i / (len(curve) - 1):.1f},"
            f"{bottom - (bottom - top) * (value - low) / (high - low):.1f}"
            for i, value in enumerate(curve)
        )
        dash = ' stroke-dasharray="5 3"' if codec == "none" else ""
        line = f'fill="none" stroke="{COLORS[codec]}" stroke-width="1.4"{dash}'
        parts.append(f'<polyline points="{points}" {line}/>')
    parts.append(
        text(left + width, bottom + 16, f"{len(rows['none']['curve'])} steps", 'text-anchor="end"')
    )
    return parts


def draw_bars(models: dict[str, Any], left: float) -> list[str]:
    parts = [text(left, 22, "bytes of the tape", 'font-weight="bold"')]
    y = 44.0
    for name, title in (("gpt_128", "GPT, 4 layers"), ("resnet18", "ResNet-18")):
        row = models[name]
        parts.append(text(left, y, f"{title}: {human_bytes(row['full'])}"))
        y += 8
        for codec, color in COLORS.items():
            share = 1.0 if codec == "none" else row["bytes"][codec]["saved"] / row["full"]
            size = f'width="{170 * share:.1f}" height="15"'
            parts.append(f'<rect x="{left}" y="{y:.1f}" {size} fill="{color}"/>')
            label = f"{codec} {share:.2f}" if codec != "none" else "without"
            inside = share > 0.6
            place = left + 6 if inside else left + 170 * share + 5
            fill = 'fill="white"' if inside else ""
            parts.append(text(place, y + 12, label, fill))
            y += 21
        y += 26
    return parts


def draw(figures: dict[str, Any]) -> None:
    """Write loss curves and bars of bytes."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *draw_curves(figures["losses"]["digits"], 50, "digits CNN, loss"),
        *draw_curves(figures["losses"]["gpt"], 360, "small GPT, loss"),
        *draw_bars(figures["models"], 660),
        "</svg>",
    ]
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
