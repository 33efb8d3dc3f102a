"""Learn to draw points of eight clusters from noise: a Wasserstein GAN with a gradient penalty.

A generator turns noise into points, a critic scores points, and its scores tell the two kinds
apart as far as a function can whose slope is nowhere much above 1. A penalty on the norm of the
critic's gradient by its *input* keeps the slope there, so training the critic takes the gradient
of a gradient: `create_graph=True` in the first sweep, an ordinary backward through it. The
generator climbs the critic's scores.

What goes wrong with other losses is that the generator draws from a few clusters only. Here it
must draw from all eight, and most of its points must be near one.

    python examples/gan_gradient_penalty.py
    python examples/gan_gradient_penalty.py --steps 4000 --seed 3
"""

import argparse
import math
import sys
import time

import tapegrad as torch
from tapegrad import Tensor, nn

MODES, RADIUS, SPREAD = 8, 2.0, 0.1
NOISE, HIDDEN, BATCH, CRITIC_STEPS, PENALTY = 4, 128, 128, 5, 0.1
NEAR = 5 * SPREAD
SHARE = 0.3 / MODES  # of the points that a cluster must get to be covered
GOAL, SHORT_GOAL = (8, 0.7), (6, 0.3)  # clusters covered, points near one
COLUMNS, ROWS = 50, 22


def centres() -> Tensor:
    """Return the middles of the clusters, on a circle."""
    angle = torch.arange(MODES, dtype=torch.float32) * (2 * math.pi / MODES)
    return RADIUS * torch.stack([angle.cos(), angle.sin()], 1)


def draw(count: int) -> Tensor:
    """Return points of the clusters."""
    which = torch.randint(0, MODES, (count,))
    return centres()[which] + SPREAD * torch.randn(count, 2)


def make_net(inputs: int, outputs: int) -> nn.Sequential:
    """Return a network with two hidden layers."""
    return nn.Sequential(
        nn.Linear(inputs, HIDDEN),
        nn.LeakyReLU(0.2),
        nn.Linear(HIDDEN, HIDDEN),
        nn.LeakyReLU(0.2),
        nn.Linear(HIDDEN, outputs),
    )


def penalty(critic: nn.Sequential, real: Tensor, made: Tensor) -> Tensor:
    """Return how far the critic's slope is from 1, on points between the two kinds."""
    mix = torch.rand(len(real), 1)
    points = (mix * real + (1 - mix) * made).requires_grad_()
    (slope,) = torch.autograd.grad(critic(points).sum(), points, create_graph=True)
    norm = (slope.square().sum(1) + 1e-12).sqrt()
    result: Tensor = (norm - 1).square().mean()
    return result


def train(generator: nn.Sequential, critic: nn.Sequential, steps: int) -> None:
    """Train the two in turn, and show the progress."""
    of_critic = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.9))
    rates = [
        torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, steps)
        for optimizer in (of_critic, of_generator)
    ]
    live, every = sys.stdout.isatty(), max(1, steps // 10)
    for step in range(1, steps + 1):
        apart = torch.zeros(())
        for _ in range(CRITIC_STEPS):
            real = draw(BATCH)
            with torch.no_grad():
                made = generator(torch.randn(BATCH, NOISE))
            apart = critic(real).mean() - critic(made).mean()
            of_critic.zero_grad()
            (PENALTY * penalty(critic, real, made) - apart).backward()
            of_critic.step()
        of_generator.zero_grad()
        (-critic(generator(torch.randn(BATCH, NOISE))).mean()).backward()
        of_generator.step()
        for rate in rates:
            rate.step()
        if step % every == 0:
            covered, near = judge(generator)
            line = (
                f"step {step:5d}/{steps}   distance {apart.item():6.3f}   "
                f"clusters {covered}/{MODES}   near one {near:.2f}"
            )
            print(f"\r{line}" if live else line, end="" if live else "\n", flush=True)
    if live:
        print()


def judge(generator: nn.Sequential, count: int = 2000) -> tuple[int, float]:
    """Return how many clusters get their share of points, and the share of points near one."""
    with torch.no_grad():
        points = generator(torch.randn(count, NOISE))
        distance, nearest = torch.cdist(points, centres()).min(1)
    is_near = distance < NEAR
    counts = [(is_near & (nearest == mode)).float().mean().item() for mode in range(MODES)]
    return sum(share > SHARE for share in counts), is_near.float().mean().item()


def picture(generator: nn.Sequential, count: int = 2000) -> list[str]:
    """Return the lines of a picture of the generator's points."""
    with torch.no_grad():
        points = generator(torch.randn(count, NOISE)).tolist()
    cells = [[0] * COLUMNS for _ in range(ROWS)]
    for x, y in points:
        column, row = int((x / 6 + 0.5) * COLUMNS), int((0.5 - y / 6) * ROWS)
        if 0 <= column < COLUMNS and 0 <= row < ROWS:
            cells[row][column] += 1
    return ["".join(" .:*#"[min(4, (n + 2) // 3)] for n in row) for row in cells]


def read_arguments() -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=1500, help="generator steps (default 1500)")
    parser.add_argument("--seed", type=int, default=0, help="seed of all that is drawn (default 0)")
    parser.add_argument("--short", action="store_true", help="few steps, and a lower goal")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps: expected at least 1, got {arguments.steps}")
    return arguments


def main() -> int:
    """Train, show the points, and return 0 if they cover the clusters."""
    arguments = read_arguments()
    torch.manual_seed(arguments.seed)
    steps, goal = (250, SHORT_GOAL) if arguments.short else (arguments.steps, GOAL)
    generator = make_net(NOISE, 2)
    critic = make_net(2, 1)
    start = time.perf_counter()
    train(generator, critic, steps)
    seconds = time.perf_counter() - start
    print("\n".join(picture(generator)))
    covered, near = judge(generator)
    print(f"{steps} steps in {seconds:.1f} s")
    if covered < goal[0] or near < goal[1]:
        print(
            f"gan_gradient_penalty: expected {goal[0]} clusters covered and {goal[1]:.0%} of "
            f"points near one, got {covered} and {near:.0%}; give it more --steps",
            file=sys.stderr,
        )
        return 1
    print(f"{covered} of {MODES} clusters covered, {near:.0%} of points near one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
