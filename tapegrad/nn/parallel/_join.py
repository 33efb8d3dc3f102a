"""Uneven inputs of `DistributedDataParallel`: processes without inputs are shadows of the others.

Before each step under a `Join` the processes exchange who has inputs, whether this step combines
gradients, and whose buffers count. A shadow answers with zeros, and does what the answers ask for.
"""

from typing import TYPE_CHECKING, Any

import tapegrad
from tapegrad.distributed.algorithms.join import Join, JoinHook

if TYPE_CHECKING:
    from tapegrad.nn.parallel.distributed import DistributedDataParallel

__all__ = ["Shadow", "root_of_buffers", "tell"]


def _most(model: "DistributedDataParallel", value: int) -> int:
    """Return the largest value of all processes."""
    from tapegrad import distributed

    found = tapegrad.tensor([value], device=model.device)
    distributed.all_reduce(found, distributed.ReduceOp.MAX, model.process_group)
    return int(found.item())


# What a step does with gradients.
_NONE, _KEEPS, _COMBINES = range(3)


def tell(model: "DistributedDataParallel", is_recorded: bool) -> None:
    """Tell the shadows that a step begins, and whether it combines gradients."""
    if not model._join_config.enable:
        return
    Join.notify_join_context(model)
    combines = is_recorded and model.require_backward_grad_sync
    _most(model, _COMBINES if combines else _KEEPS if is_recorded else _NONE)
    hook = model._join_shadow
    if combines and hook is not None and model._reducer is not None:
        model._reducer.scale = hook.scale(True)


def root_of_buffers(model: "DistributedDataParallel") -> int:
    """Return the rank whose buffers count: that of the last process with inputs."""
    return _most(model, model.process_group.rank()) if model._join_config.enable else 0


class Shadow(JoinHook):
    """Takes part in the steps of others.

    Args:
        model: the model of this process.
        divide_by_initial_world_size: whether gradients are divided by the number of all processes.
    """

    def __init__(
        self,
        model: "DistributedDataParallel",
        divide_by_initial_world_size: bool = True,
        **others: Any,
    ) -> None:
        self.model, self.by_all = model, divide_by_initial_world_size
        model._join_shadow = self

    def scale(self, is_active: bool) -> float | None:
        """Return what gradients are multiplied by, beside the average over all processes."""
        if self.by_all:
            return None
        from tapegrad import distributed

        group = self.model.process_group
        active = tapegrad.tensor([int(is_active)], device=self.model.device)
        distributed.all_reduce(active, group=group)
        return group.size() / int(active.item())

    def main_hook(self) -> None:
        """Do what a step of the others needs of all."""
        model, reducer = self.model, self.model._reducer
        if reducer is None:
            return
        step = _most(model, _NONE)
        if step == _COMBINES:
            reducer.scale = self.scale(False)
        if model._syncs_buffers():
            model._sync_buffers(_most(model, -1))
        if step != _NONE:
            model.require_forward_param_sync = step == _COMBINES
        if step == _COMBINES:
            reducer.reduce_nothing()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take over the model of a process that was among the last.

        Args:
            is_last_joiner: whether this process was.
        """
        from tapegrad.distributed.utils import _sync_module_states

        model = self.model
        model._join_shadow = None
        if model._reducer is None:
            return
        model._reducer.scale = None
        root = _most(model, model.process_group.rank() if is_last_joiner else -1)
        _sync_module_states(
            model.module,
            model.process_group,
            model.bucket_bytes_cap,
            root,
            model.parameters_to_ignore,
            model.broadcast_buffers,
        )
