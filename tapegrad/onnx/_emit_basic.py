"""Ops that make, move and join elements."""

import numpy as np

from tapegrad.onnx._capture import Varying
from tapegrad.onnx._graph import Value
from tapegrad.onnx._memory import CannotSay
from tapegrad.onnx._pointwise import computed_in, expression
from tapegrad.onnx._sizes import Size
from tapegrad.onnx._translate import CallContext, emits


@emits("copy", "flip", "move")
def _copy(context: CallContext) -> None:
    place = context.out_place()
    value = context.read(0, place.dtype)  # a flip is the order in which its operand is read
    if list(context.sizes(0)) != list(place.sizes):
        value = context.spread(value, place.sizes)
    context.write(value)


@emits("embed")
def _embed(context: CallContext) -> None:
    place = context.out_place()
    pairs = zip(place.sizes, place.strides, strict=True)
    if any(stride == 0 and size != 1 for size, stride in pairs):
        raise CannotSay("it adds up what goes to one place")
    _copy(context)


@emits("fill")
def _fill(context: CallContext) -> None:
    place = context.out_place()
    value = context["value"]
    if isinstance(value, Size | Varying):
        context.write(context.spread(context.literal(value, place.dtype), place.sizes))
        return
    if place.dtype == "bool":
        value = bool(value)
    elif not place.dtype.startswith(("float", "bfloat")):
        value = int(value)
    context.write(context.filled(value, place.dtype, place.sizes))


@emits("arange")
def _arange(context: CallContext) -> None:
    place = context.out_place()
    start, step, (size,) = context.number("start"), context.number("step"), place.sizes
    numbers = context.range(size)
    is_whole = isinstance(start, int) and isinstance(step, int)
    dtype = "int64" if is_whole else "float64"
    if size.constant is not None:
        exact = start + np.arange(size.constant, dtype=dtype) * step
        kind = "float64" if place.dtype.startswith(("float", "bfloat")) else "int64"
        wide = context.graph.constant(exact.astype(kind), kind)
        context.write(context.cast(wide, place.dtype))
        return
    numbers = context.cast(numbers, dtype)
    if step != 1:
        numbers = context.add("Mul", numbers, context.scalar(step, numbers))
    if start != 0:
        numbers = context.add("Add", numbers, context.scalar(start, numbers))
    context.write(numbers)


@emits("linspace")
def _linspace(context: CallContext) -> None:
    start, end, base = (float(context.number(each)) for each in ("start", "end", "base"))
    size = context.out_place().sizes[0].constant
    if size is None:
        raise CannotSay("its number of steps is dynamic")
    numbers = np.linspace(start, end, size)
    context.write(context.graph.constant(base**numbers if base else numbers, "float64"))


@emits("eye")
def _eye(context: CallContext) -> None:
    place = context.out_place()
    rows, columns = (context.range(size) for size in place.sizes)
    rows = context.add("Unsqueeze", rows, context.ints(1))
    context.write(context.add("Equal", rows, columns, dtype="bool"))


@emits("cat")
def _cat(context: CallContext) -> None:
    dtype = context.out_place().dtype
    axis = context.number("dim")
    parts = [context.read(i, dtype) for i in range(context.count)]
    context.write(context.add("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0])


@emits("triangle")
def _triangle(context: CallContext) -> None:
    diagonal = context.ints(context.number("diagonal"))
    diagonal = context.add("Squeeze", diagonal)
    x = context.read(0)
    dtype = x.dtype
    if dtype in ("int8", "int16", "uint8", "int32", "float16", "bfloat16"):
        x = context.cast(x, "int64" if "int" in dtype else "float32")
    context.write(context.add("Trilu", x, diagonal, upper=int(context.number("upper"))))


@emits("masked_fill")
def _masked_fill(context: CallContext) -> None:
    dtype = computed_in(context.out_place().dtype)
    mask, x = context.read_unexpanded(1, "bool"), context.read(0, dtype)
    context.write(context.add("Where", mask, context.read_unexpanded(2, dtype), x, dtype=dtype))


# ---- random numbers: others in each run


def _shape_of(context: CallContext) -> Value:
    place = context.out_place()
    return context.filled(0.0, _random_dtype(context), place.sizes)


def _random_dtype(context: CallContext) -> str:
    dtype = context.out_place().dtype
    return dtype if dtype in ("float32", "float64") else "float32"


@emits("random_uniform")
def _uniform(context: CallContext) -> None:
    low, high = float(context.number("from")), float(context.number("to"))
    context.write(context.add("RandomUniformLike", _shape_of(context), low=low, high=high))


@emits("random_normal")
def _normal(context: CallContext) -> None:
    mean, scale = float(context.number("mean")), float(context.number("std"))
    context.write(context.add("RandomNormalLike", _shape_of(context), mean=mean, scale=scale))


@emits("random_bernoulli")
def _bernoulli(context: CallContext) -> None:
    chance = float(context.number("probability"))
    context.write(_drawn(context, context.filled(chance, "float32", context.out_place().sizes)))


@emits("random_bernoulli_each")
def _bernoulli_each(context: CallContext) -> None:
    context.write(_drawn(context, context.read(0, "float32")))


def _drawn(context: CallContext, chances: Value) -> Value:
    draws = context.add("RandomUniformLike", chances, low=0.0, high=1.0)
    return context.add("Less", draws, chances, dtype="bool")


@emits("random_exponential")
def _exponential(context: CallContext) -> None:
    draws = context.add("RandomUniformLike", _shape_of(context), low=0.0, high=1.0)
    rate = context.scalar(float(context.number("rate")), draws)
    context.write(expression(context.graph, "-log1p(-x) / a", draws.dtype, x=draws, a=rate))
