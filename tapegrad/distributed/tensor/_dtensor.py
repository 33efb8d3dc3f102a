"""`DTensor`: a tensor of which each process of a mesh has a part.

It is an object of its own, with the part and a layout, and computes by `__torch_function__`
(`_dispatch`): native functions, which want native tensors, hand it their calls. `isinstance` takes
it for a `Tensor`, and for a `Parameter` where it is one, so that modules and optimizers do. What
the tape knows are the parts.
"""

from collections.abc import Sequence
from typing import Any

import tapegrad
from tapegrad._C import Tensor
from tapegrad.distributed.device_mesh import DeviceMesh
from tapegrad.distributed.tensor import _rules, _rules_nn, _rules_views  # noqa: F401
from tapegrad.distributed.tensor._dispatch import dispatch
from tapegrad.distributed.tensor._layout import Layout, checked_placements
from tapegrad.distributed.tensor._redistribute import (
    gradient_from,
    redistributed,
    way_of_gradient,
)
from tapegrad.distributed.tensor.placement_types import Placement, Replicate, Shard

__all__ = ["DTensor"]


class DTensor:
    """A tensor of which each process of a mesh has a part.

    `distribute_tensor`, `DTensor.from_local` and the factories of `tapegrad.distributed.tensor`
    make them.

    Example:
        >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> from tapegrad.distributed.tensor import Shard, distribute_tensor
        >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(torch.ones(2, 3), mesh, [Shard(0)])
        >>> (x @ x.T).full_tensor()
        tensor([[3., 3.],
                [3., 3.]])
        >>> torch.distributed.destroy_process_group()
    """

    _is_dtensor = True
    is_sparse = False
    is_nested = False
    is_quantized = False
    is_mkldnn = False
    is_sparse_csr = False
    layout = tapegrad.strided

    _local_tensor: Tensor
    _layout: Layout
    _is_param: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "DTensor: expected to be made by DTensor.from_local, distribute_tensor or a factory "
            "such as tapegrad.distributed.tensor.zeros"
        )

    @classmethod
    def _of(cls, local: Tensor, layout: Layout) -> Any:
        """Make one of a part and a layout."""
        made = object.__new__(cls)
        made._local_tensor, made._layout, made._is_param = local, layout, False
        return made

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """What `isinstance` takes it for."""
        return Tensor

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return dispatch(func, args, kwargs or {})

    # ---- making and leaving

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> Any:
        """Return the tensor that the parts of all processes make up. Gradients go to the parts.

        Args:
            local_tensor: the part of this process.
            device_mesh: the processes.
            placements: how they hold the tensor; Replicate if None.
            run_check: copy the first process's part to others where they are to be copies.
            shape: of the whole; needed where parts differ in size.
            stride: not used.
            grad_placements: how the gradient of the part is to lie.
        """
        if isinstance(local_tensor, DTensor):
            raise RuntimeError(
                "the local_tensor argument only accepts torch.Tensor but got DTensor value."
            )
        mesh = _mesh_or_all(device_mesh, local_tensor)
        ways = checked_placements("DTensor.from_local", placements, mesh, local_tensor.dim())
        whole = list(local_tensor.shape) if shape is None else list(shape)
        if shape is None:
            for axis, placement in enumerate(ways):
                if isinstance(placement, Shard):
                    whole[placement.dim] *= mesh.size(axis)
        layout = Layout(mesh, ways, tuple(whole))
        if mesh.get_coordinate() is None:
            return DTensor._of(local_tensor.new_empty(0), layout)
        if shape is not None and tuple(local_tensor.shape) != layout.local_shape():
            raise ValueError(
                f"DTensor.from_local: expected a part of shape {layout.local_shape()} of a tensor "
                f"of shape {tuple(whole)}, got {tuple(local_tensor.shape)}"
            )
        if run_check:
            local_tensor = _same_everywhere(local_tensor, layout)
        local = local_tensor.view_as(local_tensor)
        if grad_placements is not None and local.requires_grad:
            back = checked_placements("DTensor.from_local", grad_placements, mesh, local.dim())
            expected = tuple(way_of_gradient(each) for each in ways)
            if back != expected:
                raise NotImplementedError(
                    f"DTensor.from_local: the gradient lies as {expected}, not as {back}; leave "
                    "grad_placements out, and redistribute the gradient"
                )
        return DTensor._of(local, layout)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """Return the part of this process.

        Args:
            grad_placements: how the gradient of the part will lie; as the tensor does if None.
                Give ``[Partial()]`` where processes compute different things with their copies.
        """
        local = self._local_tensor
        if not (local.requires_grad and tapegrad.is_grad_enabled()):
            return local
        if grad_placements is not None:
            ways = checked_placements(
                "DTensor.to_local", grad_placements, self.device_mesh, self.ndim
            )
            local = gradient_from(local, self._layout, ways)
        return local.view_as(local)

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> Any:
        """Return the same tensor in other placements; differentiable.

        Args:
            device_mesh: the mesh of the tensor; no other is supported.
            placements: the new placements.
            async_op: the result is there at once in any case.
            forward_dtype, backward_dtype: refused.
        """
        if forward_dtype is not None or backward_dtype is not None:
            raise NotImplementedError(
                "DTensor.redistribute: forward_dtype and backward_dtype are not supported; call "
                "to() before"
            )
        if device_mesh is not None and device_mesh != self.device_mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        ways = checked_placements("DTensor.redistribute", placements, self.device_mesh, self.ndim)
        for before, after in zip(self.placements, ways, strict=True):
            if after.is_partial() and before != after:
                raise RuntimeError(
                    "Can not redistribute to Partial, redistributing to Partial is for internal "
                    "use only!"
                )
        if ways == self.placements:
            return self
        local = redistributed(self._local_tensor, self._layout, ways)
        return DTensor._of(local, self._layout._replace(placements=ways))

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """Return the whole tensor, on every process; differentiable.

        Args:
            grad_placements: as for `to_local`.
        """
        return self.redistribute(placements=self._whole()).to_local(grad_placements=grad_placements)

    def _whole(self) -> tuple[Placement, ...]:
        return (Replicate(),) * self.device_mesh.ndim

    # ---- what it is

    @property
    def device_mesh(self) -> DeviceMesh:
        """The processes that it lies on."""
        return self._layout.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How each dimension of the mesh holds it."""
        return self._layout.placements

    @property
    def shape(self) -> Any:
        """The shape of the whole."""
        return tapegrad.Size(self._layout.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._layout.shape)

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self._local_tensor.dtype

    @property
    def device(self) -> Any:
        """The device of the part of this process."""
        return self._local_tensor.device

    @property
    def is_cuda(self) -> bool:
        """Whether the parts lie on GPUs."""
        return self._local_tensor.is_cuda

    @property
    def is_cpu(self) -> bool:
        """Whether the parts lie on the host."""
        return self._local_tensor.is_cpu

    @property
    def is_meta(self) -> bool:
        """Whether the parts have no memory."""
        return self._local_tensor.is_meta

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self._local_tensor.element_size()

    @property
    def nbytes(self) -> int:
        """The bytes of the whole."""
        return self.numel() * self.itemsize

    @property
    def T(self) -> Any:
        """The tensor with its dimensions turned around."""
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self) -> Any:
        """The tensor with its last two dimensions exchanged."""
        return self.transpose(-2, -1)

    def size(self, dim: int | None = None) -> Any:
        """Return the shape of the whole, or one size."""
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        """Return the strides that the whole would have, were it in the usual order."""
        strides = tapegrad.empty(self._layout.shape, device="meta").stride()
        return strides if dim is None else strides[dim]

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self.ndim

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements of the whole."""
        return self.shape.numel()

    nelement = numel

    def element_size(self) -> int:
        """Return the bytes of an element."""
        return self.itemsize

    def is_floating_point(self) -> bool:
        """Return whether the elements are floating."""
        return self._local_tensor.is_floating_point()

    def is_complex(self) -> bool:
        """Return whether the elements are complex."""
        return self._local_tensor.is_complex()

    def is_contiguous(self, memory_format: Any = tapegrad.contiguous_format) -> bool:
        """Return whether the part of this process is contiguous."""
        return self._local_tensor.is_contiguous(memory_format=memory_format)

    def get_device(self) -> int:
        """Return the number of the device."""
        return self._local_tensor.get_device()

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        text = (
            f"DTensor(local_tensor={self._local_tensor.detach()!r}, "
            f"device_mesh={self.device_mesh!r}, placements={self.placements})"
        )
        return f"Parameter containing:\n{text}" if self._is_param else text

    def __bool__(self) -> bool:
        return bool(self.full_tensor())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __setitem__(self, index: Any, value: Any) -> None:
        raise NotImplementedError(
            "DTensor: elements cannot be assigned; use torch.where or masked_fill, or write to "
            "to_local() of it"
        )

    def __iter__(self) -> Any:
        return iter(self.unbind(0))

    def item(self) -> Any:
        """Return the only element, on every process."""
        return self.full_tensor().item()

    def tolist(self) -> Any:
        """Return the whole as lists, on every process."""
        return self.full_tensor().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """Refuse: the memory of the whole is nowhere."""
        raise RuntimeError("DTensor.numpy: call full_tensor().numpy() or to_local().numpy()")

    # ---- gradients

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are recorded."""
        return self._local_tensor.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._local_tensor.requires_grad = value

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Set whether gradients are recorded."""
        self._local_tensor.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether it is no result of a recorded function."""
        return self._local_tensor.is_leaf

    @property
    def grad_fn(self) -> Any:
        """What the part was computed by."""
        return self._local_tensor.grad_fn

    @property
    def retains_grad(self) -> bool:
        """Whether it keeps its gradient although it is no leaf."""
        return self._local_tensor.retains_grad

    @property
    def _version(self) -> int:
        return self._local_tensor._version

    def retain_grad(self) -> None:
        """Keep the gradient although it is no leaf."""
        self._local_tensor.retain_grad()

    @property
    def grad(self) -> Any:
        """The gradient, which lies as the tensor does; it is Replicate where that is Partial."""
        local = self._local_tensor.grad
        return None if local is None else self._gradient(local)

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is None:
            self._local_tensor.grad = None
            return
        if not isinstance(value, DTensor):
            raise RuntimeError(
                "DTensor.grad: expected a DTensor; make one with distribute_tensor or "
                "DTensor.from_local"
            )
        ways = tuple(way_of_gradient(each) for each in self.placements)
        self._local_tensor.grad = value.redistribute(placements=ways)._local_tensor

    def _gradient(self, local: Tensor) -> Any:
        ways = tuple(way_of_gradient(each) for each in self.placements)
        return DTensor._of(local, self._layout._replace(placements=ways))

    def backward(
        self, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False,
        inputs: Any = None,
    ) -> None:  # fmt: skip
        """Compute the gradients of leaves; all processes must call it.

        Args:
            gradient: the gradient of this tensor; needed unless it has one element.
            retain_graph, create_graph: as in `Tensor.backward`.
            inputs: refused.
        """
        if inputs is not None:
            raise NotImplementedError("DTensor.backward: inputs is not supported")
        if gradient is not None:
            ways = tuple(way_of_gradient(each) for each in self.placements)
            gradient = gradient.redistribute(placements=ways)._local_tensor
        elif self.numel() == 1:
            gradient = tapegrad.ones_like(self._local_tensor)
        else:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        self._local_tensor.backward(gradient, retain_graph, create_graph)

    def register_hook(self, hook: Any) -> Any:
        """Call a function with the gradient, which it may replace."""

        def local_hook(grad: Tensor) -> Any:
            result = hook(self._gradient(grad))
            return None if result is None else result._local_tensor

        return self._local_tensor.register_hook(local_hook)

    def register_post_accumulate_grad_hook(self, hook: Any) -> Any:
        """Call a function with the tensor after its gradient was accumulated."""
        return self._local_tensor.register_post_accumulate_grad_hook(lambda _: hook(self))

    def detach(self) -> Any:
        """Return the same tensor without history."""
        return DTensor._of(self._local_tensor.detach(), self._layout)

    def detach_(self) -> Any:
        """Forget the history."""
        self._local_tensor.detach_()
        return self

    @property
    def data(self) -> Any:
        """The same tensor without history."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, DTensor) or value._layout != self._layout:
            raise RuntimeError("DTensor.data: expected a DTensor that lies in the same way")
        self._local_tensor.data = value._local_tensor

    def _as_parameter(self, requires_grad: bool) -> Any:
        """Return a parameter over the same memory."""
        made = DTensor._of(self._local_tensor.detach().requires_grad_(requires_grad), self._layout)
        made._is_param = True
        return made

    # ---- copies

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError("DTensor: only leaves can be copied deeply; detach() it first")
        local = self._local_tensor.detach().clone().requires_grad_(self.requires_grad)
        if self._local_tensor.grad is not None:
            local.grad = self._local_tensor.grad.clone()
        made = DTensor._of(local, self._layout)
        made._is_param = self._is_param
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError(
            "DTensor: it cannot be pickled; save it with torch.distributed.checkpoint, or "
            "full_tensor() of it"
        )

    def new_zeros(self, *size: Any, dtype: Any = None, **options: Any) -> Any:
        """Return zeros that every process has all of."""
        return self._new(tapegrad.zeros(*size, dtype=dtype or self.dtype, device=self.device))

    def new_ones(self, *size: Any, dtype: Any = None, **options: Any) -> Any:
        """Return ones that every process has all of."""
        return self._new(tapegrad.ones(*size, dtype=dtype or self.dtype, device=self.device))

    def new_empty(self, *size: Any, dtype: Any = None, **options: Any) -> Any:
        """Return a tensor that lies as this one if it has its shape; else all have all of it."""
        shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
        if tuple(shape) == tuple(self.shape):
            return dispatch(tapegrad.empty_like, (self,), {"dtype": dtype})
        return self.new_zeros(*size, dtype=dtype)

    def _new(self, local: Tensor) -> Any:
        return DTensor._of(local, Layout(self.device_mesh, self._whole(), tuple(local.shape)))

    def __getattr__(self, name: str) -> Any:
        """Return a method of tensors, which `dispatch` calls."""
        method = getattr(Tensor, name, None)
        if name.startswith("__") or method is None:
            raise AttributeError(f"'DTensor' object has no attribute '{name}'")
        if not callable(method):
            raise NotImplementedError(f"DTensor.{name}: not supported; use to_local() of it")

        def call(*args: Any, **kwargs: Any) -> Any:
            return dispatch(method, (self, *args), kwargs)

        call.__name__ = name
        return call


def _operator(name: str) -> Any:
    def call(self: Any, *args: Any) -> Any:
        return dispatch(getattr(Tensor, name), (self, *args), {})

    call.__name__ = name
    return call


for _name in (
    *_rules.OPERATORS, "__matmul__", "__rmatmul__", "__getitem__", "__iand__", "__ior__", "__ixor__"
):  # fmt: skip
    if hasattr(Tensor, _name):
        setattr(DTensor, _name, _operator(_name))


def _mesh_or_all(mesh: DeviceMesh | None, local: Tensor) -> DeviceMesh:
    if mesh is not None:
        return mesh
    from tapegrad.distributed import get_world_size
    from tapegrad.distributed.device_mesh import init_device_mesh

    return init_device_mesh(local.device.type, (get_world_size(),))


def _same_everywhere(local: Tensor, layout: Layout) -> Tensor:
    from tapegrad import distributed

    result = local.detach().clone()
    for axis, placement in enumerate(layout.placements):
        if placement.is_replicate():
            distributed.broadcast(result, group=layout.mesh.get_group(axis), group_src=0)
    return local + (result - local).detach() if local.requires_grad else result
