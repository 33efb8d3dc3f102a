"""Learn to learn: find weights from which a few gradient steps fit any sine wave.

Each task is a sine of its own height and phase, seen through ten points. The inner loop takes a few
steps on one task; the outer loop moves the *starting* weights so that those steps end well. So the
outer gradient goes through the inner loop, gradients and all: the inner steps are recorded with
`create_graph=True` and are ordinary tensors afterwards.

    python examples/meta_learning.py
    python examples/meta_learning.py --steps 1000 --inner-steps 3
"""

import argparse
import importlib
import itertools
import math
import sys
import time

HIDDEN = 40
POINTS = 10
TASKS = 8
INNER_RATE = 0.02
GAIN = 3.0


def make_weights(torch):
    """Return the weights and biases of a network from a number to a number."""
    sizes = [1, HIDDEN, HIDDEN, 1]
    weights = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        weights += [torch.randn(fan_in, fan_out) / math.sqrt(fan_in), torch.zeros(fan_out)]
    return [weight.requires_grad_() for weight in weights]


def predict(torch, weights, x):
    """Return the network's value at each point."""
    w1, b1, w2, b2, w3, b3 = weights
    return torch.tanh(torch.tanh(x @ w1 + b1) @ w2 + b2) @ w3 + b3


def loss_of(torch, weights, batch):
    """Return the mean squared error on a batch of points."""
    x, y = batch
    return ((predict(torch, weights, x) - y) ** 2).mean()


class Sine:
    """A task: a sine wave of random height and phase."""

    def __init__(self, torch):
        self.torch = torch
        self.height = 0.5 + 2 * torch.rand(()).item()
        self.phase = math.pi * torch.rand(()).item()

    def draw(self):
        """Return some points of the wave."""
        x = self.torch.rand(POINTS, 1) * 10 - 5
        return x, self.height * self.torch.sin(x + self.phase)


def adapt(torch, weights, batch, steps, *, record):
    """Return the weights after a few gradient steps on a batch, as functions of the weights."""
    for _ in range(steps):
        loss = loss_of(torch, weights, batch)
        grads = torch.autograd.grad(loss, weights, create_graph=record)
        pairs = zip(weights, grads, strict=True)
        weights = [weight - INNER_RATE * grad for weight, grad in pairs]
        if not record:
            weights = [weight.detach().requires_grad_() for weight in weights]
    return weights


def error_after_adapting(torch, weights, steps, tasks=100):
    """Return the mean error on new points of new tasks, after adapting to ten points of each."""
    total = 0.0
    for _ in range(tasks):
        task = Sine(torch)
        adapted = adapt(torch, weights, task.draw(), steps, record=False)
        total += loss_of(torch, adapted, task.draw()).item()
    return total / tasks


def meta_step(torch, weights, state, count, inner_steps, lr=3e-3):
    """Take one Adam step on the error after adapting, over a few tasks; return that error."""
    total = 0.0
    for _ in range(TASKS):
        task = Sine(torch)
        adapted = adapt(torch, weights, task.draw(), inner_steps, record=True)
        loss = loss_of(torch, adapted, task.draw()) / TASKS
        loss.backward()
        total += loss.item()
    with torch.no_grad():
        for weight, (mean, square) in zip(weights, state, strict=True):
            mean.mul_(0.9).add_(weight.grad * 0.1)
            square.mul_(0.999).add_(weight.grad * weight.grad * 0.001)
            rate = lr * math.sqrt(1 - 0.999**count) / (1 - 0.9**count)
            weight.sub_(rate * mean / (square.sqrt() + 1e-8))
            weight.grad = None
    return total


def read_arguments():
    """Return the command-line options."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=400, help="outer steps (default 400)")
    parser.add_argument("--inner-steps", type=int, default=3, help="inner steps (default 3)")
    parser.add_argument("--library", choices=["tapegrad", "torch"], default="tapegrad")
    arguments = parser.parse_args()
    if arguments.steps < 1 or arguments.inner_steps < 1:
        parser.error("expected at least one step, outer and inner")
    return arguments


def main():
    """Train, and return 0 if adapting became much better than from random weights."""
    arguments = read_arguments()
    torch = importlib.import_module(arguments.library)
    torch.manual_seed(0)
    weights = make_weights(torch)
    state = [(torch.zeros_like(w), torch.zeros_like(w)) for w in weights]
    before = error_after_adapting(torch, weights, arguments.inner_steps)
    start, every = time.perf_counter(), max(1, arguments.steps // 8)
    recent = []
    for step in range(1, arguments.steps + 1):
        recent.append(meta_step(torch, weights, state, step, arguments.inner_steps))
        if step % every == 0:
            print(f"step {step:4d}   error after adapting {sum(recent) / len(recent):.3f}")
            recent = []
    after = error_after_adapting(torch, weights, arguments.inner_steps)
    print(f"{arguments.steps} outer steps in {time.perf_counter() - start:.1f} s")
    print(f"error after {arguments.inner_steps} steps on a new task: {before:.3f} -> {after:.3f}")
    if after * GAIN > before:
        print(f"expected {GAIN:.0f} times less; give it more --steps", file=sys.stderr)
        return 1
    print(f"learned to learn: {before / after:.1f} times less error from the same steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
