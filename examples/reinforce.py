"""Balance a pole on a cart by REINFORCE: learn from rewards alone, without a model of the cart.

A network looks at the cart and gives the odds of pushing left or right; the push is drawn from
them. After each round, pushes that were followed by more balanced steps than usual at that point
are made more likely, by the gradient of the logarithm of their odds. The cart is in this file: the
equations of motion of a cart with a pole, 50 steps a second, 32 carts at once.

    python examples/reinforce.py
    python examples/reinforce.py --rounds 200 --seed 3
"""

import argparse
import math
import sys
import time

import tapegrad as torch
from tapegrad import Tensor, nn

CARTS, LIMIT, HIDDEN = 32, 200, 32
GRAVITY, CART, POLE, HALF_LENGTH, PUSH, TICK = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
FAR, TILTED = 2.4, 12 * math.pi / 180
DISCOUNT = 0.99
GOAL, SHORT_GOAL = 190.0, 50.0


def move(state: Tensor, right: Tensor) -> Tensor:
    """Return the state of all carts one tick later. A state is place, speed, angle, its speed."""
    place, speed, angle, turn = state.unbind(1)
    force = torch.where(right, PUSH, -PUSH)
    sin, cos = angle.sin(), angle.cos()
    mass = CART + POLE
    pulled = (force + POLE * HALF_LENGTH * turn**2 * sin) / mass
    twist = (GRAVITY * sin - cos * pulled) / (HALF_LENGTH * (4 / 3 - POLE * cos**2 / mass))
    push = pulled - POLE * HALF_LENGTH * twist * cos / mass
    return torch.stack(
        [place + TICK * speed, speed + TICK * push, angle + TICK * turn, turn + TICK * twist], 1
    )


def play(model: nn.Sequential) -> tuple[Tensor, Tensor]:
    """Balance until every pole fell; return log odds of the pushes and who was up, step by step."""
    state = torch.rand(CARTS, 4) * 0.1 - 0.05
    up = torch.ones(CARTS, dtype=torch.bool)
    log_odds, alive = [], []
    for _ in range(LIMIT):
        scores = torch.nn.functional.log_softmax(model(state), 1)
        with torch.no_grad():
            right = torch.rand(CARTS) < scores[:, 1].exp()
        log_odds.append(scores.gather(1, right.long().unsqueeze(1)).squeeze(1))
        alive.append(up)
        with torch.no_grad():
            state = move(state, right)
            up = up & (state[:, 0].abs() < FAR) & (state[:, 2].abs() < TILTED)
        if not up.any():
            break
    return torch.stack(log_odds), torch.stack(alive).float()


def advantages(alive: Tensor) -> Tensor:
    """Return the discounted number of steps to come, compared with the other carts at that step."""
    to_come, later = [], torch.zeros(CARTS)
    for row in reversed(alive.unbind(0)):
        later = row * (1 + DISCOUNT * later)
        to_come.append(later)
    returns = torch.stack(to_come[::-1])
    count = alive.sum(1, keepdim=True).clamp(min=1)
    mean = (returns * alive).sum(1, keepdim=True) / count
    centred = (returns - mean) * alive
    return centred / (centred.square().sum() / alive.sum() + 1e-8).sqrt()


def train(model: nn.Sequential, rounds: int) -> float:
    """Play rounds and learn from each; return the mean number of balanced steps of the last ten."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    live, every = sys.stdout.isatty(), max(1, rounds // 10)
    recent: list[float] = []
    for number in range(1, rounds + 1):
        log_odds, alive = play(model)
        loss = -(log_odds * advantages(alive)).sum() / alive.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        recent = [*recent, alive.sum(0).mean().item()][-10:]
        if live or number % every == 0:
            mean = sum(recent) / len(recent)
            line = f"round {number:4d}/{rounds}   balanced for {mean:5.1f} steps of {LIMIT}"
            print(f"\r{line}" if live else line, end="" if live else "\n", flush=True)
    if live:
        print()
    return sum(recent) / len(recent)


def read_arguments() -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=100, help="rounds of 32 carts (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="seed of carts and weights (default 0)")
    parser.add_argument("--short", action="store_true", help="few rounds, and a lower goal")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds: expected at least 1, got {arguments.rounds}")
    return arguments


def main() -> int:
    """Train, and return 0 if poles stay up."""
    arguments = read_arguments()
    torch.manual_seed(arguments.seed)
    rounds, goal = (30, SHORT_GOAL) if arguments.short else (arguments.rounds, GOAL)
    model = nn.Sequential(nn.Linear(4, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 2))
    start = time.perf_counter()
    mean = train(model, rounds)
    print(f"{rounds * CARTS} poles in {time.perf_counter() - start:.1f} s")
    if mean < goal:
        print(f"reinforce: expected a mean return of {goal}, got {mean:.1f}", file=sys.stderr)
        return 1
    print(f"mean return of the last ten rounds: {mean:.1f} balanced steps of {LIMIT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
