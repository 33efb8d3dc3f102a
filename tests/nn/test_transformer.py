"""Transformers beside PyTorch's, with the same weights."""

import math
import warnings

import numpy as np
import pytest

from .side_by_side import copy_state, expect_near, numbers, tensor_of

PADDING = np.array([[False, False, False, False], [False, False, True, True]])
HOLES = np.array([[False, True, False, False], [False, False, True, False]])
CAUSAL = np.triu(np.full((4, 4), -np.inf), 1)
SIZES = {"dim_feedforward": 6, "dropout": 0.0}

OPTIONS = [
    {},
    {"norm_first": True},
    {"bias": False, "activation": "gelu"},
    {"batch_first": True, "layer_norm_eps": 1e-2},
    {"batch_first": True, "norm_first": True, "bias": False},
]


def label(value):
    return ",".join(f"{name}={getattr(v, 'dtype', v)}" for name, v in value.items()) or "default"


def quietly(make):
    """PyTorch warns of what keeps it from nested tensors, which are not there in tapegrad."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return make()


def make_pair(both, make):
    """Return a module in both libraries, in float64, with PyTorch's weights, none at its start."""
    ours, theirs = (quietly(lambda library=library: make(library)).double() for library in both)
    generator = both[1].Generator().manual_seed(1)
    for parameter in theirs.parameters():
        both[1].nn.init.uniform_(parameter, -1, 1, generator=generator)
    copy_state(theirs, ours, both[0])
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    names = [[name for name, _ in module.named_parameters()] for module in (ours, theirs)]
    assert names[0] == names[1]
    return ours, theirs


def laid_out(array, batch_first):
    return array.transpose(1, 0, 2).copy() if batch_first else array


def expect_same_run(both, modules, inputs, kwargs):
    """Call both modules, sweep back, compare output and all gradients."""
    found = []
    for library, module in zip(both, modules, strict=True):
        tensors = [tensor_of(library, array) for array in inputs]
        options = {name: constant(library, value) for name, value in kwargs.items()}
        output = quietly(lambda: module(*tensors, **options))  # noqa: B023
        cotangent = tensor_of(library, numbers(*output.shape, seed=8)).detach()
        grads = library.autograd.grad(output, [*tensors, *module.parameters()], cotangent)
        found.append([output, *grads])
    for place, (own, their) in enumerate(zip(*found, strict=True)):
        expect_near(own, their, f"output and gradients, number {place}", 1e-8)


def constant(library, value):
    value = tensor_of(library, value)
    return value.detach() if isinstance(value, library.Tensor) else value


ENCODER_CALLS = [
    {},
    {"src_mask": CAUSAL},
    {"src_mask": CAUSAL, "is_causal": True},
    {"src_mask": np.isinf(CAUSAL), "src_key_padding_mask": PADDING},
    {"src_mask": numbers(4, 4, 4)},
    {"src_key_padding_mask": HOLES},
    {"src_key_padding_mask": numbers(2, 4)},
]


@pytest.mark.parametrize("call", ENCODER_CALLS, ids=label)
@pytest.mark.parametrize("options", OPTIONS, ids=label)
def test_encoder_layer(both, options, call):
    modules = make_pair(both, lambda t: t.nn.TransformerEncoderLayer(4, 2, **SIZES | options))
    x = laid_out(numbers(4, 2, 4), options.get("batch_first"))
    expect_same_run(both, modules, [x], call)


DECODER_CALLS = [
    {},
    {"tgt_mask": CAUSAL, "tgt_is_causal": True},
    {"tgt_mask": np.isinf(CAUSAL), "tgt_key_padding_mask": PADDING},
    {"memory_mask": numbers(4, 3)},
    {"memory_key_padding_mask": PADDING[:, 1:], "memory_mask": numbers(4, 3) > 1},
]


@pytest.mark.parametrize("call", DECODER_CALLS, ids=label)
@pytest.mark.parametrize("options", OPTIONS, ids=label)
def test_decoder_layer(both, options, call):
    modules = make_pair(both, lambda t: t.nn.TransformerDecoderLayer(4, 2, **SIZES | options))
    inputs = [numbers(4, 2, 4), numbers(3, 2, 4, seed=1)]
    inputs = [laid_out(array, options.get("batch_first")) for array in inputs]
    expect_same_run(both, modules, inputs, call)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "module"])
def test_activations(both, activation):
    def make(t):
        functions = {"silu": t.nn.functional.silu, "module": t.nn.GELU()}
        function = functions.get(activation, activation)
        return t.nn.TransformerEncoderLayer(4, 2, activation=function, **SIZES)

    ours, theirs = make_pair(both, make)
    assert ours.activation_relu_or_gelu == theirs.activation_relu_or_gelu
    expect_same_run(both, (ours, theirs), [numbers(4, 2, 4)], {})


def encoder(t, norm=True, nested=True, check=True, **options):
    layer = t.nn.TransformerEncoderLayer(4, 2, **SIZES | options)
    return t.nn.TransformerEncoder(
        layer, 2, t.nn.LayerNorm(4) if norm else None, enable_nested_tensor=nested, mask_check=check
    )


STACK_CALLS = [
    {},
    {"mask": CAUSAL},
    {"mask": np.isinf(CAUSAL)},
    {"mask": CAUSAL, "is_causal": True},
    {"mask": CAUSAL, "is_causal": False},
    {"mask": CAUSAL, "src_key_padding_mask": np.where(PADDING, -np.inf, 0.0)},
    {"mask": numbers(4, 4)},
    {"mask": numbers(4, 4, 4)},
    {"src_key_padding_mask": PADDING},
]


@pytest.mark.parametrize("call", STACK_CALLS, ids=label)
@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"norm_first": True}], ids=label)
def test_encoder(both, options, call):
    modules = make_pair(both, lambda t: encoder(t, **options))
    x = laid_out(numbers(4, 2, 4), options.get("batch_first"))
    expect_same_run(both, modules, [x], call)
    if "src_key_padding_mask" not in call:
        alone = {name: v for name, v in call.items() if getattr(v, "ndim", 2) == 2}
        expect_same_run(both, modules, [numbers(4, 4)], alone)


@pytest.mark.parametrize("padding", [PADDING, HOLES], ids=["at the end", "holes"])
@pytest.mark.parametrize(
    "options",
    [
        {"batch_first": True},
        {"batch_first": True, "norm": False},
        {"batch_first": True, "nested": False},
        {"batch_first": False},
        {"batch_first": True, "norm_first": True},
        {"batch_first": True, "activation": "gelu"},
    ],
    ids=label,
)
def test_evaluation_forgets_padding_where_pytorch_does(both, options, padding):
    """Nested tensors have no elements that are left out; in a padded result they are zeros."""
    modules = make_pair(both, lambda t: encoder(t, **options))
    found = []
    for library, module in zip(both, modules, strict=True):
        x = laid_out(numbers(4, 2, 4), options["batch_first"])
        x, mask = constant(library, x), constant(library, padding)
        with library.no_grad():
            found.append(quietly(lambda: module.eval()(x, src_key_padding_mask=mask)))  # noqa: B023
    expect_near(*found, "evaluation", 1e-8)


def test_decoder(both):
    def make(t):
        layer = t.nn.TransformerDecoderLayer(4, 2, **SIZES)
        return t.nn.TransformerDecoder(layer, 2, t.nn.LayerNorm(4))

    modules = make_pair(both, make)
    inputs = [numbers(4, 2, 4), numbers(3, 2, 4, seed=1)]
    for call in ({}, {"tgt_mask": CAUSAL}, {"tgt_mask": CAUSAL, "tgt_key_padding_mask": HOLES}):
        expect_same_run(both, modules, inputs, call)
    expect_same_run(both, modules, [array[:, 0] for array in inputs], {"tgt_mask": CAUSAL})


@pytest.mark.parametrize("options", OPTIONS, ids=label)
def test_transformer(both, options):
    modules = make_pair(both, lambda t: t.nn.Transformer(4, 2, 2, 1, **SIZES | options))
    inputs = [numbers(3, 2, 4, seed=1), numbers(4, 2, 4)]
    inputs = [laid_out(array, options.get("batch_first")) for array in inputs]
    for call in (
        {},
        {"tgt_mask": CAUSAL},
        {
            "src_mask": numbers(3, 3),
            "tgt_mask": CAUSAL,
            "memory_mask": numbers(4, 3),
        },
        {
            "tgt_mask": np.isinf(CAUSAL),
            "src_key_padding_mask": PADDING[:, 1:],
            "tgt_key_padding_mask": PADDING,
            "memory_key_padding_mask": PADDING[:, 1:],
        },
    ):
        expect_same_run(both, modules, inputs, call)


def test_custom_parts(both):
    def make(t):
        class Same(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = t.nn.Linear(4, 4)

            def forward(self, x, *args, **kwargs):
                return self.scale(x)

        return t.nn.Transformer(4, 2, custom_encoder=Same(), custom_decoder=Same())

    ours, theirs = make_pair(both, make)
    found = []
    for library, module in zip(both, (ours, theirs), strict=True):
        x = constant(library, numbers(3, 2, 4))
        found.append(module(x, x))
    expect_near(*found, "custom", 1e-9)


def test_the_causal_mask(both):
    for dtype in ("float32", "float64"):
        masks = [
            library.nn.Transformer.generate_square_subsequent_mask(
                3, dtype=getattr(library, dtype), device="cpu"
            )
            for library in both
        ]
        expect_near(*masks, dtype)
    assert both[0].nn.Transformer.generate_square_subsequent_mask(2).dtype == both[0].float32


def test_initial_weights(torch):
    model = quietly(lambda: torch.nn.Transformer(64, 2, 1, 1, dim_feedforward=128))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            bound = math.sqrt(6 / sum(parameter.shape))
            largest = float(parameter.detach().abs().max())
            assert 0.98 * bound < largest <= bound


def test_layers_are_copies(torch):
    layer = torch.nn.TransformerEncoderLayer(4, 2)
    stack = quietly(lambda: torch.nn.TransformerEncoder(layer, 2))
    first, second = stack.layers
    assert torch.equal(first.linear1.weight, second.linear1.weight)
    assert first.linear1.weight is not second.linear1.weight
    assert first.linear1.weight is not layer.linear1.weight


def test_dropout_while_training_only(torch):
    layer = torch.nn.TransformerDecoderLayer(4, 2, dropout=0.5)
    x = torch.ones(5, 1, 4)
    assert not torch.equal(layer(x, x), layer(x, x))
    layer.eval()
    assert torch.equal(layer(x, x), layer(x, x))


def test_derivatives(torch):
    layer = torch.nn.TransformerEncoderLayer(2, 1, activation="gelu", **SIZES).double()
    names = [name for name, _ in layer.named_parameters()]
    weights = [weight.detach().clone().requires_grad_() for weight in layer.parameters()]
    x = tensor_of(torch, numbers(2, 1, 2))

    def run(x, *weights):
        return torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (x,))

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert torch.autograd.gradcheck(run, (x, *weights))
        assert torch.autograd.gradgradcheck(run, (x, *weights), atol=1e-4)


def transformer(t, **kwargs):
    return quietly(lambda: t.nn.Transformer(4, 2, 1, 1, **SIZES | kwargs))


ERRORS = [
    (
        lambda t: t.nn.TransformerEncoderLayer(4, 2, activation="x"),
        RuntimeError,
        "relu/gelu, not x",
    ),
    (
        lambda t: t.nn.TransformerDecoderLayer(4, 2, activation="x"),
        RuntimeError,
        "relu/gelu, not x",
    ),
    (lambda t: transformer(t)(t.ones(3, 2, 4), t.ones(3, 1, 4)), RuntimeError, "batch number"),
    (
        lambda t: transformer(t, batch_first=True)(t.ones(3, 2, 4), t.ones(1, 2, 4)),
        RuntimeError,
        "the batch number of src and tgt must be equal",
    ),
    (
        lambda t: transformer(t)(t.ones(3, 2, 5), t.ones(3, 2, 5)),
        RuntimeError,
        "the feature number of src and tgt must be equal to d_model",
    ),
    (
        lambda t: encoder(t, nested=False)(t.ones(3, 2, 4), mask=t.ones(3, 3).long()),
        AssertionError,
        "only bool and floating types of mask are supported",
    ),
    (
        lambda t: encoder(t, nested=False)(t.ones(3, 2, 4), is_causal=True),
        RuntimeError,
        "Need attn_mask",
    ),
]


@pytest.mark.parametrize("call, error, text", ERRORS, ids=range(len(ERRORS)))
def test_error(torch, call, error, text):
    with pytest.raises(error, match=text):
        call(torch)


def test_mixed_masks_warn(torch):
    layer = torch.nn.TransformerEncoderLayer(4, 2)
    mask, padding = torch.zeros(3, 3), torch.zeros(2, 3).bool()
    with pytest.warns(UserWarning, match="mismatched src_key_padding_mask and src_mask"):
        layer(torch.ones(3, 2, 4), mask, padding)
