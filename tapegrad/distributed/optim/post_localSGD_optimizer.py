"""An optimizer after whose steps parameters are averaged from time to time."""

import warnings
from typing import Any

from tapegrad.distributed.algorithms.model_averaging.averagers import ModelAverager
from tapegrad.optim.optimizer import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Runs another optimizer, and averages the parameters when it is time.

    Args:
        optim: the other optimizer.
        averager: knows when it is time.
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim = optim
        self.param_groups = optim.param_groups
        self.averager = averager
        self._make_hooks()

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The state of the other optimizer."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the other optimizer, with the number of steps."""
        state = self.optim.state_dict()
        state["step"] = self.averager.step
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state.

        Args:
            state_dict: what `state_dict` returned.
        """
        self.optim.load_state_dict(state_dict)
        self.param_groups = self.optim.param_groups
        if "step" in state_dict:
            self.averager.step = state_dict["step"]
        else:
            warnings.warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step "
                "counter to 0.",
                stacklevel=2,
            )
            self.averager.step = 0

    def step(self, closure: Any = None) -> Any:
        """Step, and average the parameters if it is time.

        Args:
            closure: see the other optimizer.
        """
        result = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(self.param_groups)
        return result

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters to the other optimizer."""
        self.optim.add_param_group(param_group)
