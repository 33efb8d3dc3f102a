"""What all learning-rate schedulers share.

A scheduler changes the learning rates in an optimizer's groups whenever its ``step`` is called.
`get_lr` computes the next rates from the present ones (the chainable form), so that several
schedulers can act on one optimizer; where a scheduler also knows its rates as a function of the
epoch, `_get_closed_form_lr` has it.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tapegrad import Tensor
from tapegrad.optim.optimizer import Group, Optimizer, number

__all__ = ["LRScheduler"]

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. With an epoch, the closed form "
    "is used instead of the chainable form, where there is one."
)


def check_optimizer(optimizer: Any) -> None:
    """Refuse what is not an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"LRScheduler: {type(optimizer).__name__} is not an Optimizer")


def group_values(optimizer: Optimizer, key: str) -> list[Any]:
    """Return one option of every group, with tensors copied."""
    values = [group[key] for group in optimizer.param_groups]
    return [value.clone() if isinstance(value, Tensor) else value for value in values]


def set_group_value(group: Group, key: str, value: Any) -> None:
    """Set an option of a group; one that is a tensor is written to, for who holds it."""
    if isinstance(group[key], Tensor):
        group[key].fill_(number(value))
    else:
        group[key] = value


def one_per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """Return a value for every group from a list of them, or from one for all."""
    count = len(optimizer.param_groups)
    values = list(value) if isinstance(value, list | tuple) else [value] * count
    if len(values) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has "
            f"{len(values)} values, param_groups has {count}."
        )
    return [each.clone() if isinstance(each, Tensor) else each for each in values]


def cycled_momentum(optimizer: Optimizer) -> bool:
    """Return whether an optimizer has its momentum in ``betas``; refuse one without momentum."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            f"cycle_momentum: optimizer must support momentum or beta1 with `cycle_momentum` "
            f"option enabled; {type(optimizer).__name__} has neither: set cycle_momentum=False"
        )
    return "betas" in optimizer.defaults


def set_momentum(group: Group, use_beta1: bool, value: Any) -> None:
    """Set a group's momentum, which Adam and its kin have as the first of their betas."""
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class LRScheduler:
    """The base class of schedulers: a subclass defines `get_lr`.

    Args:
        optimizer: its groups' learning rates are set.
        last_epoch: the epoch that is behind; -1 starts afresh, and notes each group's rate as its
            ``initial_lr``.

    Example:
        >>> class Halving(torch.optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [base / 2**self.last_epoch for base in self.base_lrs]
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = Halving(optimizer)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False
    _last_lr: list[Any]

    # Attributes that are no part of the state.
    _unsaved: tuple[str, ...] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for index, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", lr.clone() if isinstance(lr, Tensor) else lr)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}: param 'initial_lr' is not specified in "
                    f"param_groups[{index}] when resuming scheduler with last_epoch >= 0; load the "
                    "optimizer's state first, or start with last_epoch=-1"
                )
        self.base_lrs: list[Any] = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        if optimizer._opt_called is None:
            optimizer._opt_called = False
        self._initial_step()

    def _initial_step(self) -> None:
        """Take the first step, to the rates of epoch 0."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Return the scheduler's state: its attributes, without the optimizer.

        Returns:
            A dict for `load_state_dict`.
        """
        return {key: value for key, value in self.__dict__.items() if key not in self._unsaved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state.

        Args:
            state_dict: what `state_dict` returned.
        """
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """Return the learning rates that the last step set, one for each group.

        Returns:
            A list of numbers, of tensors where the optimizer's rates are tensors.
        """
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Compute the next learning rates; called by `step`.

        Returns:
            A list with one for each group.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.get_lr: expected a subclass of LRScheduler that defines get_lr"
        )

    def step(self, epoch: int | None = None) -> None:
        """Set the learning rates for the next epoch. Call it after the optimizer's step.

        Args:
            epoch: go to this epoch instead; deprecated.
        """
        if self._step_count == 1:
            self._warn_of_wrong_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _warn_of_wrong_order(self) -> None:
        if not hasattr(self.optimizer.step, "hooked"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before "
                "`lr_scheduler.step()`.",
                UserWarning,
                stacklevel=3,
            )
        elif not self.optimizer._opt_called:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in "
                "the opposite order: `optimizer.step()` before `lr_scheduler.step()`. Failure to "
                "do this will result in skipping the first value of the learning rate schedule.",
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        """Move to the next epoch, or to a given one, and set its rates."""
        with self._calling_get_lr():
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            closed_form = getattr(self, "_get_closed_form_lr", None)
            use_closed_form = epoch is not None and closed_form is not None
            rates = closed_form() if use_closed_form else self.get_lr()  # type: ignore[misc]
        self._set_rates(rates)

    def _set_rates(self, rates: list[Any]) -> None:
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            set_group_value(group, "lr", lr)
        self._last_lr = group_values(self.optimizer, "lr")

    @contextmanager
    def _calling_get_lr(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    # ---- for the subclasses' get_lr

    def _check_called_within_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def _present(self) -> list[Any]:
        return group_values(self.optimizer, "lr")

    def _scaled(self, factor: float) -> list[Any]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _scaled_base(self, factor: float) -> list[Any]:
        return [base * factor for base in self.base_lrs]


def state_of_function(function: Any) -> dict[str, Any] | None:
    """Return what a callable object remembers; plain functions have nothing that is saved."""
    import types

    return None if isinstance(function, types.FunctionType) else function.__dict__.copy()
