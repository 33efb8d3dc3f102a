"""Layers that convolve beside PyTorch's: the same weights, the same numbers, names and errors."""

import copy
import math
import pickle
import warnings

import pytest

from .side_by_side import copy_state, expect_near, numbers, tensor_of
from .test_layers import expect_same_run, names, pair

IMAGE = numbers(2, 4, 6, 7)
ATTRIBUTES = ["in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation"]
ATTRIBUTES += ["transposed", "output_padding", "groups", "padding_mode"]
MODES = ["reflect", "replicate", "circular"]

# name, arguments, keyword arguments, inputs
LAYERS = [
    ("Conv1d", (4, 6, 3), {}, [numbers(2, 4, 9)]),
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 1, "bias": False}, [numbers(4, 9)]),
    ("Conv1d", (4, 6, 4), {"padding": "same", "dilation": 2}, [numbers(2, 4, 9)]),
    ("Conv1d", (4, 6, (3,)), {"groups": 2}, [numbers(0, 4, 9)]),
    ("Conv2d", (4, 6, 3), {}, [IMAGE]),
    ("Conv2d", (4, 6, (3, 2)), {"stride": (2, 1), "padding": (1, 0)}, [IMAGE]),
    ("Conv2d", (4, 6, 2), {"padding": "same"}, [IMAGE]),
    ("Conv2d", (4, 6, 3), {"padding": "valid", "dilation": 2, "groups": 2}, [IMAGE]),
    ("Conv2d", (4, 4, 3, 1, 1, 1, 4, False), {}, [IMAGE]),
    ("Conv3d", (2, 3, 2), {"padding": 1}, [numbers(2, 2, 3, 4, 5)]),
    ("Conv3d", (2, 3, (1, 2, 3)), {"padding": "same", "bias": False}, [numbers(2, 3, 4, 5)]),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "output_padding": 1}, [numbers(2, 4, 9)]),
    ("ConvTranspose1d", (4, 6, 3, 2, 1, 1, 2, False, 2), {}, [numbers(4, 9)]),
    ("ConvTranspose2d", (4, 6, 3), {}, [IMAGE]),
    ("ConvTranspose2d", (4, 6, (3, 2)), {"stride": 2, "padding": 1, "groups": 2}, [IMAGE]),
    ("ConvTranspose2d", (4, 6, 2), {"dilation": (2, 1), "bias": False}, [IMAGE]),
    ("ConvTranspose3d", (2, 3, 2), {"stride": (1, 2, 1)}, [numbers(2, 2, 3, 4, 5)]),
]
for mode in MODES:
    LAYERS += [
        ("Conv1d", (4, 6, 3), {"padding": 2, "padding_mode": mode}, [numbers(2, 4, 9)]),
        ("Conv2d", (4, 6, 3), {"padding": (1, 2), "padding_mode": mode, "stride": 2}, [IMAGE]),
        ("Conv2d", (4, 6, (2, 3)), {"padding": "same", "padding_mode": mode}, [IMAGE]),
        ("Conv2d", (4, 6, 2), {"padding": "valid", "padding_mode": mode}, [numbers(4, 6, 7)]),
        ("Conv3d", (2, 3, 3), {"padding": 1, "padding_mode": mode}, [numbers(1, 2, 3, 4, 5)]),
    ]


@pytest.mark.parametrize("case", LAYERS, ids=names)
def test_layer(both, case):
    if 0 in case[3][0].shape:
        inputs = [library.from_numpy(case[3][0]) for library in both]
        shapes = [tuple(layer(x).shape) for layer, x in zip(pair(both, case), inputs, strict=True)]
        assert shapes[0] == shapes[1]
        return
    ours, theirs = pair(both, case)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.state_dict()._metadata == theirs.state_dict()._metadata
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch tells of copies that "same" makes.
        expect_same_run(both, ours, theirs, case[3])
        expect_same_run(both, copy.deepcopy(ours), theirs, case[3])
        expect_same_run(both, pickle.loads(pickle.dumps(ours)), theirs, case[3])


@pytest.mark.parametrize("case", LAYERS, ids=names)
def test_attributes(both, case):
    """What other code reads from a layer, as fusion, pruning and printing do."""
    ours, theirs = pair(both, case)
    for name in ATTRIBUTES:
        assert getattr(ours, name) == getattr(theirs, name), name
    borders = [list(each._reversed_padding_repeated_twice) for each in (ours, theirs)]
    assert borders[0] == borders[1]
    assert ours.weight.shape == tuple(theirs.weight.shape)


@pytest.mark.parametrize("name", ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d"])
def test_beginning(torch, name):
    """Weights are even within 1 / sqrt(fan in), the bias likewise; the weight is drawn first."""
    layer = getattr(torch.nn, name)(8, 12, 3, groups=2)
    bound = 1 / math.sqrt(math.prod(layer.weight.shape[1:]))
    for parameter in layer.parameters():
        assert parameter.abs().max().item() <= bound
    assert layer.weight.abs().max().item() > 0.9 * bound
    assert abs(layer.weight.mean().item()) < 0.15 * bound
    assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.15)
    torch.manual_seed(3)
    layer.reset_parameters()
    torch.manual_seed(3)
    weight = torch.nn.init.kaiming_uniform_(torch.empty(layer.weight.shape), a=math.sqrt(5))
    bias = torch.nn.init.uniform_(torch.empty(12), -bound, bound)
    assert layer.weight.tolist() == weight.tolist()
    assert layer.bias.tolist() == pytest.approx(bias.tolist())


def test_output_size(both):
    for size in ([11, 12], [2, 3, 12, 11], (11, 11)):
        ours, theirs = pair(both, ("ConvTranspose2d", (4, 3, 3), {"stride": 2, "padding": 1}))
        results = [
            layer(tensor_of(library, IMAGE[:, :, :6, :6]), output_size=size)
            for library, layer in zip(both, (ours, theirs), strict=True)
        ]
        expect_near(*results, "of a chosen size")
        assert list(results[0].shape[2:]) == list(size)[-2:]
    unbatched = both[0].nn.ConvTranspose1d(2, 3, 2, stride=3)
    assert unbatched(both[0].ones(2, 4), output_size=[12]).shape == (3, 12)
    assert unbatched(both[0].ones(2, 4), output_size=[3, 13]).shape == (3, 13)


@pytest.mark.parametrize("size", [[10, 11], [13, 11], [11], [1, 1, 1, 11, 11]])
def test_output_sizes_that_cannot_be(torch, size):
    layer = torch.nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1)
    with pytest.raises(ValueError, match=r"output size of|output_size must have"):
        layer(torch.ones(1, 4, 6, 6), output_size=size)


# What is built, what the error says.
REFUSED = [
    (lambda nn: nn.Conv2d(4, 6, 3, groups=0), "groups must be a positive integer"),
    (lambda nn: nn.Conv2d(4, 6, 3, groups=-1), "groups must be a positive integer"),
    (lambda nn: nn.Conv2d(5, 6, 3, groups=2), "in_channels must be divisible by groups"),
    (lambda nn: nn.Conv2d(4, 5, 3, groups=2), "out_channels must be divisible by groups"),
    (lambda nn: nn.Conv2d(4, 6, 3, padding="some"), "Invalid padding string 'some'"),
    (lambda nn: nn.Conv2d(4, 6, 3, 2, "same"), "padding='same' is not supported for strided"),
    (lambda nn: nn.Conv2d(4, 6, 3, padding_mode="some"), "padding_mode must be one of"),
    (
        lambda nn: nn.ConvTranspose2d(4, 6, 3, padding_mode="reflect"),
        'Only "zeros" padding mode is supported for ConvTranspose2d',
    ),
]


@pytest.mark.parametrize(("build", "says"), REFUSED)
def test_refusals(torch, build, says):
    with pytest.raises(ValueError, match=says):
        build(torch.nn)


def test_state_goes_both_ways(both):
    tapegrad, pytorch = both
    theirs = pytorch.nn.Sequential(pytorch.nn.Conv2d(3, 4, 3), pytorch.nn.ConvTranspose2d(4, 3, 3))
    ours = tapegrad.nn.Sequential(tapegrad.nn.Conv2d(3, 4, 3), tapegrad.nn.ConvTranspose2d(4, 3, 3))
    copy_state(theirs, ours, tapegrad)
    copy_state(ours, theirs, pytorch)
    x = numbers(1, 3, 6, 6).astype("float32")
    expect_near(ours(tensor_of(tapegrad, x)), theirs(tensor_of(pytorch, x)), "output", 1e-5)


def test_a_subclass_may_change_how_it_convolves(torch):
    """Weight-standardised convolutions and the like override this one method."""

    class Doubled(torch.nn.Conv2d):
        def _conv_forward(self, input, weight, bias):
            return super()._conv_forward(input, 2 * weight, bias)

    layer = Doubled(2, 3, 3, bias=False, padding=1)
    x = torch.randn(1, 2, 4, 4)
    plain = torch.nn.functional.conv2d(x, layer.weight, padding=1)
    assert (layer(x) - 2 * plain).abs().max().item() < 1e-5


def test_moves_to_another_dtype(torch):
    layer = torch.nn.Conv2d(2, 3, 3, dtype=torch.float64)
    assert layer.weight.dtype is torch.float64 and layer.bias.dtype is torch.float64
    assert layer.half()(torch.ones(1, 2, 4, 4).half()).dtype is torch.float16
    with pytest.raises(RuntimeError, match=r"type|same dtype"):
        layer.float()(torch.ones(1, 2, 4, 4).double())


def test_functional_call_and_ensembles(both):
    """One call maps a batch of layers over a batch of inputs."""
    stacked = []
    for library in both:
        weights = tensor_of(library, numbers(3, 4, 2, 3, 3)).detach()
        biases = tensor_of(library, numbers(3, 4)).detach()
        layer = library.nn.Conv2d(2, 4, 3).double()
        x = tensor_of(library, numbers(2, 2, 5, 5)).detach()

        def run(weight, bias, t=library, layer=layer, x=x):
            return t.func.functional_call(layer, {"weight": weight, "bias": bias}, (x,))

        stacked.append(library.func.vmap(run)(weights, biases))
    expect_near(*stacked, "of an ensemble")


# ---- lazy layers ----------------------------------------------------------------------------

LAZY = [
    ("LazyConv1d", (6, 3), {}, (2, 4, 9)),
    ("LazyConv1d", (6, 3, 2), {"padding": 1, "bias": False}, (4, 9)),
    (
        "LazyConv2d",
        (6, (3, 2)),
        {"groups": 2, "padding_mode": "circular", "padding": 1},
        (2, 4, 6, 7),
    ),
    ("LazyConv3d", (3, 2), {"padding": "same"}, (1, 2, 3, 4, 5)),
    ("LazyConvTranspose1d", (6, 3, 2, 1, 1), {}, (2, 4, 9)),
    ("LazyConvTranspose2d", (6, 3), {"groups": 2, "stride": 2, "dilation": 2}, (4, 6, 7)),
    ("LazyConvTranspose3d", (3, 2), {"bias": False}, (1, 2, 3, 4, 5)),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "shape"), LAZY)
def test_first_forward_of_a_lazy_layer(both, name, args, kwargs, shape):
    layers = [getattr(library.nn, name)(*args, dtype=library.float64, **kwargs) for library in both]
    assert repr(layers[0]) == repr(layers[1])
    assert list(layers[0].state_dict()) == list(layers[1].state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch tells of copies that "same" makes.
        for library, layer in zip(both, layers, strict=True):
            parameters = list(layer.parameters())
            layer(library.ones(shape, dtype=library.float64))
            assert all(a is b for a, b in zip(parameters, layer.parameters(), strict=True))
            assert type(layer) is getattr(library.nn, name.replace("Lazy", ""))
        assert repr(layers[0]) == repr(layers[1])
        copy_state(layers[1], layers[0], both[0])
        expect_same_run(both, *layers, [numbers(*shape)])


def test_lazy_layers_load(torch):
    source = torch.nn.Conv2d(4, 6, 3)
    lazy = torch.nn.LazyConv2d(6, 3)
    lazy.load_state_dict(source.state_dict())
    x = torch.randn(1, 4, 5, 5)
    assert torch.allclose(lazy(x), source(x)) and type(lazy) is torch.nn.Conv2d


def test_lazy_layers_refuse(torch):
    with pytest.raises(RuntimeError, match=r"3D \(unbatched\) or 4D \(batched\)"):
        torch.nn.LazyConv2d(6, 3)(torch.ones(4, 5))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        torch.nn.LazyConv2d(6, 3, groups=2)(torch.ones(1, 3, 5, 5))


def test_a_lazy_transpose_takes_an_output_size(torch):
    layer = torch.nn.LazyConvTranspose2d(2, 3, stride=2, padding=1)
    assert layer(torch.ones(1, 4, 6, 6), output_size=[12, 12]).shape == (1, 2, 12, 12)
