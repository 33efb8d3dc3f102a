"""The page of a run: one file, which refers to nothing outside itself."""

import html
import math
import os
import platform
import shlex
import time
from collections.abc import Callable, Iterable
from typing import Any

import tapegrad
from tapegrad import _C
from tapegrad.cli.curve import draw_curve
from tapegrad.cli.device import described
from tapegrad.cli.flops import shown_share
from tapegrad.cli.invocation import program
from tapegrad.cli.run_folder import RunFolder
from tapegrad.cli.text import Text
from tapegrad.cli.trainer import Trainer
from tapegrad.utils._units import clock, human_bytes, human_count

__all__ = ["write_report"]

_MOST_ROWS = 40
_REFRESH = 10  # seconds, while the run goes on
_UNITS = {"characters": "character", "bytes": "byte", "bpe": "token"}

_STYLE = """
:root { color-scheme: light }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; color: #24292f;
  background: #f6f8fa; margin: 0 }
main { max-width: 900px; margin: 0 auto; padding: 28px 20px 60px }
h1 { font-size: 24px; margin: 0 }
h2 { font-size: 17px; margin: 32px 0 10px }
.lead { color: #57606a; margin: 4px 0 20px }
.card { background: #fff; border: 1px solid #d0d7de; border-radius: 8px; padding: 14px 16px }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 12px;
  margin-bottom: 16px }
.facts b { display: block; font-size: 22px; white-space: nowrap;
  font-variant-numeric: tabular-nums }
.facts span { color: #57606a; font-size: 13px }
svg { display: block; width: 100%; height: auto }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: 4px 10px; border-bottom: 1px solid #eaeef2 }
th { color: #57606a; font-weight: 600 }
tr:last-child td { border-bottom: none }
.pairs td, .pairs th { text-align: left; vertical-align: top }
.pairs th { width: 11em }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0;
  font: 13.5px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
.table { white-space: pre; overflow-x: auto; font-size: 12px }
.wide { overflow-x: auto }
.wide table { font-size: 13px }
.wide th, .wide td { padding: 4px 7px }
details > * { margin-top: 8px }
.sample { margin-bottom: 12px }
.sample h3 { font-size: 14px; margin: 0 0 6px; color: #57606a }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(320px, 1fr)); gap: 16px }
code { font: 13.5px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
"""


def write_report(
    folder: RunFolder, trainer: Trainer, text: Text, peak: float | None, *, running: bool
) -> None:
    """Write the loss curve and the page of a run.

    Args:
        folder: of the run.
        trainer: what there is to tell.
        text: that is learned.
        peak: floating-point operations that the device does in a second, None if not known.
        running: whether the run goes on, and the page should come again.
    """
    curve = draw_curve(folder.metrics.records, trainer.settings.steps)
    folder.write(folder.curve, curve)
    folder.write(folder.report, _page(folder, trainer, text, curve, peak, running))


def _page(
    folder: RunFolder, trainer: Trainer, text: Text, curve: str, peak: float | None, running: bool
) -> str:
    records, settings = folder.metrics.records, trainer.settings
    name = folder.path.resolve().name
    title = f"tapegrad train: {name}"
    refresh = f'<meta http-equiv="refresh" content="{_REFRESH}">' if running else ""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            f'<html lang="en"><head><meta charset="utf-8">{refresh}',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_escape(title)}</title><style>{_STYLE}</style></head><body><main>",
            f"<h1>{_escape(name)}</h1>",
            f'<p class="lead">{_escape(_lead(trainer, text, running))}</p>',
            _facts(trainer, text, records, peak),
            f'<div class="card">{curve}</div>',
            *_samples(folder.samples.records),
            "<h2>Evaluations</h2>",
            _evaluations(records, _UNITS[settings.tokens]),
            '<div class="columns">',
            "<section><h2>Settings</h2>",
            _pairs(_settings_shown(trainer, text)),
            "</section><section><h2>Environment</h2>",
            _pairs(_environment(trainer)),
            "</section></div>",
            "<h2>Layers</h2>",
            _layers(trainer),
            "<h2>Go on</h2>",
            _commands(folder, settings.steps),
            "</main></body></html>",
            "",
        ]
    )


def _lead(trainer: Trainer, text: Text, running: bool) -> str:
    step, last = trainer.step, trainer.settings.steps
    state = "finished" if step >= last else "running" if running else "stopped"
    return (
        f"A GPT that learns {text.name!r}: {state} at step {step:,} of {last:,}, "
        f"{time.strftime('%Y-%m-%d %H:%M:%S')}"
    )


def _facts(trainer: Trainer, text: Text, records: list[dict[str, Any]], peak: float | None) -> str:
    """Return the numbers that one looks for first."""
    losses = [record["val_loss"] for record in records if "val_loss" in record]
    steps = [record for record in records if "seconds" in record]
    speeds = [record["tokens_per_second"] for record in steps]
    shares = [record["mfu"] for record in steps if record.get("mfu") is not None]
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    is_gpu = trainer.device.type == "cuda"
    memory = "memory of the GPU, peak" if is_gpu else "memory, peak"
    at_most = "" if peak is None else f" of {peak / 1e12:,.4g} TFLOP/s"
    shown = [
        (f"{losses[0]:.3f} → {losses[-1]:.3f}" if losses else "?", "validation loss"),
        _bits(losses, trainer, text),
        (clock(steps[-1]["seconds"]) if steps else "0:00", "time in training"),
        (human_count(_median(speeds)) if speeds else "?", "tokens per second, median"),
        (
            shown_share(_median(shares) if shares else None),
            f"model FLOP utilisation{at_most}, median",
        ),
        (human_bytes(max(r["memory"] for r in steps)) if steps else "?", memory),
        (human_count(parameters), "parameters"),
        (human_count(trainer.step * trainer.tokens_per_step), "tokens learned from"),
    ]
    cells = [f'<div class="card"><b>{value}</b><span>{name}</span></div>' for value, name in shown]
    return f'<div class="facts">{"".join(cells)}</div>'


def _bits(losses: list[float], trainer: Trainer, text: Text) -> tuple[str, str]:
    """Return the last loss in bits; for tokens of several bytes, which differ by vocabulary, each
    byte's, which can be compared."""
    unit, share = "token", 1.0
    if trainer.settings.tokens == "bpe":
        unit, share = "byte", (trainer.train_size + trainer.held_out_size) / text.size
    return (
        f"{losses[-1] * share / math.log(2):.2f}" if losses else "?",
        f"bits per {unit}, held out",
    )


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _samples(samples: list[dict[str, Any]]) -> list[str]:
    """Return the first sample and the latest, which tell the story, then those between."""
    order = [*samples[:1], *samples[:0:-1]]
    blocks = []
    for sample in order:
        step = sample["step"]
        name = f"after {step:,} steps" if step else "before training"
        blocks.append(
            f'<div class="card sample"><h3>{name}</h3>'
            f"<pre>{_escape(_printable(sample['text']))}</pre></div>"
        )
    if blocks:
        blocks[0] = f"<h2>Samples</h2>{blocks[0]}"
    if len(blocks) > 2:
        between = "\n".join(blocks[2:])
        blocks[2:] = [f"<details><summary>between</summary>{between}</details>"]
    return blocks


def _evaluations(records: list[dict[str, Any]], unit: str) -> str:
    found = [record for record in records if "val_loss" in record]
    step = math.ceil(len(found) / _MOST_ROWS) or 1
    chosen = sorted({*range(0, len(found), step), len(found) - 1} - {-1})
    heads = [
        *("step", "batch loss", "validation loss", f"bits per {unit}", "rate", "norm of gradient"),
        *("tokens/s", "MFU", "memory", "time"),
    ]
    rows = [_row(found[index]) for index in chosen]
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f'<div class="card wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def _row(record: dict[str, Any]) -> str:
    """Return a row of the table; before the first step much is not known yet."""

    def shown(name: str, form: Callable[[Any], str]) -> str:
        value = record.get(name)
        return "" if value is None else form(value)

    cells = [
        f"{record['step']:,}",
        shown("loss", "{:.4f}".format),
        shown("val_loss", "{:.4f}".format),
        f"{record['val_loss'] / math.log(2):.3f}",
        shown("lr", "{:.2e}".format),
        shown("grad_norm", "{:.3f}".format),
        shown("tokens_per_second", human_count),
        shown("mfu", shown_share),
        shown("memory", human_bytes),
        clock(record.get("seconds", 0)),
    ]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _pairs(pairs: Iterable[tuple[str, Any]]) -> str:
    rows = [
        f"<tr><th>{_escape(str(name))}</th><td>{_escape(str(value))}</td></tr>"
        for name, value in pairs
    ]
    return f'<div class="card"><table class="pairs">{"".join(rows)}</table></div>'


def _settings_shown(trainer: Trainer, text: Text) -> Iterable[tuple[str, Any]]:
    values = trainer.settings.as_dict()
    values["text"] = values["text"] or "the books in the package"
    values["budget"] = values["budget"] or "no limit"
    if values["tokens"] != "bpe":
        del values["vocabulary"]
    yield from ((name.replace("_", " "), value) for name, value in values.items())
    unit = _UNITS[trainer.settings.tokens]
    yield "to learn", f"{trainer.train_size:,} {unit}s"
    yield "held out", f"{trainer.held_out_size:,} {unit}s"
    yield "different", f"{len(trainer.vocabulary):,} {unit}s"
    yield "text, SHA-256", text.sha256[:16] + "…"


def _environment(trainer: Trainer) -> Iterable[tuple[str, Any]]:
    yield "device", described(trainer.device)
    yield "tapegrad", tapegrad.__version__
    facts = {name.replace("_", " "): value for name, value in _C.build_info().items()}
    yield from ((name, value) for name, value in facts.items() if name not in ("version",))
    yield "Python", platform.python_version()
    yield "system", f"{platform.system()} {platform.release()} {platform.machine()}"
    yield "cores", os.cpu_count()


def _layers(trainer: Trainer) -> str:
    """Return the table of the model's layers, for one piece of text."""
    return (
        "<details><summary>outputs, parameters and work for one piece of text</summary>"
        f'<div class="card"><pre class="table">{_escape(trainer.layers)}</pre></div></details>'
    )


def _commands(folder: RunFolder, steps: int) -> str:
    path = shlex.quote(str(folder.path))
    lines = [
        f"{program()} sample {path} --tokens 1000",
        f"{program()} train --resume {path} --steps {2 * steps}",
    ]
    return f'<div class="card"><pre>{_escape(chr(10).join(lines))}</pre></div>'


def _printable(text: str) -> str:
    """Replace control characters, which a page may not hold."""
    return "".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in text).strip("\n")


def _escape(text: str) -> str:
    return html.escape(text)
