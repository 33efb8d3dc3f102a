"""Products, convolutions, norms, softmax, attention, losses and recurrent layers."""

import math

import numpy as np

from tapegrad.onnx._graph import Graph, Value
from tapegrad.onnx._memory import CannotSay
from tapegrad.onnx._pointwise import computed_in, expression
from tapegrad.onnx._sizes import Size
from tapegrad.onnx._translate import CallContext, emits

# ---- products


@emits("matmul")
def _matmul(context: CallContext) -> None:
    dtype = computed_in(context.out_place().dtype)
    alpha, beta = context.number("alpha"), context.number("beta")
    a, b = (context.read_unexpanded(i, dtype, skip_last=2) for i in range(2))
    row = context.read(2, dtype) if context.count > 2 else None
    if len(context.sizes(0)) == 2 and row is not None and dtype.startswith("float"):
        result = _gemm(context, a, b, row)
    else:
        result = context.add("MatMul", a, b)
        if alpha != 1:
            result = context.add("Mul", result, context.scalar(alpha, result))
        if row is not None:
            result = context.add("Add", result, row)
        if beta != 0:
            base = context.cast(context.read_output(), dtype)
            if beta != 1:
                base = context.add("Mul", base, context.scalar(beta, base))
            result = context.add("Add", base, result)
    ranks = [len(context.sizes(i)) for i in range(2)]
    batch = context.out_place().sizes[:-2]
    repeated = [
        all(context.place(i).strides[axis] == 0 for i in range(2) if ranks[i] == len(batch) + 2)
        for axis in range(len(batch))
    ]
    if any(repeated):
        one, wanted = context.graph.size_of(1), context.out_place().sizes
        sizes = [one if is_one else size for size, is_one in zip(batch, repeated, strict=True)]
        result = context.expand(result, [*sizes, *wanted[-2:]], wanted)
    context.write(result)


def _gemm(context: CallContext, a: Value, b: Value, row: Value) -> Value:
    """Return a product and a row; what is transposed is read in place."""
    flags = {}
    factors = []
    for name, factor in (("transA", a), ("transB", b)):
        producer = context.graph.producers.get(factor.name)
        if producer is not None and producer.op == "Transpose":
            factor = Value(producer.inputs[0], factor.dtype)
            flags[name] = 1
        factors.append(factor)
    return context.add("Gemm", *factors, row, **flags)


# ---- convolutions


@emits("conv")
def _conv(context: CallContext) -> None:
    dtype = computed_in(context.out_place().dtype)
    operands = [context.read(i, dtype) for i in range(context.count)]
    padding = list(context.number("padding"))
    context.write(
        context.add(
            "Conv",
            *operands,
            strides=list(context.number("stride")),
            pads=padding + padding,
            dilations=list(context.number("dilation")),
            group=context.number("groups"),
        )
    )


@emits("conv_grad_input")
def _conv_transpose(context: CallContext) -> None:
    dtype = computed_in(context.out_place().dtype)
    stride, padding, dilation = (
        list(context.number(each)) for each in ("stride", "padding", "dilation")
    )
    extra, ends, beyond = [], list(padding), [0] * len(stride)
    for axis in range(len(stride)):
        size, kernel = context.sizes(0)[2 + axis], context.sizes(1)[2 + axis]
        least = (size - 1) * stride[axis] - 2 * padding[axis] + dilation[axis] * (kernel - 1) + 1
        more = (context.out_place().sizes[2 + axis] - least).constant
        if more is None or more < 0:
            raise CannotSay("its output padding depends on dynamic axes")
        if more >= stride[axis]:  # runtimes refuse that: less is cut off, or zeros are added
            cut = min(more, padding[axis])
            ends[axis] -= cut
            more, beyond[axis] = 0, more - cut
        extra.append(more)
    x, weight, *rest = (context.read(i, dtype) for i in range(context.count))
    bias = rest if not any(beyond) else []
    y = context.add(
        "ConvTranspose",
        x,
        weight,
        *bias,
        strides=stride,
        pads=padding + ends,
        dilations=dilation,
        output_padding=extra,
        group=context.number("groups"),
    )
    if any(beyond):
        y = context.add("Pad", y, context.ints(*[0] * (len(stride) + 4), *beyond))
        for each in rest:
            last = context.ints(*range(1, 1 + len(stride)))
            y = context.add("Add", y, context.add("Unsqueeze", each, last))
    context.write(y)


# ---- norms


@emits("batch_norm")
def _batch_norm(context: CallContext) -> None:
    dtype = computed_in(context.place(0).dtype)
    rest = iter(range(1, context.count))
    x = context.read(0, dtype)
    given = bool(context.number("given"))
    axes = [axis for axis in range(len(context.sizes(0))) if axis != 1]
    if given:
        mean, variance = (context.read(next(rest), dtype) for _ in range(2))
    else:
        over = context.ints(*axes)
        wide = context.add("ReduceMean", x, over, keepdims=1)
        centred = context.add("Sub", x, wide)
        mean = context.add("ReduceMean", x, over, keepdims=0)
        variance = context.add("ReduceMean", context.add("Mul", centred, centred), over, keepdims=0)
    channels = [context.sizes(0)[1]]
    affine = []
    for name, neutral in (("has_weight", 1.0), ("has_bias", 0.0)):
        if context.number(name):
            affine.append(context.read(next(rest), dtype))
        else:
            affine.append(context.filled(neutral, dtype, channels))
    eps = float(context.number("eps"))
    context.write(context.add("BatchNormalization", x, *affine, mean, variance, epsilon=eps))
    rstd = expression(
        context.graph, "1 / sqrt(x + a)", dtype, x=variance, a=context.scalar(eps, variance)
    )
    for output, value in enumerate((mean, variance, rstd), 1):
        if context.wants(output):
            context.write(value, output)


@emits("layer_norm")
def _layer_norm(context: CallContext) -> None:
    dtype = computed_in(context.place(0).dtype)
    x, sizes = context.read(0, dtype), context.sizes(0)
    first = len(context.out_place(1).sizes)
    axes = context.ints(*range(first, len(sizes)))
    rest = iter(range(1, context.count))
    weight = context.read(next(rest), dtype) if context.number("has_weight") else None
    bias = context.read(next(rest), dtype) if context.number("has_bias") else None
    eps, centred = float(context.number("eps")), bool(context.number("centred"))
    if centred and weight is not None:
        affine = [weight] if bias is None else [weight, bias]
        context.write(context.add("LayerNormalization", x, *affine, axis=first, epsilon=eps))
        if not (context.wants(1) or context.wants(2)):
            return
    mean = context.add("ReduceMean", x, axes, keepdims=1)
    z = context.add("Sub", x, mean) if centred else x
    square = context.add("ReduceMean", context.add("Mul", z, z), axes, keepdims=1)
    root = context.add("Sqrt", context.add("Add", square, context.scalar(eps, square)))
    if not centred or weight is None:
        y = context.add("Div", z, root)
        y = y if weight is None else context.add("Mul", y, weight)
        context.write(y if bias is None else context.add("Add", y, bias))
    if context.wants(1):
        context.write(context.add("Squeeze", mean, axes), 1)
    if context.wants(2):
        rstd = context.add("Div", context.scalar(1, root), root)
        context.write(context.add("Squeeze", rstd, axes), 2)


# ---- softmax, attention, cross entropy


@emits("softmax", "log_softmax")
def _softmax(context: CallContext) -> None:
    dtype = computed_in(context.out_place().dtype)
    op = "Softmax" if context.call.op == "softmax" else "LogSoftmax"
    x, axis = context.read(0, dtype), context.number("dim")
    if not context.sizes(0):
        x = context.add("Unsqueeze", x, context.ints(0))
        context.write(context.add("Squeeze", context.add(op, x, axis=0), context.ints(0)))
        return
    context.write(context.add(op, x, axis=axis))


@emits("attention")
def _attention(context: CallContext) -> None:
    dtype = computed_in(context.out_place().dtype)
    query, key, value = (context.read(i, dtype) for i in range(3))
    length, width = context.sizes(0)[2], context.sizes(1)[2]
    scaled = context.add("Mul", query, context.scalar(float(context.number("scale")), query))
    scores = context.add("MatMul", scaled, context.transpose(key, (0, 1, 3, 2)))
    least = context.scalar(-math.inf, scores)
    masked = bool(context.number("masked"))
    if masked:
        mask = context.read_unexpanded(3)
        if mask.dtype == "bool":
            scores = context.add("Where", mask, scores, least, dtype=dtype)
        else:
            scores = context.add("Add", scores, context.cast(mask, dtype))
    if context.number("causal"):
        rows = context.add("Unsqueeze", context.range(length), context.ints(1))
        seen = context.add("LessOrEqual", context.range(width), rows, dtype="bool")
        scores = context.add("Where", seen, scores, least, dtype=dtype)
    weights = context.add("Softmax", scores, axis=-1)
    if masked:  # a row that sees nothing gives zeros
        top = context.add("ReduceMax", scores, context.ints(3), keepdims=1)
        sees = context.add("Greater", top, least, dtype="bool")
        weights = context.add("Where", sees, weights, context.scalar(0, weights), dtype=dtype)
    context.write(context.add("MatMul", weights, value))
    if context.wants(1):
        context.write(context.add("ReduceLogSumExp", scores, context.ints(3), keepdims=0), 1)


@emits("cross_entropy")
def _cross_entropy(context: CallContext) -> None:
    dtype = computed_in(context.place(0).dtype)
    x, target, sizes = context.read(0, dtype), context.read(1), list(context.sizes(0))
    one = context.graph.size_of(1)
    if len(sizes) == 1:
        x, target = (context.add("Unsqueeze", each, context.ints(0)) for each in (x, target))
        sizes.insert(0, one)
    reduction = ("none", "mean", "sum")[int(context.number("reduction"))]
    weight = context.read(2, dtype) if context.number("has_weight") else None
    ignored = context.number("ignore_index")
    smoothing = float(context.number("label_smoothing"))
    lines = [sizes[0], *sizes[2:]]
    if smoothing == 0:
        inputs = [x, target] if weight is None else [x, target, weight]
        loss = context.add(
            "SoftmaxCrossEntropyLoss", *inputs, reduction=reduction, ignore_index=ignored
        )
    else:
        loss = _smoothed(context, x, target, weight, sizes, smoothing, ignored, reduction)
    context.write(loss, 0, lines if reduction == "none" else [])


def _smoothed(
    context: CallContext,
    x: Value,
    target: Value,
    weight: Value | None,
    sizes: list[Size],
    smoothing: float,
    ignored: int,
    reduction: str,
) -> Value:
    """Return cross entropy with smoothed labels: see csrc/spec/cross_entropy.h."""
    dtype, one = x.dtype, context.graph.size_of(1)
    costs = context.add("Neg", context.add("LogSoftmax", x, axis=1))
    shape = [one, sizes[1], *[one] * (len(sizes) - 2)]
    if weight is None:
        weight = context.filled(1.0, dtype, [sizes[1]])
    weights = context.reshape(weight, [sizes[1]], shape)
    costs = context.add("Mul", costs, weights)
    is_kept = context.add("Not", context.add(
        "Equal", target, context.scalar(ignored, target), dtype="bool"))  # fmt: skip
    zero = context.scalar(0, target)
    classes = context.add("Where", is_kept, target, zero, dtype=target.dtype)
    places = context.add("Unsqueeze", classes, context.ints(1))
    own = context.add("Squeeze", context.add("GatherElements", costs, places, axis=1),
                      context.ints(1))  # fmt: skip
    spread = context.add("ReduceMean", costs, context.ints(1), keepdims=0)
    loss = context.add(
        "Add",
        context.add("Mul", own, context.scalar(1 - smoothing, own)),
        context.add("Mul", spread, context.scalar(smoothing, own)),
    )
    nothing = context.scalar(0, loss)
    loss = context.add("Where", is_kept, loss, nothing, dtype=dtype)
    if reduction == "none":
        return loss
    total = context.add("ReduceSum", loss, keepdims=0)
    if reduction == "sum":
        return total
    shares = context.add("Gather", weight, classes, axis=0)
    shares = context.add("Where", is_kept, shares, nothing, dtype=dtype)
    return context.add("Div", total, context.add("ReduceSum", shares, keepdims=0))


# ---- recurrent layers

_TANH, _RELU, _LSTM, _GRU = range(4)
# The gates of a layer in ONNX's order, by their places in PyTorch's.
_GATES = {_TANH: (0,), _RELU: (0,), _LSTM: (0, 3, 1, 2), _GRU: (1, 0, 2)}


@emits("recurrent")
def _recurrent(context: CallContext) -> None:
    cell = int(context.number("cell"))
    steps, batch = _steps(context)
    one = context.graph.size_of(1)
    gates_width, width = context.sizes(1)
    x, weight, bias, features = _input_product(context, cell)
    x = context.reshape(x, [steps * batch, features], [steps, batch, features])
    recurrent = _reordered(context, context.read(1), cell, width)
    recurrent = context.add("Unsqueeze", recurrent, context.ints(0))
    state_bias = None
    if cell == _GRU and context.count > 3:
        state_bias = _reordered(context, context.read(3), cell, width)
    both = None
    if bias is not None or state_bias is not None:
        nothing = context.filled(0.0, x.dtype, [gates_width])
        both = context.add("Concat", bias or nothing, state_bias or nothing, axis=0)
        both = context.add("Unsqueeze", both, context.ints(0))
    states = [context.add("Unsqueeze", context.read(2), context.ints(0))]
    if cell == _LSTM:
        states.append(context.add("Unsqueeze", context.read(3), context.ints(0)))
    attributes: dict[str, object] = {"hidden_size": width.runs[0]}
    if context.number("reverse"):
        attributes["direction"] = "reverse"
    if cell == _RELU:
        attributes["activations"] = ["Relu"]
    if cell == _GRU:
        attributes["linear_before_reset"] = 1
    op = {_LSTM: "LSTM", _GRU: "GRU"}.get(cell, "RNN")
    outputs = context.graph.nodes_of(
        op,
        (x, weight, recurrent, both, None, *states),
        [x.dtype] * (2 + (cell == _LSTM)),
        **attributes,
    )
    context.write(outputs[0], 0, [steps, one, batch, width])
    for output, value in enumerate(outputs[1:], 2):
        context.write(value, output, [one, batch, width])


def _steps(context: CallContext) -> tuple[Size, Size]:
    """Return the number of steps and of sequences."""
    runs = context.rows("counts")
    if any(len(set(each)) > 1 for each in runs):
        raise CannotSay(
            "its sequences are packed and differ in length; give it a padded batch without packing"
        )
    return Size(len(each) for each in runs), Size(each[0] for each in runs)


def _reordered(context: CallContext, x: Value, cell: int, width: Size) -> Value:
    """Return weights or biases with their gates in ONNX's order."""
    order = _GATES[cell]
    if len(order) == 1:
        return x
    size = width.runs[0]
    parts = [
        context.add(
            "Slice", x, context.ints(gate * size), context.ints(gate * size + size), context.ints(0)
        )
        for gate in order
    ]
    return context.add("Concat", *parts, axis=0)


def _input_product(context: CallContext, cell: int) -> tuple[Value, Value, Value | None, Size]:
    """Return the input of a layer, its weights, its bias, and the number of features.

    The op gets the product of the two. It is taken back if it has just been made, and otherwise the
    gates are their own input.
    """
    gates = context.read(0)
    width = context.sizes(1)[1]
    size = context.sizes(0)[1]
    found = _factors(context.graph, gates)
    if found is not None:
        x, weight, bias = found
        features = context.graph.initializers[weight.name].shape[1]
        weight = context.add("Unsqueeze", _reordered(context, weight, cell, width), context.ints(0))
        bias = bias if bias is None else _reordered(context, bias, cell, width)
        return x, weight, bias, context.graph.size_of(features)
    identity = context.graph.constant(np.eye(size.runs[0]), gates.dtype)
    weight = context.add("Unsqueeze", _reordered(context, identity, cell, width), context.ints(0))
    return gates, weight, None, size


def _factors(graph: Graph, product: Value) -> tuple[Value, Value, Value | None] | None:
    """Return x, w and a bias of x times the transpose of w, if w is a tensor of the file."""
    producer = graph.producers.get(product.name)
    if producer is None:
        return None
    bias = None
    x, weight, *rest = (Value(name, product.dtype) for name in (*producer.inputs, "")[:3])
    if producer.op == "Gemm" and set(producer.attributes) == {"transB"}:
        bias = rest[0]
    elif producer.op == "MatMul" and weight.name in graph.producers:
        turned = graph.producers[weight.name]
        weight = Value(turned.inputs[0] if turned.op == "Transpose" else "", product.dtype)
    else:
        return None
    return (x, weight, bias) if weight.name in graph.initializers else None
