"""Learn to learn: find weights from which a few gradient steps fit any sine wave (MAML).

Each task is a sine of its own height and phase, seen through ten points. The inner loop takes a
few steps on one task; the outer loop moves the *starting* weights so that those steps end well. So
the outer gradient goes through the inner steps, gradients and all.

The inner step is written for one task, with `torch.func.grad` and `functional_call`; `torch.vmap`
runs it for all tasks of a batch at once. What it returns is recorded like anything else, and one
backward goes through it all.

    python examples/maml.py
    python examples/maml.py --steps 1000 --inner-steps 3
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import tapegrad as torch
from tapegrad import Tensor, nn

HIDDEN, POINTS, TASKS = 40, 10, 16
INNER_RATE = 0.02
GOAL, SHORT_GOAL = 10.0, 2.5


def make_model() -> nn.Sequential:
    """Return a network from a number to a number."""
    return nn.Sequential(
        nn.Linear(1, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1)
    )


def draw_tasks(count: int) -> list[Tensor]:
    """Return points to adapt to and points to be judged by, for each of some sine waves."""
    height = 0.5 + 2 * torch.rand(count, 1, 1)
    phase = math.pi * torch.rand(count, 1, 1)
    batches = []
    for _ in range(2):
        x = torch.rand(count, POINTS, 1) * 10 - 5
        batches += [x, height * torch.sin(x + phase)]
    return batches


def make_errors(model: nn.Sequential, inner_steps: int) -> Callable[..., Any]:
    """Return a function from starting weights and tasks to the error after adapting to each."""

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        result: Tensor = (torch.func.functional_call(model, weights, (x,)) - y).square().mean()
        return result

    def error_of_one(
        weights: dict[str, Tensor], x: Tensor, y: Tensor, new_x: Tensor, new_y: Tensor
    ) -> Tensor:
        for _ in range(inner_steps):
            grads = torch.func.grad(loss)(weights, x, y)
            weights = {name: weights[name] - INNER_RATE * grads[name] for name in weights}
        return loss(weights, new_x, new_y)

    return torch.func.vmap(error_of_one, in_dims=(None, 0, 0, 0, 0))


def train(model: nn.Sequential, errors: Callable[..., Any], steps: int) -> None:
    """Move the starting weights, and show the progress."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    live, every, recent = sys.stdout.isatty(), max(1, steps // 10), []
    for step in range(1, steps + 1):
        loss = errors(dict(model.named_parameters()), *draw_tasks(TASKS)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        recent.append(loss.item())
        if step % every == 0:
            line = f"step {step:5d}/{steps}   error after adapting {sum(recent) / len(recent):.3f}"
            print(f"\r{line}" if live else line, end="" if live else "\n", flush=True)
            recent = []
    if live:
        print()


def read_arguments() -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=800, help="outer steps (default 800)")
    parser.add_argument("--inner-steps", type=int, default=3, help="inner steps (default 3)")
    parser.add_argument("--seed", type=int, default=0, help="seed of tasks and weights (default 0)")
    parser.add_argument("--short", action="store_true", help="few steps, and a lower goal")
    arguments = parser.parse_args()
    if arguments.steps < 1 or arguments.inner_steps < 1:
        parser.error("expected at least one step, outer and inner")
    return arguments


def main() -> int:
    """Train, and return 0 if adapting became much better than from random weights."""
    arguments = read_arguments()
    torch.manual_seed(arguments.seed)
    steps, goal = (150, SHORT_GOAL) if arguments.short else (arguments.steps, GOAL)
    model = make_model()
    errors = make_errors(model, arguments.inner_steps)

    def test() -> float:
        weights = {name: weight.detach() for name, weight in model.named_parameters()}
        result: float = errors(weights, *draw_tasks(200)).mean().item()
        return result

    before = test()
    start = time.perf_counter()
    train(model, errors, steps)
    after = test()
    print(f"{steps} outer steps in {time.perf_counter() - start:.1f} s")
    print(f"error after {arguments.inner_steps} steps on a new task: {before:.3f} -> {after:.3f}")
    if after * goal > before:
        print(f"maml: expected {goal} times less error; give it more --steps", file=sys.stderr)
        return 1
    print(f"learned to learn: {before / after:.1f} times less error from the same steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
