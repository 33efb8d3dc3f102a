"""Models and ways to train them by name. Each number can be replaced by its option."""

from typing import Any

__all__ = ["PRESETS"]

# GPT-2 as it was published (Radford and others, 2019), without dropout, which a text that is read
# once or a few times does not need, and with what has been found since to train it well: AdamW
# with a shorter memory of squares, and steps of bfloat16. Text is cut into at most as many tokens
# as GPT-2 has; rows up to a multiple of 128 make the product with the embedding faster.
_GPT2: dict[str, Any] = {
    "layers": 12,
    "heads": 12,
    "width": 768,
    "context": 1024,
    "tokens": "bpe",
    "vocabulary": 50257,
    "pad_vocabulary": 128,
    "tie": True,
    "gelu": "tanh",
    "dropout": 0.0,
    "dtype": "bfloat16",
    "steps": 20000,
    "batch": 32,
    "lr": 6e-4,
    "warmup": 700,
    "last_lr": 0.1,
    "weight_decay": 0.1,
    "beta1": 0.9,
    "beta2": 0.95,
    "clip": 1.0,
    "every": 500,
}

PRESETS: dict[str, dict[str, Any]] = {
    "small": {},  # the defaults of `Settings`
    "gpt2": _GPT2,
    "gpt2-medium": _GPT2 | {"layers": 24, "heads": 16, "width": 1024, "lr": 3e-4, "batch": 16},
    "gpt2-large": _GPT2 | {"layers": 36, "heads": 20, "width": 1280, "lr": 2.5e-4, "batch": 8},
    "gpt2-xl": _GPT2 | {"layers": 48, "heads": 25, "width": 1600, "lr": 2e-4, "batch": 4},
}
