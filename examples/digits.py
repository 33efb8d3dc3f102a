"""Read handwritten digits: a small network on scikit-learn's 8 x 8 pictures.

The training loop that most programs have: a `DataLoader`, an `nn.Module`, a loss, an optimizer, a
schedule, and a test on pictures that the training never saw. A few of these are shown at the end,
with the ones that were read wrong first.

    python examples/digits.py
    python examples/digits.py --epochs 10 --seed 3
"""

import argparse
import sys
import time

import tapegrad as torch
from tapegrad import Tensor, nn

HIDDEN = 256
TEST = 360
GOAL = 0.97
SHORT_GOAL = 0.94
SHADES = " .:-=+*#%@"


def load(seed: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return pictures and labels for training, and for the test."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("digits: expected scikit-learn to be installed; pip install scikit-learn")
    data, target = load_digits(return_X_y=True)
    pictures = torch.tensor(data, dtype=torch.float32) / 16
    labels = torch.tensor(target, dtype=torch.int64)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    pictures, labels = pictures[order], labels[order]
    return (pictures[TEST:], labels[TEST:]), (pictures[:TEST], labels[:TEST])


def make_model() -> nn.Sequential:
    """Return a network from 64 pixels to ten scores."""
    return nn.Sequential(
        nn.Linear(64, HIDDEN),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(HIDDEN, 10),
    )


def accuracy(model: nn.Sequential, pictures: Tensor, labels: Tensor) -> float:
    """Return the share of pictures that are read right."""
    model.eval()
    with torch.no_grad():
        guesses = model(pictures).argmax(1)
    model.train()
    result: float = (guesses == labels).float().mean().item()
    return result


def train(
    model: nn.Sequential,
    training: tuple[Tensor, Tensor],
    testing: tuple[Tensor, Tensor],
    epochs: int,
    seed: int,
) -> None:
    """Go through the training pictures a number of times, and show the progress."""
    data = torch.utils.data.TensorDataset(*training)
    loader = torch.utils.data.DataLoader(
        data, batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(seed)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 4e-3, total_steps=epochs * len(loader)
    )
    live = sys.stdout.isatty()
    for epoch in range(1, epochs + 1):
        total = 0.0
        for pictures, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(pictures), labels, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(labels)
        if live or epoch % max(1, epochs // 10) == 0 or epoch == epochs:
            share = accuracy(model, *testing)
            line = f"epoch {epoch:3d}/{epochs}   loss {total / len(data):.3f}   test {share:.3f}"
            print(f"\r{line}" if live else line, end="" if live else "\n", flush=True)
    if live:
        print()


def show(model: nn.Sequential, pictures: Tensor, labels: Tensor, count: int = 5) -> None:
    """Print pictures side by side, those that are read wrong first."""
    model.eval()
    with torch.no_grad():
        guesses = model(pictures).argmax(1).tolist()
    labels = labels.tolist()
    wrong = [i for i, (a, b) in enumerate(zip(guesses, labels, strict=True)) if a != b]
    shown = (wrong + list(range(count)))[:count]
    print("   ".join(f"a {labels[i]}, read as {guesses[i]}".ljust(16) for i in shown))
    for row in range(8):
        lines = []
        for i in shown:
            pixels = pictures[i].reshape(8, 8)[row].tolist()
            lines.append("".join(SHADES[min(int(p * 10), 9)] * 2 for p in pixels))
        print("   ".join(lines))


def read_arguments() -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--epochs", type=int, default=30, help="passes over the data (default 30)")
    parser.add_argument("--seed", type=int, default=0, help="seed of split and weights (default 0)")
    parser.add_argument("--short", action="store_true", help="few epochs, and a lower goal")
    arguments = parser.parse_args()
    if arguments.epochs < 1:
        parser.error(f"--epochs: expected at least 1, got {arguments.epochs}")
    return arguments


def main() -> int:
    """Train, show some pictures, and return 0 if enough of them are read right."""
    arguments = read_arguments()
    torch.manual_seed(arguments.seed)
    epochs, goal = (5, SHORT_GOAL) if arguments.short else (arguments.epochs, GOAL)
    training, testing = load(arguments.seed)
    model = make_model()
    parameters = sum(p.numel() for p in model.parameters())
    print(
        f"{len(training[1])} pictures to train, {len(testing[1])} to test, {parameters} parameters"
    )
    start = time.perf_counter()
    train(model, training, testing, epochs, arguments.seed)
    seconds = time.perf_counter() - start
    show(model, *testing)
    share = accuracy(model, *testing)
    if share < goal:
        print(f"digits: expected {goal:.0%} read right, got {share:.1%}", file=sys.stderr)
        return 1
    print(f"{share:.1%} of digits never seen are read right, after {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
