"""Training steps under a budget of saved bytes, beside the same steps without one.

    python -m benchmarks.tape_budget
    python -m benchmarks.tape_budget --models gpt tree --repeats 30 --out table.md

For each model and fraction: the peak of saved bytes as part of the budget, whether the gradients
are the same bit for bit, and the time of a step as a ratio to one without a budget. Steps with and
without take turns in one process; the figure is the median of the ratios of neighbours, with their
quartiles.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as torch
from benchmarks.children.models import Numbers, gpt, resnet18
from tapegrad import nn, tape

FRACTIONS = (0.8, 0.6, 0.4, 0.3)
TARGETS = {0.8: 1.1, 0.6: 1.25, 0.4: 1.6, 0.3: 2.0}

Step = tuple[list[Any], Callable[[], Any]]


def of_training(training: tuple[Any, Callable[[], Any]]) -> Step:
    optimizer, loss = training
    return [p for group in optimizer.param_groups for p in group["params"]], loss


def lstm_cells() -> Step:
    """An LSTM cell of 128 features over 512 steps of 16 sequences, as a loop in Python."""
    numbers = Numbers(torch)
    cell, last = nn.LSTMCell(128, 128), nn.Linear(128, 10)
    model = numbers.fill(nn.ModuleList([cell, last]))
    x, labels = numbers.normal(512, 16, 128), numbers.below(10, 16)

    def loss() -> Any:
        hidden = torch.zeros(16, 128), torch.zeros(16, 128)
        for step in x:
            hidden = cell(step, hidden)
        return nn.functional.cross_entropy(last(hidden[0]), labels)

    return list(model.parameters()), loss


def lstm() -> Step:
    """The same as a layer, nn.LSTM."""
    numbers = Numbers(torch)
    body, last = nn.LSTM(128, 128), nn.Linear(128, 10)
    model = numbers.fill(nn.ModuleList([body, last]))
    x, labels = numbers.normal(512, 16, 128), numbers.below(10, 16)
    return list(model.parameters()), lambda: nn.functional.cross_entropy(
        last(body(x)[0][-1]), labels
    )


def tree() -> Step:
    """A network in the shape of a random tree of 512 leaves, 512 wide."""
    numbers, width = Numbers(torch), 512
    combine, up = nn.Linear(2 * width, width), nn.Linear(width, width)
    score = nn.Linear(width, 1)
    model = numbers.fill(nn.ModuleList([combine, up, score]))
    leaves = numbers.normal(512, 4, width)
    dice = np.random.default_rng(1)

    def shape(first: int, last: int) -> Any:
        if last - first == 1:
            return first
        middle = int(dice.integers(first + 1, last))
        return shape(first, middle), shape(middle, last)

    form = shape(0, len(leaves))

    def encode(part: Any) -> Any:
        if isinstance(part, int):
            return leaves[part]
        both = torch.cat([encode(part[0]), encode(part[1])], dim=1)
        return torch.tanh(up(torch.relu(combine(both))))

    return list(model.parameters()), lambda: score(encode(form)).sum()


MODELS: dict[str, Callable[[], Step]] = {
    "gpt": lambda: of_training(gpt(torch, 256)),
    "resnet18": lambda: of_training(resnet18(torch)),
    "lstm": lstm,
    "lstm_cells": lstm_cells,
    "tree": tree,
}


def gradients(parameters: list[Any], loss: Callable[[], Any]) -> tuple[float, list[Any]]:
    for parameter in parameters:
        parameter.grad = None
    start = time.perf_counter()
    loss().backward()
    return time.perf_counter() - start, [parameter.grad for parameter in parameters]


def quartiles(values: list[float]) -> tuple[float, float, float]:
    low, middle, high = statistics.quantiles(values, n=4)
    return low, middle, high


def measure(name: str, repeats: int, fractions: tuple[float, ...]) -> list[str]:
    parameters, loss = MODELS[name]()
    for _ in range(3):
        gradients(parameters, loss)
    with tape.budget(1 << 60) as free:
        gradients(parameters, loss)
    rows = []
    for fraction in fractions:
        limit, ratios, same, peak = int(free.peak * fraction), [], True, 0
        for _ in range(repeats):
            seconds, expected = gradients(parameters, loss)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", tape.BudgetWarning)
                with tape.budget(limit) as b:
                    limited, found = gradients(parameters, loss)
            ratios.append(limited / seconds)
            peak = max(peak, b.peak)
            same &= all(torch.equal(g, h) for g, h in zip(expected, found, strict=True))
        low, middle, high = quartiles(ratios)
        used = f"{peak / limit:.3f}" + (" (over)" if peak > limit else "")
        rows.append(
            f"| {name} | {free.peak / 2**20:.1f} MiB | {fraction:.0%} | {used} | "
            f"{'yes' if same else 'NO'} | {middle:.2f} ({low:.2f} to {high:.2f}) | "
            f"{TARGETS.get(fraction, float('nan')):.2f} | {b.evictions} | {b.recomputed} |"
        )
        print(rows[-1], flush=True)
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--repeats", type=int, default=20, help="pairs of steps (default 20)")
    parser.add_argument("--fractions", nargs="+", type=float, default=list(FRACTIONS))
    parser.add_argument("--out", help="write the table to this file")
    options = parser.parse_args(arguments)
    header = (
        "| model | tape without budget | budget | peak / budget | same gradients | step time, "
        "ratio (quartiles) | target | evictions | calls made again |\n"
        "|---|---|---|---|---|---|---|---|---|"
    )
    print(header)
    rows = [
        row
        for name in options.models
        for row in measure(name, options.repeats, tuple(options.fractions))
    ]
    if options.out:
        with open(options.out, "w") as file:
            file.write("# Training steps under a budget\n\n`python -m benchmarks.tape_budget`\n\n")
            file.write(header + "\n" + "\n".join(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
