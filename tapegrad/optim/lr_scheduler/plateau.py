"""A scheduler that looks at how training goes."""

import math
import warnings
from typing import Any

from tapegrad.optim.lr_scheduler.scheduler import (
    EPOCH_DEPRECATION_WARNING,
    LRScheduler,
    check_optimizer,
    group_values,
    set_group_value,
)
from tapegrad.optim.optimizer import Optimizer

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rates by ``factor`` when a metric has stopped getting better.

    Args:
        optimizer: its groups' learning rates are set.
        mode: ``"min"`` when less is better, ``"max"`` when more is.
        factor: less than 1.
        patience: how many epochs without a better value to wait.
        threshold: how much better counts as better.
        threshold_mode: ``"rel"`` compares with ``best * (1 -+ threshold)``, ``"abs"`` with
            ``best -+ threshold``.
        cooldown: epochs after a change during which nothing is counted.
        min_lr: the least rate, or a list with one for each group.
        eps: changes of a rate by no more than this are left out.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
        >>> for loss in (3.0, 2.0, 2.0, 2.0):
        ...     scheduler.step(loss)
        >>> scheduler.get_last_lr()
        [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau: Factor should be < 1.0, got {factor}")
        check_optimizer(optimizer)
        if mode not in ("min", "max"):
            raise ValueError(f"ReduceLROnPlateau: mode {mode} is unknown!; use 'min' or 'max'")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(
                f"ReduceLROnPlateau: threshold mode {threshold_mode} is unknown!; use 'rel' or "
                "'abs'"
            )
        self.factor = factor
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        self.default_min_lr: float | None
        if isinstance(min_lr, list | tuple):
            if len(min_lr) != count:
                raise ValueError(f"ReduceLROnPlateau: expected {count} min_lrs, got {len(min_lr)}")
            self.default_min_lr = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * count
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.last_epoch = 0
        self._last_lr = group_values(optimizer, "lr")
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take note of a value of the metric, and lower the rates if it is time.

        Args:
            metrics: a number, or a tensor of one element.
            epoch: the epoch that it is of; deprecated.
        """
        value = float(metrics)
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value, self.best):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = group_values(self.optimizer, "lr")

    @property
    def in_cooldown(self) -> bool:
        """Whether the epochs after a change that are not counted are still on."""
        return self.cooldown_counter > 0

    def _reduce_lr(self) -> None:
        count = len(self.optimizer.param_groups)
        if len(self.min_lrs) != count:
            if self.default_min_lr is None:
                raise RuntimeError(
                    "ReduceLROnPlateau: The number of param groups in the `optimizer` "
                    f"({count}) differs from when `ReduceLROnPlateau` was initialized "
                    f"({len(self.min_lrs)}), usually due to a new param group being added to the "
                    "optimizer. Please modify the `min_lrs` field to match."
                )
            self.min_lrs = [self.default_min_lr] * count
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            lr = float(group["lr"])
            lowered = max(lr * self.factor, least)
            if lr - lowered > self.eps:
                set_group_value(group, "lr", lowered)

    def _is_better(self, value: float, best: float) -> bool:
        sign = -1.0 if self.mode == "min" else 1.0
        if self.threshold_mode == "rel":
            bound = best * (1.0 + sign * self.threshold)
        else:
            bound = best + sign * self.threshold
        return value < bound if self.mode == "min" else value > bound
