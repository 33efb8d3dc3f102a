"""When parameters are averaged over processes."""

import warnings
from abc import ABC, abstractmethod
from typing import Any

from tapegrad.distributed._groups import _get_default_group
from tapegrad.distributed.algorithms.model_averaging import utils

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """The base class of averagers.

    Args:
        process_group: the processes; the world if left out.
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = _get_default_group() if process_group is None else process_group
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Any) -> None:
        """Average parameters, if it is time."""


class PeriodicModelAverager(ModelAverager):
    """Averages parameters every so many steps.

    Args:
        period: the number of steps from one average to the next.
        warmup_steps: the number of steps before the first.
        process_group: the processes; the world if left out.
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        self.warmup_steps = warmup_steps
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warnings.warn(
                "When period is 1, no need to use model averaging because the communication cost "
                "of all-reducing parameters will be no less than the cost of all-reducing "
                "gradients by DistributedDataParallel in the backward pass.",
                stacklevel=2,
            )
        self.period = period

    def average_parameters(self, params: Any) -> None:
        """Average parameters, if it is time.

        Args:
            params: parameters, or groups of an optimizer.
        """
        late = self.step - self.warmup_steps
        if late >= 0 and late % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
