"""Measure how far apart two clouds of points are, by training a critic with a gradient penalty.

The Wasserstein distance between two distributions is the largest difference in the mean of f that a
function f can show whose slope is nowhere more than 1. A network stands for f; a penalty on the
norm of its gradient by its *input* keeps the slope near 1, and what is left over 1 is divided out.
Training needs the gradient of that gradient: `create_graph=True` in the first sweep, and an
ordinary backward through it.

The second cloud is the first one moved, so the true distance is known: the length of the move.

    python examples/gradient_penalty.py
    python examples/gradient_penalty.py --distance 3
"""

import argparse
import importlib
import itertools
import math
import sys

HIDDEN = 32
BATCH = 256
PENALTY = 10.0
ALLOWED = 0.05


def make_critic(torch):
    """Return the weights and biases of a network from the plane to a number."""
    sizes = [2, HIDDEN, HIDDEN, 1]
    parameters = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        weight = torch.randn(fan_in, fan_out) * math.sqrt(1.5 / fan_in)
        parameters += [weight.requires_grad_(), torch.zeros(fan_out).requires_grad_()]
    return parameters


def critic(torch, parameters, points):
    """Return one score for each point."""
    w1, b1, w2, b2, w3, b3 = parameters
    hidden = torch.nn.functional.softplus(points @ w1 + b1)
    hidden = torch.nn.functional.softplus(hidden @ w2 + b2)
    return (hidden @ w3 + b3).squeeze(1)


def slopes(torch, parameters, points):
    """Return the norm of the critic's gradient at each point, recorded."""
    points = points.detach().requires_grad_()
    scores = critic(torch, parameters, points)
    (gradient,) = torch.autograd.grad(scores.sum(), points, create_graph=True)
    return ((gradient * gradient).sum(dim=1) + 1e-12).sqrt()


def draw(torch, move):
    """Return a batch of each cloud."""
    return torch.randn(BATCH, 2), torch.randn(BATCH, 2) + move


def loss_of(torch, parameters, here, there):
    """Return what the critic minimises, and the distance that it sees at slope 1."""
    seen = critic(torch, parameters, there).mean() - critic(torch, parameters, here).mean()
    mix = torch.rand(BATCH, 1)
    norms = slopes(torch, parameters, mix * here + (1 - mix) * there)
    distance = (seen / norms.mean()).item()
    return PENALTY * ((norms - 1) ** 2).mean() - seen, distance


def adam_step(torch, parameters, state, count, lr=3e-3, betas=(0.5, 0.9)):
    """Move every parameter against its gradient, then forget the gradient."""
    with torch.no_grad():
        for parameter, (mean, square) in zip(parameters, state, strict=True):
            grad = parameter.grad
            mean.mul_(betas[0]).add_(grad * (1 - betas[0]))
            square.mul_(betas[1]).add_(grad * grad * (1 - betas[1]))
            rate = lr * math.sqrt(1 - betas[1] ** count) / (1 - betas[0] ** count)
            parameter.sub_(rate * mean / (square.sqrt() + 1e-8))
            parameter.grad = None


def read_arguments():
    """Return the command-line options."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--distance", type=float, default=2.0, help="length of the move")
    parser.add_argument("--steps", type=int, default=600, help="training steps (default 600)")
    parser.add_argument("--library", choices=["tapegrad", "torch"], default="tapegrad")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps: expected at least 1, got {arguments.steps}")
    return arguments


def main():
    """Train the critic, and return 0 if it measures the distance."""
    arguments = read_arguments()
    torch = importlib.import_module(arguments.library)
    torch.manual_seed(0)
    move = torch.tensor([0.6, 0.8]) * arguments.distance
    parameters = make_critic(torch)
    state = [(torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]
    recent, window = [], max(1, arguments.steps // 6)
    for step in range(1, arguments.steps + 1):
        loss, distance = loss_of(torch, parameters, *draw(torch, move))
        loss.backward()
        adam_step(torch, parameters, state, step)
        recent = [*recent, distance][-window:]
        if step % window == 0:
            slope = slopes(torch, parameters, draw(torch, move)[0]).mean().item()
            measured = sum(recent) / len(recent)
            print(f"step {step:4d}   distance {measured:6.3f}   mean slope {slope:.3f}")
    measured = sum(recent) / len(recent)
    wrong = abs(measured - arguments.distance) / arguments.distance
    print(f"measured {measured:.3f}, true distance {arguments.distance:.3f}")
    if wrong > ALLOWED:
        print(f"expected to be within {ALLOWED:.0%}, got {wrong:.0%}", file=sys.stderr)
        return 1
    print(f"the critic measures the distance to {wrong:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
