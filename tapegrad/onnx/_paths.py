"""How a part of some memory is found in a tensor that lies there.

A call of a program names elements by an offset, sizes and strides (Note [What a call means] in
csrc/core/op.h); views are no calls. ONNX has no memory, only values, so that a view must be told as
nodes. A `Path` says how: the axes of the value, some of them joined and some divided, what is taken
of each, and which axis of the view that is. Paths are read along and written along (`_memory`).

    value   axes sorted by stride, the largest first: every axis steps over the whole of the next
    view    each of its axes walks along one axis of the value, some steps at a time

An axis of the view that walks beyond the end of an axis goes on in the next one, if the two have no
gap between them: they are joined. An axis along which two axes of the view walk is divided, if it
can be; if not (windows that overlap), its elements are gathered.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tapegrad.onnx._sizes import Size, in_order

__all__ = ["Axis", "Path", "Place", "addresses", "find_path", "flat_places"]


class Place(NamedTuple):
    """Which elements of some memory: in elements of `dtype`."""

    offset: Size
    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]
    dtype: str

    def bounds(self) -> tuple[Size, Size]:
        """Return the first element and the one behind the last."""
        first = last = self.offset
        for size, stride in zip(self.sizes, self.strides, strict=True):
            step = (size - 1) * stride
            first = first + Size(min(each, 0) for each in step.runs)
            last = last + Size(max(each, 0) for each in step.runs)
        return first, last + 1

    def numel(self) -> Size:
        """Return how many elements there are."""
        count = self.offset * 0 + 1
        for size in self.sizes:
            count = count * size
        return count

    def is_empty(self) -> bool:
        return any(size == 0 for size in self.sizes)

    def is_dense(self) -> bool:
        """Return whether each element between the first and the last is there once."""
        first, end = self.bounds()
        moving = [s for n, s in zip(self.sizes, self.strides, strict=True) if n != 1]
        return self.numel() == end - first and all(stride > 0 for stride in moving)

    def meets(self, other: "Place") -> bool:
        """Return whether elements may be the same."""
        if self.is_empty() or other.is_empty():
            return False
        (first, end), (other_first, other_end) = self.bounds(), other.bounds()
        return not (end <= other_first or other_end <= first)


@dataclass
class Axis:
    """An axis of a value, and what a view takes of it.

    Attributes:
        size, stride: of the value.
        start, step: where the view begins, and how far it goes.
        count: how many it takes; 1 if no axis of the view walks here.
        target: the axis of the view, or None.
        windows: (axis of the view, count, step) of several that walk here together.
    """

    size: Size
    stride: Size
    start: Size
    count: Size
    step: Size
    target: int | None = None
    windows: list[tuple[int, int, int]] = field(default_factory=list)

    def is_whole(self) -> bool:
        return self.step == 1 and self.count == self.size and not self.windows


class Path(NamedTuple):
    """See above; `order` brings the axes of the value into the order of its memory."""

    order: tuple[int, ...]
    axes: list[Axis]
    flipped: frozenset[int]  # axes of the view that walk backwards
    is_same_axes: bool  # none was joined or divided


class _Target(NamedTuple):
    number: int
    size: Size
    stride: Size


class _NoPath(Exception):
    pass


def find_path(base: Place, view: Place) -> Path | None:
    """Return how a view is found in a value; None if it is not found, or not by axes."""
    if base.dtype != view.dtype or base.is_empty() or view.is_empty():
        return None
    order = in_order(base.strides)
    if order is None:
        return None
    kept = [i for i in order if base.sizes[i] != 1]
    axes = [_axis(base.sizes[i], base.strides[i]) for i in kept]
    for outer, inner in pairwise(axes):
        if not outer.stride >= inner.size * inner.stride:
            return None
    if not all(axis.stride > 0 for axis in axes):
        return None
    offset, flipped, targets = view.offset - base.offset, set(), []
    for number, (size, stride) in enumerate(zip(view.sizes, view.strides, strict=True)):
        if size == 1 or stride == 0:
            continue
        if stride < 0:
            offset = offset + (size - 1) * stride
            stride = -stride
            flipped.add(number)
        targets.append(_Target(number, size, stride))
    ranks = in_order([each.stride for each in targets])
    if ranks is None or not offset >= 0:
        return None
    before = [(axis.size, axis.stride) for axis in axes]
    try:
        _walk(axes, [targets[i] for i in ranks], offset)
    except _NoPath:
        return None
    same = before == [(axis.size, axis.stride) for axis in axes]
    rest = [i for i in order if base.sizes[i] == 1]
    return Path((*kept, *rest), axes, frozenset(flipped), same)


def _axis(size: Size, stride: Size) -> Axis:
    one = size * 0 + 1
    return Axis(size, stride, one - 1, one, one)


def _walk(axes: list[Axis], targets: list[_Target], offset: Size) -> None:
    """Find an axis for each of the view's, which come with the largest stride first."""
    waiting = list(targets)
    while waiting:
        target = waiting.pop(0)
        place = next(
            (i for i, each in enumerate(axes) if each.stride <= target.stride
             and each.stride.divides(target.stride)), None
        )  # fmt: skip
        if place is None:
            raise _NoPath
        place = _joined(axes, place, target, offset)
        axis = axes[place]
        if axis.target is not None or axis.windows:
            raise _NoPath
        steps = target.stride // axis.stride
        if waiting and not _reach(waiting, offset % axis.stride) < axis.stride:
            # The axes within walk along this one, too.
            if steps.divides(axis.size) and _reach(waiting, offset % target.stride) < target.stride:
                axes[place : place + 1] = [
                    _axis(axis.size // steps, target.stride),
                    _axis(steps, axis.stride),
                ]
                axis, steps = axes[place], steps * 0 + 1
            elif waiting[0].stride >= axis.stride:
                _take_windows(axis, target, waiting)
                continue
            else:
                raise _NoPath
        axis.target, axis.count, axis.step = target.number, target.size, steps
    for axis, start in zip(axes, _digits(axes, offset), strict=True):
        axis.start = start
        reach = (axis.count - 1) * axis.step
        for _, count, step in axis.windows:
            reach = reach + (count - 1) * step
        if not start + reach < axis.size:
            raise _NoPath


def _digits(axes: list[Axis], offset: Size) -> list[Size]:
    """Return where an offset lies on each axis."""
    digits = []
    for axis in axes:
        digits.append(offset // axis.stride)
        offset = offset % axis.stride
    if offset != 0:
        raise _NoPath
    return digits


def _joined(axes: list[Axis], place: int, target: _Target, offset: Size) -> int:
    """Join axes until one is long enough for an axis of the view; return which."""
    while True:
        axis = axes[place]
        start = _digits(axes, offset)[place]
        if start + (target.size - 1) * (target.stride // axis.stride) < axis.size:
            return place
        if place == 0 or axes[place - 1].target is not None or axes[place - 1].windows:
            raise _NoPath
        outer = axes[place - 1]
        if outer.stride != axis.size * axis.stride or axis.target is not None:
            raise _NoPath
        axes[place - 1 : place + 1] = [_axis(outer.size * axis.size, axis.stride)]
        place -= 1


def _reach(targets: list[_Target], offset: Size) -> Size:
    """Return how far axes of the view go together."""
    for each in targets:
        offset = offset + (each.size - 1) * each.stride
    return offset


def _take_windows(axis: Axis, target: _Target, waiting: list[_Target]) -> None:
    """Let several axes of the view walk along one: their elements are gathered."""
    group = [target]
    while waiting and waiting[0].stride >= axis.stride:
        group.append(waiting.pop(0))
    for each in group:
        count, step = each.size.constant, (each.stride // axis.stride).constant
        if count is None or step is None or not axis.stride.divides(each.stride):
            raise _NoPath
        axis.windows.append((each.number, count, step))


def flat_places(base: Place, view: Place) -> np.ndarray | None:
    """Return where the elements of a view are in a value, counted in its own order.

    For what has no path. All sizes must be constant.
    """
    if base.dtype != view.dtype or base.is_empty():
        return None
    numbers = [
        each.constant
        for place in (base, view)
        for each in (place.offset, *place.sizes, *place.strides)
    ]
    if any(each is None for each in numbers):
        return None
    known, wanted = addresses(base), addresses(view)
    order = np.argsort(known)
    found = np.searchsorted(known, wanted, sorter=order)
    places = order[np.minimum(found, len(order) - 1)]
    if not np.array_equal(known[places], wanted):
        return None
    return places.reshape([each.runs[0] for each in view.sizes])


def addresses(place: Place) -> np.ndarray:
    """Return where the elements of a place lie, in order. All sizes must be constant."""
    result = np.array([place.offset.runs[0]])
    for size, stride in zip(place.sizes, place.strides, strict=True):
        steps = np.arange(size.runs[0], dtype=np.int64) * stride.runs[0]
        result = (result[:, None] + steps).ravel()
    return result
