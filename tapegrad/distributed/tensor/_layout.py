"""Which part of a tensor lies where: a mesh, a placement for each of its dimensions, a shape."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tapegrad.distributed.device_mesh import DeviceMesh
from tapegrad.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["Layout", "checked_placements", "size_before"]


class Layout(NamedTuple):
    """How a tensor lies on a mesh.

    Attributes:
        mesh: the processes.
        placements: one for each dimension of the mesh. Where several divide the same dimension of
            the tensor, the first of the mesh divides first.
        shape: of the whole tensor.
    """

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    shape: tuple[int, ...]

    def local_shape(self) -> tuple[int, ...]:
        """Return the shape of this process's part."""
        shape = list(self.shape)
        for axis, placement in enumerate(self.placements):
            if isinstance(placement, Shard):
                shape[placement.dim], _ = Shard.local_shard_size_and_offset(
                    shape[placement.dim], self.mesh.size(axis), coordinate(self.mesh)[axis]
                )
        return tuple(shape)

    def offsets(self) -> tuple[int, ...]:
        """Return where this process's part begins."""
        shape, offset = list(self.shape), [0] * len(self.shape)
        for axis, placement in enumerate(self.placements):
            if isinstance(placement, Shard):
                dim = placement.dim
                shape[dim], start = Shard.local_shard_size_and_offset(
                    shape[dim], self.mesh.size(axis), coordinate(self.mesh)[axis]
                )
                offset[dim] += start
        return tuple(offset)


def coordinate(mesh: DeviceMesh) -> list[int]:
    """Return the place of this process, which must be in the mesh."""
    place = mesh.get_coordinate()
    if place is None:
        raise RuntimeError(
            f"DTensor: process {mesh.get_rank()} is not in {mesh}; only its processes may compute "
            "with tensors that lie on it"
        )
    return place


def size_before(
    shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement], axis: int, dim: int
) -> int:
    """Return the size of what is divided along `dim` by a dimension of the mesh.

    Args:
        shape: of the whole tensor.
        mesh: the processes.
        placements: those of the dimensions before `axis` count.
        axis: the dimension of the mesh.
        dim: the dimension of the tensor.
    """
    size = shape[dim]
    for before in range(axis):
        placement = placements[before]
        if isinstance(placement, Shard) and placement.dim == dim:
            size, _ = Shard.local_shard_size_and_offset(
                size, mesh.size(before), coordinate(mesh)[before]
            )
    return size


def checked_placements(
    name: str, placements: Any, mesh: DeviceMesh, ndim: int
) -> tuple[Placement, ...]:
    """Return placements as a tuple, with dimensions counted from the first.

    Args:
        name: the function that was given them, for errors.
        placements: what was given; None stands for Replicate everywhere.
        mesh: the mesh that they are for.
        ndim: the number of dimensions of the tensor.
    """
    given = [Replicate()] * mesh.ndim if placements is None else list(placements)
    if len(given) != mesh.ndim:
        raise ValueError(
            f"{name}: expected as many placements as the mesh has dimensions ({mesh.ndim}), got "
            f"{len(given)}"
        )
    found: list[Placement] = []
    for placement in given:
        if isinstance(placement, Shard):
            dim = placement.dim + ndim if placement.dim < 0 else placement.dim
            if not 0 <= dim < ndim:
                raise ValueError(
                    f"{name}: {placement} is out of range for a tensor of {ndim} dimensions"
                )
            found.append(Shard(dim))
        elif placement in _OTHERS:
            found.append(placement)
        else:
            raise RuntimeError(f"{name}: {placement!r} is no placement that is supported")
    return tuple(found)


_OTHERS = (Replicate(), *map(Partial, ("sum", "avg", "min", "max", "product")))
