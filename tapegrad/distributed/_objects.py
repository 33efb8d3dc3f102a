"""Operations on Python objects, which travel as pickles in tensors of bytes.

As in PyTorch, whoever can send to the group can run code in it: only processes of the same program
belong into one world.
"""

import pickle
from typing import Any

import tapegrad
from tapegrad._C import Tensor
from tapegrad._types import device as _device
from tapegrad.distributed._collectives import (
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    broadcast,
    gather,
    scatter,
)
from tapegrad.distributed._groups import (
    ProcessGroup,
    canonical_rank,
    check_root,
    member,
    registered,
)
from tapegrad.distributed._messages import recv, send
from tapegrad.distributed._reduce_op import ReduceOp

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def _place(group: ProcessGroup) -> Any:
    """Return the device that carries objects of a group."""
    if "cpu" in group._engines or not group._engines:
        return _device("cpu")
    return group.bound_device_id or _device(next(iter(group._engines)))


def _to_bytes(value: Any, place: Any) -> Tensor:
    text = bytearray(pickle.dumps(value))
    return tapegrad.frombuffer(text, dtype=tapegrad.uint8).to(place)


def _from_bytes(buffer: Tensor, size: int) -> Any:
    return pickle.loads(buffer[:size].cpu().numpy().tobytes())


def _length(buffer: Tensor, place: Any) -> Tensor:
    return tapegrad.tensor([buffer.numel()], dtype=tapegrad.int64, device=place)


def _padded(buffer: Tensor, size: int) -> Tensor:
    whole = tapegrad.zeros(size, dtype=tapegrad.uint8, device=buffer.device)
    whole[: buffer.numel()].copy_(buffer)
    return whole


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Give all processes the objects of all.

    Args:
        object_list: where they go, in order of rank.
        obj: what this process gives. It must be possible to pickle it.
        group: the group.

    Example:
        >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> names = [None] * torch.distributed.get_world_size()
        >>> torch.distributed.all_gather_object(names, "mine")
        >>> names
        ['mine']
        >>> torch.distributed.destroy_process_group()
    """
    found = member(group, "all_gather_object")
    if found is None:
        return
    place = _place(found)
    mine = _to_bytes(obj, place)
    lengths = tapegrad.zeros(found.size(), dtype=tapegrad.int64, device=place)
    all_gather_into_tensor(lengths, _length(mine, place), found)
    sizes = lengths.tolist()
    whole = tapegrad.empty((found.size(), max(sizes)), dtype=tapegrad.uint8, device=place)
    all_gather_into_tensor(whole, _padded(mine, max(sizes)), found)
    for i, size in enumerate(sizes):
        object_list[i] = _from_bytes(whole[i], size)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:
    """Give one process the objects of all.

    Args:
        obj: what this process gives. It must be possible to pickle it.
        object_gather_list: where they go, in order of rank; on the destination only.
        dst: the rank of the destination in the world, 0 if left out.
        group: the group.
        group_dst: the rank of the destination in the group, in place of dst.
    """
    found = member(group, "gather_object")
    if found is None:
        return
    if dst is None and group_dst is None:
        dst = 0
    root = canonical_rank(found, dst, group_dst, "gather_object")
    is_root = found.rank() == root
    if is_root and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if object_gather_list and not is_root:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    check_root(found, root, "gather_object")
    place = _place(found)
    mine = _to_bytes(obj, place)
    sizes = [tapegrad.zeros_like(_length(mine, place)) for _ in range(found.size())]
    all_gather(sizes, _length(mine, place), found)
    longest = int(max(size.item() for size in sizes))
    parts = None
    if is_root:
        parts = [_padded(mine, longest) for _ in range(found.size())]
    gather(_padded(mine, longest), parts, group=found, group_dst=root)
    if parts is not None and object_gather_list is not None:
        for i, size in enumerate(sizes):
            object_gather_list[i] = _from_bytes(parts[i], int(size.item()))


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Give all processes the objects of one.

    Args:
        object_list: the objects of the source, overwritten elsewhere; of the same length in all.
        src: the rank of the source in the world, 0 if left out.
        group: the group.
        device: the device that carries them.
        group_src: the rank of the source in the group, in place of src.
    """
    found = registered(group)
    if src is None and group_src is None:
        src = 0
    root = canonical_rank(found, src, group_src, "broadcast_object_list")
    check_root(found, root, "broadcast_object_list")
    place = _place(found) if device is None else _device(device)
    if not len(object_list):
        raise ValueError("broadcast_object_list: expected at least one object")
    is_root = found.rank() == root
    buffers = [_to_bytes(each, place) for each in object_list] if is_root else []
    sizes = tapegrad.zeros(len(object_list), dtype=tapegrad.int64, device=place)
    if is_root:
        sizes = tapegrad.tensor([each.numel() for each in buffers], device=place)
    broadcast(sizes, group=found, group_src=root)
    counts = sizes.tolist()
    if is_root:
        broadcast(tapegrad.cat(buffers), group=found, group_src=root)
        return
    whole = tapegrad.empty(sum(counts), dtype=tapegrad.uint8, device=place)
    broadcast(whole, group=found, group_src=root)
    _fill(object_list, whole, counts)


def _fill(object_list: list[Any], whole: Tensor, counts: list[int]) -> None:
    """Put the objects of a buffer into a list."""
    start = 0
    for i, count in enumerate(counts):
        object_list[i] = _from_bytes(whole[start : start + count], count)
        start += count


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """Give each process an object of one.

    Args:
        scatter_object_output_list: a list whose first item is overwritten with it.
        scatter_object_input_list: the objects, in order of rank; on the source only.
        src: the rank of the source in the world, 0 if left out.
        group: the group.
        group_src: the rank of the source in the group, in place of src.
    """
    found = member(group, "scatter_object_list")
    if found is None:
        return
    output = scatter_object_output_list
    if not isinstance(output, list) or not output:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    if src is None and group_src is None:
        src = 0
    root = canonical_rank(found, src, group_src, "scatter_object_list")
    check_root(found, root, "scatter_object_list")
    place = _place(found)
    buffers: list[Tensor] = []
    if found.rank() == root:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        if len(scatter_object_input_list) != found.size():
            raise RuntimeError(
                f"scatter_object_list: incorrect input list size {len(scatter_object_input_list)}; "
                f"it should be {found.size()}, same as size of the process group"
            )
        buffers = [_to_bytes(each, place) for each in scatter_object_input_list]
    longest = tapegrad.tensor([max((b.numel() for b in buffers), default=0)], device=place)
    all_reduce(longest, ReduceOp.MAX, found)
    size = int(longest.item())
    mine = tapegrad.empty(size, dtype=tapegrad.uint8, device=place)
    count = tapegrad.zeros(1, dtype=tapegrad.int64, device=place)
    scatter(mine, [_padded(b, size) for b in buffers] or None, group=found, group_src=root)
    scatter(count, [_length(b, place) for b in buffers] or None, group=found, group_src=root)
    output[0] = _from_bytes(mine, int(count.item()))


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to another process.

    Args:
        object_list: the objects.
        dst: the rank of the other process in the world.
        group: the group.
        device: the device that carries them.
        group_dst: the rank in the group, in place of dst.
        use_batch: accepted.
    """
    found = registered(group)
    rank = canonical_rank(found, dst, group_dst, "send_object_list")
    if rank == found.rank():
        raise ValueError(
            "Invalid destination rank: destination rank should not be the same as the rank of the "
            "current process."
        )
    if not len(object_list):
        raise ValueError("send_object_list: expected at least one object")
    place = _place(found) if device is None else _device(device)
    buffers = [_to_bytes(each, place) for each in object_list]
    sizes = tapegrad.tensor([each.numel() for each in buffers], device=place)
    send(sizes, group=found, group_dst=rank)
    send(tapegrad.cat(buffers), group=found, group_dst=rank)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects, and return the rank of their sender in the world.

    Args:
        object_list: where they go; as long as the sender's.
        src: the rank of the sender in the world; anybody if left out.
        group: the group.
        device: the device that carries them.
        group_src: the rank in the group, in place of src.
        use_batch: accepted.
    """
    found = registered(group)
    if src is not None or group_src is not None:
        group_src, src = canonical_rank(found, src, group_src, "recv_object_list"), None
        if group_src == found.rank():
            raise ValueError(
                "Invalid source rank: source rank should not be the same as the rank of the "
                "current process."
            )
    place = _place(found) if device is None else _device(device)
    sizes = tapegrad.zeros(len(object_list), dtype=tapegrad.int64, device=place)
    source = recv(sizes, group=found, group_src=group_src)
    counts = sizes.tolist()
    whole = tapegrad.empty(sum(counts), dtype=tapegrad.uint8, device=place)
    recv(whole, source, found)
    _fill(object_list, whole, counts)
    return source
