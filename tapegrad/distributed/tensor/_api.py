"""Making tensors and modules that lie on a mesh."""

from collections.abc import Callable, Sequence
from typing import Any

import tapegrad
from tapegrad._C import Tensor
from tapegrad.distributed.device_mesh import DeviceMesh
from tapegrad.distributed.tensor._dtensor import DTensor, _mesh_or_all
from tapegrad.distributed.tensor._layout import Layout, checked_placements
from tapegrad.distributed.tensor._redistribute import redistributed
from tapegrad.distributed.tensor._rules_nn import _normal, _uniform, random_part
from tapegrad.distributed.tensor.placement_types import Placement, Replicate

__all__ = [
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "ones",
    "rand",
    "randn",
    "zeros",
]

Ways = Sequence[Placement] | None


def distribute_tensor(
    tensor: Any,
    device_mesh: DeviceMesh | None = None,
    placements: Ways = None,
    *,
    src_data_rank: int | None = 0,
) -> Any:
    """Return a tensor that lies on a mesh, from one that every process has all of.

    Args:
        tensor: a leaf; that of the first process counts, unless `src_data_rank` is None.
        device_mesh: the processes; all if None.
        placements: how they hold the tensor; Replicate if None.
        src_data_rank: whose tensor counts, by its rank along each dimension of the mesh; None
            takes each process's own, without communication.
    """
    if isinstance(tensor, DTensor):
        mesh = tensor.device_mesh if device_mesh is None else device_mesh
        ways = checked_placements("distribute_tensor", placements, mesh, tensor.ndim)
        if mesh != tensor.device_mesh or ways != tensor.placements:
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} to other "
                f"placements {ways}; call redistribute()"
            )
        return tensor
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but "
                           "found non-leaf tensor!")  # fmt: skip
    mesh = _mesh_or_all(device_mesh, tensor)
    ways = checked_placements("distribute_tensor", placements, mesh, tensor.dim())
    for placement in ways:
        if placement.is_partial():
            raise RuntimeError(
                f"distribute_tensor: expected Shard or Replicate placements, got {placement}"
            )
    whole = tensor.detach().clone()
    layout = Layout(mesh, (Replicate(),) * mesh.ndim, tuple(tensor.shape))
    with tapegrad.no_grad():
        if mesh.get_coordinate() is None:
            local = whole.new_empty(0)
        else:
            if src_data_rank is not None and not whole.is_meta:
                from tapegrad import distributed

                for axis in reversed(range(mesh.ndim)):
                    group = mesh.get_group(axis)
                    distributed.broadcast(whole, group=group, group_src=src_data_rank)
            local = redistributed(whole, layout, ways)
    made = DTensor._of(local.requires_grad_(tensor.requires_grad), layout._replace(placements=ways))
    made._is_param = isinstance(tensor, tapegrad.nn.Parameter)
    return made


def distribute_module(
    module: Any,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Any, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Any:
    """Make parameters and buffers of a module lie on a mesh.

    Args:
        module: the module, which is changed.
        device_mesh: the processes; all if None.
        partition_fn: called as ``(name, submodule, mesh)`` for each submodule, to put DTensors
            where parameters were. What it leaves is held by every process.
        input_fn: called as ``(module, inputs, mesh)``; returns the inputs.
        output_fn: called as ``(module, outputs, mesh)``; returns the outputs.
    """
    mesh = device_mesh
    if mesh is None:
        mesh = _mesh_or_all(None, next(iter(module.parameters()), tapegrad.empty(0)))
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        _replicate(part, mesh)
    if input_fn is not None:
        before = input_fn
        module.register_forward_pre_hook(lambda m, inputs: before(m, inputs, mesh))
    if output_fn is not None:
        after = output_fn
        module.register_forward_hook(lambda m, inputs, outputs: after(m, outputs, mesh))
    return module


def _replicate(module: Any, mesh: DeviceMesh) -> None:
    for name, param in module._parameters.items():
        if param is not None and not isinstance(param, DTensor):
            module._parameters[name] = distribute_tensor(param, mesh)
    for name, buffer in module._buffers.items():
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[name] = distribute_tensor(buffer, mesh)


# ---- factories


def _shape(size: tuple[Any, ...]) -> tuple[int, ...]:
    if len(size) == 1 and isinstance(size[0], list | tuple):
        return tuple(size[0])
    return tuple(size)


def _made(
    name: str,
    size: tuple[Any, ...],
    make: Callable[[Layout, Any, Any], Tensor],
    dtype: Any,
    requires_grad: bool,
    device_mesh: DeviceMesh | None,
    placements: Ways,
) -> Any:
    mesh = _mesh_or_all(device_mesh, tapegrad.empty(0))
    shape = _shape(size)
    ways = checked_placements(name, placements, mesh, len(shape))
    if any(each.is_partial() for each in ways):
        raise RuntimeError(f"{name}: expected Shard or Replicate placements, got {ways}")
    layout = Layout(mesh, ways, shape)
    local = make(layout, dtype or tapegrad.get_default_dtype(), mesh.device_type)
    return DTensor._of(local.requires_grad_(requires_grad), layout)


def zeros(
    *size: Any, dtype: Any = None, layout: Any = None, requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None, placements: Ways = None,
) -> Any:  # fmt: skip
    """Return zeros that lie on a mesh.

    Args:
        *size: the shape of the whole.
        dtype: the dtype.
        layout: strided.
        requires_grad: whether gradients are recorded.
        device_mesh: the processes; all if None.
        placements: how they hold the tensor; Replicate if None.
    """

    def make(lies: Layout, dtype: Any, device: Any) -> Tensor:
        return tapegrad.zeros(lies.local_shape(), dtype=dtype, device=device)

    return _made("zeros", size, make, dtype, requires_grad, device_mesh, placements)


def ones(
    *size: Any, dtype: Any = None, layout: Any = None, requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None, placements: Ways = None,
) -> Any:  # fmt: skip
    """Return ones that lie on a mesh; see `zeros`."""
    return full(
        _shape(size), 1.0, dtype=dtype, requires_grad=requires_grad, device_mesh=device_mesh,
        placements=placements,
    )  # fmt: skip


def empty(
    *size: Any, dtype: Any = None, layout: Any = None, requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None, placements: Ways = None,
) -> Any:  # fmt: skip
    """Return a tensor that lies on a mesh and holds zeros; see `zeros`."""
    return zeros(
        *size, dtype=dtype, requires_grad=requires_grad, device_mesh=device_mesh,
        placements=placements,
    )  # fmt: skip


def full(
    size: Any, fill_value: Any, *, dtype: Any = None, layout: Any = None,
    requires_grad: bool = False, device_mesh: DeviceMesh | None = None, placements: Ways = None,
) -> Any:  # fmt: skip
    """Return one number everywhere, on a mesh; see `zeros`."""

    def make(lies: Layout, dtype: Any, device: Any) -> Tensor:
        return tapegrad.full(lies.local_shape(), fill_value, dtype=dtype, device=device)

    return _made("full", (size,), make, dtype, requires_grad, device_mesh, placements)


def rand(
    *size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = None,
    device_mesh: DeviceMesh | None = None, placements: Ways = None,
) -> Any:  # fmt: skip
    """Return uniform numbers that lie on a mesh, the same however it holds them; see `zeros`."""

    def make(lies: Layout, dtype: Any, device: Any) -> Tensor:
        return random_part(lies, _uniform, dtype, device)

    return _made("rand", size, make, dtype, requires_grad, device_mesh, placements)


def randn(
    *size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = None,
    device_mesh: DeviceMesh | None = None, placements: Ways = None,
) -> Any:  # fmt: skip
    """Return normal numbers that lie on a mesh, the same however it holds them; see `zeros`."""

    def make(lies: Layout, dtype: Any, device: Any) -> Tensor:
        return random_part(lies, _normal, dtype, device)

    return _made("randn", size, make, dtype, requires_grad, device_mesh, placements)
