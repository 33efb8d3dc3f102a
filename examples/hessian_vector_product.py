"""Stretch a soap film over a bent frame with second derivatives, and never build a Hessian.

The film takes the shape of least area. Newton's method finds it by dividing the gradient by the
Hessian, which for a grid of 60 by 60 points would be a matrix of thirteen million numbers.
Conjugate gradients only ever multiply it by a vector, and a Hessian times a vector is the gradient
of <gradient, vector>: one more sweep over the recorded first sweep.

The frame is cut from a catenoid, the one film that has a formula, so the answer can be checked.

    python examples/hessian_vector_product.py
    python examples/hessian_vector_product.py --size 120
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import tapegrad as torch
from tapegrad import Tensor

CORNERS = (0.8, 2.8)
GOAL = 1e-10


def catenoid(size: int) -> tuple[Tensor, float]:
    """Return the heights of the true film on a square grid, and the width of a cell."""
    ticks = torch.linspace(*CORNERS, size + 2, dtype=torch.float64)
    x, y = torch.meshgrid(ticks, ticks, indexing="ij")
    return torch.acosh((x * x + y * y).sqrt()), (CORNERS[1] - CORNERS[0]) / (size + 1)


def area(heights: Tensor, frame: Tensor, width: float) -> Tensor:
    """Return the area of the film with these heights inside a frame, two triangles a cell."""
    film = frame.clone()
    size = film.shape[0] - 2
    film[1:-1, 1:-1] = heights.view(size, size)  # A write through a view, recorded like any op.
    down, right = film.diff(dim=0) / width, film.diff(dim=1) / width
    upper = (1 + down[:, :-1] ** 2 + right[:-1] ** 2).sqrt()
    lower = (1 + down[:, 1:] ** 2 + right[1:] ** 2).sqrt()
    return (upper.sum() + lower.sum()) * (width * width / 2)


def gradient_and_product(
    function: Callable[..., Any], x: Tensor
) -> tuple[float, Tensor, Callable[..., Any]]:
    """Return the value, the gradient, and a function that multiplies the Hessian by a vector."""
    point = x.detach().requires_grad_()
    value = function(point)
    (gradient,) = torch.autograd.grad(value, point, create_graph=True)

    def product(vector: Tensor) -> Tensor:
        result: Tensor = torch.autograd.grad(gradient, point, vector, retain_graph=True)[0]
        return result

    return value.item(), gradient.detach(), product


def newton_direction(
    gradient: Tensor, product: Callable[..., Any], most_steps: int = 1000
) -> tuple[Tensor, int]:
    """Solve Hessian * direction = -gradient by conjugate gradients; also count the products."""
    direction = torch.zeros_like(gradient)
    residual = -gradient
    search = residual.clone()
    square = (residual @ residual).item()
    enough = min(0.1, square**0.5) * square  # Ask for more accuracy close to the solution.
    count = 0
    while count < most_steps:
        count += 1
        curved = product(search)
        step = square / (search @ curved).item()
        direction += step * search
        residual -= step * curved
        new_square = (residual @ residual).item()
        if new_square <= enough:
            break
        search = residual + (new_square / square) * search
        square = new_square
    return direction, count


def minimise(function: Callable[..., Any], x: Tensor, most_iterations: int = 50) -> float:
    """Take Newton steps, halved until they lower the function; return the gradient's norm."""
    products, norm = 0, math.inf
    for iteration in range(most_iterations):
        value, gradient, product = gradient_and_product(function, x)
        norm = gradient.norm().item()
        print(f"iteration {iteration:2d}   area {value:.12f}   |gradient| {norm:.1e}")
        if norm < GOAL:
            break
        direction, count = newton_direction(gradient, product)
        products += count
        length, slope = 1.0, (gradient @ direction).item()
        most = abs(value) * 1e-15
        while function(x + length * direction).item() > value + 1e-4 * length * slope + most:
            length /= 2
        x += length * direction
    print(f"{products} products of the Hessian with a vector, no Hessian")
    return norm


def check_product() -> float:
    """Return the largest difference between a product and a Hessian that is written down."""
    frame, width = catenoid(4)
    generator = torch.Generator().manual_seed(1)
    x, vector = (torch.randn(16, dtype=torch.float64, generator=generator) for _ in range(2))
    _, _, product = gradient_and_product(lambda h: area(h, frame, width), x)
    full = torch.autograd.functional.hessian(lambda h: area(h, frame, width), x)
    result: float = (full @ vector - product(vector)).abs().max().item()
    return result


def read_arguments() -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--size", type=int, default=60, help="points on a side (default 60)")
    arguments = parser.parse_args()
    if arguments.size < 2:
        parser.error(f"--size: expected at least 2, got {arguments.size}")
    return arguments


def main() -> int:
    """Find the film, and return 0 if it is the catenoid."""
    arguments = read_arguments()
    print(f"product against the full Hessian of 16 points: {check_product():.1e} apart")
    truth, width = catenoid(arguments.size)
    heights = torch.zeros(arguments.size**2, dtype=torch.float64)
    start = time.perf_counter()
    norm = minimise(lambda h: area(h, truth, width), heights)
    error = (heights - truth[1:-1, 1:-1].reshape(-1)).abs().max().item()
    print(f"{len(heights)} unknowns in {time.perf_counter() - start:.1f} s")
    if norm >= GOAL or error > width * width:
        print(f"expected the catenoid, got a film {error:.1e} away", file=sys.stderr)
        return 1
    print(f"the film is the catenoid to {error:.1e}, cells are {width:.1e} wide")
    return 0


if __name__ == "__main__":
    sys.exit(main())
