"""Loss curves: a small GPT in bfloat16 under autocast on the text that is shipped.

Runs that round differently drift apart, PyTorch's own as well: with other kernels of attention,
other accumulation in products, or the texts of each batch in another order. How far they do is
what a difference between the libraries is measured with.
"""

from __future__ import annotations

import contextlib
import gzip
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.children.models import Numbers
from benchmarks.cuda_models import networks
from benchmarks.cuda_models.training import TINY
from benchmarks.cuda_models.work import Setting

TEXT = Path(__file__).parents[2] / "tapegrad" / "cli" / "texts" / "books.txt.gz"
SIZES = networks.GPTSizes(layers=4, heads=4, width=256, context=128, vocabulary=256)
STEPS, BATCH, SMOOTHED = 500, 16, 25


def batches(setting: Setting, sizes: networks.GPTSizes, steps: int, batch: int) -> Any:
    """Return the tokens of all steps, (steps, batch, context + 1), on the device."""
    text = np.frombuffer(gzip.decompress(TEXT.read_bytes()), np.uint8)
    places = np.random.default_rng(1).integers(0, len(text) - sizes.context, (steps, batch, 1))
    tokens = text[places + np.arange(sizes.context + 1)].astype(np.int64) % sizes.vocabulary
    return setting.torch.from_numpy(tokens).to(setting.device)


def losses(setting: Setting, order: Callable[[Any], Any] = lambda rows: rows) -> list[float]:
    """Train, and return the loss of each step."""
    torch = setting.torch
    sizes, steps, batch = setting.choose((SIZES, STEPS, BATCH), (TINY, 4, 2))
    model = Numbers(torch).fill(networks.gpt(torch, sizes)).to(setting.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    found = []
    for rows in batches(setting, sizes, steps, batch):
        rows = order(rows)
        optimizer.zero_grad()
        with setting.autocast():
            loss = model(rows[:, :-1], rows[:, 1:])
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return [float(each) for each in torch.stack(found).float().tolist()]


def variants(setting: Setting) -> dict[str, Callable[[], list[float]]]:
    """Return runs that differ by rounding alone."""
    torch = setting.torch
    runs: dict[str, Callable[[], list[float]]] = {
        "plain": lambda: losses(setting),
        "texts reversed": lambda: losses(setting, lambda rows: rows.flip(0)),
    }
    if setting.is_ours:
        return runs

    def with_math() -> list[float]:
        attention = torch.nn.attention
        with attention.sdpa_kernel(attention.SDPBackend.MATH):
            return losses(setting)

    @contextlib.contextmanager
    def exact_sums() -> Any:
        flags = torch.backends.cuda.matmul
        former = flags.allow_bf16_reduced_precision_reduction
        flags.allow_bf16_reduced_precision_reduction = False
        try:
            yield
        finally:
            flags.allow_bf16_reduced_precision_reduction = former

    def with_exact_sums() -> list[float]:
        with exact_sums():
            return losses(setting, lambda rows: rows.roll(3, 0))

    runs["texts rolled"] = lambda: losses(setting, lambda rows: rows.roll(1, 0))
    runs["attention of products"] = with_math
    runs["texts rolled, sums in float32"] = with_exact_sums
    return runs


def run(setting: Setting) -> dict[str, Any]:
    found, seconds = {}, []
    for name, train in variants(setting).items():
        start = time.perf_counter()
        found[name] = train()
        seconds.append((time.perf_counter() - start) / len(found[name]))
    return {
        "seconds": min(seconds),
        "spread": 0.0,
        "memory": 0,
        "limit": 0.0,
        "values": found["plain"][:3],
        "curves": found,
    }


def smoothed(curve: list[float]) -> Any:
    width = min(SMOOTHED, len(curve))
    return np.convolve(np.array(curve), np.ones(width) / width, mode="valid")


def compared(ours: dict[str, list[float]], theirs: dict[str, list[float]]) -> tuple[float, str]:
    """Return the distance of our curves as a part of PyTorch's own spread, and words for it.

    The distance of a run is the largest difference of its smoothed losses from the mean of
    PyTorch's runs; of a run of PyTorch's, from the mean of its others.
    """
    references = {name: smoothed(curve) for name, curve in theirs.items()}
    spread = max(
        float(np.abs(each - np.mean([r for n, r in references.items() if n != name], 0)).max())
        for name, each in references.items()
    )
    mean = np.mean(list(references.values()), 0)
    distance = max(float(np.abs(smoothed(curve) - mean).max()) for curve in ours.values())
    last = smoothed(ours["plain"])[-1], float(mean[-1])
    return distance / spread if spread else float(distance > 0), (
        f"smoothed losses at most {distance:.4f} from the mean of PyTorch's runs, whose own are "
        f"up to {spread:.4f} from the others; at the end {last[0]:.4f} and {last[1]:.4f}"
    )
