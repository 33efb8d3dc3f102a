"""Pools."""

import numpy as np

from tapegrad.onnx._graph import Value
from tapegrad.onnx._memory import CannotSay
from tapegrad.onnx._pointwise import computed_in
from tapegrad.onnx._sizes import Size, product
from tapegrad.onnx._translate import CallContext, emits


class _Windows:
    """What a pool does along each of its axes, which are the last ones of its operand."""

    def __init__(self, context: CallContext) -> None:
        self.context = context
        self.rank = context.number("rank")
        self.sizes = context.sizes(0)[-self.rank :]
        self.out = context.out_place().sizes[-self.rank :]
        self.stride, self.padding, self.dilation = (
            self._list(name) for name in ("stride", "padding", "dilation")
        )
        self.kernel = self._list("kernel")

    def _list(self, name: str) -> list[Size]:
        """Return an attribute of the axes that there are."""
        runs = self.context.rows(name)
        return [Size(each[axis] for each in runs) for axis in range(3 - self.rank, 3)]

    def is_global(self) -> bool:
        """Return whether there is one window, which is everything."""
        return list(self.kernel) == list(self.sizes) and all(
            padding == 0 and out == 1 for padding, out in zip(self.padding, self.out, strict=True)
        )

    def constants(self, sizes: list[Size], name: str) -> list[int]:
        found = [each.constant for each in sizes]
        if any(each is None for each in found):
            raise CannotSay(f"its {name} depends on the sizes of dynamic axes")
        return [each for each in found if each is not None]

    def end_padding(self) -> list[int]:
        """Return how much is added at the end, so that the last window is whole."""
        ends = []
        for axis in range(self.rank):
            reach = (self.out[axis] - 1) * self.stride[axis]
            reach = reach + self.dilation[axis] * (self.kernel[axis] - 1) + 1
            more = reach - self.sizes[axis] - self.padding[axis]
            pairs = zip(more.runs, self.padding[axis].runs, strict=True)
            ends.append(Size(map(max, pairs)))
        return self.constants(ends, "padding at the end")


def _operand(context: CallContext, dtype: str, rank: int) -> Value:
    """Return the operand with two axes before those of the windows."""
    sizes = context.sizes(0)
    one = context.graph.size_of(1)
    return context.reshape(context.read(0, dtype), sizes, _batched(sizes, rank, one))


def _batched(sizes: tuple[Size, ...], rank: int, one: Size) -> list[Size]:
    before = list(sizes[:-rank])
    if len(before) < 2:
        return [one] * (2 - len(before)) + list(sizes)
    first = before[0]
    for each in before[1:-1]:
        first = first * each
    return [first, before[-1], *sizes[-rank:]]


def _write(context: CallContext, value: Value, rank: int, output: int = 0) -> None:
    one = context.graph.size_of(1)
    context.write(value, output, _batched(context.out_place(output).sizes, rank, one))


def _dtype(context: CallContext) -> str:
    dtype = computed_in(context.place(0).dtype)
    return dtype if dtype.startswith("float") else "float64"  # exact for what pools of images hold


@emits("max_pool")
def _max_pool(context: CallContext) -> None:
    windows = _Windows(context)
    rank = windows.rank
    x = _operand(context, _dtype(context), rank)
    wants_places = context.wants(1)
    if context.number("adaptive"):
        if wants_places:
            raise CannotSay("the places of maxima of windows of different sizes")
        _write(context, _adaptive(context, x, windows, "ReduceMax"), rank)
        return
    if windows.is_global() and not wants_places:
        _write(context, context.add("GlobalMaxPool", x), rank)
        return
    attributes = {
        "kernel_shape": windows.constants(windows.kernel, "kernel size"),
        "strides": windows.constants(windows.stride, "stride"),
        "dilations": windows.constants(windows.dilation, "dilation"),
        "pads": windows.constants(windows.padding, "padding") + windows.end_padding(),
    }
    dtypes = [x.dtype, "int64"] if wants_places else [x.dtype]
    found = context.graph.nodes_of("MaxPool", (x,), dtypes, **attributes)
    _write(context, found[0], rank)
    if wants_places:  # which ONNX counts through the whole tensor
        plane = 1
        for each in windows.constants(list(windows.sizes), "plane"):
            plane *= each
        places = context.add("Mod", found[1], context.graph.constant(plane))
        _write(context, places, rank, 1)


@emits("avg_pool")
def _avg_pool(context: CallContext) -> None:
    windows = _Windows(context)
    rank = windows.rank
    x = _operand(context, _dtype(context), rank)
    divisor = context.number("divisor")
    if context.number("adaptive"):
        _write(context, _adaptive(context, x, windows, "ReduceMean"), rank)
        return
    if windows.is_global() and not divisor:
        _write(context, context.add("GlobalAveragePool", x), rank)
        return
    kernel = windows.constants(windows.kernel, "kernel size")
    stride = windows.constants(windows.stride, "stride")
    padding = windows.constants(windows.padding, "padding")
    ends = windows.end_padding()
    pool = {"kernel_shape": kernel, "strides": stride, "pads": padding + ends}
    counts_padding = bool(context.number("count_include_pad")) and ends == padding
    if not divisor and (counts_padding or not any(padding + ends)):
        y = context.add("AveragePool", x, **pool, count_include_pad=1)
    elif not divisor and not context.number("count_include_pad"):
        y = context.add("AveragePool", x, **pool, count_include_pad=0)
    else:
        y = context.add("AveragePool", x, **pool, count_include_pad=1)
        factor = np.float64(np.prod(kernel)) / _divisors(windows, kernel, stride, padding, divisor)
        y = context.add("Mul", y, context.graph.constant(factor, y.dtype))
    _write(context, y, rank)


def _divisors(
    windows: _Windows, kernel: list[int], stride: list[int], padding: list[int], divisor: int
) -> np.ndarray:
    """Return what each window is divided by, the padding being counted but not what is beyond."""
    if divisor:
        return np.float64(divisor)
    total = np.ones(1)
    sizes = windows.constants(list(windows.sizes), "plane")
    for axis, out in enumerate(windows.constants(list(windows.out), "plane")):
        begins = np.arange(out) * stride[axis] - padding[axis]
        ends = np.minimum(begins + kernel[axis], sizes[axis] + padding[axis])
        total = total[..., None] * (ends - begins)
    return total[0]


def _adaptive(context: CallContext, x: Value, windows: _Windows, op: str) -> Value:
    """Return a pool over windows of different sizes, an axis after the other."""
    for i in range(windows.rank):
        axis = 2 + i
        size, out = windows.sizes[i].constant, windows.out[i].constant
        if windows.out[i] == windows.sizes[i]:
            continue
        if size is None or out is None:
            if windows.out[i] == 1:
                x = context.add(op, x, context.ints(axis), keepdims=1)
                continue
            raise CannotSay("its windows depend on the sizes of dynamic axes")
        parts = []
        for each in range(out):
            start, end = each * size // out, -(-(each + 1) * size // out)
            part = context.add(
                "Slice", x, context.ints(start), context.ints(end), context.ints(axis)
            )
            parts.append(context.add(op, part, context.ints(axis), keepdims=1))
        x = context.add("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]
    return x


def _flat(context: CallContext, sizes: tuple[Size, ...], rank: int) -> list[Size]:
    """Return sizes with two axes before one of all places of a plane."""
    one = context.graph.size_of(1)
    first, channels, *plane = _batched(sizes, rank, one)
    return [first, channels, product(plane, one)]


def _planes(context: CallContext, i: int, rank: int) -> Value:
    sizes = context.sizes(i)
    return context.reshape(context.read(i), sizes, _flat(context, sizes, rank))


@emits("max_unpool", "plane_scatter")
def _max_unpool(context: CallContext) -> None:
    rank = context.number("rank")
    source, places = (_planes(context, i, rank) for i in range(2))
    flat = _flat(context, context.out_place().sizes, rank)
    zeros = context.filled(0.0, source.dtype, flat)
    extra = {"reduction": "add"} if context.number("add") else {}
    places = context.cast(places, "int64")
    context.write(context.add("ScatterElements", zeros, places, source, axis=2, **extra), 0, flat)


@emits("plane_gather")
def _plane_gather(context: CallContext) -> None:
    rank = context.number("rank")
    source, places = (_planes(context, i, rank) for i in range(2))
    found = context.add("GatherElements", source, context.cast(places, "int64"), axis=2)
    context.write(found, 0, _flat(context, context.out_place().sizes, rank))
