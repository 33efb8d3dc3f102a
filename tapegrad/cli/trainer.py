"""The numbers of a run: model, optimizer, data and chance. No files, no screen, no clock.

All that decides the next step is in `Trainer.state`; a trainer that loads it takes the very steps
that the other would have taken, to the last bit.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import tapegrad
from tapegrad import Tensor, amp, nn, optim, tape
from tapegrad.cli.data import Batches, held_out_windows, split
from tapegrad.cli.device import get_chance, set_chance
from tapegrad.cli.errors import UserError
from tapegrad.cli.generate import generate
from tapegrad.cli.model import GPT
from tapegrad.cli.settings import Settings
from tapegrad.cli.team import Team
from tapegrad.cli.vocabulary import Vocabulary
from tapegrad.nn import functional as F
from tapegrad.tape.budget import BudgetWarning
from tapegrad.utils._units import human_bytes
from tapegrad.utils.model_summary import summary

__all__ = ["Step", "Trainer", "learning_rate_factor", "make_model"]

_EVALUATED = 96  # windows of the held-out text


@dataclass(frozen=True)
class Step:
    """A step that was taken, or is being taken by a GPU: nobody has waited for its numbers yet."""

    number: int
    rate: float
    loss_and_norm: Tensor


class Trainer:
    """One model that learns one text.

    Args:
        settings: of the run.
        vocabulary: of the text.
        numbers: the text in numbers of the vocabulary.
        device: that the settings name. Weights are drawn on the CPU, and dropout draws the same
            numbers everywhere, so that runs differ between devices by rounding only.
        team: the processes that train together. Their number rounds otherwise, and changes what
            dropout draws.
    """

    def __init__(
        self,
        settings: Settings,
        vocabulary: Vocabulary,
        numbers: np.ndarray[Any, Any],
        device: tapegrad.device,
        team: Team | None = None,
    ) -> None:
        self.settings, self.vocabulary, self.device = settings, vocabulary, device
        self.team = team or Team()
        part = self.team.part(settings.batch)
        train, held_out = split(numbers, settings.context)
        self.train_size, self.held_out_size = len(train), len(held_out)
        tapegrad.manual_seed(settings.seed)
        self.model = make_model(settings, len(vocabulary)).to(device)
        self._own_chance(tapegrad.get_rng_state())
        self.optimizer = optim.AdamW(
            _groups(self.model, settings.weight_decay),
            lr=settings.lr,
            betas=(settings.beta1, settings.beta2),
        )
        self.scaler = amp.GradScaler(device.type, enabled=settings.dtype == "float16")
        self.budget = None if settings.budget is None else tape.budget(_limit(settings.budget))
        self.batches = Batches(
            train,
            settings.batch,
            settings.accumulate,
            settings.context,
            settings.seed,
            device,
            part,
        )
        self.windows = held_out_windows(
            held_out, _EVALUATED, settings.context, settings.batch, device
        )
        self.trained = self.team.wrapped(self.model)
        self.step = 0
        self.notice: str | None = None  # what the user should know, once

    @property
    def tokens_per_step(self) -> int:
        """How many tokens a step learns from."""
        settings = self.settings
        return settings.batch * settings.accumulate * settings.context

    @cached_property
    def layers(self) -> str:
        """A table of the model's layers, for one piece of text."""
        shape = (1, self.settings.context)
        return str(summary(self.model, shape, dtypes=tapegrad.int64))

    def take_step(self) -> Step:
        """Learn from the batches of one step. Nothing here waits for a GPU, but for float16."""
        losses, count = [], self.settings.accumulate
        for number, (inputs, targets) in enumerate(self.batches.draw()):
            with self._within_budget():
                with self._autocast(), self._keeping(number + 1 < count):
                    loss = _loss(self.trained, inputs, targets)
                loss = loss / count if count > 1 else loss
                self.scaler.scale(loss).backward()
            losses.append(loss.detach())
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        rate = self.settings.lr * learning_rate_factor(self.step, self.settings)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.scaler.step(self.optimizer)  # which waits, in float16, to learn if there is a step
        self.scaler.update()
        self.optimizer.zero_grad()
        self.step += 1
        loss = self.team.average(sum(losses[1:], losses[0]))
        return Step(self.step, rate, tapegrad.stack([loss, norm]))

    def read(self, steps: Sequence[Step]) -> list[dict[str, Any]]:
        """Return loss, learning rate and norm of the gradient of steps, waiting for a GPU once.

        A step that float16 left out, for its gradients were too large, has no norm.
        """
        records = []
        values = tapegrad.stack([step.loss_and_norm for step in steps]).tolist()
        for step, (loss, norm) in zip(steps, values, strict=True):
            is_left_out = self.settings.dtype == "float16" and not math.isfinite(norm)
            if not math.isfinite(loss) or not (math.isfinite(norm) or is_left_out):
                raise UserError(
                    f"the loss or its gradient is no longer finite at step {step.number} "
                    f"(loss {loss}, learning rate {step.rate:.3g}); "
                    "start again with a smaller --lr"
                )
            records.append(
                {
                    "step": step.number,
                    "loss": loss,
                    "lr": step.rate,
                    "grad_norm": None if is_left_out else norm,
                }
            )
        return records

    def evaluate(self) -> float:
        """Return the loss on the held-out text."""
        self.model.eval()
        with tapegrad.no_grad(), self._autocast():
            losses = [_loss(self.model, inputs, targets) for inputs, targets in self.windows]
        self.model.train()
        sizes = [len(inputs) for inputs, _ in self.windows]
        values = tapegrad.stack(losses).tolist()
        return sum(v * size for v, size in zip(values, sizes, strict=True)) / sum(sizes)

    def write(self, count: int) -> str:
        """Let the model write, each time with the same luck."""
        numbers = generate(
            self.model,
            self.vocabulary.first_prompt(),
            count,
            known=len(self.vocabulary),
            temperature=0.8,
            seed=self.settings.seed,
        )
        return self.vocabulary.decode(list(numbers))

    def state(self) -> dict[str, Any]:
        """Return all that decides the next step."""
        chances = self.team.gather(get_chance(self.device))
        return {
            "step": self.step,
            "settings": self.settings.as_dict(),
            "vocabulary": self.vocabulary.state(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "chance": chances[0],
            **({"chances": chances} if self.team.size > 1 else {}),
            "data_order": self.batches.generator.get_state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from where another trainer of the same text stood."""
        self.step = state["step"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(state["scaler"])
        chances = state.get("chances", [state["chance"]])
        if len(chances) == self.team.size:
            set_chance(chances[self.team.rank], self.device)
        else:  # of another number of processes
            self._own_chance(state["chance"])
        self.batches.generator.set_state(state["data_order"])

    def _own_chance(self, first: Tensor) -> None:
        """Let each process of the team draw numbers of its own; the first goes on from a state."""
        if self.team.rank:
            step = getattr(self, "step", 0)
            seed = self.settings.seed + 1_000_003 * self.team.rank + 7919 * step
            first = tapegrad.Generator().manual_seed(seed).get_state()
        set_chance(first, self.device)

    def _keeping(self, on: bool) -> AbstractContextManager[Any]:
        """Leave the gradients of a forward to each process for now."""
        return self.trained.no_sync() if on and self.team.size > 1 else nullcontext()

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.settings.dtype not in ("bfloat16", "float16"):
            return nullcontext()
        return amp.autocast(self.device.type, dtype=getattr(tapegrad, self.settings.dtype))

    @contextmanager
    def _within_budget(self) -> Iterator[None]:
        """Keep the tape of a batch under the budget, or note once that it cannot be."""
        if self.budget is None:
            yield
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)
            with self.budget:
                yield
        if self.budget.shortfall and self.notice is None:
            needed = human_bytes((self.budget.limit or 0) + self.budget.shortfall)
            self.notice = (
                f"the tape needs {needed}, more than the budget of {self.settings.budget}: "
                "the rest cannot be computed again; a smaller --batch needs less"
            )


def make_model(settings: Settings, vocabulary: int) -> GPT:
    """Return the network that settings describe, with rows for so many tokens or a few more."""
    multiple = settings.pad_vocabulary
    return GPT(
        -(-vocabulary // multiple) * multiple,
        settings.context,
        settings.layers,
        settings.width,
        settings.heads,
        settings.dropout,
        settings.tie,
        "tanh" if settings.gelu == "tanh" else "none",
    )


def learning_rate_factor(step: int, settings: Settings) -> float:
    """Return the share of the peak learning rate: a straight rise, then half a cosine down."""
    if step < settings.warmup:
        return (step + 1) / (settings.warmup + 1)
    span = max(1, settings.steps - settings.warmup)
    done = min(1.0, (step - settings.warmup) / span)
    return settings.last_lr + (1 - settings.last_lr) * 0.5 * (1 + math.cos(math.pi * done))


def _loss(model: Any, inputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def _groups(model: GPT, weight_decay: float) -> list[dict[str, Any]]:
    """Return matrices, which decay, and biases and gains, which do not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]


def _limit(budget: str) -> str | float:
    """Return a budget as `tape.budget` takes it: a share of what a step needs, or a size."""
    try:
        share = float(budget)
    except ValueError:
        return budget
    return share if share <= 1 else budget
