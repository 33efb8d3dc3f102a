"""Attention beside PyTorch's: masks of every kind, shapes, dtypes, derivatives, errors."""

import math

import numpy as np
import pytest

from .side_by_side import array_of, copy_state, expect_near, expect_same, numbers, tensor_of

MASK = np.array(
    [
        [True, False, True, True, False],
        [False, False, False, False, True],
        [True, True, True, True, True],
    ]
)
EMPTY_ROW = MASK & np.array([[True], [False], [True]])
INFINITY = float("inf")


def as_floats(mask):
    return np.where(mask, numbers(*mask.shape, seed=6), -INFINITY)


# name, shapes of query, key and value, keyword arguments
CASES = [
    ("plain", [(2, 3, 4), (2, 5, 4), (2, 5, 6)], {}),
    ("matrices", [(3, 4), (5, 4), (5, 6)], {}),
    ("heads", [(2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4)], {}),
    ("broadcast", [(2, 1, 3, 4), (1, 2, 5, 4), (2, 2, 5, 4)], {}),
    ("fewer dimensions", [(3, 4), (2, 5, 4), (2, 5, 4)], {}),
    ("scale", [(2, 3, 4), (2, 5, 4), (2, 5, 6)], {"scale": 0.3}),
    ("negative scale", [(2, 3, 4), (2, 5, 4), (2, 5, 6)], {"scale": -0.3}),
    ("causal", [(2, 2, 4, 4), (2, 2, 4, 4), (2, 2, 4, 4)], {"is_causal": True}),
    ("causal, more keys", [(2, 3, 4), (2, 5, 4), (2, 5, 4)], {"is_causal": True}),
    ("causal, more queries", [(2, 5, 4), (2, 3, 4), (2, 3, 4)], {"is_causal": True}),
    ("bool", [(2, 3, 4), (2, 5, 4), (2, 5, 6)], {"attn_mask": MASK}),
    ("bool heads", [(2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4)], {"attn_mask": MASK}),
    ("float", [(2, 3, 4), (2, 5, 4), (2, 5, 6)], {"attn_mask": as_floats(MASK)}),
    ("bool, empty row", [(2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4)], {"attn_mask": EMPTY_ROW}),
    ("float, empty row", [(2, 3, 4), (2, 5, 4), (2, 5, 4)], {"attn_mask": as_floats(EMPTY_ROW)}),
    ("row of a mask", [(2, 3, 4), (2, 5, 4), (2, 5, 4)], {"attn_mask": MASK[0]}),
    ("column of a mask", [(2, 3, 4), (2, 5, 4), (2, 5, 4)], {"attn_mask": MASK[:, 1:2]}),
    ("mask of heads", [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)], {"attn_mask": MASK[None, None]}),
    (
        "mask of a batch",
        [(2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4)],
        {"attn_mask": np.stack([MASK, ~MASK])[:, None]},
    ),
    ("groups", [(2, 4, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4)], {"enable_gqa": True}),
    ("one group", [(4, 3, 4), (1, 5, 4), (1, 5, 4)], {"enable_gqa": True, "is_causal": True}),
    ("uneven groups", [(2, 4, 3, 4), (2, 2, 5, 4), (2, 1, 5, 4)], {"enable_gqa": True}),
    ("no features", [(2, 3, 0), (2, 5, 0), (2, 5, 4)], {}),
    ("negative dropout", [(2, 3, 4), (2, 5, 4), (2, 5, 6)], {"dropout_p": -0.5}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_attention(both, case):
    _, shapes, kwargs = case
    inputs = [numbers(*shape, seed=place) for place, shape in enumerate(shapes)]
    expect_same(both, lambda t: t.nn.functional.scaled_dot_product_attention, inputs, kwargs)


@pytest.mark.parametrize("mask", [EMPTY_ROW, as_floats(EMPTY_ROW)], ids=["bool", "float"])
def test_a_query_without_keys_gets_zeros_and_gives_no_gradient(torch, mask):
    q, k, v = (tensor_of(torch, numbers(*shape)) for shape in ((3, 4), (5, 4), (5, 2)))
    mask = tensor_of(torch, mask)
    output = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)
    output.sum().backward()
    assert output[1].tolist() == [0.0, 0.0]
    assert q.grad[1].tolist() == [0.0] * 4
    for tensor in (q, k, v):
        assert tensor.grad.isfinite().all()
    if mask.grad is not None:
        assert mask.grad[1].tolist() == [0.0] * 5


def test_nothing_to_attend_with_or_to(torch):
    attend = torch.nn.functional.scaled_dot_product_attention
    x, nothing = torch.ones(2, 3, 4), torch.ones(2, 0, 4)
    assert tuple(attend(nothing, x, x).shape) == (2, 0, 4)
    assert attend(x, nothing, nothing).tolist() == torch.zeros(2, 3, 4).tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(both, dtype):
    found = []
    for library in both:
        half = getattr(library, dtype)
        inputs = [tensor_of(library, numbers(2, 2, 6, 8, seed=seed)).to(half) for seed in range(3)]
        mask = library.zeros(6, 6)
        with library.nn.attention.sdpa_kernel(library.nn.attention.SDPBackend.MATH):
            output = library.nn.functional.scaled_dot_product_attention(*inputs, mask)
        assert output.dtype == half
        found.append(output.double())
    expect_near(*found, dtype, {"float16": 1e-3, "bfloat16": 1e-2}[dtype])


@pytest.mark.parametrize("case", ["plain", "causal", "bool", "float", "groups"])
def test_derivatives(torch, case):
    _, shapes, kwargs = next(row for row in CASES if row[0] == case)
    kwargs = {name: tensor_of(torch, value) for name, value in kwargs.items()}
    inputs = [tensor_of(torch, numbers(1, *shape[1:])) for shape in shapes]
    if case == "float":  # Finite, so that its derivative is one.
        kwargs = {"attn_mask": tensor_of(torch, numbers(3, 5, seed=6))}

    def attend(*tensors):
        mask = {"attn_mask": tensors[3]} if len(tensors) > 3 else {}
        return torch.nn.functional.scaled_dot_product_attention(*tensors[:3], **kwargs | mask)

    inputs += [kwargs["attn_mask"]] if case == "float" else []
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert torch.autograd.gradcheck(attend, inputs)
        assert torch.autograd.gradgradcheck(attend, inputs)


def test_dropout_keeps_the_mean_and_drops_weights(torch):
    attend = torch.nn.functional.scaled_dot_product_attention
    q, k = torch.zeros(1, 500, 4), torch.zeros(1, 40, 4)
    v = torch.eye(40).unsqueeze(0)
    weights = attend(q, k, v, dropout_p=0.25)  # The weights themselves, for these values.
    assert abs(float((weights == 0).float().mean()) - 0.25) < 0.02
    assert torch.allclose(weights[weights != 0], torch.tensor(1 / 40 / 0.75))
    assert (attend(q, k, v, dropout_p=1.0) == 0).all()
    assert torch.allclose(attend(q, k, v), torch.tensor(1 / 40))


def heads_of(torch, x, way):
    if way == "unbind":
        return x.view(2, 6, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
    parts = x.split(8, -1) if way == "split" else x.clone().chunk(3, -1)
    return [part.view(2, 6, 2, 4).transpose(1, 2) for part in parts]


@pytest.mark.parametrize("way", ["unbind", "split", "chunk"])
def test_heads_of_one_projection(way):
    """The gradients of its parts lie in one memory, and are not copied together."""
    import tapegrad as torch
    from tapegrad import tape

    attend = torch.nn.functional.scaled_dot_product_attention
    x = torch.randn(2, 6, 24, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(2, 2, 6, 4, dtype=torch.float64)
    with tape.record(replay=True) as t:
        found = torch.autograd.grad(attend(*heads_of(torch, x, way), is_causal=True), x, weights)[0]
    text = str(t.program())
    assert "attention_backward" in text
    assert "cat(" not in text
    assert text.count("copy(") == (way == "chunk")
    plain = [part.clone() for part in heads_of(torch, x, way)]
    wanted = torch.autograd.grad(attend(*plain, is_causal=True), x, weights)[0]
    assert torch.allclose(found, wanted, atol=1e-14)
    # Where more is to be done with the gradients of the parts.
    parts = heads_of(torch, x, way)
    for part in parts:
        part.retain_grad()
    result = attend(*parts) + parts[0] * 2
    result.backward(weights, retain_graph=True)
    result.backward(weights)
    exact = [part.detach().clone().requires_grad_() for part in parts]
    (attend(*exact) + exact[0] * 2).backward(weights * 2)
    for part, other in zip(parts, exact, strict=True):
        assert torch.allclose(part.grad, other.grad, atol=1e-14)
    joined = torch.cat([other.grad.transpose(1, 2).reshape(2, 6, 8) for other in exact], -1)
    assert torch.allclose(x.grad, joined, atol=1e-14)


def test_heads_of_one_projection_under_vmap():
    import tapegrad as torch

    attend = torch.nn.functional.scaled_dot_product_attention
    x = torch.randn(3, 2, 6, 24, dtype=torch.float64)

    def loss(x):
        return attend(*heads_of(torch, x, "unbind"), is_causal=True).sin().sum()

    found = torch.vmap(torch.func.grad(loss))(x)
    for ours, each in zip(found, x, strict=True):
        assert torch.allclose(ours, torch.func.grad(loss)(each), atol=1e-14)


@pytest.mark.parametrize("case", ["plain", "causal", "bool", "groups"])
def test_derivatives_with_dropout(case):
    """Both directions and the second derivative drop the same weights."""
    import tapegrad as torch

    _, shapes, kwargs = next(row for row in CASES if row[0] == case)
    kwargs = {name: tensor_of(torch, value) for name, value in kwargs.items()}
    inputs = [tensor_of(torch, numbers(*shape, seed=seed)) for seed, shape in enumerate(shapes)]

    def attend(*tensors):
        torch.manual_seed(7)
        return torch.nn.functional.scaled_dot_product_attention(*tensors, dropout_p=0.4, **kwargs)

    assert torch.autograd.gradcheck(attend, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(attend, inputs)


def test_dropout_draws_anew_each_time():
    import tapegrad as torch

    x = torch.randn(2, 3, 150, 8)
    attend = torch.nn.functional.scaled_dot_product_attention
    torch.manual_seed(1)
    first, second = (attend(x, x, x, dropout_p=0.5) for _ in range(2))
    torch.manual_seed(1)
    assert torch.equal(attend(x, x, x, dropout_p=0.5), first)
    assert not torch.equal(first, second)
    identity = torch.eye(150).expand(2, 3, 150, 150)
    dropped = (attend(x, x, identity, dropout_p=0.5) == 0).double()
    assert abs(float(dropped.mean()) - 0.5) < 0.01
    rows = dropped.reshape(900, 150) - 0.5
    assert float((rows.T @ rows / 900).abs().triu(1).max()) < 0.06  # no two keys go together


def test_dropout_under_vmap():
    import tapegrad as torch

    x = torch.randn(3, 1, 2, 20, 8)
    attend = torch.nn.functional.scaled_dot_product_attention
    different = torch.vmap(lambda x: attend(x, x, x, dropout_p=0.5), randomness="different")(x)
    assert not torch.equal(different[0], different[1])
    plain = torch.vmap(lambda x: attend(x, x, x, is_causal=True))(x)
    assert torch.allclose(plain[2], attend(x[2], x[2], x[2], is_causal=True))


def test_the_kernel_context(torch):
    attention = torch.nn.attention
    backend = attention.SDPBackend
    attend = torch.nn.functional.scaled_dot_product_attention
    before = attention._cur_sdpa_kernel_backends()
    x = torch.ones(1, 1, 2, 4)
    with attention.sdpa_kernel(backend.MATH):
        assert attention._cur_sdpa_kernel_backends() == [backend.MATH]
        with attention.sdpa_kernel([backend.FLASH_ATTENTION, backend.MATH], set_priority=True):
            inside = attention._cur_sdpa_kernel_backends()
            assert set(inside) == {backend.FLASH_ATTENTION, backend.MATH}
            assert torch.allclose(attend(x, x, x), x)
        assert attention._cur_sdpa_kernel_backends() == [backend.MATH]
    with pytest.raises(ValueError, match="inside"), attention.sdpa_kernel([backend.MATH]):
        raise ValueError("inside")
    assert set(attention._cur_sdpa_kernel_backends()) == set(before)
    with attention.sdpa_kernel([]), pytest.raises(RuntimeError, match="No viable backend"):
        attend(x, x, x)
    with pytest.raises(AssertionError, match="got int"), attention.sdpa_kernel(3):
        pass
    numbers_of = {name: int(member) for name, member in backend.__members__.items()}
    assert numbers_of == {
        "ERROR": -1,
        "MATH": 0,
        "FLASH_ATTENTION": 1,
        "EFFICIENT_ATTENTION": 2,
        "CUDNN_ATTENTION": 3,
        "OVERRIDEABLE": 4,
    }
    assert repr(backend.MATH) == "<SDPBackend.MATH: 0>"
    assert str(backend.MATH) == "SDPBackend.MATH"


def entry_of(torch, **kwargs):
    x = torch.ones(1, 2, 4, 8, requires_grad=True)
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, **kwargs).grad_fn.name()


def test_the_backends_that_are_allowed_are_used():
    import tapegrad as torch

    backend, sdpa_kernel = torch.nn.attention.SDPBackend, torch.nn.attention.sdpa_kernel
    fused = "ScaledDotProductAttentionBackward0"
    assert entry_of(torch) == fused
    with sdpa_kernel(backend.MATH):
        assert entry_of(torch) != fused
    with sdpa_kernel([backend.MATH, backend.EFFICIENT_ATTENTION]):
        assert entry_of(torch) == fused
    with sdpa_kernel([backend.MATH, backend.EFFICIENT_ATTENTION], set_priority=True):
        assert entry_of(torch) != fused
    assert entry_of(torch, dropout_p=0.5) == fused


def test_a_backend_that_cannot_compute_it_is_refused():
    import tapegrad as torch

    backend, sdpa_kernel = torch.nn.attention.SDPBackend, torch.nn.attention.sdpa_kernel
    with sdpa_kernel(backend.CUDNN_ATTENTION), pytest.raises(RuntimeError, match="on a CUDA dev"):
        entry_of(torch)
    mask = torch.zeros(4, 4, requires_grad=True)
    with (
        sdpa_kernel([backend.FLASH_ATTENTION, backend.CUDNN_ATTENTION]),
        pytest.raises(RuntimeError, match=r"No viable backend.*CUDNN_.*FLASH_.*needs a gradient"),
    ):
        entry_of(torch, attn_mask=mask)


def test_the_choice_can_be_asked_for():
    import tapegrad as torch

    backend, cuda = torch.nn.attention.SDPBackend, torch.backends.cuda
    x = torch.ones(1, 2, 4, 8)
    assert backend(torch._fused_sdp_choice(x, x, x, is_causal=True)) == backend.FLASH_ATTENTION
    assert backend(torch._fused_sdp_choice(x, x, x, dropout_p=0.1)) == backend.FLASH_ATTENTION
    with torch.nn.attention.sdpa_kernel(backend.CUDNN_ATTENTION):
        assert backend(torch._fused_sdp_choice(x, x, x)) == backend.ERROR
        assert not cuda.flash_sdp_enabled()
        assert cuda.cudnn_sdp_enabled()
    params = cuda.SDPAParams(x, x, x, None, 0.0, False, False)
    assert cuda.can_use_flash_attention(params)
    assert cuda.can_use_efficient_attention(params)
    with pytest.warns(UserWarning, match="CUDNN_ATTENTION is not used: tensors are not on a CUDA"):
        assert not cuda.can_use_cudnn_attention(params, debug=True)
    with cuda.sdp_kernel(enable_flash=False):
        assert torch._fused_sdp_choice(x, x, x) == backend.EFFICIENT_ATTENTION.value


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", ["causal", "bool", "float", "groups", "bool, empty row"])
def test_fused_halves(dtype, case):
    """Values and gradients beside those of float64, and the dtypes of what is kept."""
    import tapegrad as torch

    _, shapes, kwargs = next(row for row in CASES if row[0] == case)
    kwargs = {
        name: torch.tensor(value) if isinstance(value, np.ndarray) else value
        for name, value in kwargs.items()
    }
    half = getattr(torch, dtype)
    inputs = [
        torch.tensor(numbers(*shape, seed=place)).to(half) for place, shape in enumerate(shapes)
    ]
    found = []
    for wanted in (half, torch.float64):
        tensors = [tensor.to(wanted).requires_grad_() for tensor in inputs]
        options = dict(kwargs)
        if "attn_mask" in options and options["attn_mask"].dtype != torch.bool:
            options["attn_mask"] = options["attn_mask"].to(half).to(wanted)
        output = torch.nn.functional.scaled_dot_product_attention(*tensors, **options)
        grads = torch.autograd.grad(output.sin().sum(), tensors)
        assert all(tensor.dtype == wanted for tensor in (output, *grads))
        found.append([output, *grads])
    for own, exact in zip(*found, strict=True):
        expect_near(own.double(), exact, case, {"float16": 4e-3, "bfloat16": 3e-2}[dtype])


def test_second_derivatives_of_halves():
    import tapegrad as torch

    attend = torch.nn.functional.scaled_dot_product_attention
    inputs = [torch.tensor(numbers(1, 2, 3, 4, seed=seed)).half() for seed in range(3)]
    found = []
    for dtype in (torch.float16, torch.float64):
        tensors = [tensor.to(dtype).requires_grad_() for tensor in inputs]
        grads = torch.autograd.grad(
            attend(*tensors, is_causal=True).sin().sum(), tensors, create_graph=True
        )
        total = sum(grad.square().sum() for grad in grads)
        found.append(torch.autograd.grad(total, tensors))
    for own, exact in zip(*found, strict=True):
        assert own.dtype == torch.float16
        expect_near(own.double(), exact, "second derivatives", 2e-2)


def attend(t, *shapes, **kwargs):
    tensors = [t.ones(*shape) for shape in shapes]
    return t.nn.functional.scaled_dot_product_attention(*tensors, **kwargs)


SAME = [(2, 3, 4)] * 3
ERRORS = [
    (lambda t: attend(t, (3,), (3,), (3,)), RuntimeError, "at least 2 dimensional"),
    (lambda t: attend(t, (2, 3, 4), (2, 3, 5), (2, 3, 5)), RuntimeError, None),
    (lambda t: attend(t, (2, 3, 4), (2, 3, 4), (2, 5, 4)), RuntimeError, None),
    (lambda t: attend(t, (2, 4, 3, 4), (2, 2, 3, 4), (2, 2, 3, 4)), RuntimeError, None),
    (
        lambda t: t.nn.functional.scaled_dot_product_attention(
            t.ones(2, 3), t.ones(2, 3).double(), t.ones(2, 3)
        ),
        RuntimeError,
        "Expected query, key, and value to have the same dtype",
    ),
    (
        lambda t: t.nn.functional.scaled_dot_product_attention(*[t.ones(2, 3).long()] * 3),
        RuntimeError,
        None,
    ),
    (
        lambda t: t.nn.functional.scaled_dot_product_attention([1], 2, 3),
        TypeError,
        "must be Tensor",
    ),
    (
        lambda t: attend(t, *SAME, attn_mask=t.ones(3, 3).long()),
        RuntimeError,
        "Expected attn_mask dtype to be bool or float or to match query dtype",
    ),
    (
        lambda t: attend(t, *SAME, attn_mask=t.ones(3, 3).double()),
        RuntimeError,
        "Expected attn_mask dtype to be bool or float or to match query dtype",
    ),
    (lambda t: attend(t, *SAME, attn_mask=t.ones(3, 2)), RuntimeError, None),
    (lambda t: attend(t, *[(3, 4)] * 3, attn_mask=t.ones(2, 3, 3)), RuntimeError, None),
    (
        lambda t: attend(t, *SAME, attn_mask=t.ones(3, 3), is_causal=True),
        RuntimeError,
        "Explicit attn_mask should not be set when is_causal=True",
    ),
    (
        lambda t: attend(t, *SAME, dropout_p=1.5),
        RuntimeError,
        "dropout probability has to be between 0 and 1, but got 1.5",
    ),
    (
        lambda t: attend(t, (4, 3, 4), (3, 3, 4), (3, 3, 4), enable_gqa=True),
        RuntimeError,
        "must divide the number of heads",
    ),
    (lambda t: attend(t, *[(3, 4)] * 3, enable_gqa=True), IndexError, "Dimension out of range"),
    (
        lambda t: t.nn.functional.scaled_dot_product_attention(
            t.ones(2, 3), t.ones(2, 3), t.ones(2, 3), None, 0.0, False, 0.5
        ),
        TypeError,
        "positional arguments",
    ),
]


@pytest.mark.parametrize("call, error, text", ERRORS, ids=range(len(ERRORS)))
def test_error(torch, call, error, text):
    with pytest.raises(error, match=text):
        call(torch)


# ---- the module

# keyword arguments of the module
MODULES = [
    {},
    {"bias": False},
    {"batch_first": True},
    {"add_bias_kv": True},
    {"add_zero_attn": True, "batch_first": True},
    {"add_bias_kv": True, "add_zero_attn": True},
    {"kdim": 3},
    {"kdim": 3, "vdim": 5, "bias": False, "batch_first": True},
    {"vdim": 5, "add_bias_kv": True, "batch_first": True},
]
CAUSAL = np.triu(np.ones((3, 3), bool), 1)
PADDING = np.array([[False, False, False, True], [False, True, True, True]])

# The length of the keys and keyword arguments of the call. In masks True is for what is left out.
CALLS = [
    (4, {}),
    (4, {"need_weights": False}),
    (4, {"average_attn_weights": False}),
    (4, {"attn_mask": ~MASK[:, 1:]}),
    (4, {"attn_mask": as_floats(MASK[:, :4]), "need_weights": False}),
    (4, {"attn_mask": numbers(4, 3, 4), "average_attn_weights": False}),
    (4, {"attn_mask": numbers(4, 3, 4) > 0.5, "need_weights": False}),
    (4, {"key_padding_mask": PADDING}),
    (4, {"key_padding_mask": PADDING, "need_weights": False}),
    (4, {"key_padding_mask": numbers(2, 4), "need_weights": False}),
    (4, {"key_padding_mask": PADDING, "attn_mask": np.eye(3, 4) > 0.5}),
    (4, {"key_padding_mask": PADDING, "attn_mask": np.eye(3, 4) > 0.5, "need_weights": False}),
    (3, {"attn_mask": CAUSAL, "is_causal": True}),
    (3, {"attn_mask": CAUSAL, "is_causal": True, "need_weights": False}),
    (
        3,
        {
            "attn_mask": CAUSAL,
            "key_padding_mask": PADDING[:, :3],
            "is_causal": True,
            "need_weights": False,
        },
    ),
]


def label(value):
    if isinstance(value, tuple):
        return f"{value[0]}-" + ",".join(
            f"{name}{getattr(v, 'dtype', '')}{getattr(v, 'ndim', v)}"
            for name, v in value[1].items()
        )
    return ",".join(f"{name}={v}" for name, v in value.items()) or "default"


def make_pair(both, kwargs, heads=2):
    ours, theirs = (library.nn.MultiheadAttention(4, heads, **kwargs).double() for library in both)
    generator = both[1].Generator().manual_seed(1)
    for parameter in theirs.parameters():
        both[1].nn.init.uniform_(parameter, -1, 1, generator=generator)
    copy_state(theirs, ours, both[0])
    return ours, theirs


def laid_out(array, batch_first):
    """Return an array (time, batch, features) in the layout of the module."""
    return array.transpose(1, 0, 2).copy() if batch_first else array


def expect_same_run(both, modules, inputs, kwargs, same=False):
    """Call both modules, sweep back from output and weights, compare all."""
    found = []
    for library, module in zip(both, modules, strict=True):
        tensors = [tensor_of(library, array) for array in inputs]
        options = {name: tensor_of(library, value) for name, value in kwargs.items()}
        for value in options.values():
            if isinstance(value, library.Tensor):
                value.requires_grad_(False)
        output, weights = module(*(tensors * 3 if same else tensors), **options)
        loss = (output * tensor_of(library, numbers(*output.shape, seed=8)).detach()).sum()
        if weights is not None:
            loss = loss + weights.square().sum()
        grads = library.autograd.grad(loss, [*tensors, *module.parameters()], allow_unused=True)
        found.append([output, weights, *grads])
    for place, (own, their) in enumerate(zip(*found, strict=True)):
        expect_near(own, their, f"output, weights and gradients, number {place}", 1e-9)


@pytest.mark.parametrize("call", CALLS, ids=label)
@pytest.mark.parametrize("kwargs", MODULES, ids=label)
def test_multihead_attention(both, kwargs, call):
    ours, theirs = make_pair(both, kwargs)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.state_dict()._metadata == theirs.state_dict()._metadata
    length, options = call
    shapes = [(3, 2, 4), (length, 2, ours.kdim), (length, 2, ours.vdim)]
    inputs = [
        laid_out(numbers(*shape, seed=place), ours.batch_first)
        for place, shape in enumerate(shapes)
    ]
    expect_same_run(both, (ours, theirs), inputs, options)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_self_attention(both, batch_first, need_weights):
    """One tensor for all three: one product projects them."""
    modules = make_pair(both, {"batch_first": batch_first})
    x = laid_out(numbers(3, 2, 4), batch_first)
    expect_same_run(both, modules, [x], {"need_weights": need_weights}, same=True)
    expect_same_run(both, modules, [numbers(3, 4)], {"need_weights": need_weights}, same=True)


def test_keys_that_are_the_values(both):
    modules = make_pair(both, {})
    found = []
    for library, module in zip(both, modules, strict=True):
        query, memory = (tensor_of(library, numbers(size, 2, 4)) for size in (3, 5))
        output, weights = module(query, memory, memory)
        loss = output.square().sum() + weights.square().sum()
        found.append([output, *library.autograd.grad(loss, [query, memory, *module.parameters()])])
    for own, their in zip(*found, strict=True):
        expect_near(own, their, "one memory", 1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"need_weights": False},
        {"average_attn_weights": False},
        {"key_padding_mask": PADDING[0]},
        {"attn_mask": numbers(2, 3, 4)},
        {"attn_mask": np.eye(3, 4) > 0.5, "key_padding_mask": PADDING[1], "need_weights": False},
    ],
    ids=lambda options: ",".join(options) or "default",
)
@pytest.mark.parametrize("kwargs", [{}, {"batch_first": True, "add_bias_kv": True}], ids=label)
def test_without_a_batch(both, kwargs, options):
    inputs = [numbers(3, 4), numbers(4, 4, seed=1), numbers(4, 4, seed=2)]
    expect_same_run(both, make_pair(both, kwargs), inputs, options)


def test_evaluation_without_gradients(both):
    """Where PyTorch takes a path of its own."""
    for options in ({}, {"need_weights": False}, {"key_padding_mask": PADDING[:, :3]}):
        found = []
        for library, module in zip(both, make_pair(both, {"batch_first": True}), strict=True):
            x = tensor_of(library, numbers(2, 3, 4)).detach()
            named = {name: tensor_of(library, value) for name, value in options.items()}
            with library.no_grad():
                found.append(module.eval()(x, x, x, **named))
        for own, their in zip(*found, strict=True):
            expect_near(own, their, "evaluation", 1e-9)


def test_dropout_while_training_only(torch):
    attention = torch.nn.MultiheadAttention(4, 2, dropout=0.5)
    x = torch.ones(64, 1, 4)
    _, weights = attention(x, x, x, average_attn_weights=False)
    assert abs(float((weights == 0).float().mean()) - 0.5) < 0.05
    assert not torch.equal(
        attention(x, x, x, need_weights=False)[0], attention(x, x, x, need_weights=False)[0]
    )
    attention.eval()
    assert torch.allclose(attention(x, x, x)[1], torch.tensor(1 / 64))


def test_initial_weights(torch):
    attention = torch.nn.MultiheadAttention(100, 2, add_bias_kv=True)
    bound = math.sqrt(6 / 400)
    largest = float(attention.in_proj_weight.detach().abs().max())
    assert 0.99 * bound < largest <= bound
    assert not attention.in_proj_bias.any()
    assert not attention.out_proj.bias.any()
    assert float(attention.out_proj.weight.detach().abs().max()) <= 0.1
    assert abs(float(attention.bias_k.detach().std()) - math.sqrt(2 / 200)) < 0.03
    separate = torch.nn.MultiheadAttention(100, 2, kdim=60)
    assert 0.99 * math.sqrt(6 / 160) < float(separate.k_proj_weight.detach().abs().max())


def test_mixed_masks_warn(torch):
    attention = torch.nn.MultiheadAttention(4, 2)
    x = torch.ones(3, 2, 4)
    with pytest.warns(UserWarning, match="mismatched key_padding_mask and attn_mask"):
        attention(x, x, x, key_padding_mask=torch.zeros(2, 3).bool(), attn_mask=torch.zeros(3, 3))


def test_static_keys_and_values(both):
    found = []
    for library in both:
        query, key = (tensor_of(library, numbers(size, 2, 4)) for size in (3, 5))
        weight, bias = tensor_of(library, numbers(12, 4)), tensor_of(library, numbers(12))
        static = [tensor_of(library, numbers(4, 5, 2, seed=seed)) for seed in (1, 2)]
        out = tensor_of(library, numbers(4, 4, seed=7))
        output, weights = library.nn.functional.multi_head_attention_forward(
            query,
            key,
            key,
            4,
            2,
            weight,
            bias,
            None,
            None,
            True,
            0.0,
            out,
            None,
            static_k=static[0],
            static_v=static[1],
        )
        loss = output.square().sum() + weights.square().sum()
        found.append([output, weights, *library.autograd.grad(loss, [query, *static, out])])
    for own, their in zip(*found, strict=True):
        expect_near(own, their, "static", 1e-9)


def test_module_derivatives(torch):
    attention = torch.nn.MultiheadAttention(4, 2, add_bias_kv=True).double()
    names = [name for name, _ in attention.named_parameters()]
    weights = [weight.detach().clone().requires_grad_() for weight in attention.parameters()]
    x = tensor_of(torch, numbers(2, 1, 4))

    def run(x, *weights):
        named = dict(zip(names, weights, strict=True))
        options = {"need_weights": False}
        return torch.func.functional_call(attention, named, (x, x, x), options)[0]

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert torch.autograd.gradcheck(run, (x, *weights))
        assert torch.autograd.gradgradcheck(run, (x, *weights))


def module(t, *args, **kwargs):
    return t.nn.MultiheadAttention(4, 2, *args, **kwargs)


def call(t, *shapes, **kwargs):
    return module(t)(*(t.ones(*shape) for shape in shapes), **kwargs)


SELF = [(3, 2, 4)] * 3
MODULE_ERRORS = [
    (lambda t: t.nn.MultiheadAttention(0, 2), ValueError, "must be greater than 0"),
    (lambda t: t.nn.MultiheadAttention(5, 2), AssertionError, "must be divisible by num_heads"),
    (lambda t: call(t, (4,), (4,), (4,)), AssertionError, "received 1-D query tensor"),
    (lambda t: call(t, (3, 2, 4), (3, 4), (3, 4)), AssertionError, "to be 3-D but found 2-D"),
    (lambda t: call(t, (3, 4), (3, 2, 4), (3, 2, 4)), AssertionError, "to be 2-D but found 3-D"),
    (
        lambda t: call(t, (3, 2, 5), (3, 2, 5), (3, 2, 5)),
        AssertionError,
        "dimension of 4, but got 5",
    ),
    (lambda t: call(t, (3, 2, 4), (3, 2, 4), (5, 2, 4)), AssertionError, "does not match value"),
    (
        lambda t: call(t, *SELF, attn_mask=t.ones(3, 2)),
        RuntimeError,
        r"The shape of the 2D attn_mask is torch.Size\(\[3, 2\]\), but should be \(3, 3\)",
    ),
    (
        lambda t: call(t, *SELF, attn_mask=t.ones(3, 3, 3)),
        RuntimeError,
        r"The shape of the 3D attn_mask is .*, but should be \(4, 3, 3\)",
    ),
    (lambda t: call(t, *SELF, attn_mask=t.ones(3)), AssertionError, "2-D or 3-D but found 1-D"),
    (lambda t: call(t, *SELF, key_padding_mask=t.ones(3)), AssertionError, "found 1-D tensor"),
    (lambda t: call(t, *SELF, key_padding_mask=t.ones(2, 4)), AssertionError, None),
    (lambda t: call(t, *SELF, attn_mask=t.ones(3, 3).long()), AssertionError, "bool and floating"),
    (lambda t: call(t, *SELF, is_causal=True), RuntimeError, "Need attn_mask"),
    (
        lambda t: call(t, *[(3, 4)] * 3, attn_mask=t.ones(3, 3, 3)),
        AssertionError,
        "Expected `attn_mask` shape to be",
    ),
    (
        lambda t: module(t, vdim=3)(t.ones(3, 2, 4), t.ones(3, 2, 4), t.ones(5, 2, 3)),
        AssertionError,
        "do not match value's",
    ),
]


@pytest.mark.parametrize("call, error, text", MODULE_ERRORS, ids=range(len(MODULE_ERRORS)))
def test_module_error(torch, call, error, text):
    with pytest.raises(error, match=text):
        call(torch)


def test_merged_masks(both):
    found = []
    for library, module in zip(both, make_pair(both, {"batch_first": True}), strict=True):
        x = tensor_of(library, numbers(2, 3, 4))
        mask, padding = tensor_of(library, numbers(3, 3)), tensor_of(library, numbers(2, 3))
        full = tensor_of(library, numbers(4, 3, 3))
        merged = [
            module.merge_masks(mask, padding, x),
            module.merge_masks(full, None, x),
            module.merge_masks(None, padding, x),
        ]
        assert module.merge_masks(None, None, x) == (None, None)
        assert [kind for _, kind in merged] == [2, 2, 1]
        found.append([array_of(tensor) for tensor, _ in merged])
    for own, their in zip(*found, strict=True):
        np.testing.assert_allclose(own, their)
