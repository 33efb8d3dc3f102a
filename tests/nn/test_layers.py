"""Layers beside PyTorch's, with the same weights: outputs, gradients, buffers, repr, state."""

import pytest

from .side_by_side import copy_state, expect_near, numbers, tensor_of

INDEX = numbers(3, 4, low=0, high=5).astype("int64")

# name, arguments, keyword arguments, inputs
LAYERS = [
    ("Linear", (3, 5), {}, [numbers(4, 3)]),
    ("Linear", (3, 5), {}, [numbers(2, 4, 3)]),
    ("Linear", (3, 5), {"bias": False}, [numbers(3)]),
    ("Bilinear", (3, 4, 5), {}, [numbers(6, 3), numbers(6, 4)]),
    ("Bilinear", (3, 4, 5), {"bias": False}, [numbers(2, 6, 3), numbers(2, 6, 4)]),
    ("Embedding", (5, 3), {}, [INDEX]),
    ("Embedding", (5, 3), {"padding_idx": 1}, [INDEX]),
    ("Embedding", (5, 3), {"padding_idx": -1, "scale_grad_by_freq": True}, [INDEX]),
    ("Embedding", (5, 3), {"max_norm": 1.0}, [INDEX]),
    ("Embedding", (5, 3), {"max_norm": 1.0, "norm_type": 1.0}, [INDEX]),
    ("Identity", (), {}, [numbers(3)]),
    ("Flatten", (), {}, [numbers(2, 3, 4)]),
    ("Flatten", (0, 1), {}, [numbers(2, 3, 4)]),
    ("Unflatten", (1, (2, 3)), {}, [numbers(2, 6)]),
    ("LayerNorm", (4,), {}, [numbers(2, 3, 4)]),
    ("LayerNorm", ((3, 4),), {"bias": False, "eps": 1e-3}, [numbers(2, 3, 4)]),
    ("LayerNorm", ((3, 4),), {"elementwise_affine": False}, [numbers(2, 3, 4)]),
    ("RMSNorm", (4,), {}, [numbers(2, 3, 4)]),
    ("RMSNorm", ((3, 4),), {"eps": 1e-3, "elementwise_affine": False}, [numbers(2, 3, 4)]),
    ("GroupNorm", (2, 6), {}, [numbers(2, 6, 5)]),
    ("GroupNorm", (3, 6), {}, [numbers(2, 6)]),
    ("GroupNorm", (1, 6), {"affine": False}, [numbers(2, 6, 2, 3)]),
    ("GroupNorm", (2, 6), {"bias": False}, [numbers(2, 6, 2, 3)]),
    ("LocalResponseNorm", (2,), {}, [numbers(2, 5, 3)]),
    ("LocalResponseNorm", (3,), {"alpha": 0.1, "k": 2.0}, [numbers(2, 5, 3, 2)]),
    ("BatchNorm1d", (3,), {}, [numbers(4, 3)]),
    ("BatchNorm1d", (3,), {"momentum": None}, [numbers(4, 3, 5)]),
    ("BatchNorm1d", (3,), {"bias": False}, [numbers(4, 3, 5)]),
    ("BatchNorm2d", (3,), {}, [numbers(2, 3, 4, 5)]),
    ("BatchNorm2d", (3,), {"affine": False, "eps": 0.1}, [numbers(2, 3, 4, 5)]),
    ("BatchNorm2d", (3,), {"track_running_stats": False}, [numbers(2, 3, 4, 5)]),
    ("BatchNorm3d", (2,), {"momentum": 0.3}, [numbers(2, 2, 2, 3, 2)]),
    ("InstanceNorm1d", (3,), {}, [numbers(2, 3, 4)]),
    ("InstanceNorm1d", (3,), {"affine": True}, [numbers(3, 4)]),
    ("InstanceNorm1d", (3,), {"track_running_stats": True}, [numbers(2, 3, 4)]),
    ("InstanceNorm2d", (3,), {"affine": True, "bias": False}, [numbers(2, 3, 4, 2)]),
    ("InstanceNorm3d", (2,), {"track_running_stats": True}, [numbers(2, 2, 2, 3, 2)]),
    ("CosineSimilarity", (), {}, [numbers(3, 4), numbers(3, 4, seed=1)]),
    ("PairwiseDistance", (), {"p": 1.0, "keepdim": True}, [numbers(3, 4), numbers(3, 4, seed=1)]),
]

ACTIVATIONS = [
    ("ReLU", (), {}),
    ("ReLU6", (), {}),
    ("SiLU", (), {}),
    ("Mish", (), {}),
    ("SELU", (), {}),
    ("Hardswish", (), {}),
    ("Hardsigmoid", (), {}),
    ("Sigmoid", (), {}),
    ("Tanh", (), {}),
    ("LogSigmoid", (), {}),
    ("Softsign", (), {}),
    ("Tanhshrink", (), {}),
    ("ELU", (0.5,), {}),
    ("CELU", (0.5,), {}),
    ("LeakyReLU", (0.2,), {}),
    ("Threshold", (0.1, -3.0), {}),
    ("RReLU", (), {}),
    ("GLU", (), {}),
    ("GLU", (1,), {}),
    ("GELU", (), {}),
    ("GELU", ("tanh",), {}),
    ("Hardshrink", (), {}),
    ("Softshrink", (0.3,), {}),
    ("Softplus", (2.0, 1.5), {}),
    ("Softmax", (1,), {}),
    ("LogSoftmax", (-1,), {}),
    ("Softmin", (0,), {}),
    ("Softmax2d", (), {}),
    ("Hardtanh", (-0.5, 0.7), {}),
    ("PReLU", (), {}),
    ("PReLU", (4,), {"init": 0.1}),
]
INPLACE = ["ReLU", "ReLU6", "SiLU", "Mish", "SELU", "Hardswish", "Hardsigmoid", "ELU", "CELU"]
INPLACE += ["LeakyReLU", "RReLU", "Hardtanh"]


def names(case):
    return f"{case[0]}{case[1]}{case[2] or ''}"


def make(library, case):
    return getattr(library.nn, case[0])(*case[1], **case[2])


def pair(both, case):
    """Return the layer in both libraries, in float64, with PyTorch's weights."""
    tapegrad, pytorch = both
    ours, theirs = make(tapegrad, case).double(), make(pytorch, case).double()
    generator = pytorch.Generator().manual_seed(1)
    for parameter in theirs.parameters():
        pytorch.nn.init.uniform_(parameter, -1, 1, generator=generator)
    copy_state(theirs, ours, tapegrad)
    return ours, theirs


def expect_same_run(both, ours, theirs, inputs, tolerance=1e-9):
    """Call both layers, sweep back, and compare all that came of it."""
    results = []
    for library, layer in zip(both, (ours, theirs), strict=True):
        layer.zero_grad()
        tensors = [tensor_of(library, value) for value in inputs]
        output = layer(*tensors)
        if output.requires_grad:
            output.backward(tensor_of(library, numbers(*output.shape, seed=9)).detach())
        grads = [tensor.grad for tensor in tensors]
        grads += [parameter.grad for parameter in layer.parameters()]
        results.append([output, *grads, *layer.parameters(), *layer.buffers()])
    for place, (own, their) in enumerate(zip(*results, strict=True)):
        what = f"output, gradients, parameters and buffers, number {place}"
        expect_near(own, their, what, tolerance)


@pytest.mark.parametrize("case", LAYERS, ids=names)
def test_layer(both, case):
    ours, theirs = pair(both, case)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.state_dict()._metadata == theirs.state_dict()._metadata
    for _ in range(2):  # The second call starts from other running statistics.
        expect_same_run(both, ours, theirs, case[3])
    expect_same_run(both, ours.eval(), theirs.eval(), case[3])


@pytest.mark.parametrize("case", ACTIVATIONS, ids=names)
def test_activation(both, case):
    ours, theirs = (layer.eval() for layer in pair(both, case))
    assert repr(ours) == repr(theirs)
    # PyTorch's hardsigmoid has 1/6 as a float32 even in float64.
    tolerance = 1e-7 if case[0] == "Hardsigmoid" else 1e-9
    expect_same_run(both, ours, theirs, [numbers(2, 4, 3, 6)], tolerance)


@pytest.mark.parametrize("name", INPLACE)
def test_inplace_activation(both, name):
    for library in both:
        layer = getattr(library.nn, name)(inplace=True).eval()
        plain = getattr(library.nn, name)().eval()
        x = tensor_of(library, numbers(3, 4)).detach()
        expected = plain(x)
        assert layer(x) is x
        assert x.equal(expected)
    assert repr(getattr(both[0].nn, name)(inplace=True)) == repr(
        getattr(both[1].nn, name)(inplace=True)
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm", "BatchNorm1d"])
def test_norms_of_small_dtypes(both, name, dtype):
    """Statistics are float32's at least: results are as near as rounding at the end allows."""
    outputs = []
    for library in both:
        layer = getattr(library.nn, name)(8).to(getattr(library, dtype))
        x = tensor_of(library, numbers(16, 8) + 3).detach().to(getattr(library, dtype))
        outputs.append(layer(x))
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5}[dtype]
    expect_near(outputs[0].double(), outputs[1].double(), name, tolerance)
    assert str(outputs[0].dtype) == f"torch.{dtype}"


def test_embedding_from_pretrained(torch):
    table = torch.nn.Embedding.from_pretrained(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert not table.weight.requires_grad
    assert table(torch.tensor([1])).tolist() == [[3.0, 4.0]]
    assert torch.nn.Embedding.from_pretrained(torch.ones(2, 2), freeze=False).weight.requires_grad


def test_a_weight_that_is_no_parameter_is_used(torch):
    """As pruning and parametrisation leave it."""
    layer = torch.nn.Linear(2, 1, bias=False)
    del layer.weight
    layer.weight = torch.tensor([[1.0, 10.0]])
    assert layer(torch.tensor([2.0, 3.0])).tolist() == [32.0]


def test_embedding_pads_with_zeros(torch):
    assert torch.nn.Embedding(4, 3, padding_idx=2).weight[2].tolist() == [0.0, 0.0, 0.0]


def test_initial_weights_are_as_wide_as_pytorchs(torch):
    layer = torch.nn.Linear(100, 200)
    assert float(layer.weight.detach().abs().max()) <= 0.1
    assert float(layer.weight.detach().abs().max()) > 0.099
    assert float(layer.bias.detach().abs().max()) <= 0.1
    table = torch.nn.Embedding(200, 100).weight.detach()
    assert abs(float(table.std()) - 1) < 0.05


def test_batch_norm_in_evaluation_ignores_the_batch(torch):
    norm = torch.nn.BatchNorm1d(2).eval()
    x = torch.tensor([[3.0, 4.0]])
    assert torch.allclose(norm(x), x, atol=1e-4)
    assert norm.num_batches_tracked.item() == 0


def test_old_batch_norm_state_without_a_count_loads(torch):
    state = dict(torch.nn.BatchNorm1d(2).state_dict())
    del state["num_batches_tracked"]
    assert str(torch.nn.BatchNorm1d(2).load_state_dict(state)) == "<All keys matched successfully>"


def test_reset_running_stats(torch):
    norm = torch.nn.BatchNorm1d(2)
    norm(torch.tensor([[1.0, 2.0], [3.0, 5.0]]))
    assert norm.running_mean.tolist() != [0.0, 0.0]
    norm.reset_running_stats()
    assert norm.running_mean.tolist() == [0.0, 0.0]
    assert norm.running_var.tolist() == [1.0, 1.0]


def test_instance_norm_warns_of_other_channels_without_weights(torch):
    with pytest.warns(UserWarning, match="num_features"):
        torch.nn.InstanceNorm1d(3)(torch.ones(2, 4, 5))
