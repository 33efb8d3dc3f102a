"""Parameters that are gathered, freed and reduced together.

Each parameter is a `DTensor`, divided along its first dimension. `ParamGroup.recorded` gives whole
tensors in its place, by a `Function` whose backward reduces and divides their gradients. So the
tape itself says when all gradients of the group are there, and adds them up, whatever the order,
and however often the module ran.

Whole tensors are freed while the tape still needs them: `saved_values` keeps, where a function
saves one, its place in the group, and gathers again when backward asks. `_homes` knows which memory
is whose.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import tapegrad
from tapegrad import distributed
from tapegrad._C import Tensor
from tapegrad.autograd import Function
from tapegrad.autograd.graph import saved_tensors_hooks
from tapegrad.distributed.tensor import DTensor, Replicate, Shard
from tapegrad.distributed.tensor._layout import Layout, coordinate

__all__ = ["ParamGroup", "Place", "saved_values"]


class Place(NamedTuple):
    """Where a module keeps a parameter."""

    module: Any
    name: str


class _Bucket(NamedTuple):
    """Parameters that travel in one buffer: their numbers, and the dtype they are computed in."""

    indices: list[int]
    dtype: Any


class _Saved(NamedTuple):
    """A value that a function saved, as a view of a parameter that may have been freed."""

    group: "ParamGroup"
    number: int
    size: Any
    stride: Any
    offset: int
    versions: tuple[int, ...]


# Whose memory begins at an address.
_homes: "WeakValueDictionary[int, ParamGroup]" = WeakValueDictionary()


def _home(value: Tensor) -> tuple["ParamGroup", int] | None:
    """Return the group whose whole parameter has this memory."""
    address = value.untyped_storage().data_ptr()
    group = _homes.get(address)
    index = None if group is None else group._addresses.get(address)
    return None if group is None or index is None else (group, index)


def _pack(value: Tensor) -> Any:
    if isinstance(value, Tensor) and not value.is_meta:
        home = _home(value)
        if home is not None:
            group, index = home
            place = value.size(), value.stride(), value.storage_offset()
            return _Saved(group, index, *place, group.versions())
    return value


def _unpack(saved: Any) -> Tensor:
    if not isinstance(saved, _Saved):
        return saved
    group = saved.group
    if group.versions() != saved.versions:
        raise RuntimeError(
            "fully_shard: a parameter that backward needs was changed in place after forward, by "
            "a step of an optimizer perhaps; run forward again"
        )
    with tapegrad.no_grad():
        whole = group.gather()[saved.number]
        result = whole.as_strided(saved.size, saved.stride, saved.offset)
        if not group.is_trained():
            group.free()  # no gradient will come that ends its use
    return result


def saved_values() -> saved_tensors_hooks:
    """Return a block in which functions that save whole parameters save their places."""
    return saved_tensors_hooks(_pack, _unpack)


class _Unshard(Function):
    """Whole parameters; backward gives the parts of their reduced gradients."""

    @staticmethod
    def forward(ctx: Any, group: "ParamGroup", *parts: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        ctx.set_materialize_grads(False)
        wholes = tuple(whole.detach() for whole in group.gather())
        frozen = [w for w, part in zip(wholes, parts, strict=True) if not part.requires_grad]
        ctx.mark_non_differentiable(*frozen)
        return wholes

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        if tapegrad.is_grad_enabled():
            raise NotImplementedError(
                "fully_shard: create_graph=True is not supported: reduced gradients have no history"
            )
        return None, *ctx.group.reduce(list(grads))


class ParamGroup:
    """Parameters of a module that are gathered and freed together.

    Args:
        places: where each parameter is; several places share one.
        mesh: one dimension, which divides; or two, of which the first has copies.
        policy: dtypes.
    """

    def __init__(self, places: list[list[Place]], mesh: Any, policy: Any) -> None:
        self.places, self.mesh, self.policy = places, mesh, policy
        self.reshard_after_backward = True
        self.sync_gradients = True
        self.sync_copies = True
        self.divide_factor: float | None = None
        self.prefetched: list[ParamGroup] = []  # what backward gathers next
        self._axis = mesh.ndim - 1
        self._wholes: list[Tensor] | None = None
        self._addresses: dict[int, int] = {}  # of whole parameters, with their numbers
        self._gathered: tuple[int, ...] = ()
        self._begun: list[Any] | None = None
        self._unreduced: list[Tensor | None] = [None] * len(places)
        self._uncopied: list[Tensor | None] = [None] * len(places)
        for each in places:
            _divide(each, mesh)
        self._params: list[Any] = []
        self.params()

    # ---- the parts

    def params(self) -> list[Any]:
        """Return the divided parameters, which programs may have replaced since."""
        found = [place[0].module._parameters[place[0].name] for place in self.places]
        if not all(isinstance(param, DTensor) for param in found):
            found = self._params
        self._params = found
        return found

    def parts(self) -> list[Tensor]:
        """Return this process's parts."""
        return [param._local_tensor for param in self.params()]

    def versions(self) -> tuple[int, ...]:
        """Return what tells whether the parts have changed."""
        return tuple(part._version for part in self.parts())

    def is_trained(self) -> bool:
        """Return whether a parameter has a gradient."""
        return any(param.requires_grad for param in self.params())

    def _dtype(self, param: Any) -> Any:
        wanted = self.policy.param_dtype
        return wanted if wanted is not None and param.dtype.is_floating_point else param.dtype

    def _buckets(self) -> list[_Bucket]:
        found: dict[Any, list[int]] = {}
        for index, param in enumerate(self.params()):
            found.setdefault(self._dtype(param), []).append(index)
        return [_Bucket(indices, dtype) for dtype, indices in found.items()]

    def _size(self) -> int:
        return self.mesh.size(self._axis)

    def _row(self, param: Any) -> int:
        """Return how many elements of a parameter each process sends, with what fills up."""
        rows, *rest = param.shape
        count = -(-rows // self._size())
        for size in rest:
            count *= size
        return count

    # ---- whole parameters

    def begin(self) -> None:
        """Begin to gather, without waiting."""
        if self._wholes is not None and self._gathered == self.versions():
            return
        if self._begun is not None:
            if self._gathered == self.versions():
                return
            self._finish()  # of parts that have changed since
        self._free_wholes()
        self._gathered = self.versions()
        self._begun = []
        params = self.params()
        for bucket in self._buckets():
            rows = []
            for index in bucket.indices:
                part = params[index]._local_tensor.detach().to(bucket.dtype).reshape(-1)
                lacks = self._row(params[index]) - part.numel()
                rows += [part, part.new_zeros(lacks)] if lacks else [part]
            mine = tapegrad.cat(rows)
            out = mine.new_empty(self._size() * mine.numel())
            work = distributed.all_gather_into_tensor(
                out, mine, self.mesh.get_group(self._axis), async_op=True
            )
            self._begun.append((bucket, out, work, mine))

    def begin_before(self) -> None:
        """Begin to gather what backward needs next."""
        for group in self.prefetched:
            group.begin()

    def gather(self) -> list[Tensor]:
        """Return the whole parameters, without history."""
        if self._wholes is not None and self._gathered == self.versions():
            return self._wholes
        self.begin()
        self._wholes = self._finish()
        for index, whole in enumerate(self._wholes):
            if whole.numel():
                address = whole.untyped_storage().data_ptr()
                _homes[address], self._addresses[address] = self, index
        return self._wholes

    def _finish(self) -> list[Tensor]:
        params = self.params()
        wholes: list[Any] = [None] * len(params)
        for bucket, out, work, _ in self._begun or ():
            work.wait()
            table, start = out.view(self._size(), -1), 0
            for index in bucket.indices:
                count, shape = self._row(params[index]), tuple(params[index].shape)
                rows = table[:, start : start + count].reshape(-1, *shape[1:])
                wholes[index] = rows[: shape[0]].clone()
                start += count
        self._begun = None
        return wholes

    def recorded(self) -> Sequence[Tensor]:
        """Return the whole parameters, with the history by which their parts have gradients."""
        wholes = _Unshard.apply(self, *self.parts())
        for whole in wholes:
            whole._is_param = True  # a Parameter, to isinstance
        return wholes

    def free(self) -> None:
        """Drop the whole parameters; what was begun ends first."""
        if self._begun is not None:
            self._finish()
        self._free_wholes()

    def _free_wholes(self) -> None:
        for address in self._addresses:
            _homes.pop(address, None)
        self._addresses = {}
        self._wholes = None

    # ---- putting them into modules

    def put(self, values: Sequence[Any]) -> None:
        """Put values where the modules have the parameters."""
        self.params()  # those that are there now are kept
        for places, value in zip(self.places, values, strict=True):
            for place in places:
                place.module._parameters[place.name] = value

    def put_back(self) -> None:
        """Put the divided parameters where they belong."""
        self.put(self._params)

    # ---- gradients

    def reduce(self, grads: list[Tensor | None]) -> list[Tensor | None]:
        """Return the parts of reduced gradients; None for all while processes do not communicate.

        Args:
            grads: of whole parameters, None for those that this process has not used.
        """
        with tapegrad.no_grad():
            for index, before in enumerate(self._unreduced):
                if before is not None:
                    grad = grads[index]
                    grads[index] = before if grad is None else before + grad
            if not self.sync_gradients:
                self._unreduced = grads
                found: list[Tensor | None] = [None] * len(grads)
            else:
                self._unreduced = [None] * len(grads)
                found = [None] * len(grads)
                for bucket in self._buckets():
                    self._reduce_bucket(bucket, grads, found)
        self.put_back()
        if self.reshard_after_backward:
            self.free()
        return found

    def _reduce_bucket(self, bucket: _Bucket, grads: list[Any], found: list[Tensor | None]) -> None:
        """Reduce one buffer. Behind the gradients each row tells which ones were used."""
        params = self.params()
        indices = [index for index in bucket.indices if params[index].requires_grad]
        if not indices:
            return
        dtype, size = self.policy.reduce_dtype or bucket.dtype, self._size()
        device = params[indices[0]].device
        columns = []
        for index in indices:
            column = tapegrad.zeros(size, self._row(params[index]), dtype=dtype, device=device)
            if grads[index] is not None:
                flat = grads[index].reshape(-1)
                column.view(-1)[: flat.numel()].copy_(flat)
            columns.append(column)
        used = [float(grads[index] is not None) for index in indices]
        flags = tapegrad.tensor(used, dtype=dtype, device=device).expand(size, -1)
        buffer = tapegrad.cat([*columns, flags], 1).contiguous()
        mine = buffer.new_empty(buffer.shape[1])
        kinds = distributed.ReduceOp
        op = kinds.AVG if self.divide_factor is None else kinds.SUM
        distributed.reduce_scatter_tensor(
            mine, buffer.view(-1), op, self.mesh.get_group(self._axis)
        )
        if self.mesh.ndim == 2 and self.sync_copies:
            distributed.all_reduce(mine, op, self.mesh.get_group(0))
        if self.divide_factor is not None:
            mine /= self.divide_factor
        used = mine[mine.numel() - len(indices) :].tolist()
        start = 0
        for index, is_used in zip(indices, used, strict=True):
            local, count = params[index]._local_tensor, self._row(params[index])
            if is_used:
                part = mine[start : start + local.numel()].view(local.shape).to(local.dtype)
                found[index] = self._with_copies(index, part.clone())
            start += count

    def _with_copies(self, index: int, part: Tensor) -> Tensor | None:
        """Keep a gradient until the copies of the group are reduced, if that is for later."""
        before = self._uncopied[index]
        if self.mesh.ndim == 2 and not self.sync_copies:
            self._uncopied[index] = part if before is None else before + part
            return None
        if before is not None:
            before = before.clone()
            distributed.all_reduce(before, distributed.ReduceOp.AVG, self.mesh.get_group(0))
            part, self._uncopied[index] = part + before, None
        return part


def _divide(places: list[Place], mesh: Any) -> None:
    """Put the part of this process in the place of a parameter."""
    param = places[0].module._parameters[places[0].name]
    ways = (Shard(0),) if mesh.ndim == 1 else (Replicate(), Shard(0))
    layout = Layout(mesh, ways, tuple(param.shape))
    length, start = Shard.local_shard_size_and_offset(
        param.shape[0], mesh.size(mesh.ndim - 1), coordinate(mesh)[-1]
    )
    with tapegrad.no_grad():
        local = param.detach().narrow(0, start, length).clone()
    divided = DTensor._of(local.requires_grad_(param.requires_grad), layout)
    divided._is_param = True
    param._divided = True
    for place in places:
        place.module._parameters[place.name] = divided
