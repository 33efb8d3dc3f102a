"""Functions of nn.functional without state: beside PyTorch's where nothing is drawn."""

import numpy as np
import pytest

from .side_by_side import expect_same, numbers

X, Y = numbers(4, 6), numbers(4, 6, seed=1)
INDEX = np.array([[0, 2], [1, 0]])

# name, inputs, keyword arguments
FUNCTIONS = [
    ("glu", (X,), {}),
    ("glu", (X,), {"dim": 0}),
    ("prelu", (X, np.array([0.3])), {}),
    ("prelu", (X, numbers(6)), {}),
    ("prelu", (numbers(2, 3, 4), numbers(3)), {}),
    ("prelu", (numbers(5), np.array([0.3])), {}),
    ("rrelu", (X,), {}),
    ("rrelu", (X,), {"lower": 0.2, "upper": 0.2, "training": True}),
    ("softmin", (X,), {"dim": 1}),
    ("tanhshrink", (X,), {}),
    ("threshold", (X, 0.2, -1.0), {}),
    ("hardshrink", (X,), {}),
    ("normalize", (X,), {}),
    ("normalize", (X,), {"p": 1.0, "dim": 0}),
    ("cosine_similarity", (X, Y), {}),
    ("cosine_similarity", (numbers(4, 1, 6), Y), {"dim": -1}),
    ("pairwise_distance", (X, Y), {}),
    ("pairwise_distance", (X, numbers(6)), {"p": 3.0, "keepdim": True}),
    ("bilinear", (numbers(5, 2), numbers(5, 3), numbers(4, 2, 3), numbers(4)), {}),
    ("embedding", (INDEX, numbers(3, 4)), {}),
    ("embedding", (INDEX, numbers(3, 4)), {"padding_idx": 0}),
    ("one_hot", (INDEX,), {}),
    ("one_hot", (INDEX,), {"num_classes": 5}),
    ("layer_norm", (X, (6,)), {}),
    ("rms_norm", (X, (6,)), {}),
    ("group_norm", (X, 2), {}),
    ("batch_norm", (X, None, None), {"training": True}),
    ("instance_norm", (numbers(2, 3, 5),), {}),
    ("local_response_norm", (numbers(2, 5, 3), 4), {}),
    ("dropout", (X,), {"training": False}),
    ("dropout", (X, 1.0), {}),
    ("dropout", (X, 0.0), {}),
    ("alpha_dropout", (X, 1.0), {"training": True}),
    ("feature_alpha_dropout", (X, 1.0), {"training": True}),
]


@pytest.mark.parametrize("case", FUNCTIONS, ids=lambda case: f"{case[0]}{list(case[2].items())}")
def test_function(both, case):
    name, args, kwargs = case
    expect_same(both, lambda library: getattr(library.nn.functional, name), args, kwargs)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize(
    ("name", "shape", "channels"),
    [
        ("dropout", (50, 200), None),
        ("dropout1d", (40, 50, 3), (40, 50)),
        ("dropout1d", (2000, 3), (2000,)),
        ("dropout2d", (40, 50, 3, 2), (40, 50)),
        ("dropout3d", (40, 50, 2, 2, 2), (40, 50)),
        ("dropout3d", (2000, 2, 2, 2), (2000,)),
    ],
)
def test_dropout_drops_a_part_and_scales_the_rest(torch, name, shape, channels, inplace):
    x = torch.ones(*shape)
    result = getattr(torch.nn.functional, name)(x, 0.2, True, inplace)
    assert (result is x) == inplace
    assert {round(value, 5) for value in result.unique().tolist()} == {0.0, 1.25}
    assert abs((result == 0).double().mean().item() - 0.2) < 0.05
    if channels is not None:  # Whole channels fall.
        flat = result.reshape(*channels, -1)
        assert flat.equal(flat[..., :1].expand_as(flat))


@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout"])
def test_alpha_dropout_keeps_mean_and_variance(torch, name):
    x = torch.randn(100, 400)
    result = getattr(torch.nn.functional, name)(x, 0.3, True)
    assert abs(result.mean().item()) < 0.05 and abs(result.std().item() - 1) < 0.05
    assert not result.equal(x)


@pytest.mark.parametrize(
    "name",
    ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"],
)
def test_dropout_modules(torch, name):
    layer = getattr(torch.nn, name)(0.4)
    shape = {"Dropout1d": (20, 30, 2), "Dropout3d": (20, 30, 2, 2, 2)}.get(name, (20, 30, 2, 2))
    x = torch.ones(*shape)
    assert not layer(x).equal(x)
    assert layer.eval()(x) is x
    assert repr(layer) == f"{name}(p=0.4, inplace=False)"


def test_gradient_of_dropout_is_what_was_kept(torch):
    x = torch.ones(1000, requires_grad=True)
    result = torch.nn.functional.dropout(x, 0.5)
    result.sum().backward()
    assert x.grad.equal(result.detach())


@pytest.mark.parametrize(("name", "dims"), [("dropout2d", 3), ("dropout2d", 2), ("dropout3d", 3)])
def test_unusual_dimensions_are_warned_of(torch, name, dims):
    with pytest.warns(UserWarning, match=name):
        getattr(torch.nn.functional, name)(torch.ones(*[2] * dims))


def test_rrelu_draws_slopes(torch):
    x = torch.full((1000,), -1.0)
    slopes = -torch.nn.functional.rrelu(x, 0.2, 0.6, training=True)
    assert 0.2 <= slopes.min().item() < 0.25 and 0.55 < slopes.max().item() <= 0.6
    assert torch.nn.functional.rrelu(-x, 0.2, 0.6, training=True).equal(-x)
    assert torch.nn.functional.rrelu_(x, 0.2, 0.6, True) is x and x.min().item() >= -0.6


def test_gumbel_softmax(torch):
    logits = torch.tensor([[0.0, 5.0, 0.0]]).expand(500, 3).clone().requires_grad_()
    hard = torch.nn.functional.gumbel_softmax(logits, hard=True)
    assert hard.detach().sum(1).allclose(torch.ones(500))
    assert hard.detach()[:, 1].mean().item() > 0.9
    soft = torch.nn.functional.gumbel_softmax(logits, tau=0.5)
    assert soft.detach().sum(1).allclose(torch.ones(500))
    (hard * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert logits.grad.abs().sum().item() > 0


@pytest.mark.parametrize("name", ["celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "selu_"])
def test_names_with_an_underscore_write(torch, name):
    x = torch.tensor([-0.5, 0.5])
    expected = getattr(torch.nn.functional, name[:-1])(x)
    assert getattr(torch.nn.functional, name)(x) is x and x.equal(expected)


@pytest.mark.parametrize("name", ["celu", "elu", "leaky_relu"])
def test_a_bool_in_the_place_of_a_parameter_is_that_parameter(torch, name):
    x, function = torch.tensor([-0.5, 0.5]), getattr(torch.nn.functional, name)
    expected = function(x, 1.0)
    assert function(x, True).equal(expected) and x.tolist() == [-0.5, 0.5]
    assert function(x, True, True) is x and x.equal(expected)


@pytest.mark.parametrize("name", ["hardsigmoid", "hardswish", "mish", "relu6", "selu", "silu"])
def test_the_inplace_switch_comes_first_where_there_are_no_parameters(torch, name):
    x, function = torch.tensor([-0.5, 0.5]), getattr(torch.nn.functional, name)
    expected = function(x)
    assert function(x, True) is x and x.equal(expected)


@pytest.mark.parametrize("name", ["softplus", "logsigmoid", "softsign", "hardshrink", "tanh"])
def test_activations_without_an_inplace_switch(torch, name):
    with pytest.raises(TypeError):
        getattr(torch.nn.functional, name)(torch.ones(2), inplace=True)


def test_hardtanh_refuses_bounds_in_the_wrong_order(torch):
    with pytest.raises(ValueError, match="min_val cannot be greater than max_val"):
        torch.nn.functional.hardtanh(torch.ones(2), 2.0, 1.0)


def test_threshold_in_place(torch):
    x = torch.tensor([-1.0, 2.0])
    assert torch.nn.functional.threshold_(x, 0.0, 7.0) is x and x.tolist() == [7.0, 2.0]


def test_batch_norm_updates_running_statistics_in_place(torch):
    mean, variance = torch.zeros(1), torch.ones(1)
    x = torch.tensor([[1.0], [3.0]])
    torch.nn.functional.batch_norm(x, mean, variance, training=True, momentum=0.5)
    assert mean.tolist() == [1.0] and variance.tolist() == [1.5]


def test_embedding_shortens_rows_that_are_used(torch):
    table = torch.tensor([[3.0, 4.0], [6.0, 8.0]])
    torch.nn.functional.embedding(torch.tensor([1, 1]), table, max_norm=5.0)
    assert table[0].tolist() == [3.0, 4.0]
    assert torch.allclose(table[1], torch.tensor([3.0, 4.0]))


def test_embedding_shortens_rows_beside_forward_mode(torch):
    forward_ad = torch.autograd.forward_ad
    index = torch.tensor([1, 0, 1])
    with forward_ad.dual_level():
        table = forward_ad.make_dual(torch.tensor([[3.0, 4.0], [6.0, 8.0]]), torch.ones(2, 2))
        rows = torch.nn.functional.embedding(index, table, max_norm=5.0)
        assert torch.allclose(rows[0], torch.tensor([3.0, 4.0]))
        assert forward_ad.unpack_dual(rows).tangent.tolist() == [[1.0, 1.0]] * 3
        assert forward_ad.unpack_dual(table).tangent.tolist() == [[1.0, 1.0]] * 2


def test_vmap_over_functions(torch):
    functional = torch.nn.functional
    x = torch.randn(5, 4, 6)
    target = torch.tensor([0, 1, 2, 3])
    for function in (
        lambda x: functional.layer_norm(x, (6,)),
        lambda x: functional.cross_entropy(x, target),
        lambda x: functional.normalize(x),
        lambda x: functional.glu(x),
    ):
        expected = torch.stack([function(row) for row in x])
        assert torch.allclose(torch.vmap(function)(x), expected, atol=1e-6)
