"""Schedulers made of schedulers: one after the other, or all together."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from tapegrad.optim.lr_scheduler.plateau import ReduceLROnPlateau
from tapegrad.optim.lr_scheduler.scheduler import LRScheduler, group_values, set_group_value
from tapegrad.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


class _Composed(LRScheduler):
    """A scheduler whose state is that of others."""

    _unsaved = ("optimizer", "_schedulers")
    _schedulers: Sequence[LRScheduler]

    def _check(self, schedulers: Sequence[LRScheduler], optimizer: Any) -> None:
        name = type(self).__name__
        for index, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(
                    f"{name}: {name} at index {index} should have `optimizer` as its attribute."
                )
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name}: {name} does not support `ReduceLROnPlateau` scheduler as it requires "
                    "additional kwargs to be specified when calling `step`, but got one at index "
                    f"{index} in the given schedulers sequence."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name}: {name} expects all schedulers to belong to the same optimizer, but "
                    f"got scheduler {type(scheduler).__name__} at index {index} of another "
                    f"{type(scheduler.optimizer).__name__}"
                )

    def state_dict(self) -> dict[str, Any]:
        """Return the state, with those of the schedulers as a list.

        Returns:
            A dict for `load_state_dict`.
        """
        states = [scheduler.state_dict() for scheduler in self._schedulers]
        return {**super().state_dict(), "_schedulers": states}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state.

        Args:
            state_dict: what `state_dict` returned.
        """
        state_dict = dict(state_dict)
        states = state_dict.pop("_schedulers")
        super().load_state_dict(state_dict)
        for scheduler, state in zip(self._schedulers, states, strict=True):
            scheduler.load_state_dict(state)


class SequentialLR(_Composed):
    """Runs schedulers one after the other.

    Args:
        optimizer: the one that all of the schedulers have.
        schedulers: each starts from the initial rates.
        milestones: the epochs at which the second and the following take over.
        last_epoch: the epoch that is behind; -1 starts afresh.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> warmup = torch.optim.lr_scheduler.ConstantLR(optimizer, 0.5, total_iters=10)
        >>> decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        >>> scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], [2])
        >>> rates = scheduler.get_last_lr()
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     scheduler.step()
        ...     rates += scheduler.get_last_lr()
        >>> rates
        [0.5, 0.5, 1.0, 0.9]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                "SequentialLR: SequentialLR expects at least one scheduler, but got no scheduler."
            )
        self._check(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "SequentialLR: Sequential Schedulers expects number of schedulers provided to be "
                "one more than the number of milestone points, but got number of schedulers "
                f"{len(schedulers)} and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Making the schedulers took each of them to epoch 0. Go back, and let the first start.
        for group in optimizer.param_groups:
            set_group_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take back the first step of the schedulers, also of those inside of others.

        Args:
            sched: whose step to take back; by default those of this scheduler.
        """
        sched = self if sched is None else sched
        if hasattr(sched, "_schedulers"):
            for each in sched._schedulers:
                self.recursive_undo(each)
        elif hasattr(sched, "last_epoch"):
            sched.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Set the learning rates for the next epoch."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Composed):
    """Steps several schedulers together, whose factors multiply.

    Args:
        schedulers: all of one optimizer.
        optimizer: that optimizer; may be left out.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> half = torch.optim.lr_scheduler.ConstantLR(optimizer, 0.5, total_iters=10)
        >>> decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        >>> scheduler = torch.optim.lr_scheduler.ChainedScheduler([half, decay])
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                "ChainedScheduler: ChainedScheduler expects at least one scheduler to be chained, "
                "but got no scheduler."
            )
        self._check(schedulers, optimizer or getattr(schedulers[0], "optimizer", None))
        self._schedulers = schedulers
        self.optimizer = schedulers[0].optimizer
        self._last_lr = group_values(self.optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Step all of the schedulers."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = group_values(self.optimizer, "lr")
