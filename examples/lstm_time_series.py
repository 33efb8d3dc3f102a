"""Forecast a noisy sum of sines with an LSTM, and compare with repeating the last value.

The network reads 60 values and says the next 10. It is trained on the first part of the series and
tested on the last, which it never saw. Two numbers give the scale of its error: that of the naive
forecast, which repeats the last value, and the noise, below which no forecast can come.

    python examples/lstm_time_series.py
    python examples/lstm_time_series.py --steps 1500 --noise 0.2
    python examples/lstm_time_series.py --plot forecast.png
"""

import argparse
import math
import sys
import time
from typing import Any

import tapegrad as torch
from tapegrad import Tensor, nn

LENGTH, TEST = 2400, 600
WINDOW, AHEAD, BATCH, HIDDEN = 60, 10, 64, 32
WAVES = [(1.0, 37.0), (0.7, 13.0), (0.4, 7.3)]  # height, period
GOAL, SHORT_GOAL = 4.0, 2.0  # times better than the naive forecast


def make_series(noise: float) -> Tensor:
    """Return a sum of sines with noise."""
    time_axis = torch.arange(LENGTH, dtype=torch.float32)
    clean = sum(height * torch.sin(2 * math.pi * time_axis / period) for height, period in WAVES)
    return clean + noise * torch.randn(LENGTH)


def windows(series: Tensor) -> tuple[Tensor, Tensor]:
    """Return all stretches of WINDOW values, and the AHEAD values that follow each."""
    both = series.unfold(0, WINDOW + AHEAD, 1)
    return both[:, :WINDOW].contiguous(), both[:, WINDOW:].contiguous()


def make_model() -> nn.Module:
    """Return an LSTM with a last layer that says all values ahead at once."""

    class Forecaster(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(1, HIDDEN, batch_first=True)
            self.last = nn.Linear(HIDDEN, AHEAD)

        def forward(self, past: Tensor) -> Tensor:
            _, (hidden, _) = self.lstm(past.unsqueeze(-1))
            result: Tensor = self.last(hidden[-1])
            return result

    return Forecaster()


def error_of(forecast: Tensor, truth: Tensor) -> float:
    """Return the root of the mean squared error."""
    return (forecast - truth).square().mean().sqrt().item()


def train(model: nn.Module, past: Tensor, future: Tensor, steps: int) -> None:
    """Take gradient steps on random batches, and show the progress."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    live, every = sys.stdout.isatty(), max(1, steps // 10)
    for step in range(1, steps + 1):
        rows = torch.randint(0, len(past), (BATCH,))
        loss = torch.nn.functional.mse_loss(model(past[rows]), future[rows])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if live or step % every == 0:
            line = f"step {step:5d}/{steps}   error on a batch {math.sqrt(loss.item()):.3f}"
            print(f"\r{line}" if live else line, end="" if live else "\n", flush=True)
    if live:
        print()


def plot(path: Any, past: Any, future: Any, forecast: Any) -> Any:
    """Draw one window, what followed and what was forecast."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        sys.exit("lstm_time_series: --plot needs matplotlib; pip install matplotlib")
    figure, axes = pyplot.subplots(figsize=(8, 3))
    ahead = range(WINDOW, WINDOW + AHEAD)
    axes.plot(range(WINDOW), past.tolist(), label="seen")
    axes.plot(ahead, future.tolist(), "o", label="what followed")
    axes.plot(ahead, forecast.tolist(), label="forecast")
    axes.legend()
    figure.savefig(path, bbox_inches="tight")
    print(f"plot in {path}")


def read_arguments() -> argparse.Namespace:
    """Return the command-line options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=600, help="gradient steps (default 600)")
    parser.add_argument("--noise", type=float, default=0.1, help="its deviation (default 0.1)")
    parser.add_argument("--seed", type=int, default=0, help="seed of noise and weights (default 0)")
    parser.add_argument("--plot", metavar="FILE", help="draw one forecast (needs matplotlib)")
    parser.add_argument("--short", action="store_true", help="few steps, and a lower goal")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps: expected at least 1, got {arguments.steps}")
    return arguments


def main() -> int:
    """Train, and return 0 if the forecast is much better than the naive one."""
    arguments = read_arguments()
    torch.manual_seed(arguments.seed)
    steps, goal = (250, SHORT_GOAL) if arguments.short else (arguments.steps, GOAL)
    series = make_series(arguments.noise)
    past, future = windows(series[:-TEST])
    test_past, test_future = windows(series[-TEST:])
    model = make_model()
    start = time.perf_counter()
    train(model, past, future, steps)
    seconds = time.perf_counter() - start
    with torch.no_grad():
        forecast = model(test_past)
    error = error_of(forecast, test_future)
    naive = error_of(test_past[:, -1:].expand(-1, AHEAD), test_future)
    if arguments.plot:
        plot(arguments.plot, test_past[0], test_future[0], forecast[0])
    print(f"test error {error:.3f}, naive {naive:.3f}, noise {arguments.noise}; {seconds:.1f} s")
    if error * goal > naive:
        print(f"lstm_time_series: expected {goal} times less than naive", file=sys.stderr)
        return 1
    print(f"the forecast of {AHEAD} values is {naive / error:.1f} times better than the last value")
    return 0


if __name__ == "__main__":
    sys.exit(main())
