"""Read handwritten digits with a convolutional network: 98 % of those it has never seen.

A digit stays what it is when it moves by a pixel, and a convolution looks for the same strokes
everywhere. Two ideas follow from that: the layers are convolutions with batch norms, which shrink
the 8 x 8 pictures by strides until one vector is left; and in training, every picture is moved by
up to a pixel each time it is seen. The strokes that the first layer looks for are drawn at the end,
and the pictures that are read wrong.

    python examples/cnn_digits.py
    python examples/cnn_digits.py --epochs 40 --width 32 --seed 3
    python examples/cnn_digits.py --short
"""

import argparse
import sys
import time

import tapegrad as torch
from tapegrad import Tensor, nn

TEST = 360
GOAL = 0.98
SHORT_EPOCHS, SHORT_GOAL = 5, 0.95
SHADES = " .:-=+*#%@"


def load(seed: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return pictures (N, 1, 8, 8) and labels for training, and for the test."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("cnn_digits: expected scikit-learn to be installed; pip install scikit-learn")
    data, target = load_digits(return_X_y=True)
    pictures = torch.tensor(data.reshape(-1, 8, 8), dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(target, dtype=torch.int64)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    pictures, labels = pictures[order], labels[order]
    return (pictures[TEST:], labels[TEST:]), (pictures[:TEST], labels[:TEST])


def make_model(width: int) -> nn.Sequential:
    """Return a network from pictures to ten scores; the numbers are sizes of pictures on the way.

    A bias before a batch norm would be subtracted again with the mean, so there is none.
    """

    def unit(near: int, far: int, stride: int = 1) -> nn.Sequential:
        convolution = nn.Conv2d(near, far, 3, stride=stride, padding=1, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(far), nn.ReLU())

    return nn.Sequential(
        unit(1, width),  # 8
        unit(width, width),
        unit(width, 2 * width, stride=2),  # 4
        unit(2 * width, 2 * width),
        unit(2 * width, 4 * width, stride=2),  # 2
        nn.Flatten(),
        nn.Linear(16 * width, 10),
    )


def moved(pictures: Tensor, generator: torch.Generator) -> Tensor:
    """Return the pictures of a batch, all moved by the same few pixels, with zeros moving in."""
    down, right = torch.randint(-1, 2, (2,), generator=generator).tolist()
    larger = torch.nn.functional.pad(pictures, (1, 1, 1, 1))
    return larger[:, :, 1 - down : 9 - down, 1 - right : 9 - right]


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
    pictures, labels = training
    generator = torch.Generator().manual_seed(seed)
    batch = 32
    steps = epochs * (len(labels) // batch)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
    live = sys.stdout.isatty()
    for epoch in range(1, epochs + 1):
        order = torch.randperm(len(labels), generator=generator)
        total = 0.0
        for start in range(0, len(labels) - batch + 1, batch):
            chosen = order[start : start + batch]
            scores = model(moved(pictures[chosen], generator))
            loss = torch.nn.functional.cross_entropy(scores, labels[chosen], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        if live or epoch % max(1, epochs // 10) == 0 or epoch == epochs:
            share = accuracy(model, *testing)
            mean = total / (len(labels) // batch)
            line = f"epoch {epoch:3d}/{epochs}   loss {mean:.3f}   test {share:.3f}"
            print(f"\r{line}" if live else line, end="" if live else "\n", flush=True)
    if live:
        print()


def draw(pictures: list[list[list[float]]], titles: list[str]) -> None:
    """Print pictures (lists of rows with values from 0 to 1) side by side."""
    width = 2 * len(pictures[0][0])
    print("   ".join(title.ljust(width) for title in titles).rstrip())
    for rows in zip(*pictures, strict=True):
        lines = ("".join(SHADES[min(int(p * 10), 9)] * 2 for p in row) for row in rows)
        print("   ".join(lines))


def show(model: nn.Sequential, pictures: Tensor, labels: Tensor) -> None:
    """Print what the first layer looks for, and pictures that are read wrong."""
    filters = model[0][0].weight.detach()[:8, 0]
    low, high = filters.min().item(), filters.max().item()
    print("strokes that the first layer looks for:")
    draw(((filters - low) / (high - low)).tolist(), [""] * len(filters))
    model.eval()
    with torch.no_grad():
        guesses = model(pictures).argmax(1)
    wrong = (guesses != labels).nonzero().flatten().tolist()[:4]
    if wrong:
        print(f"\n{(guesses != labels).sum().item()} of {len(labels)} are read wrong:")
        titles = [f"a {labels[i].item()}, read as {guesses[i].item()}" for i in wrong]
        draw([pictures[i, 0].tolist() for i in wrong], titles)


def read_arguments() -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("    python")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"The exit status is 1 if less than {GOAL:.0%} are read right "
        f"({SHORT_GOAL:.0%} with --short).",
    )
    parser.add_argument("--epochs", type=int, default=20, help="passes over the data (default 20)")
    parser.add_argument(
        "--width", type=int, default=16, help="channels of the first layers (default 16)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of split and weights (default 0)")
    parser.add_argument(
        "--short", action="store_true", help=f"{SHORT_EPOCHS} epochs, and a lower goal"
    )
    arguments = parser.parse_args()
    for name in ("epochs", "width"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name}: expected at least 1, got {getattr(arguments, name)}")
    return arguments


def main() -> int:
    """Train, show what was learned, and return 0 if enough digits are read right."""
    arguments = read_arguments()
    torch.manual_seed(arguments.seed)
    epochs, goal = (SHORT_EPOCHS, SHORT_GOAL) if arguments.short else (arguments.epochs, GOAL)
    training, testing = load(arguments.seed)
    model = make_model(arguments.width)
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
        print(
            f"cnn_digits: expected {goal:.0%} read right, got {share:.1%}; give it more --epochs",
            file=sys.stderr,
        )
        return 1
    print(f"{share:.1%} of digits never seen are read right, after {seconds:.1f} s of training")
    return 0


if __name__ == "__main__":
    sys.exit(main())
