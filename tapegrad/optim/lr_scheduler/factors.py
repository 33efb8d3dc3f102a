"""Schedulers that multiply the learning rates by factors."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tapegrad.optim.lr_scheduler.scheduler import LRScheduler, state_of_function
from tapegrad.optim.optimizer import Optimizer

__all__ = [
    "ConstantLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "StepLR",
]

Factor = Callable[[int], float]


class _ByFunctions(LRScheduler):
    """A scheduler with a function of the epoch for each group."""

    _unsaved = ("optimizer", "lr_lambdas")

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1
    ) -> None:
        count = len(optimizer.param_groups)
        many = isinstance(lr_lambda, list | tuple)
        self.lr_lambdas: list[Any] = list(lr_lambda) if many else [lr_lambda] * count  # type: ignore[arg-type]
        if len(self.lr_lambdas) != count:
            raise ValueError(
                f"{type(self).__name__}: Expected {count} lr_lambdas, but got "
                f"{len(self.lr_lambdas)}"
            )
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(
                    f"{type(self).__name__}: lr_lambda should be a function, but got "
                    f"{type(function).__name__}"
                )
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the state. Of the functions, only those that are objects have their attributes in.

        Returns:
            A dict for `load_state_dict`.
        """
        saved = [state_of_function(function) for function in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state, with the functions that this scheduler was made with.

        Args:
            state_dict: what `state_dict` returned.
        """
        state_dict = dict(state_dict)
        saved = state_dict.pop("lr_lambdas")
        super().load_state_dict(state_dict)
        for function, state in zip(self.lr_lambdas, saved, strict=True):
            if state is not None:
                function.__dict__.update(state)

    def _factors(self) -> list[float]:
        return [function(self.last_epoch) for function in self.lr_lambdas]


class LambdaLR(_ByFunctions):
    """Sets each rate to its initial value times a function of the epoch.

    Args:
        optimizer: its groups' learning rates are set.
        lr_lambda: a function from the epoch to a factor, or a list with one for each group.
        last_epoch: the epoch that is behind; -1 starts afresh.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def get_lr(self) -> list[Any]:
        """Return the initial rates times the functions' values."""
        self._check_called_within_step()
        return [base * factor for base, factor in zip(self.base_lrs, self._factors(), strict=True)]


class MultiplicativeLR(_ByFunctions):
    """Multiplies each rate by a function of the epoch.

    Args:
        optimizer: its groups' learning rates are set.
        lr_lambda: a function from the epoch to a factor, or a list with one for each group.
        last_epoch: the epoch that is behind; -1 starts afresh.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
        >>> optimizer.step()
        >>> for _ in range(3):
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.125]
    """

    def get_lr(self) -> list[Any]:
        """Return the present rates times the functions' values."""
        self._check_called_within_step()
        if self._is_initial:
            return self._present()
        groups = self.optimizer.param_groups
        return [group["lr"] * f for group, f in zip(groups, self._factors(), strict=True)]


class StepLR(LRScheduler):
    """Multiplies the rates by ``gamma`` every ``step_size`` epochs.

    Args:
        optimizer: its groups' learning rates are set.
        step_size: epochs between two changes.
        gamma: the factor.
        last_epoch: the epoch that is behind; -1 starts afresh.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        >>> for _ in range(4):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the present rates, times ``gamma`` where an interval ends."""
        self._check_called_within_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._present()
        return self._scaled(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return self._scaled_base(self.gamma ** (self.last_epoch // self.step_size))


class MultiStepLR(LRScheduler):
    """Multiplies the rates by ``gamma`` at given epochs.

    Args:
        optimizer: its groups' learning rates are set.
        milestones: the epochs; one that is listed twice counts twice.
        gamma: the factor.
        last_epoch: the epoch that is behind; -1 starts afresh.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3], gamma=0.5)
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the present rates, times ``gamma`` at a milestone."""
        self._check_called_within_step()
        if self.last_epoch not in self.milestones:
            return self._present()
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return self._scaled_base(self.gamma**passed)


class ConstantLR(LRScheduler):
    """Multiplies the rates by ``factor`` until epoch ``total_iters``.

    Args:
        optimizer: its groups' learning rates are set.
        factor: between 0 and 1.
        total_iters: the epoch at which the rates are the initial ones again.
        last_epoch: the epoch that is behind; -1 starts afresh.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
        >>> rates = scheduler.get_last_lr()
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     scheduler.step()
        ...     rates += scheduler.get_last_lr()
        >>> rates
        [0.5, 0.5, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= factor <= 1.0:
            raise ValueError(
                "ConstantLR: Constant multiplicative factor expected to be between 0 and 1, got "
                f"{factor}"
            )
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the present rates, times or divided by ``factor`` at the two ends."""
        self._check_called_within_step()
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        if self.last_epoch == self.total_iters:
            return self._scaled(1.0 / self.factor)
        return self._present()

    def _get_closed_form_lr(self) -> list[Any]:
        return self._scaled_base(1.0 if self.last_epoch >= self.total_iters else self.factor)


class LinearLR(LRScheduler):
    """Multiplies the rates by a factor that goes linearly from one value to another.

    Args:
        optimizer: its groups' learning rates are set.
        start_factor: at epoch 0; above 0, at most 1.
        end_factor: from epoch ``total_iters`` on; between 0 and 1.
        total_iters: how many epochs it takes.
        last_epoch: the epoch that is behind; -1 starts afresh.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, 1.0, total_iters=2)
        >>> rates = scheduler.get_last_lr()
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     scheduler.step()
        ...     rates += scheduler.get_last_lr()
        >>> rates
        [0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError(
                "LinearLR: Starting multiplicative factor expected to be greater than 0 and less "
                f"or equal to 1, got {start_factor}"
            )
        if not 0 <= end_factor <= 1.0:
            raise ValueError(
                "LinearLR: Ending multiplicative factor expected to be between 0 and 1, got "
                f"{end_factor}"
            )
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the present rates times the ratio of two successive factors."""
        self._check_called_within_step()
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._present()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return self._scaled(1.0 + rise / before)

    def _get_closed_form_lr(self) -> list[Any]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        rise = self.end_factor - self.start_factor
        return self._scaled_base(self.start_factor + rise * done)


class ExponentialLR(LRScheduler):
    """Multiplies the rates by ``gamma`` every epoch.

    Args:
        optimizer: its groups' learning rates are set.
        gamma: the factor.
        last_epoch: the epoch that is behind; -1 starts afresh.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.125]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the present rates times ``gamma``."""
        self._check_called_within_step()
        return self._present() if self._is_initial else self._scaled(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return self._scaled_base(self.gamma**self.last_epoch)


class PolynomialLR(LRScheduler):
    """Takes the rates to zero as ``(1 - epoch / total_iters) ** power``.

    Args:
        optimizer: its groups' learning rates are set.
        total_iters: the epoch at which the rates are zero.
        power: of the polynomial.
        last_epoch: the epoch that is behind; -1 starts afresh.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the present rates times the ratio of two successive values."""
        self._check_called_within_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._present()
        left = 1.0 - self.last_epoch / self.total_iters
        left_before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return self._scaled((left / left_before) ** self.power)

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return self._scaled_base(left**self.power)
