"""Gradients that are averaged over all processes at first, and over subgroups later."""

from typing import Any

from tapegrad.distributed._groups import resolve
from tapegrad.nn.parallel._reducer import GradBucket, _average

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """What `post_localSGD_hook` counts.

    Args:
        process_group: the processes at first; the world if None.
        subgroup: the processes later.
        start_localSGD_iter: the number of steps until then.
        post_local_gradient_allreduce: whether gradients are averaged over the subgroup at all.
    """

    def __init__(
        self,
        process_group: Any,
        subgroup: Any,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group = process_group
        self.subgroup = subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a step with the last of its buckets."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Any:
    """Average gradients over all processes, and later over a subgroup.

    Args:
        state: counts the steps.
        bucket: the gradients.
    """
    from tapegrad.futures import Future

    is_global = state.iter < state.start_localSGD_iter
    state.maybe_increase_iter(bucket)
    if is_global:
        return _average(resolve(state.process_group), bucket)
    if not state.post_local_gradient_allreduce:
        future: Future[Any] = Future()
        future.set_result(bucket.buffer())
        return future
    if state.subgroup is None:
        raise ValueError(
            "post_localSGD_hook: expected a subgroup, such as the first that new_subgroups() "
            "returns; got None"
        )
    return _average(resolve(state.subgroup), bucket)
