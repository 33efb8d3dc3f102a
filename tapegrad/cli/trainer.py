"""The numbers of a run: model, optimizer, data and chance. No files, no screen, no clock.

All that decides the next step is in `Trainer.state`; a trainer that loads it takes the very steps
that the other would have taken, to the last bit.
"""

import math
from typing import Any

import tapegrad
from tapegrad import nn, optim
from tapegrad.cli.device import get_chance, set_chance
from tapegrad.cli.errors import UserError
from tapegrad.cli.generate import generate
from tapegrad.cli.model import GPT
from tapegrad.cli.settings import Settings
from tapegrad.cli.text import Batches, Text, Vocabulary, held_out_windows, split
from tapegrad.nn import functional as F

__all__ = ["Trainer", "learning_rate_factor", "make_model"]

_EVALUATED = 96  # windows of the held-out text
_LAST_FACTOR = 0.05  # of the peak learning rate, at the end


class Trainer:
    """One model that learns one text.

    Args:
        settings: of the run.
        text: that the settings name.
        device: that the settings name. Weights are drawn on the CPU, and dropout draws the same
            numbers everywhere, so that runs differ between devices by rounding only.
    """

    def __init__(self, settings: Settings, text: Text, device: tapegrad.device) -> None:
        self.settings, self.device = settings, device
        self.vocabulary = Vocabulary.of(text.content, settings.tokens)
        numbers = self.vocabulary.numbers(text.content)
        train, held_out = split(numbers, settings.context)
        self.train_size, self.held_out_size = len(train), len(held_out)
        tapegrad.manual_seed(settings.seed)
        self.model = make_model(settings, len(self.vocabulary)).to(device)
        set_chance(tapegrad.get_rng_state(), device)
        self.optimizer = optim.AdamW(
            _groups(self.model, settings.weight_decay), lr=settings.lr, betas=(0.9, 0.99)
        )
        self.scheduler = optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: learning_rate_factor(step, settings)
        )
        self.batches = Batches(train.to(device), settings.batch, settings.context, settings.seed)
        windows = held_out_windows(held_out, _EVALUATED, settings.context, settings.batch)
        self.windows = [(inputs.to(device), targets.to(device)) for inputs, targets in windows]
        self.step = 0

    def take_step(self) -> dict[str, float]:
        """Learn from one batch and return its loss, learning rate and norm of the gradient."""
        inputs, targets = self.batches.draw()
        loss = _loss(self.model, inputs, targets)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        rate = self.optimizer.param_groups[0]["lr"]
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad()
        self.step += 1
        # The one place that waits for a GPU, when it has been given all its work.
        value, size = tapegrad.stack([loss.detach(), norm]).tolist()
        if not math.isfinite(value) or not math.isfinite(size):
            raise UserError(
                f"the loss or its gradient is no longer finite at step {self.step} "
                f"(loss {value}, learning rate {rate:.3g}); start again with a smaller --lr"
            )
        return {"loss": value, "lr": rate, "grad_norm": size}

    def evaluate(self) -> float:
        """Return the loss on the held-out text."""
        self.model.eval()
        with tapegrad.no_grad():
            total = sum(
                _loss(self.model, inputs, targets).item() * len(inputs)
                for inputs, targets in self.windows
            )
        self.model.train()
        return total / sum(len(inputs) for inputs, _ in self.windows)

    def write(self, count: int) -> str:
        """Let the model write, each time with the same luck."""
        prompt = first_prompt(self.vocabulary)
        numbers = generate(self.model, prompt, count, temperature=0.8, seed=self.settings.seed)
        return self.vocabulary.decode(list(numbers))

    def state(self) -> dict[str, Any]:
        """Return all that decides the next step."""
        return {
            "step": self.step,
            "settings": self.settings.as_dict(),
            "vocabulary": self.vocabulary.symbols,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "chance": get_chance(self.device),
            "data_order": self.batches.generator.get_state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from where another trainer of the same text stood."""
        self.step = state["step"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        # The same to the bit, unless the run was given more steps and so another schedule.
        for group, base in zip(self.optimizer.param_groups, self.scheduler.base_lrs, strict=True):
            group["lr"] = base * learning_rate_factor(self.step, self.settings)
        set_chance(state["chance"], self.device)
        self.batches.generator.set_state(state["data_order"])


def make_model(settings: Settings, vocabulary: int) -> GPT:
    """Return the network that settings describe."""
    return GPT(
        vocabulary,
        settings.context,
        settings.layers,
        settings.width,
        settings.heads,
        settings.dropout,
        settings.tie,
    )


def first_prompt(vocabulary: Vocabulary) -> tapegrad.Tensor:
    """Return a new line, or the first character of a vocabulary that has none."""
    symbols = vocabulary.symbols
    return vocabulary.encode("\n" if symbols is None or "\n" in symbols else symbols[0])


def learning_rate_factor(step: int, settings: Settings) -> float:
    """Return the share of the peak learning rate: a straight rise, then half a cosine down."""
    if step < settings.warmup:
        return (step + 1) / (settings.warmup + 1)
    span = max(1, settings.steps - settings.warmup)
    done = min(1.0, (step - settings.warmup) / span)
    return _LAST_FACTOR + (1 - _LAST_FACTOR) * 0.5 * (1 + math.cos(math.pi * done))


def _loss(model: GPT, inputs: tapegrad.Tensor, targets: tapegrad.Tensor) -> tapegrad.Tensor:
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def _groups(model: GPT, weight_decay: float) -> list[dict[str, Any]]:
    """Return matrices, which decay, and biases and gains, which do not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
