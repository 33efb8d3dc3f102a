"""Learn the law of motion behind a spiral: a neural ODE, with gradients by the adjoint method.

The network says how fast a point moves; a solver moves it. Recording every step of the solver
would cost memory in proportion to their number. The adjoint method records none: the gradient
obeys a differential equation of its own, which is solved backward in time, the path being computed
again on the way. That is a custom `autograd.Function` whose backward calls the same solver.

At the end, the gradient is compared with that of recording every step of the solver: the two
differ by the error of the solver, nothing else.

    python examples/neural_ode.py
    python examples/neural_ode.py --steps 2000 --solver-steps 4
"""

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from typing import Any

import tapegrad as torch
from tapegrad import Tensor, nn

POINTS, SPAN, BATCH, AHEAD = 200, 10.0, 32, 10
HIDDEN = 50
SAME = 1e-6  # how near the two gradients must be, in float64
GOAL, SHORT_GOAL = 0.1, 0.6  # mean distance from the true path


def rk4(
    field: Callable[..., Any], state: tuple[Tensor, ...], start: float, end: float, steps: int
) -> tuple[Tensor, ...]:
    """Move a tuple of tensors from one time to another by the classical Runge-Kutta method."""
    h = (end - start) / steps

    def moved(slope: tuple[Tensor, ...], share: float) -> tuple[Tensor, ...]:
        return tuple(x + share * dx for x, dx in zip(state, slope, strict=True))

    for _ in range(steps):
        k1 = field(state)
        k2 = field(moved(k1, h / 2))
        k3 = field(moved(k2, h / 2))
        k4 = field(moved(k3, h))
        state = tuple(
            x + h / 6 * (a + 2 * b + 2 * c + d)
            for x, a, b, c, d in zip(state, k1, k2, k3, k4, strict=True)
        )
    return state


def solve_recorded(
    model: Callable[..., Any], begin: Tensor, times: list[float], steps: int
) -> Tensor:
    """Return the path at the given times, with every step on the tape."""
    path = [begin]
    state: tuple[Tensor, ...] = (begin,)
    for start, end in itertools.pairwise(times):
        state = rk4(lambda s: (model(s[0]),), state, start, end, steps)
        path.append(state[0])
    return torch.stack(path)


def make_adjoint() -> Callable[..., Any]:
    """Return the function that solves without recording, and backward solves for the gradient."""

    class Adjoint(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx: Any,
            model: nn.Module,
            times: list[float],
            steps: int,
            begin: Tensor,
            *parameters: Any,
        ) -> Tensor:
            with torch.no_grad():
                path = solve_recorded(model, begin, times, steps)
            ctx.model, ctx.times, ctx.steps = model, times, steps
            ctx.save_for_backward(path, *parameters)
            return path

        @staticmethod
        def backward(ctx: Any, grad_path: Tensor) -> tuple[Tensor | None, ...]:
            path, *parameters = ctx.saved_tensors

            def field(state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
                """The speeds of the point, of the adjoint, and of the parameters' gradients."""
                point, adjoint = state[:2]
                with torch.enable_grad():
                    point = point.detach().requires_grad_()
                    speed = ctx.model(point)
                    grads = torch.autograd.grad(speed, [point, *parameters], adjoint)
                return (speed.detach(), *(-grad for grad in grads))

            adjoint = grad_path[-1]
            sums = [torch.zeros_like(parameter) for parameter in parameters]
            for i in range(len(path) - 1, 0, -1):
                state = (path[i], adjoint, *sums)
                state = rk4(field, state, ctx.times[i], ctx.times[i - 1], ctx.steps)
                adjoint, sums = state[1] + grad_path[i - 1], list(state[2:])
            return (None, None, None, adjoint, *sums)

    def solve(model: nn.Module, begin: Tensor, times: list[float], steps: int) -> Tensor:
        result: Tensor = Adjoint.apply(model, times, steps, begin, *model.parameters())
        return result

    return solve


def true_path(times: list[float]) -> Tensor:
    """Return the spiral: y' = A y, from (2, 0)."""
    matrix = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    begin = torch.tensor([2.0, 0.0])
    return solve_recorded(lambda y: y @ matrix, begin, times, 20)


def make_model() -> nn.Module:
    """Return the network from a point to its speed."""

    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 2))

        def forward(self, point: Tensor) -> Tensor:
            result: Tensor = self.net(point)
            return result

    return Field()


def compare_gradients(model: nn.Module, times: list[float], path: Tensor) -> float:
    """Return how far the adjoint's gradients are from those of recording everything, in float64."""
    model = model.double()
    begin, wanted = path[:1].double(), path[: AHEAD + 1, None].double()
    times = times[: AHEAD + 1]
    found = []
    for solve in (make_adjoint(), lambda *args: solve_recorded(*args)):
        loss = (solve(model, begin, times, 4) - wanted).abs().mean()
        found.append(torch.autograd.grad(loss, list(model.parameters())))
    model.float()
    pairs = list(zip(*found, strict=True))
    far = max((a - b).abs().max().item() for a, b in pairs)
    result: float = far / max(b.abs().max().item() for _, b in pairs)
    return result


def train(
    model: nn.Module, times: list[float], path: Tensor, steps: int, solver_steps: int
) -> None:
    """Fit short stretches of the path, and show the progress."""
    solve = make_adjoint()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    live, every = sys.stdout.isatty(), max(1, steps // 10)
    for step in range(1, steps + 1):
        starts = torch.randint(0, POINTS - AHEAD, (BATCH,))
        wanted = torch.stack([path[starts + i] for i in range(AHEAD + 1)])
        found = solve(model, wanted[0], times[: AHEAD + 1], solver_steps)
        loss = (found - wanted).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if live or step % every == 0:
            line = f"step {step:5d}/{steps}   error on stretches {loss.item():.4f}"
            print(f"\r{line}" if live else line, end="" if live else "\n", flush=True)
    if live:
        print()


def read_arguments() -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=800, help="gradient steps (default 800)")
    parser.add_argument("--solver-steps", type=int, default=1, help="for each interval (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights (default 0)")
    parser.add_argument("--short", action="store_true", help="few steps, and a lower goal")
    arguments = parser.parse_args()
    if arguments.steps < 1 or arguments.solver_steps < 1:
        parser.error("expected at least one step, of training and of the solver")
    return arguments


def main() -> int:
    """Train, check the gradient, and return 0 if the whole path is found."""
    arguments = read_arguments()
    torch.manual_seed(arguments.seed)
    steps, goal = (150, SHORT_GOAL) if arguments.short else (arguments.steps, GOAL)
    times = [SPAN * i / (POINTS - 1) for i in range(POINTS)]
    path = true_path(times)
    model = make_model()
    start = time.perf_counter()
    train(model, times, path, steps, arguments.solver_steps)
    with torch.no_grad():
        whole = solve_recorded(model, path[0], times, 2)
    error = (whole - path).norm(dim=1).mean().item()
    print(f"{steps} steps in {time.perf_counter() - start:.1f} s")
    apart = compare_gradients(model, times, path)
    print(f"the adjoint's gradient is that of recording every step to {apart:.0e}")
    if apart > SAME or not error < goal:
        print(
            f"neural_ode: expected gradients within {SAME} and an error below {goal}, got "
            f"{apart:.0e} and {error:.3f}",
            file=sys.stderr,
        )
        return 1
    print(f"the whole spiral is found to {error:.3f} on average, from its start alone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
