"""Ops that pick elements by their places, or by their order."""

from tapegrad.onnx._graph import Value
from tapegrad.onnx._memory import CannotSay
from tapegrad.onnx._pointwise import computed_in
from tapegrad.onnx._sizes import Size
from tapegrad.onnx._translate import CallContext, emits

_SCATTER_REDUCTIONS = ("none", "add", "mul", "max", "min")


# ---- index tensors


class _Indexed:
    """An indexed operand: its axes are those before, those that are indexed, and the rest."""

    def __init__(self, context: CallContext, first_column: int) -> None:
        self.context = context
        self.columns = [context.read(i, "int64") for i in range(first_column, context.count)]
        self.before = context.number("before")
        self.rank = len(context.sizes(0))
        self.tuple_rank = len(context.sizes(first_column))
        self.tuple_sizes = context.sizes(first_column)
        indexed = range(self.before, self.before + len(self.columns))
        rest = range(self.before + len(self.columns), self.rank)
        # What ONNX indexes comes first.
        self.order = [*indexed, *range(self.before), *rest]

    def places(self) -> Value:
        """Return the index tensors as the rows of one."""
        last = self.context.ints(self.tuple_rank)
        parts = [self.context.add("Unsqueeze", each, last) for each in self.columns]
        if len(parts) == 1:
            return parts[0]
        return self.context.add("Concat", *parts, axis=self.tuple_rank)

    def result_order(self) -> list[int]:
        """Return how a result that begins with the indices' axes is brought into order."""
        whole = self.rank - len(self.columns)
        before = range(self.tuple_rank, self.tuple_rank + self.before)
        rest = range(self.tuple_rank + self.before, self.tuple_rank + whole)
        return [*before, *range(self.tuple_rank), *rest]


@emits("index", "index_select")
def _index(context: CallContext) -> None:
    indexed = _Indexed(context, 1)
    x = context.read(0)
    if len(indexed.columns) == 1:
        context.write(context.add("Gather", x, indexed.columns[0], axis=indexed.before))
        return
    x = context.transpose(x, indexed.order)
    found = context.add("GatherND", x, indexed.places())
    context.write(context.transpose(found, indexed.result_order()))


@emits("index_put_", "index_add_", "index_copy_", "index_fill_")
def _index_put(context: CallContext) -> None:
    indexed = _Indexed(context, 2)
    sizes, count = context.sizes(0), len(indexed.columns)
    wanted = [
        *sizes[: indexed.before],
        *indexed.tuple_sizes,
        *sizes[indexed.before + count :],
    ]
    given = context.sizes(1)
    source = context.read(1)
    if list(given) != wanted:
        ones = [context.graph.size_of(1)] * len(wanted)
        source = context.expand(context.reshape(source, given, ones), ones, wanted)
    order = indexed.result_order()
    source = context.transpose(source, sorted(range(len(order)), key=order.__getitem__))
    x = context.transpose(context.read(0), indexed.order)
    x, source, back = _scatterable(context, x, source)
    extra = {"reduction": "add"} if context.number("accumulate") else {}
    x = context.cast(context.add("ScatterND", x, indexed.places(), source, **extra), back)
    inverse = sorted(range(indexed.rank), key=indexed.order.__getitem__)
    context.write(context.transpose(x, inverse))


def write_masked(context: CallContext, mask: Value) -> None:
    """Tell an `index_put_` of one number at all places of a mask."""
    dtype = computed_in(context.out_place().dtype)
    x, source = context.read(0, dtype), context.read(1, dtype)
    source = context.reshape(source, context.sizes(1), [])
    covered = context.number("before") + context.count - 2
    behind = len(context.sizes(0)) - covered
    rank = context.count - 2
    if behind:
        mask = context.add("Unsqueeze", mask, context.ints(*range(rank, rank + behind)))
    context.write(context.add("Where", mask, source, x, dtype=x.dtype))


def _scatterable(context: CallContext, x: Value, source: Value) -> tuple[Value, Value, str]:
    """Return operands in a dtype that runtimes scatter and add, and the dtype to go back to."""
    dtype = x.dtype
    wide = computed_in(dtype)
    return context.cast(x, wide), context.cast(source, wide), dtype


@emits("gather")
def _gather(context: CallContext) -> None:
    axis, sizes, index = context.number("dim"), context.sizes(0), context.sizes(1)
    x = context.read(0)
    # Other axes of the index may be shorter.
    for other, (size, wanted) in enumerate(zip(sizes, index, strict=True)):
        if other != axis and size != wanted:
            x = _cut(context, x, other, wanted)
    context.write(context.add("GatherElements", x, context.read(1, "int64"), axis=axis))


def _cut(context: CallContext, x: Value, axis: int, size: Size) -> Value:
    end = context.graph.size(size)
    if end is None:
        raise CannotSay(f"the size {size} cannot be told by those of the dynamic axes")
    return context.add("Slice", x, context.ints(0), end, context.ints(axis))


@emits("scatter")
def _scatter(context: CallContext) -> None:
    mode = _SCATTER_REDUCTIONS[int(context.number("mode"))]
    x, source, back = _scatterable(context, context.read(0), context.read(2))
    extra = {} if mode == "none" else {"reduction": mode}
    axis = context.number("dim")
    found = context.add("ScatterElements", x, context.read(1, "int64"), source, axis=axis, **extra)
    context.write(context.cast(found, back))


# ---- order, along the last axis


def _ordered(
    context: CallContext, size: Size, largest: bool, is_sorted: bool = True
) -> tuple[Value, Value]:
    count = context.graph.size(size)
    if count is None:
        raise CannotSay(f"the size {size} cannot be told by those of the dynamic axes")
    x = context.read(0, computed_in(context.place(0).dtype))
    found = context.graph.nodes_of(
        "TopK",
        (x, count),
        (x.dtype, "int64"),
        axis=-1,
        largest=int(largest),
        sorted=int(is_sorted),
    )
    return found[0], found[1]


@emits("sort")
def _sort(context: CallContext) -> None:
    size = context.sizes(0)[-1]
    for output, value in enumerate(_ordered(context, size, bool(context.number("descending")))):
        context.write(value, output)


@emits("topk")
def _topk(context: CallContext) -> None:
    size = context.out_place().sizes[-1]
    for output, value in enumerate(_ordered(context, size, bool(context.number("largest")))):
        context.write(value, output)


@emits("kthvalue")
def _kthvalue(context: CallContext) -> None:
    place = context.number("k") - 1
    size = context.sizes(0)[-1]
    last = len(context.sizes(0)) - 1
    for output, value in enumerate(_ordered(context, size, largest=False)):
        picked = context.add("Gather", value, context.ints(place), axis=last)
        context.write(picked, output, [*context.sizes(0)[:-1], context.graph.size_of(1)])


@emits("searchsorted")
def _searchsorted(context: CallContext) -> None:
    if context.count != 2:
        raise CannotSay("its boundaries are in another order")
    op = "LessOrEqual" if context.number("right") else "Less"
    rank = len(context.sizes(1))
    boundaries = context.read(0)
    values = context.read(1)
    wide = computed_in(values.dtype)
    if len(context.sizes(0)) > 1:
        boundaries = context.add("Unsqueeze", boundaries, context.ints(rank - 1))
    values = context.add("Unsqueeze", values, context.ints(rank))
    below = context.add(
        op, context.cast(boundaries, wide), context.cast(values, wide), dtype="bool"
    )
    found = context.add("ReduceSum", context.cast(below, "int64"), context.ints(rank), keepdims=0)
    context.write(found)
