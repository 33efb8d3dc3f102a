"""What makes one run differ from another; stored in its config.json and in its checkpoint."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """Everything that decides the numbers of a run. The same settings give the same run.

    The defaults take about two minutes on two cores.
    """

    text: str | None = None  # a path; None is the text that comes with the package
    tokens: str = "characters"
    steps: int = 3000
    batch: int = 12
    context: int = 64
    layers: int = 4
    width: int = 128
    heads: int = 4
    dropout: float = 0.0
    tie: bool = False
    lr: float = 3e-3
    warmup: int = 100
    weight_decay: float = 0.1
    clip: float = 1.0
    every: int = 100
    seed: int = 0
    device: str = "cpu"

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
