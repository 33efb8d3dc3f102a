"""What modules in several processes share."""

from collections.abc import Iterable
from typing import Any

from tapegrad.distributed._collectives import broadcast

__all__: list[str] = []


def _sync_module_states(
    module: Any,
    process_group: Any,
    broadcast_bucket_size: int,
    src: int,
    params_and_buffers_to_ignore: Iterable[str],
    broadcast_buffers: bool = True,
) -> None:
    """Give all processes the parameters and buffers that one has.

    Args:
        module: the module.
        process_group: the processes.
        broadcast_bucket_size: accepted.
        src: the rank in the group of the process whose values are taken.
        params_and_buffers_to_ignore: names that are left out.
        broadcast_buffers: whether buffers are meant as well.
    """
    ignored = set(params_and_buffers_to_ignore)
    named = list(module.named_parameters())
    if broadcast_buffers:
        named += module.named_buffers()
    for name, tensor in named:
        if name not in ignored:
            broadcast(tensor.detach(), group=process_group, group_src=src)
