"""Teach a small network to tell the three arms of a spiral apart, and draw what it learned.

Everything is written out with tensors: the data, the network, the loss and the Adam update. The
only machinery is the tape, which turns the recorded forward pass into gradients.

    python examples/spiral.py
    python examples/spiral.py --steps 500 --seed 7
"""

import argparse
import itertools
import math
import sys
import time

import tapegrad as torch
from tapegrad import Tensor

ARMS = 3
POINTS_PER_ARM = 1000
HIDDEN = 64
GOAL = 0.97
MARKS = ".o#"
PICTURE_COLUMNS, PICTURE_ROWS = 37, 19


def make_spiral(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return points of shape (N, 2) and the number of the arm that each belongs to."""
    points, labels = [], []
    for arm in range(ARMS):
        radius = torch.linspace(0.05, 1.0, POINTS_PER_ARM)
        noise = torch.randn(POINTS_PER_ARM, generator=generator) * 0.25
        angle = radius * 3 * math.pi + 2 * math.pi * arm / ARMS + noise
        points.append(torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], dim=1))
        labels.append(torch.full((POINTS_PER_ARM,), arm))
    return torch.cat(points), torch.cat(labels)


def make_parameters(generator: torch.Generator) -> list[Tensor]:
    """Return weights and biases of three layers, scaled to keep the variance of activations."""
    sizes = [2, HIDDEN, HIDDEN, ARMS]
    parameters = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        weight = torch.randn(fan_in, fan_out, generator=generator) * math.sqrt(2 / fan_in)
        parameters += [weight.requires_grad_(), torch.zeros(fan_out).requires_grad_()]
    return parameters


def scores(parameters: list[Tensor], points: Tensor) -> Tensor:
    """Return one score for each point and arm."""
    w1, b1, w2, b2, w3, b3 = parameters
    hidden = torch.relu(points @ w1 + b1)
    hidden = torch.relu(hidden @ w2 + b2)
    return hidden @ w3 + b3


def cross_entropy(scores_of_points: Tensor, labels: Tensor) -> Tensor:
    """Return the mean negative log-probability of the right arm."""
    log_probability = torch.log_softmax(scores_of_points, dim=1)
    return -log_probability.gather(1, labels.unsqueeze(1)).mean()


class Adam:
    """Adam with bias correction, written as in-place updates outside the tape."""

    def __init__(
        self,
        parameters: list[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.parameters = parameters
        self.lr, self.betas, self.eps = lr, betas, eps
        self.means = [torch.zeros_like(p) for p in parameters]
        self.squares = [torch.zeros_like(p) for p in parameters]
        self.count = 0

    def step(self) -> None:
        """Move every parameter against its gradient, then forget the gradient."""
        self.count += 1
        first, second = self.betas
        rate = self.lr * math.sqrt(1 - second**self.count) / (1 - first**self.count)
        with torch.no_grad():
            for p, mean, square in zip(self.parameters, self.means, self.squares, strict=True):
                assert p.grad is not None
                mean.mul_(first).add_(p.grad * (1 - first))
                square.mul_(second).add_(p.grad * p.grad * (1 - second))
                p.sub_(mean / (square.sqrt() + self.eps) * rate)
                p.grad = None


def accuracy(parameters: list[Tensor], points: Tensor, labels: Tensor) -> float:
    """Return the share of points whose arm has the highest score."""
    with torch.no_grad():
        guesses = scores(parameters, points).argmax(dim=1)
        return (guesses == labels).float().mean().item()


def draw_regions(parameters: list[Tensor]) -> list[str]:
    """Return the lines of a picture of the plane, marked by the arm the network sees there."""
    x = torch.linspace(-1.1, 1.1, PICTURE_COLUMNS)
    y = torch.linspace(1.1, -1.1, PICTURE_ROWS)
    rows, columns = torch.meshgrid(y, x, indexing="ij")
    plane = torch.stack([columns.reshape(-1), rows.reshape(-1)], dim=1)
    with torch.no_grad():
        arms = scores(parameters, plane).argmax(dim=1)
    lines = arms.reshape(PICTURE_ROWS, PICTURE_COLUMNS).tolist()
    return ["".join(MARKS[arm] for arm in line) for line in lines]


def train(parameters: list[Tensor], points: Tensor, labels: Tensor, steps: int) -> None:
    """Take gradient steps and show one line of progress that rewrites itself."""
    optimizer = Adam(parameters)
    live = sys.stdout.isatty()
    every = max(1, steps // (100 if live else 10))
    for step in range(1, steps + 1):
        loss = cross_entropy(scores(parameters, points), labels)
        loss.backward()
        optimizer.step()
        if step % every == 0 or step == steps:
            share = accuracy(parameters, points, labels)
            line = f"step {step:5d}/{steps}   loss {loss.item():.4f}   accuracy {share:.3f}"
            print(f"\r{line}" if live else line, end="" if live else "\n", flush=True)
    if live:
        print()


def read_arguments() -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=3000, help="gradient steps (default 3000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of data and weights (default 0)")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps: expected at least 1, got {arguments.steps}")
    return arguments


def main() -> int:
    """Train, show the result, and return 0 if the network learned the spiral."""
    arguments = read_arguments()
    generator = torch.Generator().manual_seed(arguments.seed)
    points, labels = make_spiral(generator)
    parameters = make_parameters(generator)
    before = draw_regions(parameters)

    print(f"{len(labels)} points on {ARMS} arms, {sum(p.numel() for p in parameters)} parameters")
    start = time.perf_counter()
    train(parameters, points, labels, arguments.steps)
    seconds = time.perf_counter() - start

    print(f"\n{'before training':<{PICTURE_COLUMNS}}   after training")
    for left, right in zip(before, draw_regions(parameters), strict=True):
        print(f"{left}   {right}")
    share = accuracy(parameters, points, labels)
    print(f"\naccuracy {share:.3f} after {arguments.steps} steps in {seconds:.1f} s")
    if share < GOAL:
        print(
            f"spiral: expected an accuracy of at least {GOAL}, got {share:.3f}; "
            "give it more --steps",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
