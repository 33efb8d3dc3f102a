"""Solve the heat equation with a network that is told the equation and no solution.

A rod of length 1 is warm in the middle and kept at 0 at both ends: u_t = k u_xx. The network is a
function of place and time. Its derivatives, which the equation asks for, come from the tape:
`create_graph=True` makes the first derivative a value like any other, to be differentiated again,
and the loss, built from both, once more by the weights.

The start and the ends are right by construction: u = sin(pi x) + t x (1 - x) N(x, t). What is left
is the equation, at random places and times. The exact solution, exp(-k pi^2 t) sin(pi x), is only
used at the end, to see how far off the network is.

    python examples/pinn.py
    python examples/pinn.py --steps 200 --conductivity 0.5
"""

import argparse
import math
import sys
import time

import tapegrad as torch
from tapegrad import Tensor, nn

HIDDEN, POINTS = 32, 512
GOAL, SHORT_GOAL = 1e-3, 2e-2


def make_model() -> nn.Module:
    """Return u(x, t), right at the start and at the ends whatever the weights are."""

    class Rod(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(
                nn.Linear(2, HIDDEN),
                nn.Tanh(),
                nn.Linear(HIDDEN, HIDDEN),
                nn.Tanh(),
                nn.Linear(HIDDEN, 1),
            )

        def forward(self, x: Tensor, t: Tensor) -> Tensor:
            inside = self.net(torch.stack([x, t], 1)).squeeze(1)
            result: Tensor = torch.sin(math.pi * x) + t * x * (1 - x) * inside
            return result

    return Rod().double()


def residual(model: nn.Module, x: Tensor, t: Tensor, conductivity: float) -> Tensor:
    """Return u_t - k u_xx, recorded."""
    x, t = x.detach().requires_grad_(), t.detach().requires_grad_()
    u = model(x, t)
    u_x, u_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    result: Tensor = u_t - conductivity * u_xx
    return result


def error_of(model: nn.Module, conductivity: float) -> float:
    """Return the root mean square distance from the exact solution, by the size of the latter."""
    axis = torch.linspace(0, 1, 101, dtype=torch.float64)
    x, t = (grid.flatten() for grid in torch.meshgrid(axis, axis, indexing="ij"))
    exact = torch.exp(-conductivity * math.pi**2 * t) * torch.sin(math.pi * x)
    with torch.no_grad():
        result: float = ((model(x, t) - exact).norm() / exact.norm()).item()
        return result


def train(model: nn.Module, steps: int, conductivity: float) -> None:
    """Take steps of L-BFGS, each on new points, and show the progress."""
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=20, history_size=50, line_search_fn="strong_wolfe"
    )
    live, every = sys.stdout.isatty(), max(1, steps // 10)
    for step in range(1, steps + 1):
        x, t = torch.rand(2, POINTS, dtype=torch.float64).unbind(0)

        def closure(x: Tensor = x, t: Tensor = t) -> Tensor:
            optimizer.zero_grad()
            loss = residual(model, x, t, conductivity).square().mean()
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        if live or step % every == 0:
            error = error_of(model, conductivity)
            line = f"step {step:4d}/{steps}   residual {loss.item() ** 0.5:.1e}   error {error:.1e}"
            print(f"\r{line}" if live else line, end="" if live else "\n", flush=True)
    if live:
        print()


def read_arguments() -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=30, help="steps of 20 iterations (default 30)")
    parser.add_argument("--conductivity", type=float, default=0.2, help="k (default 0.2)")
    parser.add_argument("--seed", type=int, default=0, help="seed of all that is drawn (default 0)")
    parser.add_argument("--short", action="store_true", help="few steps, and a lower goal")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps: expected at least 1, got {arguments.steps}")
    return arguments


def main() -> int:
    """Train, and return 0 if the solution is near the exact one."""
    arguments = read_arguments()
    torch.manual_seed(arguments.seed)
    steps, goal = (5, SHORT_GOAL) if arguments.short else (arguments.steps, GOAL)
    model = make_model()
    before = error_of(model, arguments.conductivity)
    start = time.perf_counter()
    train(model, steps, arguments.conductivity)
    error = error_of(model, arguments.conductivity)
    print(f"error {before:.1e} before, {error:.1e} after {time.perf_counter() - start:.1f} s")
    if not error < goal:
        print(f"pinn: expected an error below {goal}, got {error:.1e}", file=sys.stderr)
        return 1
    print(f"the network solves the heat equation to {error:.1e} of the exact solution")
    return 0


if __name__ == "__main__":
    sys.exit(main())
