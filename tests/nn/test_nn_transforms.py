"""Forward mode and vmap through the functions of nn that are made of other ops."""

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("PyTorch has no forward mode or batching rule for many", allow_module_level=True)

F = torch.nn.functional


def image():
    return torch.randn(2, 4, 4, 4, dtype=torch.float64)


def grid():
    return torch.rand(2, 3, 3, 2, dtype=torch.float64) * 2.4 - 1.2


def randn(*shape):
    return lambda: torch.randn(shape, dtype=torch.float64)


def packed(x):
    rnn = torch.nn.utils.rnn
    return rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, [1, 3], enforce_sorted=False))[0]


def bag(weight):
    return F.embedding_bag(torch.tensor([0, 1, 2, 1]), weight, torch.tensor([0, 2]), mode="max")


def ctc(x):
    targets = torch.tensor([[1, 1], [2, 1]])
    return F.ctc_loss(x.log_softmax(-1), targets, (5, 4), (2, 2))


FUNCTIONS = {
    "pad": (lambda x: F.pad(x, (1, 2)), image),
    "reflect": (lambda x: F.pad(x, (1, 2, 1, 1), "reflect"), image),
    "bilinear": (lambda x: F.interpolate(x, (3, 6), mode="bilinear"), image),
    "bicubic": (lambda x: F.interpolate(x, (3, 6), mode="bicubic", antialias=True), image),
    "area": (lambda x: F.interpolate(x, (3, 6), mode="area"), image),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), image),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), image),
    "unfold": (lambda x: F.unfold(x, 2, padding=1), image),
    "fold": (lambda x: F.fold(x.reshape(2, 16, 4), (3, 3), 2), image),
    "sample": (lambda x: F.grid_sample(x, x[:, :2].movedim(1, -1), align_corners=False), image),
    "grid": (lambda g: F.grid_sample(g.movedim(-1, 1), g, "bicubic", "border", False), grid),
    "affine_grid": (lambda theta: F.affine_grid(theta, (2, 1, 3, 3), False), randn(2, 2, 3)),
    "embedding_bag": (bag, randn(4, 3)),
    "ctc_loss": (ctc, randn(5, 2, 3)),
    "multilabel": (
        lambda x: F.multilabel_margin_loss(x, torch.tensor([[1, -1, 0], [2, 0, -1]])),
        randn(2, 3),
    ),
    "pdist": (F.pdist, randn(4, 3)),
    "packed": (packed, randn(3, 2, 2)),
    "linear_cross_entropy": (
        lambda x: F.linear_cross_entropy(x, x.sin(), torch.tensor([0, 2, 1])),
        randn(3, 4),
    ),
}

each = pytest.mark.parametrize("name", FUNCTIONS)


@each
def test_forward_mode(name):
    """Tangents agree with the gradients: both are products with one Jacobian."""
    function, draw = FUNCTIONS[name]
    x, tangent = draw(), draw()
    value, forward = torch.func.jvp(function, (x,), (tangent,))
    cotangent = torch.randn_like(value)
    _, pull_back = torch.func.vjp(function, x)
    (backward,) = pull_back(cotangent)
    left, right = (forward * cotangent).sum().item(), (backward * tangent).sum().item()
    assert forward.abs().max().item() > 0
    assert left == pytest.approx(right, rel=1e-9, abs=1e-9)


@each
def test_vmap(name):
    function, draw = FUNCTIONS[name]
    several = torch.stack([draw(), draw(), draw()])

    def slope(x):
        return torch.func.grad(lambda x: function(x).sin().sum())(x)

    for each_function in (function, slope):
        batched = torch.vmap(each_function)(several)
        expected = torch.stack([each_function(x) for x in several.unbind(0)])
        assert torch.allclose(batched, expected, rtol=1e-12, atol=1e-12)
