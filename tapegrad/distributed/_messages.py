"""Messages between two processes."""

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad._C import Tensor
from tapegrad.distributed._buffers import Landing, check_single, check_writable, reading
from tapegrad.distributed._collectives import engine_of
from tapegrad.distributed._groups import (
    ProcessGroup,
    canonical_rank,
    check_root,
    get_global_rank,
    registered,
)
from tapegrad.distributed._work import Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def _peer(
    found: ProcessGroup, peer: int | None, group_peer: int | None, name: str, role: str
) -> int:
    """Return the rank of another process in the group; this one itself is refused."""
    rank = canonical_rank(found, peer, group_peer, name)
    if rank == found.rank():
        kind = ValueError if name == "send" else RuntimeError
        raise kind(
            f"{name}: Invalid {role} rank: {role} rank should not be the same as the rank of the "
            "current process."
        )
    check_root(found, rank, name)
    return rank


def _sent(name: str, tensor: Tensor, found: ProcessGroup, rank: int, tag: int) -> Work:
    check_single(tensor, "tensor")
    buffer = reading(tensor)
    return Work(engine_of(found, tensor).send(buffer, rank, tag), lambda: buffer, [tensor])


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Begin to send a tensor, which must not change before the work is done.

    Args:
        tensor: the tensor.
        dst: the rank of the other process in the world.
        group: the group.
        tag: a number that `recv` must name as well.
        group_dst: the rank in the group, in place of dst.

    Returns:
        A `Work`.
    """
    found = registered(group)
    rank = _peer(found, dst, group_dst, "isend", "destination")
    return _sent("isend", tensor, found, rank, tag)


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor; see `isend`."""
    found = registered(group)
    rank = _peer(found, dst, group_dst, "send", "destination")
    _sent("send", tensor, found, rank, tag).wait()


def _received(
    name: str,
    tensor: Tensor,
    src: int | None,
    group: ProcessGroup | None,
    tag: int,
    group_src: int | None,
) -> Work:
    found = registered(group)
    rank = None
    if src is not None or group_src is not None:
        rank = _peer(found, src, group_src, name, "source")
    elif found.size() == 1:
        raise RuntimeError(f"{name}: the group has no other process that could send")
    check_single(tensor, "tensor")
    check_writable(name, tensor)
    landing = Landing(tensor)
    pending = engine_of(found, tensor).recv(landing.buffer, rank, tag)
    return Work(
        pending,
        landing.finish,
        [tensor],
        receives=True,
        source=rank,
        to_global=lambda source: get_global_rank(found, source),
    )


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Begin to receive a tensor.

    Args:
        tensor: where it goes; of the shape and dtype of what is sent.
        src: the rank of the sender in the world; anybody if left out.
        group: the group.
        tag: the number that the sender has named.
        group_src: the rank in the group, in place of src.

    Returns:
        A `Work`.
    """
    return _received("irecv", tensor, src, group, tag, group_src)


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive a tensor, and return the rank of its sender in the world; see `irecv`."""
    return _received("recv", tensor, src, group, tag, group_src).source_rank()


class P2POp:
    """A message for `batch_isend_irecv`.

    Args:
        op: `isend` or `irecv`.
        tensor: the tensor.
        peer: the rank of the other process in the world.
        group: the group.
        tag: a number that both name.
        group_peer: the rank in the group, in place of peer.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        check_single(tensor, "tensor")
        self.op, self.tensor, self.group, self.tag = op, tensor, registered(group), tag
        self.group_peer = canonical_rank(self.group, peer, group_peer, "P2POp")
        self.peer = get_global_rank(self.group, self.group_peer)

    def __repr__(self) -> str:
        return (
            f"P2POp({self.op.__name__} pg={self.group.group_name}, rank={self.group.rank()}, "
            f"peer={self.group_peer}, {self.tensor.shape}, {self.tensor.dtype})"
        )


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begin several messages.

    Args:
        p2p_op_list: a list of `P2POp`, all of one group.

    Returns:
        A `Work` for each.
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to be of type "
            "``torch.distributed.P2POp``."
        )
    if not p2p_op_list:
        raise IndexError("batch_isend_irecv: expected at least one P2POp")
    if any(p2p.group is not p2p_op_list[0].group for p2p in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    return [p2p.op(p2p.tensor, p2p.peer, p2p.group, p2p.tag) for p2p in p2p_op_list]
