"""Learn what AND, OR, XOR and NOT mean from the values of whole nested expressions.

Every expression is a tree of its own shape, and the network has the shape of the tree: a vector
for each leaf, and for each operator one small layer that turns the vectors below into one. What is
recorded differs from one expression to the next, and nothing is padded or prepared: the recursion
is a Python function.

Training sees trees of at most 4 levels; the test also asks for trees of 6, which can only be right
if each operator was learned as such.

    python examples/tree_recursive.py
    python examples/tree_recursive.py --steps 600 --seed 3
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import tapegrad as torch
from tapegrad import Tensor, nn

SIZE, BATCH = 16, 32
DEPTH, TEST_DEPTH = 4, 6
GOAL, SHORT_GOAL = 0.99, 0.90
BINARY: dict[str, Callable[[bool, bool], bool]] = {
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
}


def make_tree(dice: random.Random, depth: int) -> Any:
    """Return a random expression: a bool, ("not", tree) or (operator, tree, tree)."""
    if depth == 0 or dice.random() < 0.1:
        return dice.random() < 0.5
    if dice.random() < 0.2:
        return ("not", make_tree(dice, depth - 1))
    return (dice.choice(list(BINARY)), make_tree(dice, depth - 1), make_tree(dice, depth - 1))


def value_of(tree: Any) -> bool:
    """Return what an expression is."""
    if isinstance(tree, bool):
        return tree
    if tree[0] == "not":
        return not value_of(tree[1])
    return BINARY[tree[0]](value_of(tree[1]), value_of(tree[2]))


def text_of(tree: Any) -> str:
    """Return an expression as one writes it."""
    if isinstance(tree, bool):
        return "1" if tree else "0"
    if tree[0] == "not":
        return f"not {text_of(tree[1])}"
    return f"({text_of(tree[1])} {tree[0]} {text_of(tree[2])})"


def make_model() -> nn.Module:
    """Return the network: its recursion follows the tree."""

    class TreeNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.leaves = nn.Parameter(torch.randn(2, SIZE))
            self.operators = nn.ModuleDict(
                {
                    name: nn.Sequential(
                        nn.Linear(SIZE * (1 if name == "not" else 2), 2 * SIZE),
                        nn.ReLU(),
                        nn.Linear(2 * SIZE, SIZE),
                        nn.Tanh(),
                    )
                    for name in ("not", *BINARY)
                }
            )
            self.score = nn.Linear(SIZE, 1)

        def encode(self, tree: Any) -> Tensor:
            if isinstance(tree, bool):
                return self.leaves[int(tree)]
            below = [self.encode(part) for part in tree[1:]]
            result: Tensor = self.operators[tree[0]](
                below[0] if len(below) == 1 else torch.cat(below)
            )
            return result

        def forward(self, trees: Sequence[Any]) -> Tensor:
            result: Tensor = self.score(torch.stack([self.encode(tree) for tree in trees])).squeeze(
                1
            )
            return result

    return TreeNet()


def accuracy(model: nn.Module, trees: Sequence[Any]) -> float:
    """Return the share of expressions whose value is right."""
    with torch.no_grad():
        guesses = (model(trees) > 0).tolist()
    right = sum(guess == value_of(tree) for guess, tree in zip(guesses, trees, strict=True))
    result: float = right / len(trees)
    return result


def train(model: nn.Module, dice: random.Random, steps: int, tests: Sequence[Any]) -> None:
    """Take gradient steps on new expressions, and show the progress."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    live, every = sys.stdout.isatty(), max(1, steps // 10)
    for step in range(1, steps + 1):
        trees = [make_tree(dice, dice.randint(1, DEPTH)) for _ in range(BATCH)]
        wanted = torch.tensor([float(value_of(tree)) for tree in trees])
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(trees), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % every == 0:
            share = accuracy(model, tests)
            line = f"step {step:4d}/{steps}   loss {loss.item():.4f}   test {share:.3f}"
            print(f"\r{line}" if live else line, end="" if live else "\n", flush=True)
    if live:
        print()


def read_arguments() -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=400, help="gradient steps (default 400)")
    parser.add_argument("--seed", type=int, default=0, help="seed of trees and weights (default 0)")
    parser.add_argument("--short", action="store_true", help="few steps, and a lower goal")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps: expected at least 1, got {arguments.steps}")
    return arguments


def main() -> int:
    """Train, and return 0 if deep expressions are evaluated right."""
    arguments = read_arguments()
    torch.manual_seed(arguments.seed)
    dice = random.Random(arguments.seed)
    steps, goal = (150, SHORT_GOAL) if arguments.short else (arguments.steps, GOAL)
    tests = [make_tree(dice, TEST_DEPTH) for _ in range(200)]
    model = make_model()
    shown = min((text_of(tree) for tree in tests if not isinstance(tree, bool)), key=len)
    print(f"for example {shown}")
    start = time.perf_counter()
    train(model, dice, steps, tests)
    share = accuracy(model, tests)
    print(f"{steps * BATCH} trees in {time.perf_counter() - start:.1f} s")
    if share < goal:
        print(f"tree_recursive: expected {goal:.0%} right, got {share:.1%}", file=sys.stderr)
        return 1
    print(f"{share:.1%} of expressions of {TEST_DEPTH} levels are right, after training on {DEPTH}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
