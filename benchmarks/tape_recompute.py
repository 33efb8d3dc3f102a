"""Steps that keep less and compute it again, beside the same steps that keep all.

    python -m benchmarks.tape_recompute
    python -m benchmarks.tape_recompute --repeats 20 --out benchmarks/results/tape-recompute.md

The peak of memory during a step, without what was there before it; whether the gradients are the
same bit for bit; the time of a step as a ratio to one that keeps all. Steps of both kinds take
turns in one process; the figure is the median of the ratios of neighbours, with their quartiles.
Last, a long loop on a tiny state: what is left is the cost of the plan and of Python.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import tapegrad as torch
from tapegrad import nn, tape
from tapegrad.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

STEPS = 512
Case = tuple[str, list[Any], Callable[[], Any], dict[str, Callable[[], Any]]]


def loop() -> Case:
    """An LSTM cell of 128 features over 512 steps of 16 sequences."""
    torch.manual_seed(0)
    cell = nn.LSTMCell(128, 128)
    x = torch.randn(STEPS, 16, 128)

    def step(state: Any, i: int) -> Any:
        return cell(x[i], state)

    def start() -> Any:
        return torch.zeros(16, 128), torch.zeros(16, 128)

    def plain() -> Any:
        state = start()
        for i in range(STEPS):
            state = step(state, i)
        return state[0].sum()

    def revolved(slots: int, **options: Any) -> Any:
        return tape.revolve(step, start(), STEPS, slots, **options)[0].sum()

    others = {
        f"revolve, {slots} slots: {tape.revolve_cost(STEPS, slots)} advances": partial(
            revolved, slots
        )
        for slots in (4, 8, 16, 32)
    }
    others["revolve, 8 slots, length unknown"] = partial(revolved, 8, until=lambda state: False)
    others["revolve, 4 slots and 12 on disk"] = partial(revolved, 4, disk_slots=12)
    return "LSTM cell, 512 steps", list(cell.parameters()), plain, others


def transformer() -> Case:
    """Six layers of 256 features on 8 sequences of 128 tokens."""
    torch.manual_seed(0)
    layers = nn.ModuleList(
        nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True) for _ in range(6)
    )
    x = torch.randn(8, 128, 256)

    def run(call: Callable[[Any, Any], Any]) -> Any:
        value = x
        for layer in layers:
            value = call(layer, value)
        return value.square().mean()

    def kept(*ops: Any) -> Callable[[], Any]:
        options = {"context_fn": partial(create_selective_checkpoint_contexts, list(ops))}
        return lambda: run(
            lambda layer, value: checkpoint(layer, value, use_reentrant=False, **options)
        )

    others = {
        "checkpoint": lambda: run(
            lambda layer, value: checkpoint(layer, value, use_reentrant=False)
        ),
        "checkpoint, products kept": kept("matmul"),
    }
    return "transformer", list(layers.parameters()), lambda: run(lambda f, v: f(v)), others


def gradients(parameters: list[Any], loss: Callable[[], Any]) -> tuple[float, int, list[Any]]:
    """Return the seconds, the peak of bytes and the gradients of a step."""
    for parameter in parameters:
        parameter.grad = None
    gc.collect()
    torch.reset_peak_memory_stats()
    before = torch.memory_stats()["live_bytes"]
    start = time.perf_counter()
    loss().backward()
    seconds = time.perf_counter() - start
    peak = torch.memory_stats()["peak_bytes"] - before
    return seconds, peak, [parameter.grad for parameter in parameters]


def measure(case: Callable[[], Case], repeats: int) -> list[str]:
    name, parameters, plain, others = case()
    rows = []
    gradients(parameters, plain)
    for label, other in others.items():
        gradients(parameters, other)
        ratios, same = [], True
        for _ in range(repeats):
            seconds, whole, expected = gradients(parameters, plain)
            again, peak, found = gradients(parameters, other)
            ratios.append(again / seconds)
            same &= all(torch.equal(g, h) for g, h in zip(expected, found, strict=True))
        low, middle, high = statistics.quantiles(ratios, n=4)
        rows.append(
            f"| {name} | {label} | {whole / 2**20:.1f} | {peak / 2**20:.1f} | "
            f"{'yes' if same else 'NO'} | {middle:.2f} ({low:.2f} to {high:.2f}) |"
        )
        print(rows[-1], flush=True)
    return rows


def long_loop() -> str:
    w = torch.tensor([0.5, 0.9], requires_grad=True)
    start = time.perf_counter()
    y = tape.revolve(lambda x, i: torch.sin(x * w), torch.ones(2), 100_000, 64)
    y.sum().backward()
    seconds = time.perf_counter() - start
    each = seconds / (tape.revolve_cost(100_000, 64) + 100_000) * 1e6
    return (
        f"100,000 steps of two ops in 64 slots: {seconds:.1f} s, {each:.1f} us for each step run."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--out", help="a file for the table")
    options = parser.parse_args()
    lines = [
        "| model | how | peak, MiB, all kept | peak, MiB | same bits | time, ratio |",
        "|---|---|---|---|---|---|",
    ]
    for case in (loop, transformer):
        lines += measure(case, options.repeats)
    lines += ["", long_loop()]
    print(lines[-1])
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write("# Keeping less and computing it again\n\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
