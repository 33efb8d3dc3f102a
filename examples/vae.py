"""Learn to write digits: a variational autoencoder on scikit-learn's 8 x 8 pictures.

The encoder turns a picture into a cloud of codes, the decoder a code into a picture. Gradients
pass through the drawing of a code because it is written as mean + deviation * noise. What is
maximised is a bound on the logarithm of the probability of the pictures, in nats: the quality of
what comes out minus what the code costs.

The bound, on pictures that were never seen, is compared with a model that knows how often each
pixel is dark and nothing else. At the end the decoder writes digits from random codes.

    python examples/vae.py
    python examples/vae.py --epochs 200 --codes 16
"""

import argparse
import sys
import time

import tapegrad as torch
from tapegrad import Tensor, nn

HIDDEN, TEST, BATCH = 256, 360, 64
GOAL, SHORT_GOAL = 5.0, 2.0  # nats better than pixels alone
SHADES = " .:-=+*#%@"


def load(seed: int) -> tuple[Tensor, Tensor]:
    """Return pictures for training and for the test, in black and white."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("vae: expected scikit-learn to be installed; pip install scikit-learn")
    pictures = (torch.tensor(load_digits(return_X_y=True)[0], dtype=torch.float32) > 7).float()
    order = torch.randperm(len(pictures), generator=torch.Generator().manual_seed(seed))
    return pictures[order[TEST:]], pictures[order[:TEST]]


def make_model(codes: int) -> nn.Module:
    """Return the encoder and the decoder as one module."""

    class Autoencoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(
                nn.Linear(64, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, 2 * codes)
            )
            self.decoder = nn.Sequential(nn.Linear(codes, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, 64))

        def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            mean, log_variance = self.encoder(pictures).chunk(2, dim=1)
            code = mean + (log_variance / 2).exp() * torch.randn_like(mean)
            return self.decoder(code), mean, log_variance

    return Autoencoder()


def cost(model: nn.Module, pictures: Tensor) -> Tensor:
    """Return the bound with its sign changed, in nats for each picture."""
    logits, mean, log_variance = model(pictures)
    wrong = torch.nn.functional.binary_cross_entropy_with_logits(logits, pictures, reduction="sum")
    extra = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()
    result: Tensor = (wrong + extra) / len(pictures)
    return result


def cost_of_pixels(training: Tensor, testing: Tensor) -> float:
    """Return the cost of a model of single pixels, each dark as often as it is in training."""
    often = training.mean(0).clamp(1e-3, 1 - 1e-3).expand_as(testing)
    loss = torch.nn.functional.binary_cross_entropy(often, testing, reduction="sum")
    return loss.item() / len(testing)


def evaluate(model: nn.Module, pictures: Tensor, draws: int = 10) -> float:
    """Return the cost on some pictures, over several draws of their codes."""
    with torch.no_grad():
        return sum(cost(model, pictures).item() for _ in range(draws)) / draws


def train(model: nn.Module, training: Tensor, testing: Tensor, epochs: int, seed: int) -> None:
    """Go through the pictures a number of times, and show the progress."""
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(training),
        batch_size=BATCH,
        shuffle=True,
        generator=torch.Generator().manual_seed(seed),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    live, every = sys.stdout.isatty(), max(1, epochs // 10)
    for epoch in range(1, epochs + 1):
        loss = torch.zeros(())
        for (pictures,) in loader:
            loss = cost(model, pictures)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        if live or epoch % every == 0:
            test = evaluate(model, testing, 1)
            line = (
                f"epoch {epoch:4d}/{epochs}   nats for a picture {loss.item():.2f}, test {test:.2f}"
            )
            print(f"\r{line}" if live else line, end="" if live else "\n", flush=True)
    if live:
        print()


def write(model: nn.Module, codes: int, count: int = 6) -> None:
    """Print pictures that the decoder makes of random codes."""
    with torch.no_grad():
        pictures = model.decoder(torch.randn(count, codes)).sigmoid().reshape(count, 8, 8).tolist()
    for row in range(8):
        lines = [
            "".join(SHADES[min(int(p * 10), 9)] * 2 for p in picture[row]) for picture in pictures
        ]
        print("  ".join(lines))


def read_arguments() -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--epochs", type=int, default=80, help="passes over the data (default 80)")
    parser.add_argument("--codes", type=int, default=8, help="numbers in a code (default 8)")
    parser.add_argument("--seed", type=int, default=0, help="seed of split and weights (default 0)")
    parser.add_argument("--short", action="store_true", help="few epochs, and a lower goal")
    arguments = parser.parse_args()
    if arguments.epochs < 1 or arguments.codes < 1:
        parser.error("expected at least one epoch and one number in a code")
    return arguments


def main() -> int:
    """Train, write some digits, and return 0 if the bound is well above pixels alone."""
    arguments = read_arguments()
    torch.manual_seed(arguments.seed)
    epochs, goal = (12, SHORT_GOAL) if arguments.short else (arguments.epochs, GOAL)
    training, testing = load(arguments.seed)
    model = make_model(arguments.codes)
    start = time.perf_counter()
    train(model, training, testing, epochs, arguments.seed)
    seconds = time.perf_counter() - start
    write(model, arguments.codes)
    pixels, found = cost_of_pixels(training, testing), evaluate(model, testing)
    print(f"nats for a picture never seen {found:.2f}, for pixels {pixels:.2f}; {seconds:.1f} s")
    if pixels - found < goal:
        print(f"vae: expected {goal} nats less, got {pixels - found:.2f}", file=sys.stderr)
        return 1
    print(f"a digit costs {pixels - found:.1f} nats less than its pixels alone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
