"""Which part of a tensor a process would hold."""

from collections.abc import Sequence

from tapegrad.distributed.device_mesh import DeviceMesh
from tapegrad.distributed.tensor import Partial, Placement, Replicate, Shard

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int],
    mesh: DeviceMesh,
    placements: Sequence[Placement],
    skip_offset: bool = False,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of this process's part of a tensor, and where the part begins.

    Args:
        global_shape: of the whole tensor.
        mesh: the processes.
        placements: how each dimension of the mesh holds the tensor.
        skip_offset: leave the second out, which is empty then.
    """
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return (0,), ()
    shape, offset = list(global_shape), [0] * len(global_shape)
    for axis, placement in enumerate(placements):
        if isinstance(placement, Replicate | Partial):
            continue
        if not isinstance(placement, Shard):
            raise NotImplementedError(
                f"compute_local_shape_and_global_offset: {placement} is not supported"
            )
        dim = placement.dim
        if not 0 <= dim < len(shape):
            raise AssertionError(f"Sharding dim {dim} greater than tensor ndim {len(shape)}")
        size, start = Shard.local_shard_size_and_offset(
            shape[dim], mesh.size(axis), coordinate[axis]
        )
        # Nothing lies behind the last element of the whole tensor.
        offset[dim] = offset[dim] + start if size else global_shape[dim]
        shape[dim] = size
    return tuple(shape), () if skip_offset else tuple(offset)
