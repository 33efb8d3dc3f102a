"""The memory of a program as values of a graph.

What a program calls a value is memory; calls write parts of it and read other parts. `Memory`
keeps, for each, the tensors that were written there, the latest last. A read that finds its
elements in one tensor is a view of it (`_paths`). One that finds them in several has these put
together first, in a tensor that takes their place.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tapegrad.onnx._graph import END, Graph, Value
from tapegrad.onnx._paths import Axis, Path, Place, addresses, find_path, flat_places
from tapegrad.onnx._sizes import Size, Sizes

__all__ = ["CannotSay", "Memory", "Piece", "expanded", "reshaped", "sliced", "transposed"]

_LARGEST_GATHER = 1 << 22  # elements of a view that is gathered one by one
_SMALL = 1 << 16  # bytes of a view that is kept rather than computed


class CannotSay(Exception):
    """Something has no form in ONNX; the text says what, and whoever reads it adds op and line."""


# ---- nodes by which a view is told


def reshaped(graph: Graph, x: Value, sizes: Sizes, wanted: Sizes) -> Value:
    """Return a value of some sizes with other ones."""
    if list(sizes) == list(wanted):
        return x
    if x.name in graph.reshapes:  # one node does for two
        x, sizes = graph.reshapes[x.name]
        if list(sizes) == list(wanted):
            return x
    result = _reshape_node(graph, x, sizes, wanted)
    graph.reshapes[result.name] = (x, tuple(sizes))
    return result


def _reshape_node(graph: Graph, x: Value, sizes: Sizes, wanted: Sizes) -> Value:
    plain = [each for each in sizes if each != 1]
    if plain == [each for each in wanted if each != 1]:
        return _with_ones(graph, x, sizes, wanted)
    unknown = [i for i, each in enumerate(wanted) if each.constant is None]
    numbers = [each.constant for each in wanted]
    if 0 in numbers:
        if unknown:
            raise CannotSay("a tensor without elements has sizes that are dynamic")
        return graph.add("Reshape", x, graph.constant(numbers), allowzero=1)
    for i in list(unknown):
        if len(unknown) > 1 and i < len(sizes) and sizes[i] == wanted[i]:
            numbers[i] = 0  # the same as before
            unknown.remove(i)
    if len(unknown) == 1:
        numbers[unknown[0]] = -1
        unknown = []
    shape = graph.shape(wanted) if unknown else graph.constant(numbers)
    if shape is None:
        raise CannotSay(f"sizes {list(wanted)} cannot be told by those of the dynamic axes")
    return graph.add("Reshape", x, shape)


def _with_ones(graph: Graph, x: Value, sizes: Sizes, wanted: Sizes) -> Value:
    """Return a value with other axes of size one."""
    dropped = [i for i, each in enumerate(sizes) if each == 1]
    added = [i for i, each in enumerate(wanted) if each == 1]
    if dropped:
        x = graph.add("Squeeze", x, graph.constant(dropped))
    return graph.add("Unsqueeze", x, graph.constant(added)) if added else x


def transposed(graph: Graph, x: Value, order: Sequence[int]) -> Value:
    """Return a value with its axes in another order."""
    if list(order) == list(range(len(order))):
        return x
    return graph.add("Transpose", x, perm=[int(each) for each in order])


def expanded(graph: Graph, x: Value, sizes: Sizes, wanted: Sizes) -> Value:
    """Return a value with axes of size one repeated."""
    if list(sizes) == list(wanted):
        return x
    one = graph.size_of(1)
    shape = graph.shape([one if a == b else b for a, b in zip(sizes, wanted, strict=True)])
    if shape is None:
        raise CannotSay(f"sizes {list(wanted)} cannot be told by those of the dynamic axes")
    return graph.add("Expand", x, shape)


def sliced(
    graph: Graph, x: Value, ranges: Sequence[tuple[int, Size, Size | None, Size | int]]
) -> Value:
    """Return a part of a value, by (axis, start, end or None, step)."""
    if not ranges:
        return x
    end = graph.size_of(END)
    one = graph.size_of(1)
    columns = [
        [start for _, start, _, _ in ranges],
        [end if stop is None else stop for _, _, stop, _ in ranges],
        [graph.size_of(axis) for axis, *_ in ranges],
        [one * step for *_, step in ranges],
    ]
    shapes = [graph.shape(each) for each in columns]
    if any(each is None for each in shapes):
        raise CannotSay("where a slice begins or ends cannot be told by the dynamic axes")
    return graph.add("Slice", x, *shapes)


# ---- views


def _taken(graph: Graph, x: Value, axis: Axis, place: int, flipped: bool) -> Value:
    """Take what a path says of one axis, other than windows."""
    stop = axis.start + (axis.count - 1) * axis.step + 1
    if flipped:
        back = -axis.step
        beyond = axis.start - axis.size - 1  # counted from the end: what is before the start
        return sliced(graph, x, [(place, stop - 1, beyond, back)])
    whole = None if stop + axis.step > axis.size else stop
    return sliced(graph, x, [(place, axis.start, whole, axis.step)])


def view(graph: Graph, x: Value, base: Place, path: Path, wanted: Place) -> Value:
    """Return the elements at a place, along a path from a value that has the base's sizes."""
    one = graph.size_of(1)
    sizes = [base.sizes[i] for i in path.order]
    axes = path.axes
    if path.is_same_axes:
        sources = dict(zip((i for i in path.order if base.sizes[i] != 1), axes, strict=True))
        layout = [sources.get(i) for i in range(len(base.sizes))]
    else:
        x = transposed(graph, x, path.order)
        x = reshaped(graph, x, sizes, [axis.size for axis in axes])
        layout = list(axes)
    order: list[int | None] = []  # which axis of the view each of the result's is
    shape: list[Size] = []
    for axis in layout:
        place = len(order)
        if axis is None:
            order.append(None)
            shape.append(one)
        elif axis.windows:
            places = axis.start.constant
            if places is None:
                raise CannotSay("where overlapping windows begin depends on dynamic axes")
            index = np.int64(places)
            for _, count, step in axis.windows:
                index = np.expand_dims(index, -1) + np.arange(count) * step
            x = graph.add("Gather", x, graph.constant(index), axis=place)
            for number, count, _ in axis.windows:
                order.append(number)
                shape.append(graph.size_of(count))
        else:
            is_back = axis.target in path.flipped
            if not axis.is_whole() or is_back:
                x = _taken(graph, x, axis, place, is_back)
            order.append(axis.target)
            shape.append(axis.count)
    return _arranged(graph, x, order, shape, wanted)


def _arranged(
    graph: Graph, x: Value, order: list[int | None], shape: list[Size], wanted: Place
) -> Value:
    """Bring axes into the order of the view, and repeat what it repeats."""
    one = graph.size_of(1)
    kept = [i for _, i in sorted((each, i) for i, each in enumerate(order) if each is not None)]
    if kept != sorted(kept):
        rest = [i for i, each in enumerate(order) if each is None]
        x = transposed(graph, x, [*kept, *rest])
        shape = [shape[i] for i in (*kept, *rest)]
    single = [
        one if stride == 0 else size
        for size, stride in zip(wanted.sizes, wanted.strides, strict=True)
    ]
    x = reshaped(graph, x, shape, single)
    return expanded(graph, x, single, wanted.sizes)


def gathered(graph: Graph, x: Value, base: Place, wanted: Place) -> Value | None:
    """Return the elements at a place one by one, if they are few and in the value."""
    count = wanted.numel().constant
    if count is None or count > _LARGEST_GATHER:
        return None
    places = flat_places(base, wanted)
    if places is None:
        return None
    flat = reshaped(graph, x, base.sizes, [base.numel()])
    return graph.add("Gather", flat, graph.constant(places), axis=0)


# ---- writing a part


def _put(graph: Graph, base: Value, part: Value, axes: Sequence[tuple[int, Axis]]) -> Value:
    """Put a part into a value; the two differ along some axes."""
    if not axes:
        return part
    (place, axis), *rest = axes
    stop = axis.start + (axis.count - 1) * axis.step + 1
    if rest:
        inner = sliced(graph, base, [(place, axis.start, stop, axis.step)])
        part = _put(graph, inner, part, rest)
    if axis.step == 1:
        parts = []
        if axis.start != 0:
            parts.append(sliced(graph, base, [(place, axis.start * 0, axis.start, 1)]))
        parts.append(part)
        if stop != axis.size:
            parts.append(sliced(graph, base, [(place, stop, None, 1)]))
        return graph.add("Concat", *parts, axis=place)
    numbers = (axis.size, axis.start, axis.count, axis.step)
    if any(each.constant is None for each in numbers):
        raise CannotSay("a write to every n-th element along a dynamic axis")
    size, start, count, step = (each.runs[0] for each in numbers)
    places = np.arange(size)
    places[start : start + (count - 1) * step + 1 : step] = size + np.arange(count)
    both = graph.add("Concat", base, part, axis=place)
    return graph.add("Gather", both, graph.constant(places), axis=place)


def _divided(axis: Axis) -> list[Axis]:
    """Return an axis of which every n-th element is taken as two, if it can be divided."""
    steps, one = axis.step, axis.step * 0 + 1
    if steps == 1 or axis.count * steps != axis.size or not axis.start < steps:
        return [axis]
    outer = Axis(axis.count, axis.stride * steps, one - 1, axis.count, one, axis.target)
    return [outer, Axis(steps, axis.stride, axis.start, one, one)]


def written(graph: Graph, base: Value, at: Place, part: Value, place: Place) -> Value | None:
    """Return a value with elements of it replaced; None if they are not all in it."""
    path = find_path(at, place)
    if path is None or any(axis.windows for axis in path.axes):
        return _written_flat(graph, base, at, part, place)
    path = path._replace(axes=[each for axis in path.axes for each in _divided(axis)])
    # The part with an axis for each of the value's.
    kept = [axis.target for axis in path.axes if axis.target is not None]
    singles = [i for i in range(len(place.sizes)) if i not in kept]
    if any(place.sizes[i] != 1 for i in singles):
        return None  # it is written to several times
    part = transposed(graph, part, [*kept, *singles])
    counts = [axis.count for axis in path.axes]
    part = reshaped(graph, part, [place.sizes[i] for i in (*kept, *singles)], counts)
    for i, axis in enumerate(path.axes):
        if axis.target in path.flipped:
            back = graph.size_of(-1)
            part = sliced(graph, part, [(i, back, graph.size_of(-END), back)])
    sizes = [at.sizes[i] for i in path.order]
    whole = [axis.size for axis in path.axes]
    memory = reshaped(graph, transposed(graph, base, path.order), sizes, whole)
    partial = [(i, axis) for i, axis in enumerate(path.axes) if not axis.is_whole()]
    memory = reshaped(graph, _put(graph, memory, part, partial), whole, sizes)
    return transposed(graph, memory, np.argsort(path.order).tolist())


def _written_flat(graph: Graph, base: Value, at: Place, part: Value, place: Place) -> Value | None:
    places = flat_places(at, place)
    if places is None or len(np.unique(places)) != places.size:
        return None
    flat = reshaped(graph, base, at.sizes, [at.numel()])
    source = reshaped(graph, part, place.sizes, [place.numel()])
    result = graph.add("ScatterElements", flat, graph.constant(places.ravel()), source, axis=0)
    return reshaped(graph, result, [at.numel()], at.sizes)


# ---- memory


class Piece(NamedTuple):
    """A tensor that lies at a place; `raw` are its bytes, if it is a constant of unknown dtype."""

    place: Place
    value: Value | None
    raw: bytes | None = None


class Memory:
    """What lies in one value of a program."""

    def __init__(
        self, graph: Graph, nbytes: Size, forms: Sequence[Place] = (), is_made: bool = False
    ) -> None:
        self._graph = graph
        self._nbytes = nbytes
        self._forms = forms  # in which calls see all of it
        self._is_made = is_made  # by the program: what nobody has written may be anything
        self._pieces: list[Piece] = []

    def write(self, place: Place, value: Value | None, raw: bytes | None = None) -> None:
        """Put a tensor, or bytes, at a place."""
        first, end = place.bounds()
        if place.is_dense():
            self._pieces = [
                each
                for each in self._pieces
                if each.place.dtype != place.dtype
                or not (each.place.bounds()[0] >= first and each.place.bounds()[1] <= end)
            ]
        else:
            self._pieces = [each for each in self._pieces if each.place != place]
        self._pieces.append(Piece(place, value, raw))

    def read(self, place: Place) -> Value:
        """Return the elements at a place."""
        graph = self._graph
        if place.is_empty():
            return expanded(
                graph,
                graph.raw_constant(
                    [1] * len(place.sizes), place.dtype, bytes(item_size(place.dtype))
                ),
                [graph.size_of(1)] * len(place.sizes),
                place.sizes,
            )
        if self._pieces and self._pieces[-1].raw is not None:
            found = self._constant(self._pieces[-1], place)
            if found is not None:
                return found
        self._type_constants(place.dtype)
        for number, piece in reversed(list(enumerate(self._pieces))):
            found = None if self._may_vanish(number) else self._in(piece, place)
            if found is not None:
                return found
            if piece.place.dtype != place.dtype or piece.place.meets(place):
                break
        return self._together(place)

    def _may_vanish(self, number: int) -> bool:
        """Return whether a piece may have no elements in runs of other sizes.

        It lies over others, as ``x[:, 1:]`` does, and the size of an axis depends on dynamic ones.
        Of such pieces nothing is read: what was there in all runs need not be there in others.
        """
        place = self._pieces[number].place
        return any(size.constant is None for size in place.sizes) and any(
            find_path(each.place, place) is not None for each in self._pieces[:number]
        )

    def _in(self, piece: Piece, place: Place) -> Value | None:
        if piece.value is None or not piece.place.meets(place):
            return None
        path = find_path(piece.place, place)
        if path is None:
            return gathered(self._graph, piece.value, piece.place, place)
        return view(self._graph, piece.value, piece.place, path, place)

    def _constant(self, piece: Piece, place: Place) -> Value | None:
        """Return elements of bytes as a tensor of the file, if they are few or all of them."""
        numbers = (place.offset, *place.sizes, *place.strides)
        if piece.raw is None or any(each.constant is None for each in numbers):
            return None
        item = item_size(place.dtype)
        first, end = (each.runs[0] * item - piece.place.offset.runs[0] for each in place.bounds())
        nbytes = place.numel().runs[0] * item
        is_inside = first >= 0 and end <= len(piece.raw)
        if not is_inside or (nbytes > _SMALL and nbytes != len(piece.raw)):
            return None
        elements = np.frombuffer(piece.raw[: len(piece.raw) // item * item], f"V{item}")
        begin = place.offset.runs[0] - piece.place.offset.runs[0] // item
        shown = elements[addresses(place) - place.offset.runs[0] + begin]
        sizes = [each.runs[0] for each in place.sizes]
        return self._graph.raw_constant(sizes, place.dtype, shown.tobytes())

    def _type_constants(self, dtype: str) -> None:
        """Read bytes as elements of the dtype that somebody reads them in."""
        for number, piece in enumerate(self._pieces):
            if piece.raw is None:
                continue
            graph, item = self._graph, item_size(dtype)
            count = len(piece.raw) // item
            place = Place(piece.place.offset // item, (graph.size_of(count),), (graph.size_of(1),),
                          dtype)  # fmt: skip
            value = graph.raw_constant([count], dtype, piece.raw[: count * item])
            self._pieces[number] = Piece(place, value)

    def _together(self, place: Place) -> Value:
        """Put the tensors that a read meets together, in one that takes their place."""
        for piece in self._pieces:
            if piece.place.dtype != place.dtype and piece.place.meets(place):
                raise CannotSay(
                    f"elements that were written as {piece.place.dtype} are read as {place.dtype}"
                )
        for number in reversed(range(len(self._pieces))):
            base = self._pieces[number]
            if self._may_vanish(number):
                continue
            if find_path(base.place, place) or flat_places(base.place, place) is not None:
                merged = self._merged(base, self._pieces[number + 1 :])
                if merged is not None:
                    self._pieces = [*self._pieces[:number], Piece(base.place, merged)]
                    return self._found(place)
        for shape in self._possible_bases(place):
            if find_path(shape, place) is None and flat_places(shape, place) is None:
                continue
            zeros = self._zeros(shape)
            merged = self._merged(Piece(shape, zeros), self._pieces)
            if merged is not None:
                self._pieces = [Piece(shape, merged)]
                return self._found(place)
        raise CannotSay("what is read was written in parts that have no common form")

    def _found(self, place: Place) -> Value:
        found = self._in(self._pieces[-1], place)
        if found is None:
            raise CannotSay("the elements of a view lie in no order that nodes can tell")
        return found

    def _possible_bases(self, place: Place) -> list[Place]:
        """Return the forms that a tensor of all the memory could have."""
        if not self._is_made:
            return []
        one, item = self._graph.size_of(1), item_size(place.dtype)
        flat = Place(one - 1, (self._nbytes // item,), (one,), place.dtype)
        whole = [each for each in self._forms if each.dtype == place.dtype]
        return [*whole, *([place] if place.is_dense() else []), flat]

    def _zeros(self, place: Place) -> Value:
        graph = self._graph
        ones = [graph.size_of(1)] * len(place.sizes)
        zero = graph.raw_constant([1] * len(ones), place.dtype, bytes(item_size(place.dtype)))
        return expanded(graph, zero, ones, place.sizes)

    def _merged(self, base: Piece, later: Sequence[Piece]) -> Value | None:
        """Return a tensor with others written over it, in their order."""
        value = base.value
        for piece in later:
            if value is None or piece.value is None:
                return None
            if piece.place.is_empty():
                continue
            value = written(self._graph, value, base.place, piece.value, piece.place)
        return value


_ITEM_SIZES = (
    {"float64": 8, "int64": 8, "float32": 4, "int32": 4}
    | dict.fromkeys(("float16", "bfloat16", "int16"), 2)
    | dict.fromkeys(("int8", "uint8", "bool"), 1)
)


def item_size(dtype: str) -> int:
    """Return the bytes of an element."""
    return _ITEM_SIZES[dtype]
