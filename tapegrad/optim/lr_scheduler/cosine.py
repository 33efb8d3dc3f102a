"""Schedulers along a cosine, without and with restarts."""

import math
from typing import Any

from tapegrad.optim.lr_scheduler.scheduler import LRScheduler
from tapegrad.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts"]


class CosineAnnealingLR(LRScheduler):
    """Takes the rates along a cosine from their initial values to ``eta_min``.

    Args:
        optimizer: its groups' learning rates are set.
        T_max: the epoch at which the rates are least; from there they rise again.
        eta_min: the least rate.
        last_epoch: the epoch that is behind; -1 starts afresh.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> round(scheduler.get_last_lr()[0], 6)
        0.5
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rates that follow the present ones along the cosine."""
        self._check_called_within_step()
        if self._is_initial:
            return self._present()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        groups = self.optimizer.param_groups
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The last rate was the least: there is nothing to scale, so the rise is added.
            rise = self._height(1, -1.0)
            pairs = zip(self.base_lrs, groups, strict=True)
            return [group["lr"] + (base - self.eta_min) * rise for base, group in pairs]
        ratio = self._height(self.last_epoch) / self._height(self.last_epoch - 1)
        return [(group["lr"] - self.eta_min) * ratio + self.eta_min for group in groups]

    def _height(self, epoch: int, sign: float = 1.0) -> float:
        """Return how far above ``eta_min`` the cosine is, from 1 at epoch 0 to 0 at ``T_max``."""
        return (1 + sign * math.cos(math.pi * epoch / self.T_max)) / 2

    def _get_closed_form_lr(self) -> list[Any]:
        height = self._height(self.last_epoch)
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Takes the rates along a cosine to ``eta_min``, and starts over.

    Args:
        optimizer: its groups' learning rates are set.
        T_0: epochs until the first restart.
        T_mult: each run is this many times as long as the one before.
        eta_min: the least rate.
        last_epoch: the epoch that is behind; -1 starts afresh.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=4)
        >>> rates = []
        >>> for _ in range(4):
        ...     optimizer.step()
        ...     scheduler.step()
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        >>> rates
        [0.8536, 0.5, 0.1464, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        name = "CosineAnnealingWarmRestarts"
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"{name}: Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"{name}: Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(
                f"{name}: Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rates at the present place in the run."""
        self._check_called_within_step()
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the learning rates for the next epoch, or for a given one.

        Args:
            epoch: may be a fraction, such as ``epoch + batch / batches`` after every batch.
        """
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = 0 if epoch is None else epoch
            if epoch < 0:
                raise ValueError(
                    "CosineAnnealingWarmRestarts.step: Expected non-negative epoch, but got "
                    f"{epoch}"
                )
            self._find_run(epoch)
        self.last_epoch = math.floor(epoch)
        with self._calling_get_lr():
            rates = self.get_lr()
        self._set_rates(rates)

    def _find_run(self, epoch: float) -> None:
        """Set the place in the run, and the run's length, that an epoch falls in."""
        if epoch < self.T_0:
            self.T_cur, self.T_i = epoch, self.T_0
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            # Runs before number n take T_0 * (T_mult**n - 1) / (T_mult - 1) epochs.
            runs = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**runs - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**runs
