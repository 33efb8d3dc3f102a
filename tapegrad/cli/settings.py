"""What makes one run differ from another; stored in its config.json and in its checkpoint."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from tapegrad.cli.presets import PRESETS

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """Everything that decides the numbers of a run. The same settings give the same run.

    The defaults take about two minutes on two cores.
    """

    preset: str = "small"
    text: str | None = None  # a path; None is the text that comes with the package
    tokens: str = "characters"
    vocabulary: int = 4096  # of tokens "bpe", at most
    pad_vocabulary: int = 1  # the model has rows for a multiple of it
    steps: int = 3000
    batch: int = 12
    accumulate: int = 1  # batches in a step
    context: int = 64
    layers: int = 4
    width: int = 128
    heads: int = 4
    dropout: float = 0.0
    gelu: str = "exact"
    tie: bool = False
    lr: float = 3e-3
    last_lr: float = 0.05  # of lr, at the end
    warmup: int = 100
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.99
    clip: float = 1.0
    dtype: str = "float32"
    budget: str | None = None
    every: int = 100
    sample_tokens: int = 300
    seed: int = 0
    device: str = "cpu"

    @classmethod
    def of(cls, given: dict[str, Any]) -> "Settings":
        """Return the settings of a preset, but for those that are given."""
        return cls(**(PRESETS[given.get("preset", cls.preset)] | given))

    def as_dict(self) -> dict[str, Any]:
        """Return the settings by name."""
        return asdict(self)

    def as_json(self) -> str:
        """Return the settings as a readable JSON object."""
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Settings":
        """Return settings from a checkpoint; names from other versions are left out."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})
