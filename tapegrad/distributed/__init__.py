"""`torch.distributed` for one process, and for several on CPUs by MPI.

A program that is written for several processes runs as it is in a world of one. Several are moved
by engines behind one interface (docs/distributed.md, `tapegrad.distributed.engine`).

Example:
    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> x = torch.tensor([1.0, 2.0])
    >>> torch.distributed.all_reduce(x)
    >>> x
    tensor([1., 2.])
    >>> torch.distributed.destroy_process_group()
"""
# ruff: noqa: F401

import enum as _enum
import os as _os
from typing import TYPE_CHECKING

from tapegrad.distributed._backends import (
    Backend,
    get_default_backend_for_device,
    is_available,
    is_backend_available,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    is_ucc_available,
    is_xccl_available,
)
from tapegrad.distributed._collectives import (
    all_gather,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from tapegrad.distributed._environment import (
    get_node_local_rank,
    is_torchelastic_launched,
    register_rendezvous_handler,
    rendezvous,
)
from tapegrad.distributed._errors import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
)
from tapegrad.distributed._groups import (
    GroupMember,
    ProcessGroup,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_global_rank,
    get_group_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_initialized,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
)
from tapegrad.distributed._messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
from tapegrad.distributed._objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from tapegrad.distributed._reduce_op import (
    ReduceOp,
    reduce_op,
    supports_complex,
)
from tapegrad.distributed._reduce_op import _make_nccl_premul_sum as _make_nccl_premul_sum
from tapegrad.distributed._stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from tapegrad.distributed._work import Work

__all__ = [
    "Backend",
    "DebugLevel",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "GradBucket",
    "GroupMember",
    "HashStore",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "QueueEmptyError",
    "ReduceOp",
    "Store",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_backend_config",
    "get_debug_level",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_op",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "register_rendezvous_handler",
    "rendezvous",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "set_debug_level",
    "set_debug_level_from_env",
    "supports_complex",
]


class DebugLevel(_enum.IntEnum):
    """How much is checked beside what is always checked; kept, and changes nothing."""

    OFF = 0
    INFO = 1
    DETAIL = 2

    def __str__(self) -> str:
        return f"DebugLevel.{self.name}"


_debug_level = DebugLevel.OFF


def get_debug_level() -> DebugLevel:
    """Return the level that was set."""
    return _debug_level


def set_debug_level(arg0: DebugLevel) -> None:
    """Set the level.

    Args:
        arg0: a `DebugLevel`.
    """
    global _debug_level
    _debug_level = DebugLevel(arg0)


def set_debug_level_from_env() -> None:
    """Set the level that TORCH_DISTRIBUTED_DEBUG names."""
    name = _os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if name not in DebugLevel.__members__:
        raise RuntimeError(
            f"The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO or DETAIL, got {name}"
        )
    set_debug_level(DebugLevel[name])


set_debug_level_from_env()

if TYPE_CHECKING:
    from tapegrad.distributed import (
        _composable,
        _tensor,
        algorithms,
        autograd,
        checkpoint,
        device_mesh,
        distributed_c10d,
        engine,
        fsdp,
        nn,
        optim,
        rpc,
        tensor,
        utils,
    )
    from tapegrad.distributed.device_mesh import DeviceMesh, init_device_mesh
    from tapegrad.nn.parallel._reducer import GradBucket
else:
    _LATER = frozenset(
        ("_composable", "_tensor", "algorithms", "autograd", "checkpoint", "device_mesh",
         "distributed_c10d", "engine", "fsdp", "nn", "optim", "rpc", "tensor", "utils")
    )  # fmt: skip

    def __getattr__(name):
        """Load the parts that many programs do without when they are first asked for."""
        from importlib import import_module

        if name in _LATER:
            return import_module(f"tapegrad.distributed.{name}")
        if name in ("DeviceMesh", "init_device_mesh"):
            return getattr(import_module("tapegrad.distributed.device_mesh"), name)
        if name == "GradBucket":
            return import_module("tapegrad.nn.parallel._reducer").GradBucket
        raise AttributeError(f"module 'tapegrad.distributed' has no attribute {name!r}")
