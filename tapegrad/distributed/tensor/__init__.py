"""Tensors of which each process has a part, and layers that are divided between processes.

Example:
    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
    >>> ways = [torch.distributed.tensor.Shard(0)]
    >>> x = torch.distributed.tensor.ones(4, 2, device_mesh=mesh, placements=ways)
    >>> x.shape, x.sum().item()
    (torch.Size([4, 2]), 8.0)
    >>> torch.distributed.destroy_process_group()
"""

from tapegrad.distributed.device_mesh import DeviceMesh, init_device_mesh
from tapegrad.distributed.tensor._api import (
    distribute_module,
    distribute_tensor,
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from tapegrad.distributed.tensor._dtensor import DTensor
from tapegrad.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard
from tapegrad.distributed.tensor.placement_types import _StridedShard as _StridedShard

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "init_device_mesh",
    "ones",
    "parallel",
    "rand",
    "randn",
    "zeros",
]

from tapegrad.distributed.tensor import parallel
