"""One gradient for each sample of a batch, in one call: `vmap(grad(loss))`.

A backward over a batch gives the sum of the samples' gradients. Private training, for one, needs
them apart, to clip the largest before they are summed. `grad` turns a loss into the function that
computes its gradient; `vmap` runs that function for all samples at once. The loop over samples that
it replaces runs beside it, for the same numbers and the time it takes.

    python examples/per_sample_gradients.py
    python examples/per_sample_gradients.py --batch 512
"""

import argparse
import itertools
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import tapegrad as torch
from tapegrad import Tensor

FEATURES, HIDDEN, CLASSES = 20, 32, 5
CLIP = 1.0


def make_weights() -> tuple[Tensor, ...]:
    """Return the weights and biases of a network with one hidden layer."""
    sizes = [FEATURES, HIDDEN, CLASSES]
    weights = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        weight = torch.randn(fan_in, fan_out, dtype=torch.float64) / math.sqrt(fan_in)
        weights += [weight, torch.zeros(fan_out, dtype=torch.float64)]
    return tuple(weights)


def make_loss() -> Callable[..., Any]:
    """Return the loss of one sample: no batch dimension anywhere."""

    def loss(weights: Sequence[Tensor], x: Tensor, wanted: Tensor) -> Tensor:
        w1, b1, w2, b2 = weights
        scores = torch.tanh(x @ w1 + b1) @ w2 + b2
        return -(torch.log_softmax(scores, dim=0) * wanted).sum()

    return loss


def all_at_once(
    loss: Callable[..., Any],
    weights: tuple[Tensor, ...],
    samples: Tensor,
    wanted: Tensor,
) -> tuple[Tensor, ...]:
    """Return the gradients by each weight, with a first dimension for the samples."""
    gradient = torch.func.grad(loss)
    result: tuple[Tensor, ...] = torch.func.vmap(gradient, in_dims=(None, 0, 0))(
        weights, samples, wanted
    )
    return result


def one_by_one(
    loss: Callable[..., Any],
    weights: tuple[Tensor, ...],
    samples: Tensor,
    wanted: Tensor,
) -> tuple[Tensor, ...]:
    """Return the same from one backward for each sample."""
    leaves = [weight.detach().requires_grad_() for weight in weights]
    rows = []
    for index in range(len(samples)):
        value = loss(leaves, samples[index], wanted[index])
        rows.append(torch.autograd.grad(value, leaves))
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


def norms_of(grads: tuple[Tensor, ...]) -> Tensor:
    """Return the length of each sample's gradient, over all weights together."""
    return torch.stack([(g * g).flatten(1).sum(1) for g in grads]).sum(0).sqrt()


def clipped_mean(grads: tuple[Tensor, ...], norms: Tensor) -> list[Tensor]:
    """Return the mean gradient after shortening the longest."""
    scale = (CLIP / norms).clamp(max=1.0)
    return [(g * scale.view(-1, *[1] * (g.dim() - 1))).mean(0) for g in grads]


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[tuple[Tensor, ...], float]:
    """Return what a function returns, and the seconds that it took."""
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


def read_arguments() -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--batch", type=int, default=256, help="samples (default 256)")
    arguments = parser.parse_args()
    if arguments.batch < 1:
        parser.error(f"--batch: expected at least 1, got {arguments.batch}")
    return arguments


def main() -> int:
    """Compute the gradients both ways, and return 0 if they agree."""
    arguments = read_arguments()
    torch.manual_seed(0)
    weights, loss = make_weights(), make_loss()
    samples = torch.randn(arguments.batch, FEATURES, dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (arguments.batch,))
    wanted = torch.eye(CLASSES, dtype=torch.float64)[labels]

    inputs = (loss, weights, samples, wanted)
    all_at_once(*inputs)  # Once unmeasured, so that both are measured warm.
    grads, seconds = timed(all_at_once, *inputs)
    looped, loop_seconds = timed(one_by_one, *inputs)
    apart = max((a - b).abs().max().item() for a, b in zip(grads, looped, strict=True))
    norms = norms_of(grads)
    length = math.sqrt(sum((g * g).sum().item() for g in clipped_mean(grads, norms)))

    print(f"gradients of {arguments.batch} samples: {[tuple(g.shape) for g in grads]}")
    print(f"vmap(grad) {seconds * 1e3:.1f} ms, a loop {loop_seconds * 1e3:.1f} ms")
    low, high = norms.min().item(), norms.max().item()
    print(f"lengths from {low:.2f} to {high:.2f}; clipped at {CLIP}, their mean has {length:.2f}")
    if apart > 1e-12 or length > CLIP:
        print(f"expected equal gradients, got {apart:.1e} apart", file=sys.stderr)
        return 1
    print(f"the same as one by one to {apart:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
