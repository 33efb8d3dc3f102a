"""Reductions and scans."""

import math

from tapegrad.onnx._graph import Value
from tapegrad.onnx._memory import CannotSay
from tapegrad.onnx._pointwise import computed_in
from tapegrad.onnx._sizes import Size
from tapegrad.onnx._translate import CallContext, emits


def _axes(context: CallContext) -> list[int]:
    mask = context.number("dims")
    return [axis for axis in range(len(context.sizes(0))) if mask >> axis & 1]


class _Reduction:
    """The operand of a reduction, and how its result is written."""

    def __init__(self, context: CallContext, dtype: str = "") -> None:
        self.context = context
        self.x = context.read(0, dtype)
        self.sizes = list(context.sizes(0))
        self.axes = _axes(context)
        if not self.axes:  # of each element by itself
            self.x = context.add("Unsqueeze", self.x, context.ints(len(self.sizes)))
            self.axes = [len(self.sizes)]
            self.sizes.append(context.graph.size_of(1))

    def reduce(self, op: str, x: Value, keepdims: bool = False) -> Value:
        return self.context.add(op, x, self.context.ints(*self.axes), keepdims=int(keepdims))

    def count(self) -> Size:
        count = self.context.graph.size_of(1)
        for axis in self.axes:
            count = count * self.sizes[axis]
        return count

    def number(self, size: Size, like: Value) -> Value:
        return self.context.literal(
            size.constant if size.constant is not None else size, like.dtype
        )

    def write(self, value: Value, output: int = 0) -> None:
        kept = [size for axis, size in enumerate(self.sizes) if axis not in self.axes]
        self.context.write(value, output, kept)


@emits("sum", "prod", "mean")
def _sum(context: CallContext) -> None:
    ops = {"sum": "ReduceSum", "prod": "ReduceProd", "mean": "ReduceMean"}
    reduction = _Reduction(context, computed_in(context.out_place().dtype))
    reduction.write(reduction.reduce(ops[context.call.op], reduction.x))


@emits("amax", "amin")
def _extreme(context: CallContext) -> None:
    reduction = _Reduction(context, computed_in(context.place(0).dtype))
    op = "ReduceMax" if context.call.op == "amax" else "ReduceMin"
    reduction.write(reduction.reduce(op, reduction.x))


@emits("any", "all")
def _any(context: CallContext) -> None:
    reduction = _Reduction(context, "bool")
    x, is_all = reduction.x, context.call.op == "all"
    if is_all:  # none is false
        x = context.add("Not", x)
    found = reduction.reduce("ReduceSum", context.cast(x, "int64"))
    found = context.add("Greater", found, context.scalar(0, found), dtype="bool")
    reduction.write(context.add("Not", found) if is_all else found)


@emits("count_nonzero")
def _count_nonzero(context: CallContext) -> None:
    reduction = _Reduction(context, "bool")
    reduction.write(reduction.reduce("ReduceSum", context.cast(reduction.x, "int64")))


@emits("argmax", "argmin")
def _argmax(context: CallContext) -> None:
    op = "ArgMax" if context.call.op == "argmax" else "ArgMin"
    reduction = _Reduction(context, computed_in(context.place(0).dtype))
    x, axis = reduction.x, reduction.axes[0]
    if len(reduction.axes) > 1:
        if len(reduction.axes) < len(reduction.sizes):
            raise CannotSay("it is over some of several dimensions")
        x = context.reshape(x, reduction.sizes, [reduction.count()])
        axis = 0
    reduction.write(context.add(op, x, dtype="int64", axis=axis, keepdims=0))


@emits("max", "min")
def _max(context: CallContext) -> None:
    names = {"max": ("ReduceMax", "ArgMax"), "min": ("ReduceMin", "ArgMin")}
    values, places = names[context.call.op]
    reduction = _Reduction(context, computed_in(context.place(0).dtype))
    (axis,) = reduction.axes
    reduction.write(reduction.reduce(values, reduction.x))
    found = context.add(places, reduction.x, dtype="int64", axis=axis, keepdims=0)
    reduction.write(found, 1)


@emits("logsumexp")
def _logsumexp(context: CallContext) -> None:
    reduction = _Reduction(context, computed_in(context.out_place().dtype))
    top = reduction.reduce("ReduceMax", reduction.x, keepdims=True)
    # An infinite one is not subtracted from itself.
    zero = context.scalar(0, top)
    difference = context.add("Sub", top, top)
    finite = context.add("Equal", difference, zero, dtype="bool")
    shift = context.add("Where", finite, top, zero, dtype=top.dtype)
    sums = reduction.reduce("ReduceSum", context.add("Exp", context.add("Sub", reduction.x, shift)))
    shift = context.add("Squeeze", shift, context.ints(*reduction.axes))
    reduction.write(context.add("Add", context.add("Log", sums), shift))


@emits("norm")
def _norm(context: CallContext) -> None:
    power = float(context.number("p"))
    reduction = _Reduction(context, computed_in(context.out_place().dtype))
    x = context.add("Abs", reduction.x)
    if math.isinf(power):
        result = reduction.reduce("ReduceMax" if power > 0 else "ReduceMin", x)
    elif power == 0:
        result = reduction.reduce("ReduceSum", context.cast(context.cast(x, "bool"), x.dtype))
    elif power == 1:
        result = reduction.reduce("ReduceSum", x)
    elif power == 2:
        result = reduction.reduce("ReduceL2", x)
    else:
        powers = context.add("Pow", x, context.scalar(power, x))
        sums = reduction.reduce("ReduceSum", powers)
        result = context.add("Pow", sums, context.scalar(1 / power, x))
    reduction.write(result)


@emits("var")
def _var(context: CallContext) -> None:
    reduction = _Reduction(context, computed_in(context.out_place().dtype))
    mean = reduction.reduce("ReduceMean", reduction.x, keepdims=True)
    centred = context.add("Sub", reduction.x, mean)
    sums = reduction.reduce("ReduceSum", context.add("Mul", centred, centred))
    count = reduction.number(reduction.count(), sums)
    correction = float(context.number("correction"))
    if correction:
        count = context.add("Sub", count, context.scalar(correction, sums))
        count = context.add("Max", count, context.scalar(0, sums))
    result = context.add("Div", sums, count)
    reduction.write(context.add("Sqrt", result) if context.number("root") else result)
    if len(context.call.outputs) > 1:
        reduction.write(context.add("Squeeze", mean, context.ints(*reduction.axes)), 1)


# ---- scans


@emits("cumsum")
def _cumsum(context: CallContext) -> None:
    axis = context.graph.constant(context.number("dim"))
    x = context.read(0, computed_in(context.out_place().dtype))
    context.write(context.add("CumSum", x, axis, reverse=int(context.number("reverse"))))


def _rows(context: CallContext, fill: float) -> tuple[Value, int]:
    """Return, for each element, all up to it along an axis, others replaced; and that axis."""
    axis = context.number("dim")
    sizes = context.sizes(0)
    x = context.read(0, computed_in(context.place(0).dtype))
    if not sizes:
        return context.add("Unsqueeze", x, context.ints(0)), 0
    numbers = context.range(sizes[axis])
    rows = context.add("Unsqueeze", numbers, context.ints(1))
    op = "GreaterOrEqual" if context.number("reverse") else "LessOrEqual"
    mask = context.add(op, numbers, rows, dtype="bool")  # (to, from)
    behind = len(sizes) - axis - 1
    if behind:
        mask = context.add("Unsqueeze", mask, context.ints(*range(2, 2 + behind)))
    x = context.add("Unsqueeze", x, context.ints(axis))
    if not x.dtype.startswith("float") and math.isinf(fill):
        fill = (2**31 - 1 if x.dtype == "int32" else 2**63 - 1) * (1 if fill > 0 else -1)
    return context.add("Where", mask, x, context.scalar(fill, x), dtype=x.dtype), axis + 1


@emits("cumprod")
def _cumprod(context: CallContext) -> None:
    rows, axis = _rows(context, 1)
    context.write(context.add("ReduceProd", rows, context.ints(axis), keepdims=0))


@emits("logcumsumexp")
def _logcumsumexp(context: CallContext) -> None:
    rows, axis = _rows(context, -math.inf)
    top = context.add("ReduceMax", rows, context.ints(axis), keepdims=1)
    zero = context.scalar(0, top)
    finite = context.add("Equal", context.add("Sub", top, top), zero, dtype="bool")
    shift = context.add("Where", finite, top, zero, dtype=top.dtype)
    powers = context.add("Exp", context.add("Sub", rows, shift))
    sums = context.add("Log", context.add("ReduceSum", powers, context.ints(axis), keepdims=0))
    context.write(context.add("Add", sums, context.add("Squeeze", shift, context.ints(axis))))


@emits("cummax", "cummin")
def _cummax(context: CallContext) -> None:
    is_max = context.call.op == "cummax"
    rows, axis = _rows(context, -math.inf if is_max else math.inf)
    op = "ReduceMax" if is_max else "ReduceMin"
    context.write(context.add(op, rows, context.ints(axis), keepdims=0))
    # Of equal ones the last counts.
    op = "ArgMax" if is_max else "ArgMin"
    options = {"axis": axis, "keepdims": 0, "select_last_index": 1}
    context.write(context.add(op, rows, dtype="int64", **options), 1)
