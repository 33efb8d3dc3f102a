"""Schedulers that take the learning rates up and down again, and momentum the other way."""

import math
from collections.abc import Callable
from typing import Any

from tapegrad.optim.lr_scheduler.scheduler import (
    LRScheduler,
    check_optimizer,
    cycled_momentum,
    one_per_group,
    set_group_value,
    set_momentum,
    state_of_function,
)
from tapegrad.optim.optimizer import Optimizer

__all__ = ["CyclicLR", "OneCycleLR"]


class CyclicLR(LRScheduler):
    """Takes the rates from ``base_lr`` to ``max_lr`` and back, again and again; steps are batches.

    Args:
        optimizer: its groups' learning rates are set.
        base_lr: the least rate, or a list with one for each group.
        max_lr: the largest rate, or a list with one for each group.
        step_size_up: batches on the way up.
        step_size_down: batches on the way down; by default as many.
        mode: ``"triangular"`` repeats the cycle, ``"triangular2"`` halves its height every time,
            ``"exp_range"`` scales it by ``gamma ** batches``.
        gamma: for ``"exp_range"``.
        scale_fn: scales the height instead of a mode.
        scale_mode: whether ``scale_fn`` is a function of the ``"cycle"`` or of ``"iterations"``.
        cycle_momentum: take momentum from ``max_momentum`` to ``base_momentum`` and back.
        base_momentum: the least momentum, or a list.
        max_momentum: the largest momentum, or a list.
        last_epoch: the batch that is behind; -1 starts afresh.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], momentum=0.9)
        >>> scheduler = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.0, 1.0, step_size_up=2)
        >>> rates = scheduler.get_last_lr()
        >>> for _ in range(4):
        ...     optimizer.step()
        ...     scheduler.step()
        ...     rates += scheduler.get_last_lr()
        >>> rates
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = one_per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_group_value(group, "lr", lr)
        self.max_lrs = one_per_group("max_lr", optimizer, max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up) + float(down)
        self.step_ratio = step_size_up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(f"CyclicLR: mode is invalid and scale_fn is None; got mode {mode!r}")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        if scale_fn is None:
            scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.scale_mode = scale_mode
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, fresh=last_epoch == -1)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _start_momentum(self, base: Any, most: Any, fresh: bool) -> None:
        self.use_beta1 = cycled_momentum(self.optimizer)
        self.base_momentums = one_per_group("base_momentum", self.optimizer, base)
        self.max_momentums = one_per_group("max_momentum", self.optimizer, most)
        if not fresh:
            return
        groups = self.optimizer.param_groups
        for low, high, group in zip(self.base_momentums, self.max_momentums, groups, strict=True):
            set_momentum(group, self.use_beta1, high)
            group["max_momentum"] = high
            group["base_momentum"] = low

    def scale_fn(self, x: float) -> float:
        """Return what the height of a cycle is scaled by.

        Args:
            x: the number of the cycle, from 1 on, or of batches, as ``scale_mode`` says.
        """
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return 1 / 2.0 ** (x - 1)
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[Any]:
        """Return the rates at the present place in the cycle, and set the momentum."""
        self._check_called_within_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        up = x <= self.step_ratio
        height = x / self.step_ratio if up else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            groups = self.optimizer.param_groups
            for i, (low, high) in enumerate(
                zip(self.base_momentums, self.max_momentums, strict=True)
            ):
                set_momentum(groups[i], self.use_beta1, high - (high - low) * height)
        ends = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * height for low, high in ends]

    def state_dict(self) -> dict[str, Any]:
        """Return the state. Of a ``scale_fn`` that is an object, its attributes are in.

        Returns:
            A dict for `load_state_dict`.
        """
        state = super().state_dict()
        function = self._scale_fn_custom
        state["_scale_fn_custom"] = None if function is None else state_of_function(function)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state, with the ``scale_fn`` that this scheduler was made with.

        Args:
            state_dict: what `state_dict` returned.
        """
        state_dict = dict(state_dict)
        saved = state_dict.pop("_scale_fn_custom")
        super().load_state_dict(state_dict)
        if saved is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(saved)


class OneCycleLR(LRScheduler):
    """Takes the rates up to ``max_lr`` and then far down, once; steps are batches.

    Args:
        optimizer: its groups' learning rates are set.
        max_lr: the largest rate, or a list with one for each group.
        total_steps: how many batches there are; or give ``epochs`` and ``steps_per_epoch``.
        epochs: how many epochs there are.
        steps_per_epoch: batches in an epoch.
        pct_start: the share of the batches on the way up.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum: take momentum from ``max_momentum`` to ``base_momentum`` and back.
        base_momentum: the least momentum, or a list.
        max_momentum: the largest momentum, or a list.
        div_factor: the first rate is ``max_lr / div_factor``.
        final_div_factor: the last rate is the first one divided by this.
        three_phase: go down as far as the first rate in as many batches as up, then further.
        last_epoch: the batch that is behind; -1 starts afresh.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], momentum=0.9)
        >>> scheduler = torch.optim.lr_scheduler.OneCycleLR(
        ...     optimizer, max_lr=1.0, total_steps=5, pct_start=0.4, anneal_strategy="linear"
        ... )
        >>> rates = scheduler.get_last_lr()
        >>> for _ in range(4):
        ...     optimizer.step()
        ...     scheduler.step()
        ...     rates += scheduler.get_last_lr()
        >>> [round(rate, 3) for rate in rates]
        [0.04, 1.0, 0.667, 0.333, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _count_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(
                f"OneCycleLR: Expected float between 0 and 1 pct_start, but got {pct_start}"
            )
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                "OneCycleLR: anneal_strategy must be one of 'cos' or 'linear', instead got "
                f"{anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        most = one_per_group("max_lr", optimizer, max_lr)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = cycled_momentum(optimizer)
            high = one_per_group("max_momentum", optimizer, max_momentum)
            low = one_per_group("base_momentum", optimizer, base_momentum)
        for i, group in enumerate(optimizer.param_groups if last_epoch == -1 else ()):
            group["initial_lr"] = most[i] / div_factor
            group["max_lr"] = most[i]
            group["min_lr"] = group["initial_lr"] / final_div_factor
            if cycle_momentum:
                set_momentum(group, self.use_beta1, high[i])
                group["max_momentum"] = high[i]
                group["base_momentum"] = low[i]
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rates at the present place in the cycle, and set the momentum."""
        self._check_called_within_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"OneCycleLR: Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        start: float = 0.0
        phase = self._schedule_phases[0]
        for phase in self._schedule_phases[:-1]:
            if step <= phase["end_step"]:
                break
            start = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        done = (step - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], done))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                set_momentum(group, self.use_beta1, self._anneal(*ends, done))
        return rates

    def _anneal(self, start: Any, end: Any, done: float) -> Any:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)
        return (end - start) * done + start


def _count_steps(total_steps: Any, epochs: Any, steps_per_epoch: Any) -> int:
    """Return how many batches a cycle has."""
    if total_steps is None and (epochs is None or steps_per_epoch is None):
        raise ValueError(
            "OneCycleLR: You must define either total_steps OR (epochs AND steps_per_epoch)"
        )
    if total_steps is not None:
        given = {"total_steps": total_steps}
    else:
        given = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    for name, value in given.items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"OneCycleLR: Expected positive integer {name}, but got {value}")
    return math.prod(given.values())


def _phases(total: int, share: float, three: bool) -> list[dict[str, Any]]:
    """Return the phases of a cycle: where each ends, and what goes from where to where."""

    def phase(end: float, lr: tuple[str, str], momentum: tuple[str, str]) -> dict[str, Any]:
        return {
            "end_step": end,
            "start_lr": f"{lr[0]}_lr",
            "end_lr": f"{lr[1]}_lr",
            "start_momentum": f"{momentum[0]}_momentum",
            "end_momentum": f"{momentum[1]}_momentum",
        }

    up = phase(share * total - 1, ("initial", "max"), ("max", "base"))
    if not three:
        return [up, phase(total - 1, ("max", "min"), ("base", "max"))]
    return [
        up,
        phase(2 * share * total - 2, ("max", "initial"), ("base", "max")),
        phase(total - 1, ("initial", "min"), ("max", "max")),
    ]
