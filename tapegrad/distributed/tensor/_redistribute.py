"""Parts of tensors on their way between processes, with gradients that go the way back.

A gradient lies as its tensor does, but where the tensor is Partial: there each process gets the
whole gradient, which is Replicate. All rules of `_dispatch` keep to that, so that autograd of the
local parts is autograd of the whole. Redistributing from ``a`` to ``b`` therefore takes a gradient
from the way that one of ``b`` lies to that of ``a``.
"""

from typing import Any, NamedTuple

import tapegrad
from tapegrad import distributed
from tapegrad._C import Tensor
from tapegrad.autograd import Function
from tapegrad.distributed.tensor._layout import Layout, coordinate, size_before
from tapegrad.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["redistributed", "summed_in_backward", "way_of_gradient"]


class _Along(NamedTuple):
    """Where a tensor changes its way to lie: a group, and the size of what is divided."""

    group: Any
    rank: int
    size: int
    lengths: tuple[int, ...]  # of the whole, along each dimension, before this group divides it

    def part(self, dim: int, rank: int) -> tuple[int, int]:
        return Shard.local_shard_size_and_offset(self.lengths[dim], self.size, rank)


def way_of_gradient(placement: Placement) -> Placement:
    """Return how the gradient of a tensor with this placement lies."""
    return Replicate() if isinstance(placement, Partial) else placement


def _padded(local: Tensor, dim: int, length: int) -> Tensor:
    """Return a contiguous tensor with zeros behind it, so that all processes have equal parts."""
    lacks = length - local.shape[dim]
    if lacks:
        shape = list(local.shape)
        shape[dim] = lacks
        local = tapegrad.cat([local, local.new_zeros(shape)], dim)
    return local.contiguous()


def _gather(local: Tensor, along: _Along, dim: int) -> Tensor:
    most, _ = along.part(dim, 0)
    mine = _padded(local, dim, most)
    parts = [tapegrad.empty_like(mine) for _ in range(along.size)]
    distributed.all_gather(parts, mine, along.group)
    cut = [part.narrow(dim, 0, along.part(dim, r)[0]) for r, part in enumerate(parts)]
    return tapegrad.cat(cut, dim)


def _cut(local: Tensor, along: _Along, dim: int) -> Tensor:
    length, start = along.part(dim, along.rank)
    return local.narrow(dim, start, length).clone()


def _reduce_op(placement: Partial) -> Any:
    kinds = distributed.ReduceOp
    return {
        "sum": kinds.SUM,
        "avg": kinds.AVG,
        "min": kinds.MIN,
        "max": kinds.MAX,
        "product": kinds.PRODUCT,
    }[placement.reduce_op]


def _reduce(local: Tensor, along: _Along, partial: Partial) -> Tensor:
    result = local.clone(memory_format=tapegrad.contiguous_format)
    distributed.all_reduce(result, _reduce_op(partial), along.group)
    return result


def _reduce_scatter(local: Tensor, along: _Along, partial: Partial, dim: int) -> Tensor:
    most, _ = along.part(dim, 0)
    cuts = [along.part(dim, rank) for rank in range(along.size)]
    parts = [_padded(local.narrow(dim, start, n), dim, most) for n, start in cuts]
    result = tapegrad.empty_like(parts[0])
    distributed.reduce_scatter(result, parts, _reduce_op(partial), along.group)
    return result.narrow(dim, 0, cuts[along.rank][0]).clone()


def _exchange(local: Tensor, along: _Along, source: int, target: int) -> Tensor:
    """Divide along another dimension."""
    cuts = [along.part(target, rank) for rank in range(along.size)]
    sent = [local.narrow(target, start, n).contiguous() for n, start in cuts]
    shape = list(local.shape)
    shape[target] = cuts[along.rank][0]
    got = []
    for rank in range(along.size):
        shape[source], _ = along.part(source, rank)
        got.append(local.new_empty(shape))
    distributed.all_to_all(got, sent, along.group)
    return tapegrad.cat(got, source)


def _as_partial(local: Tensor, along: _Along, partial: Partial) -> Tensor:
    """Return what this process gives to a reduction whose result is the tensor."""
    if along.rank == 0 or partial.reduce_op not in ("sum", "product"):
        return local.clone()
    make = tapegrad.zeros_like if partial.reduce_op == "sum" else tapegrad.ones_like
    return make(local)


def _converted(local: Tensor, along: _Along, source: Placement, target: Placement) -> Tensor:
    if source == target:
        return local.view_as(local)
    if isinstance(source, Shard):
        if isinstance(target, Shard):
            return _exchange(local, along, source.dim, target.dim)
        whole = _gather(local, along, source.dim)
        return whole if isinstance(target, Replicate) else _as_partial(whole, along, target)  # type: ignore[arg-type]
    if isinstance(source, Partial):
        if isinstance(target, Shard):
            return _reduce_scatter(local, along, source, target.dim)
        whole = _reduce(local, along, source)
        return whole if isinstance(target, Replicate) else _as_partial(whole, along, target)  # type: ignore[arg-type]
    if isinstance(target, Shard):
        return _cut(local, along, target.dim)
    assert isinstance(target, Partial)
    return _as_partial(local, along, target)


class _Convert(Function):
    """Changes one placement; its gradient changes between two others."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, along: _Along, way: Any, back: Any) -> Tensor:
        ctx.along, ctx.way, ctx.back = along, way, back
        return _converted(local, along, *way)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        source, target = ctx.way
        for placement in (source, target):
            if isinstance(placement, Partial) and placement.reduce_op not in ("sum", "avg"):
                raise NotImplementedError(
                    f"DTensor.redistribute: there is no gradient from {source} to {target}"
                )
        # The way of a gradient's gradient is that of the tensor.
        result = _Convert.apply(grad, ctx.along, ctx.back, ctx.way)
        # Each process has an equal part in an average.
        if Partial("avg") in ctx.way and target != source:
            factor = ctx.along.size
            result = result / factor if source == Partial("avg") else result * factor
        return result, None, None, None


def _along(layout: Layout, axis: int) -> _Along:
    mesh = layout.mesh
    lengths = tuple(
        size_before(layout.shape, mesh, layout.placements, axis, dim)
        for dim in range(len(layout.shape))
    )
    return _Along(mesh.get_group(axis), coordinate(mesh)[axis], mesh.size(axis), lengths)


def _step(local: Tensor, layout: Layout, axis: int, target: Placement) -> tuple[Tensor, Layout]:
    source = layout.placements[axis]
    back = way_of_gradient(target), way_of_gradient(source)
    result = _Convert.apply(local, _along(layout, axis), (source, target), back)
    placements = list(layout.placements)
    placements[axis] = target
    return result, layout._replace(placements=tuple(placements))


def _dims(*placements: Placement) -> set[int]:
    return {each.dim for each in placements if isinstance(each, Shard)}


def redistributed(local: Tensor, layout: Layout, targets: tuple[Placement, ...]) -> Tensor:
    """Return the part of this process where a tensor lies in another way.

    Args:
        local: the part that it has.
        layout: how the tensor lies.
        targets: the placements that it shall have.
    """
    before = layout.placements
    if before == targets:
        return local
    # Where several dimensions of the mesh divide one of the tensor, the last is put together first.
    for axis in reversed(range(len(targets))):
        moved = set[int]()
        for first in range(axis):
            if before[first] != targets[first]:
                moved |= _dims(before[first], targets[first])
        mine = _dims(layout.placements[axis])
        # What moves from one dimension to another goes at once, if nobody else is in the way.
        others = _dims(*(p for i, p in enumerate((*before, *targets)) if i % len(targets) != axis))
        direct = not (mine | _dims(targets[axis])) & others
        if mine and (mine & moved or (before[axis] != targets[axis] and not direct)):
            local, layout = _step(local, layout, axis, Replicate())
    for axis, target in enumerate(targets):
        if layout.placements[axis] != target:
            local, layout = _step(local, layout, axis, target)
    return local


def summed_in_backward(local: Tensor, layout: Layout, axes: list[int]) -> Tensor:
    """Return a tensor whose gradient is summed over some dimensions of the mesh.

    Args:
        local: a part; it is Replicate there.
        layout: how the tensor lies.
        axes: the dimensions of the mesh.
    """
    same = Replicate(), Replicate()
    for axis in axes:
        local = _Convert.apply(local, _along(layout, axis), same, (Partial(), Replicate()))
    return local


def gradient_from(local: Tensor, layout: Layout, ways: tuple[Placement, ...]) -> Tensor:
    """Return a tensor whose gradient comes in other placements than those that are expected."""
    for axis, way in enumerate(ways):
        placement = layout.placements[axis]
        expected = way_of_gradient(placement)
        if way != expected:
            same = placement, placement
            local = _Convert.apply(local, _along(layout, axis), same, (way, expected))
    return local
