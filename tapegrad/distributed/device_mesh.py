"""`DeviceMesh`: processes in rows and columns, with a group for each."""

import math
from typing import Any

import tapegrad
from tapegrad._C import Tensor
from tapegrad.distributed._groups import (
    GroupMember,
    ProcessGroup,
    _get_default_group,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
    new_group,
)

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """The processes of the world, or some of them, as an array.

    Args:
        device_type: the type of their devices.
        mesh: the ranks, as a tensor or nested lists.
        mesh_dim_names: a name for each dimension.
        backend_override: refused.

    Example:
        >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = torch.distributed.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
        >>> mesh["dp"].size(), mesh.get_coordinate()
        (1, [0, 0])
        >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        backend_override: Any = None,
        _init_backend: bool = True,
        _rank: int | None = None,
        _layout: Any = None,
        _rank_map: Any = None,
        _root_mesh: Any = None,
        _groups: list[Any] | None = None,
    ) -> None:
        if mesh is None:
            raise TypeError("DeviceMesh: expected the ranks as `mesh`, a tensor or nested lists")
        private = (_rank, _layout, _rank_map, _root_mesh)
        if backend_override is not None or not _init_backend or any(x is not None for x in private):
            raise NotImplementedError(
                "DeviceMesh: backend_override and private arguments are not supported"
            )
        if not is_initialized():
            init_process_group()
        self.device_type = device_type
        ranks = mesh if isinstance(mesh, Tensor) else tapegrad.tensor(mesh)
        self.mesh = ranks.detach().to(device="cpu", dtype=tapegrad.int32)
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        _check(self.mesh, self.mesh_dim_names)
        self._parent: DeviceMesh | None = None
        self._dim_groups = self._make_groups() if _groups is None else _groups

    def _make_groups(self) -> list[Any]:
        """Return the group of this process along each dimension."""
        if self.mesh.tolist() == list(range(get_world_size())):
            return [_get_default_group()]
        found = []
        for dim in range(self.mesh.dim()):
            rows = self.mesh.transpose(dim, -1).reshape(-1, self.mesh.shape[dim]).tolist()
            groups = [new_group(row, sort_ranks=False) for row in rows]
            mine = [each for each in groups if each is not GroupMember.NON_GROUP_MEMBER]
            found.append(mine[0] if mine else GroupMember.NON_GROUP_MEMBER)
        return found

    def __repr__(self) -> str:
        names = f", mesh_dim_names={self.mesh_dim_names}" if self.mesh_dim_names else ""
        return f"DeviceMesh({self.device_type!r}, {self.mesh.tolist()}{names})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> Any:
        ranks = tuple(self.mesh.flatten().tolist())
        return ranks, tuple(self.mesh.shape), self.device_type, self.mesh_dim_names

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.mesh.dim()

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """Return the number of processes, of all or along a dimension."""
        return self.mesh.numel() if mesh_dim is None else self.mesh.shape[mesh_dim]

    def _dim(self, mesh_dim: int | str | None, name: str) -> int:
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"DeviceMesh.{name}: found the DeviceMesh have {self.ndim} dimensions. "
                    "`mesh_dim` needs to be specified when device_mesh.ndim > 1."
                )
            return 0
        if isinstance(mesh_dim, str):
            if mesh_dim not in (self.mesh_dim_names or ()):
                raise KeyError(
                    f"Mesh dimension '{mesh_dim}' does not exist. Available mesh dimensions are: "
                    f"{self.mesh_dim_names}"
                )
            return (self.mesh_dim_names or ()).index(mesh_dim)
        return mesh_dim

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Return the group of this process along a dimension."""
        return self._dim_groups[self._dim(mesh_dim, "get_group")]

    def get_all_groups(self) -> list[ProcessGroup]:
        """Return the groups of this process along all dimensions."""
        return list(self._dim_groups)

    def get_rank(self) -> int:
        """Return the rank of this process in the world."""
        return get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return the rank of this process along a dimension."""
        return get_rank(self._dim_groups[self._dim(mesh_dim, "get_local_rank")])

    def get_coordinate(self) -> list[int] | None:
        """Return where this process is in the mesh, or None."""
        place = (self.mesh == get_rank()).nonzero().tolist()
        return place[0] if place else None

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> "DeviceMesh":
        """Return the mesh along some dimensions in which this process is."""
        if not self.mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        dims = [self._dim(name, "__getitem__") for name in names]
        if dims != sorted(set(dims)):
            raise KeyError(
                f"Invalid mesh_dim_names {names}: they must follow the order of "
                f"{self.mesh_dim_names}"
            )
        place = self.get_coordinate()
        index = tuple(
            slice(None) if dim in dims or place is None else place[dim] for dim in range(self.ndim)
        )
        groups = [self._dim_groups[dim] for dim in dims]
        part = DeviceMesh(self.device_type, self.mesh[index], mesh_dim_names=names, _groups=groups)
        part._parent = self
        return part

    @staticmethod
    def from_group(
        group: ProcessGroup,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
    ) -> "DeviceMesh":
        """Return the mesh of one dimension that a group is.

        Args:
            group: the group.
            device_type: the type of its devices.
            mesh: its ranks, if given.
            mesh_dim_names: the name of the dimension.
        """
        if not isinstance(group, ProcessGroup):
            raise NotImplementedError("DeviceMesh.from_group: expected one ProcessGroup")
        ranks = get_process_group_ranks(group)
        if mesh is not None and tapegrad.as_tensor(mesh).flatten().tolist() != ranks:
            raise ValueError(f"Invalid mesh {mesh} for a group with ranks {ranks}")
        return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, _groups=[group])


def _check(mesh: Tensor, names: tuple[str, ...] | None) -> None:
    if names is not None:
        if len(set(names)) != len(names):
            raise RuntimeError(
                f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in {names}"
            )
        if len(names) != mesh.dim():
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! Found "
                f"len(mesh_dim_names): {len(names)} and {mesh.dim()} dimensions."
            )
    ranks, size = mesh.flatten().tolist(), get_world_size()
    if len(set(ranks)) != len(ranks):
        raise RuntimeError(f"DeviceMesh cannot have duplicate values, but found {ranks}")
    if len(ranks) > size or any(not 0 <= rank < size for rank in ranks):
        raise RuntimeError(
            f"Mesh should not be bigger than default world size {size}, but found {len(ranks)} "
            "ranks!"
        )


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """Arrange the processes of the world as an array, in order of rank.

    Args:
        device_type: the type of their devices.
        mesh_shape: the sizes of the dimensions.
        mesh_dim_names: a name for each.
        backend_override: refused.
    """
    if not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. If you maintained a "
            "'torch.device' object, it's recommended to pass in 'device.type'."
        )
    if mesh_dim_names is not None and len(mesh_dim_names) != len(mesh_shape):
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length! Found "
            f"len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape): {len(mesh_shape)}."
        )
    ranks = tapegrad.arange(math.prod(mesh_shape)).view(mesh_shape)
    return DeviceMesh(
        device_type, ranks, mesh_dim_names=mesh_dim_names, backend_override=backend_override
    )
