"""nn.init: what is drawn has the right bounds and moments, what is not drawn the right values."""

import math

import pytest


def moments(tensor):
    tensor = tensor.double()
    return tensor.mean().item(), tensor.std().item(), tensor.min().item(), tensor.max().item()


def test_all_write_in_place_and_unrecorded(torch):
    init = torch.nn.init
    for fill in (
        init.uniform_,
        init.normal_,
        init.trunc_normal_,
        init.ones_,
        init.zeros_,
        init.eye_,
        init.xavier_uniform_,
        init.xavier_normal_,
        init.kaiming_uniform_,
        init.kaiming_normal_,
        init.orthogonal_,
        lambda tensor: init.constant_(tensor, 2.0),
        lambda tensor: init.sparse_(tensor, 0.5),
    ):
        weight = torch.nn.Parameter(torch.full((4, 4), 9.0))
        assert fill(weight) is weight
        assert weight.is_leaf and weight.requires_grad
        assert not weight.detach().equal(torch.full((4, 4), 9.0))


def test_uniform(torch):
    mean, std, low, high = moments(torch.nn.init.uniform_(torch.empty(200, 200), -1.0, 3.0))
    assert abs(mean - 1) < 0.05 and abs(std - 4 / math.sqrt(12)) < 0.05
    assert -1 <= low < -0.99 and 2.99 < high <= 3


def test_normal(torch):
    mean, std, _, _ = moments(torch.nn.init.normal_(torch.empty(200, 200), 1.0, 2.0))
    assert abs(mean - 1) < 0.05 and abs(std - 2) < 0.05


def test_trunc_normal(torch):
    filled = torch.nn.init.trunc_normal_(torch.empty(200, 200), 0.5, 1.0, -1.0, 1.5)
    mean, _, low, high = moments(filled)
    assert -1 <= low < -0.98 and 1.48 < high <= 1.5
    # The mean of the truncated distribution, from its density and probability at the bounds.
    density = [math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) for x in (-1.5, 1.0)]
    inside = (math.erf(1.0 / math.sqrt(2)) + math.erf(1.5 / math.sqrt(2))) / 2
    assert abs(mean - (0.5 + (density[0] - density[1]) / inside)) < 0.02
    with pytest.warns(UserWarning, match="more than 2 std"):
        torch.nn.init.trunc_normal_(torch.empty(3), 10.0)


def test_eye_and_constants(torch):
    assert torch.nn.init.eye_(torch.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert torch.nn.init.constant_(torch.empty(2), 0.5).tolist() == [0.5, 0.5]
    assert torch.nn.init.ones_(torch.empty(2)).tolist() == [1, 1]
    assert torch.nn.init.zeros_(torch.empty(2)).tolist() == [0, 0]


@pytest.mark.parametrize("groups", [1, 2])
def test_dirac(torch, groups):
    weight = torch.nn.init.dirac_(torch.empty(4, 3, 3), groups)
    assert weight.sum().item() == (3 if groups == 1 else 4)
    places = weight.nonzero().tolist()
    expected = {1: [(0, 0), (1, 1), (2, 2)], 2: [(0, 0), (1, 1), (2, 0), (3, 1)]}[groups]
    assert places == [[out, channel, 1] for out, channel in expected]


@pytest.mark.parametrize("shape", [(300, 100), (60, 20, 5)])
def test_widths(torch, shape):
    receptive = shape[2] if len(shape) > 2 else 1
    fan_in, fan_out = shape[1] * receptive, shape[0] * receptive
    init = torch.nn.init
    _, std, low, high = moments(init.xavier_uniform_(torch.empty(*shape), 2.0))
    expected = 2 * math.sqrt(2 / (fan_in + fan_out))
    assert abs(std / expected - 1) < 0.05
    assert abs(high / (expected * math.sqrt(3)) - 1) < 0.02 and abs(low + high) < 0.01 * high + 0.01
    assert abs(moments(init.xavier_normal_(torch.empty(*shape)))[1] / (expected / 2) - 1) < 0.05
    std = moments(init.kaiming_normal_(torch.empty(*shape), nonlinearity="relu"))[1]
    assert abs(std / math.sqrt(2 / fan_in) - 1) < 0.05
    std = moments(init.kaiming_uniform_(torch.empty(*shape), 0.5, "fan_out"))[1]
    assert abs(std / math.sqrt(2 / 1.25 / fan_out) - 1) < 0.05


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (4, 2, 3)])
def test_orthogonal(torch, shape):
    filled = torch.nn.init.orthogonal_(torch.empty(*shape, dtype=torch.float64), 2.0)
    matrix = filled.reshape(shape[0], -1)
    small = min(matrix.shape)
    product = matrix @ matrix.T if matrix.shape[0] == small else matrix.T @ matrix
    assert torch.allclose(product, 4 * torch.eye(small, dtype=torch.float64), atol=1e-12)


def test_sparse(torch):
    filled = torch.nn.init.sparse_(torch.empty(10, 6), 0.25)
    assert (filled == 0).sum(0).tolist() == [3] * 6


@pytest.mark.parametrize(
    ("name", "param"),
    [
        *[(name, None) for name in ("linear", "conv2d", "sigmoid", "tanh", "relu", "selu")],
        ("leaky_relu", None),
        ("leaky_relu", 0.2),
    ],
)
def test_gains(both, name, param):
    ours, theirs = (library.nn.init.calculate_gain(name, param) for library in both)
    assert ours == theirs


def test_nothing_to_fill(torch):
    with pytest.warns(UserWarning, match="zero-element"):
        assert torch.nn.init.kaiming_uniform_(torch.empty(0, 3)).numel() == 0


def test_a_generator_decides(torch):
    def draw():
        generator = torch.Generator().manual_seed(3)
        return torch.nn.init.normal_(torch.empty(4), generator=generator)

    assert draw().equal(draw())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("std", [1.0, 0.02])
def test_trunc_normal_of_half_has_many_distinct_values(torch, dtype, std):
    tensor = torch.empty(100_000, dtype=getattr(torch, dtype))
    torch.nn.init.trunc_normal_(tensor, std=std)
    mean, deviation, low, high = moments(tensor)
    assert abs(mean) < 0.02 * std and low >= -6 * std and high <= 6 * std
    assert deviation == pytest.approx(0.88 if std == 1 else std, rel=0.02)
    assert len(tensor.unique()) > (2000 if dtype == "bfloat16" else 10_000)
