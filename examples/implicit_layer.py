"""A layer without depth: its output is the fixed point of an equation, and so is its gradient.

The layer returns the z with z = tanh(z W + d). Finding z takes many iterations; recording them
would keep every one of them alive. The implicit function theorem needs none of them: at the fixed
point, the gradient u by z solves u = g + J^T u, a linear equation in which J is the derivative of a
single step. `FixedPoint` finds z without recording and solves that equation in its backward.

    python examples/implicit_layer.py
    python examples/implicit_layer.py --width 64
"""

import argparse
import math
import sys
from collections.abc import Callable
from typing import Any

import tapegrad as torch
from tapegrad import Tensor

CLOSE = 1e-13
MOST_ITERATIONS = 500
UNROLLED = 200
TARGET_RADIUS = 0.9


def step_of(z: Tensor, weight: Tensor, drive: Tensor) -> Tensor:
    """Return one step of the iteration."""
    return torch.tanh(z @ weight + drive)


def iterate(step: Callable[..., Any], start: Tensor) -> tuple[Tensor, int]:
    """Return where repeating a step leads, and how many steps it took."""
    here = start
    for count in range(1, MOST_ITERATIONS + 1):
        there = step(here)
        if (there - here).abs().max().item() < CLOSE:
            return there, count
        here = there
    raise RuntimeError(f"iterate: no fixed point within {MOST_ITERATIONS} iterations")


def make_fixed_point() -> type[torch.autograd.Function]:
    """Return the layer as an autograd function of a library."""

    class FixedPoint(torch.autograd.Function):
        """The z with z = tanh(z weight + drive)."""

        @staticmethod
        def forward(ctx: Any, weight: Tensor, drive: Tensor) -> Tensor:
            z, _ = iterate(lambda z: step_of(z, weight, drive), torch.zeros_like(drive))
            ctx.save_for_backward(weight, drive, z)
            return z

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
            with torch.enable_grad():
                weight, drive, z = (t.detach().requires_grad_() for t in ctx.saved_tensors)
                after = step_of(z, weight, drive)  # One step, recorded, at the fixed point.

            def pull_back(u: Tensor) -> Tensor:
                result: Tensor = grad + torch.autograd.grad(after, z, u, retain_graph=True)[0]
                return result

            u, _ = iterate(pull_back, grad)
            result: tuple[Tensor, Tensor] = torch.autograd.grad(after, (weight, drive), u)
            return result

    return FixedPoint


def unrolled(weight: Tensor, drive: Tensor) -> Tensor:
    """Return the same layer by recording every iteration."""
    z = torch.zeros_like(drive)
    for _ in range(UNROLLED):
        z = step_of(z, weight, drive)
    return z


def make_problem(width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return a weight that contracts, and inputs and targets to learn from."""
    weight = torch.randn(width, width, dtype=torch.float64) * (0.35 / math.sqrt(width))
    drive = torch.randn(16, width, dtype=torch.float64)
    turn = torch.randn(width, width, dtype=torch.float64) * (0.7 / math.sqrt(width))
    return weight.requires_grad_(), drive, torch.tanh(drive @ turn) * 0.5 + drive * 0.2


def compare_gradients(layer: type[torch.autograd.Function], weight: Tensor, drive: Tensor) -> float:
    """Return the largest difference between implicit and recorded gradients."""
    drive = drive.clone().requires_grad_()
    found = []
    for function in (layer.apply, lambda w, d: unrolled(w, d)):
        loss = (function(weight, drive) ** 3).sum()
        found.append(torch.autograd.grad(loss, (weight, drive)))
    result: float = max((a - b).abs().max().item() for a, b in zip(*found, strict=True))
    return result


def keep_contracting(weight: Tensor) -> None:
    """Shrink the weight where its steps could stop leading to a fixed point."""
    with torch.no_grad():
        norm = weight.norm().item()
        if norm > TARGET_RADIUS:
            weight.mul_(TARGET_RADIUS / norm)


def train(
    layer: type[torch.autograd.Function], problem: tuple[Tensor, Tensor, Tensor], steps: int
) -> tuple[float, float]:
    """Fit the targets by gradient descent through the fixed point; return first and last loss."""
    weight, drive, target = problem
    read_out = torch.eye(weight.shape[0], dtype=torch.float64).requires_grad_()
    losses = []
    for step in range(steps):
        loss = ((layer.apply(weight, drive) @ read_out - target) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            for parameter in (weight, read_out):
                assert parameter.grad is not None
                parameter.sub_(1.5 * parameter.grad)
                parameter.grad = None
        keep_contracting(weight)
        losses.append(loss.item())
        if step % max(1, steps // 6) == 0:
            print(f"step {step:4d}   loss {losses[-1]:.5f}")
    return losses[0], losses[-1]


def read_arguments() -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--width", type=int, default=16, help="size of the layer (default 16)")
    parser.add_argument("--steps", type=int, default=300, help="training steps (default 300)")
    arguments = parser.parse_args()
    if arguments.width < 1 or arguments.steps < 1:
        parser.error("expected a width and a number of steps of at least 1")
    return arguments


def main() -> int:
    """Compare gradients, train, and return 0 if both worked."""
    arguments = read_arguments()
    torch.manual_seed(0)
    layer = make_fixed_point()
    problem = make_problem(arguments.width)
    apart = compare_gradients(layer, *problem[:2])
    print(f"implicit gradient against {UNROLLED} recorded iterations: {apart:.1e} apart")
    first, last = train(layer, problem, arguments.steps)
    print(f"loss {first:.4f} -> {last:.4f} through a layer that records no iteration")
    if apart > 1e-9 or last > first / 5:
        print("expected equal gradients and a fifth of the loss", file=sys.stderr)
        return 1
    print("the implicit layer learns")
    return 0


if __name__ == "__main__":
    sys.exit(main())
