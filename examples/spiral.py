"""Teach a small network to tell the three arms of a spiral apart, and draw what it learned.

Everything is written out with tensors: the data, the network, the loss and the Adam update. The
only machinery is the tape, which turns the recorded forward pass into gradients.

    python examples/spiral.py
    python examples/spiral.py --steps 500 --seed 7
"""

import argparse
import importlib
import itertools
import math
import sys
import time

ARMS = 3
POINTS_PER_ARM = 1000
HIDDEN = 64
GOAL = 0.97
MARKS = ".o#"
PICTURE_COLUMNS, PICTURE_ROWS = 37, 19


def make_spiral(torch, generator):
    """Return points of shape (N, 2) and the number of the arm that each belongs to."""
    points, labels = [], []
    for arm in range(ARMS):
        radius = torch.linspace(0.05, 1.0, POINTS_PER_ARM)
        noise = torch.randn(POINTS_PER_ARM, generator=generator) * 0.25
        angle = radius * 3 * math.pi + 2 * math.pi * arm / ARMS + noise
        points.append(torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], dim=1))
        labels.append(torch.full((POINTS_PER_ARM,), arm))
    return torch.cat(points), torch.cat(labels)


def make_parameters(torch, generator):
    """Return weights and biases of three layers, scaled to keep the variance of activations."""
    sizes = [2, HIDDEN, HIDDEN, ARMS]
    parameters = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        weight = torch.randn(fan_in, fan_out, generator=generator) * math.sqrt(2 / fan_in)
        parameters += [weight.requires_grad_(), torch.zeros(fan_out).requires_grad_()]
    return parameters


def scores(torch, parameters, points):
    """Return one score for each point and arm."""
    w1, b1, w2, b2, w3, b3 = parameters
    hidden = torch.relu(points @ w1 + b1)
    hidden = torch.relu(hidden @ w2 + b2)
    return hidden @ w3 + b3


def cross_entropy(torch, scores_of_points, labels):
    """Return the mean negative log-probability of the right arm."""
    log_probability = torch.log_softmax(scores_of_points, dim=1)
    return -log_probability.gather(1, labels.unsqueeze(1)).mean()


class Adam:
    """Adam with bias correction, written as in-place updates outside the tape."""

    def __init__(self, torch, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.torch, self.parameters = torch, parameters
        self.lr, self.betas, self.eps = lr, betas, eps
        self.means = [torch.zeros_like(p) for p in parameters]
        self.squares = [torch.zeros_like(p) for p in parameters]
        self.count = 0

    def step(self):
        """Move every parameter against its gradient, then forget the gradient."""
        self.count += 1
        first, second = self.betas
        rate = self.lr * math.sqrt(1 - second**self.count) / (1 - first**self.count)
        with self.torch.no_grad():
            for p, mean, square in zip(self.parameters, self.means, self.squares, strict=True):
                mean.mul_(first).add_(p.grad * (1 - first))
                square.mul_(second).add_(p.grad * p.grad * (1 - second))
                p.sub_(mean / (square.sqrt() + self.eps) * rate)
                p.grad = None


def accuracy(torch, parameters, points, labels):
    """Return the share of points whose arm has the highest score."""
    with torch.no_grad():
        guesses = scores(torch, parameters, points).argmax(dim=1)
        return (guesses == labels).float().mean().item()


def draw_regions(torch, parameters):
    """Return the lines of a picture of the plane, marked by the arm the network sees there."""
    x = torch.linspace(-1.1, 1.1, PICTURE_COLUMNS)
    y = torch.linspace(1.1, -1.1, PICTURE_ROWS)
    rows, columns = torch.meshgrid(y, x, indexing="ij")
    plane = torch.stack([columns.reshape(-1), rows.reshape(-1)], dim=1)
    with torch.no_grad():
        arms = scores(torch, parameters, plane).argmax(dim=1)
    lines = arms.reshape(PICTURE_ROWS, PICTURE_COLUMNS).tolist()
    return ["".join(MARKS[arm] for arm in line) for line in lines]


def train(torch, parameters, points, labels, steps):
    """Take gradient steps and show one line of progress that rewrites itself."""
    optimizer = Adam(torch, parameters)
    live = sys.stdout.isatty()
    every = max(1, steps // (100 if live else 10))
    for step in range(1, steps + 1):
        loss = cross_entropy(torch, scores(torch, parameters, points), labels)
        loss.backward()
        optimizer.step()
        if step % every == 0 or step == steps:
            share = accuracy(torch, parameters, points, labels)
            line = f"step {step:5d}/{steps}   loss {loss.item():.4f}   accuracy {share:.3f}"
            print(f"\r{line}" if live else line, end="" if live else "\n", flush=True)
    if live:
        print()


def read_arguments():
    """Return the command-line options."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=3000, help="gradient steps (default 3000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of data and weights (default 0)")
    parser.add_argument(
        "--library",
        choices=["tapegrad", "torch"],
        default="tapegrad",
        help="which library runs the program: it is the same for both",
    )
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps: expected at least 1, got {arguments.steps}")
    return arguments


def main():
    """Train, show the result, and return 0 if the network learned the spiral."""
    arguments = read_arguments()
    torch = importlib.import_module(arguments.library)
    generator = torch.Generator().manual_seed(arguments.seed)
    points, labels = make_spiral(torch, generator)
    parameters = make_parameters(torch, generator)
    before = draw_regions(torch, parameters)

    print(f"{len(labels)} points on {ARMS} arms, {sum(p.numel() for p in parameters)} parameters")
    start = time.perf_counter()
    train(torch, parameters, points, labels, arguments.steps)
    seconds = time.perf_counter() - start

    print(f"\n{'before training':<{PICTURE_COLUMNS}}   after training")
    for left, right in zip(before, draw_regions(torch, parameters), strict=True):
        print(f"{left}   {right}")
    share = accuracy(torch, parameters, points, labels)
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
