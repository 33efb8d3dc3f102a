"""grid_sample and affine_grid, beside PyTorch."""

import itertools
import math

import pytest

from .side_by_side import expect_near, expect_same, numbers, tensor_of

PADDINGS = ("zeros", "border", "reflection")


def sampled(*options):
    return lambda library: lambda x, grid: library.nn.functional.grid_sample(x, grid, *options)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("size", [(5, 6), (1, 4), (1, 1)])
def test_images(both, mode, padding_mode, align_corners, size):
    grid = numbers(2, 3, 4, 2, low=-2.5, high=2.5)
    function = sampled(mode, padding_mode, align_corners)
    expect_same(both, function, [numbers(2, 3, *size), grid])


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_volumes(both, mode, padding_mode, align_corners):
    grid = numbers(2, 2, 3, 4, 3, low=-2.0, high=2.0)
    function = sampled(mode, padding_mode, align_corners)
    expect_same(both, function, [numbers(2, 2, 3, 4, 5), grid])


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_corners_edges_and_centres(both, mode, padding_mode, align_corners):
    """Places on the grid lines themselves, where rounding and bounds decide."""
    lines = [-1.5, -1.0, -0.75, -0.5, 0.0, 0.25, 0.5, 1.0, 2.0]
    places = [[x, y] for x, y in itertools.product(lines, repeat=2)]
    values = numbers(1, 2, 4, 4)
    results = []
    for library in both:
        grid = library.tensor([[places]], dtype=library.float64)
        x = tensor_of(library, values)
        result = library.nn.functional.grid_sample(x, grid, mode, padding_mode, align_corners)
        (grad,) = library.autograd.grad(result.sin().sum(), x)
        results.append((result, grad))
    for ours, theirs in zip(*results, strict=True):
        expect_near(ours, theirs, mode)


@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_places_that_are_not_finite_read_nothing_outside(both, mode, padding_mode):
    places = [[math.nan, 0.0], [0.0, math.inf], [-math.inf, 1e30], [-1e30, 0.5]]
    torch = both[0]
    grid = torch.tensor([[places]], requires_grad=True)
    x = torch.ones(1, 1, 3, 4, requires_grad=True)
    result = torch.nn.functional.grid_sample(x, grid, mode, padding_mode, align_corners=False)
    assert result.shape == (1, 1, 1, 4)
    result.sum().backward()
    assert x.grad.shape == x.shape and grid.grad.shape == grid.shape


ERRORS = [
    (lambda f, x, g: f(x, g, "foo"), ValueError, "expected mode"),
    (lambda f, x, g: f(x, g, "bilinear", "foo"), ValueError, "expected padding_mode"),
    (lambda f, x, g: f(x, g[:1]), RuntimeError, "same batch size"),
    (lambda f, x, g: f(x, g[..., :1]), RuntimeError, "size 2 in last dimension"),
    (lambda f, x, g: f(x, g.double()), RuntimeError, None),
    (lambda f, x, g: f(x[:, :, :0], g), RuntimeError, "non-empty spatial"),
    (lambda f, x, g: f(x.long(), g.long()), NotImplementedError, "not implemented for"),
    (
        lambda f, x, g: f(x.unsqueeze(2), g.new_zeros(2, 1, 1, 1, 3), "bicubic"),
        RuntimeError,
        "only supports 4D",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
@pytest.mark.filterwarnings("ignore:Default grid_sample")
def test_errors(torch, call, error, text):
    with pytest.raises(error, match=text):
        call(torch.nn.functional.grid_sample, torch.ones(2, 3, 4, 5), torch.zeros(2, 3, 3, 2))


def test_empty_batches_and_warnings(torch):
    functional = torch.nn.functional
    with pytest.warns(UserWarning, match="align_corners=False since"):
        functional.grid_sample(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2))
    with pytest.warns(UserWarning, match="align_corners=False since"):
        functional.affine_grid(torch.ones(1, 2, 3), (1, 1, 2, 2))
    with pytest.warns(UserWarning, match="unit-size"):
        functional.affine_grid(torch.ones(1, 2, 3), (1, 1, 1, 2), True)
    empty = functional.grid_sample(
        torch.ones(0, 3, 2, 2), torch.zeros(0, 4, 5, 2), align_corners=True
    )
    assert empty.shape == (0, 3, 4, 5)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 1, 1, 6), (2, 3, 4, 5, 6), (2, 1, 2, 1, 3)])
def test_affine_grid(both, size, align_corners):
    dims = len(size) - 2
    expect_same(
        both,
        lambda lib: lambda theta: lib.nn.functional.affine_grid(theta, size, align_corners),
        [numbers(2, dims, dims + 1)],
    )


AFFINE_ERRORS = [
    (lambda f, t: f(t.ones(2, 2, 3), (2, 3, 4, 5, 6), False), ValueError, "Nx3x4"),
    (lambda f, t: f(t.ones(2, 3), (2, 3, 4, 5), False), ValueError, "Nx2x3"),
    (lambda f, t: f(t.ones(2, 2, 3).long(), (2, 3, 4, 5), False), ValueError, "floating point"),
    (lambda f, t: f(t.ones(2, 2, 3), (2, 3, 4), False), NotImplementedError, "4D and 5D"),
    (lambda f, t: f(t.ones(2, 2, 3), (2, 3, 0, 5), False), ValueError, "non-zero, positive"),
    (lambda f, t: f(t.ones(3, 2, 3), (2, 3, 2, 5), False), RuntimeError, None),
]


@pytest.mark.parametrize(("call", "error", "text"), AFFINE_ERRORS)
def test_affine_errors(torch, call, error, text):
    with pytest.raises(error, match=text):
        call(torch.nn.functional.affine_grid, torch)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_gradients(both, mode, padding_mode):
    torch = both[0]
    x = tensor_of(torch, numbers(1, 2, 4, 3))
    grid = tensor_of(torch, numbers(1, 2, 3, 2, low=-1.4, high=1.4))
    options = (mode, padding_mode, False)
    assert torch.autograd.gradcheck(torch.nn.functional.grid_sample, (x, grid, *options))
    assert torch.autograd.gradgradcheck(torch.nn.functional.grid_sample, (x, grid, *options))
    theta = tensor_of(torch, numbers(1, 2, 3))
    assert torch.autograd.gradcheck(torch.nn.functional.affine_grid, (theta, (1, 1, 2, 3), False))


def test_zero_gradients_of_nearest(torch):
    grid = torch.zeros(1, 2, 2, 2, requires_grad=True)
    x = torch.ones(1, 1, 3, 3)
    result = torch.nn.functional.grid_sample(x, grid, "nearest", align_corners=False)
    result.sum().backward()
    assert grid.grad.tolist() == torch.zeros(1, 2, 2, 2).tolist()
