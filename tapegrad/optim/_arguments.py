"""Checks of hyperparameters, with PyTorch's exceptions and words, after the optimizer's name."""

from typing import Any

from tapegrad import Tensor


def check_lr(name: str, lr: Any) -> None:
    """Refuse a learning rate that is negative, or a tensor of several elements."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"{name}: Tensor lr must be 1-element, got shape {tuple(lr.shape)}")
    check_not_negative(name, "learning rate", lr)


def check_not_negative(name: str, what: str, value: Any) -> None:
    """Refuse a negative value, and one that is no number."""
    if not value >= 0.0:
        raise ValueError(f"{name}: Invalid {what}: {value}; expected at least 0")


def check_common(name: str, lr: Any, eps: Any = 0.0, weight_decay: Any = 0.0) -> None:
    """Check the hyperparameters that most algorithms have."""
    check_lr(name, lr)
    check_not_negative(name, "epsilon value", eps)
    check_not_negative(name, "weight_decay value", weight_decay)


def check_betas(name: str, betas: Any) -> None:
    """Refuse decay rates of running averages outside [0, 1)."""
    for index in range(2):
        if not 0.0 <= betas[index] < 1.0:
            raise ValueError(
                f"{name}: Invalid beta parameter at index {index}: {betas[index]}; expected at "
                "least 0 and less than 1"
            )
