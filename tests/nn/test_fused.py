"""Ops that compute at once what others compose: attention, recurrent layers, norms.

Each is compared with the composed form, in values and gradients, at sizes that need several of its
blocks, in both float dtypes, through other strides, and in the second derivative.
"""

import pytest
from library import IS_TORCH

if IS_TORCH:
    pytest.skip("compares two computations of tapegrad", allow_module_level=True)

import tapegrad as tg
from tapegrad.nn import functional as F
from tapegrad.nn.attention import SDPBackend, sdpa_kernel
from tapegrad.nn.functional import recurrent

TOLERANCE = {tg.float32: 2e-5, tg.float64: 1e-11}


def leaf(*shape, dtype=tg.float64):
    return tg.randn(*shape, dtype=dtype).requires_grad_()


def expect_equal(actual, expected, dtype):
    for a, b in zip(actual, expected, strict=True):
        size = max(1.0, b.abs().max().item()) if b.numel() else 1.0
        assert a.shape == b.shape
        assert tg.allclose(a, b, rtol=0, atol=TOLERANCE[dtype] * size)


def waves_like(x):
    """Numbers for a gradient to begin with, the same in every call."""
    return tg.arange(x.numel(), dtype=x.dtype).cos().reshape(x.shape)


def results_of(function, leaves, second):
    """The result, the gradients, and on demand the gradients of these."""
    results = function()
    results = list(results) if isinstance(results, tuple) else [results]
    cotangents = [waves_like(r) for r in results]
    grads = tg.autograd.grad(results, leaves, cotangents, create_graph=second)
    if second:
        total = sum((g * waves_like(g)).sum() for g in grads)
        return [*results, *grads, *tg.autograd.grad(total, leaves, materialize_grads=True)]
    return [*results, *grads]


MASKS = ["none", "causal", "bool", "rows", "added", "column"]


def mask_of(kind, queries, keys, dtype):
    if kind == "bool":
        mask = tg.rand(2, 1, queries, keys) > 0.3
        mask[:, :, 5] = False  # a query that sees nothing
        return mask
    if kind == "rows":
        return (tg.rand(keys) > 0.5).expand(queries, keys)
    if kind == "added":
        added = tg.randn(4, queries, keys, dtype=dtype)
        added[:, 3, :] = -float("inf")
        added[:, 7, : keys // 2] = -float("inf")
        return added
    if kind == "column":
        return tg.randn(queries, 1, dtype=dtype)
    return None


@pytest.mark.parametrize("second", [False, True], ids=["first", "second"])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("sizes", [(130, 300, 4), (70, 70, 2), (20, 520, 4), (300, 33, 1)], ids=str)
def test_attention(kind, sizes, second):
    tg.manual_seed(0)
    queries, keys, groups = sizes
    for dtype in (tg.float64,) if second else (tg.float32, tg.float64):
        query = leaf(2, queries, 4, 12, dtype=dtype)  # heads behind positions, as models have them
        key, value = leaf(2, groups, keys, 12, dtype=dtype), leaf(2, groups, keys, 9, dtype=dtype)
        mask = mask_of(kind, queries, keys, dtype)

        def attend(query=query, key=key, value=value, mask=mask):
            return F.scaled_dot_product_attention(
                query.transpose(1, 2),
                key,
                value,
                attn_mask=mask,
                is_causal=kind == "causal",
                enable_gqa=groups != 4,
            )

        leaves = [query, key, value]
        fused = results_of(attend, leaves, second)
        with sdpa_kernel(SDPBackend.MATH):
            composed = results_of(attend, leaves, second)
        expect_equal(fused, composed, dtype)


def peak_of(step):
    step()
    tg.reset_peak_memory_stats()
    before = tg.memory_stats()["live_bytes"]
    step()
    return tg.memory_stats()["peak_bytes"] - before


def test_memory_of_attention_grows_with_the_tokens():
    def step(tokens):
        q, k, v = (leaf(1, 2, tokens, 16, dtype=tg.float32) for _ in range(3))
        F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()

    short, long = (peak_of(lambda tokens=tokens: step(tokens)) for tokens in (1024, 4096))
    assert long < 4.5 * short
    assert long < 4096 * 4096  # bytes: a quarter of one head's scores


@pytest.mark.parametrize("second", [False, True], ids=["first", "second"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("layout", ["padded", "packed", "parts"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN_TANH", "RNN_RELU"])
def test_recurrent_layer(kind, layout, reverse, second, monkeypatch):
    """A layer as one op, and, where it is long, as one for each part, is what its steps make."""
    tg.manual_seed(0)
    packed = layout == "packed"
    if layout == "parts":
        monkeypatch.setattr(recurrent, "_PART_STEPS", 4)
        monkeypatch.setattr(recurrent, "_PART_ROWS", 4)
    gates, hidden = recurrent.GATES[kind], 5
    for dtype in (tg.float64,) if second else (tg.float32, tg.float64):
        batch_sizes = [4, 4, 3, 1, 1] if packed else None
        shape = (13,) if packed else (18 if layout == "parts" else 6, 4)
        x = leaf(*shape, 3, dtype=dtype)
        state = tuple(leaf(4, hidden, dtype=dtype) for _ in range(1 + (kind == "LSTM")))
        shapes = [(gates * hidden, 3), (gates * hidden, hidden), (gates * hidden,)]
        weights = [leaf(*shape, dtype=dtype) for shape in (*shapes, shapes[-1])]

        def layer(x=x, state=state, weights=weights, batch_sizes=batch_sizes):
            out, final = recurrent._layer(kind, x, state, [*weights, None], reverse, batch_sizes)
            return (out, *final)

        leaves = [x, *state, *weights]
        native = results_of(layer, leaves, second)
        entries = [entry.op for entry in tg.tape.of(layer()[0])]
        assert entries.count(kind.lower()) == (5 if layout == "parts" else 1)
        with monkeypatch.context() as patch:
            patch.setattr(recurrent, "_NATIVE", ())
            composed = results_of(layer, leaves, second)
        expect_equal(native, composed, dtype)


def composed_norm(x, dims, weight, bias, eps, centred):
    shifted = x - x.mean(dims, keepdim=True) if centred else x
    y = shifted * (shifted.square().mean(dims, keepdim=True) + eps).rsqrt()
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@pytest.mark.parametrize("second", [False, True], ids=["first", "second"])
@pytest.mark.parametrize("affine", ["both", "weight", "bias", "none"])
@pytest.mark.parametrize("centred", [True, False], ids=["layer", "rms"])
@pytest.mark.parametrize("shape", [(3, 7), (130, 200), (2, 3, 5, 4)], ids=str)
def test_layer_norm(shape, centred, affine, second):
    tg.manual_seed(0)
    dims = 1 if len(shape) == 2 else 2
    for dtype in (tg.float32, tg.float64):
        x = leaf(*reversed(shape), dtype=dtype)
        weight = leaf(*shape[-dims:], dtype=dtype) if affine in ("both", "weight") else None
        bias = leaf(*shape[-dims:], dtype=dtype) if affine in ("both", "bias") else None
        order = tuple(reversed(range(len(shape))))

        def native(x=x, weight=weight, bias=bias, order=order):
            return tg._C._layer_norm(x.permute(order), dims, weight, bias, 1e-5, centred)

        def composed(x=x, weight=weight, bias=bias, order=order):
            over = tuple(range(-dims, 0))
            return composed_norm(x.permute(order), over, weight, bias, 1e-5, centred)

        leaves = [t for t in (x, weight, bias) if t is not None]
        if second and dtype == tg.float32:
            continue
        expect_equal(
            results_of(native, leaves, second), results_of(composed, leaves, second), dtype
        )


@pytest.mark.parametrize("second", [False, True], ids=["first", "second"])
@pytest.mark.parametrize("given", [False, True], ids=["training", "evaluation"])
@pytest.mark.parametrize("shape", [(9, 4), (64, 33), (5, 3, 2), (8, 6, 9, 11), (2, 2, 2, 3, 2)])
def test_batch_norm(shape, given, second):
    tg.manual_seed(0)
    column = [1, -1, *[1] * (len(shape) - 2)]
    for dtype in (tg.float64,) if second else (tg.float32, tg.float64):
        x = leaf(*shape, dtype=dtype)
        weight, bias = leaf(shape[1], dtype=dtype), leaf(shape[1], dtype=dtype)
        mean = tg.randn(shape[1], dtype=dtype) if given else None
        variance = tg.rand(shape[1], dtype=dtype) + 0.5 if given else None

        def native(x=x, weight=weight, bias=bias, mean=mean, variance=variance):
            return tg._C._batch_norm(x, mean, variance, weight, bias, 1e-5)[0]

        def composed(x=x, weight=weight, bias=bias, mean=mean, variance=variance):
            w, b = weight.reshape(column), bias.reshape(column)
            if given:
                scale = (variance.reshape(column) + 1e-5).rsqrt()
                return (x - mean.reshape(column)) * scale * w + b
            return composed_norm(x, (0, *range(2, x.dim())), w, b, 1e-5, True)

        leaves = [x, weight, bias]
        expect_equal(
            results_of(native, leaves, second), results_of(composed, leaves, second), dtype
        )


def test_gradients_that_nobody_asked_for_are_not_computed():
    """Only the way to the given inputs is gone: the weight's gradient would be much work."""
    x, weight = leaf(2, 3, 8, 8), leaf(4, 3, 3, 3)
    y = tg._C._convolution("conv2d", x, weight, None, 1, 0, 1, False, 0, 1)
    program = tg._C.Program()
    with program:
        tg.autograd.grad(y.sum(), [x])
    names = [name for name, *_ in program.steps()]
    assert "conv_grad_input" in names
    assert "conv_grad_weight" not in names


@pytest.mark.parametrize("batch_norm", [False, True], ids=["layer", "batch"])
def test_norms_of_nothing_have_gradients_of_zero(batch_norm):
    x, weight, bias = leaf(0, 5), leaf(5), leaf(5)
    if batch_norm:
        y = F.batch_norm(x, None, None, weight, bias, training=True)
    else:
        y = F.layer_norm(x, (5,), weight, bias)
    spoilt = [tg.full((5,), 7.0, dtype=tg.float64) for _ in range(64)]
    del spoilt  # memory that the next tensors get holds numbers
    grads = tg.autograd.grad(y.sum(), [x, weight, bias])
    assert [g.tolist() for g in grads[1:]] == [[0.0] * 5] * 2
    assert grads[0].shape == (0, 5)


def test_attention_of_no_heads():
    query, key, value = leaf(1, 0, 3, 4), leaf(1, 2, 3, 4), leaf(1, 2, 3, 4)
    y = F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    grads = tg.autograd.grad(y.sum(), [query, key, value])
    assert y.shape == (1, 0, 3, 4)
    assert all(not g.any() for g in grads)


@pytest.mark.parametrize("kernel, dilation, padding", [(3, 2**30, 2**30), (5, 2**30, 2**31 - 1)])
def test_a_convolution_that_reaches_far_beyond_the_image(kernel, dilation, padding):
    x, weight = leaf(1, 1, 4, 4), leaf(1, 1, kernel, kernel)
    y = F.conv2d(x, weight, padding=padding, dilation=dilation)
    rows = y.shape[2]
    middle = weight[0, 0, kernel // 2, kernel // 2]
    begin = dilation * (kernel // 2) - padding
    assert tg.equal(y[0, 0], x[0, 0, begin : begin + rows, begin : begin + rows] * middle)
    grads = tg.autograd.grad(y.sum(), [x, weight])
    assert grads[1].count_nonzero() == 1


def test_a_batch_of_nothing_leaves_the_running_statistics():
    mean, variance = tg.zeros(3), tg.ones(3)
    F.batch_norm(tg.zeros(0, 3, 2), mean, variance, training=True)
    assert mean.tolist() == [0.0] * 3 and variance.tolist() == [1.0] * 3
