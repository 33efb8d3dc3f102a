"""nn.functional.interpolate and its modules, beside PyTorch."""

import warnings

import numpy as np
import pytest

from .side_by_side import array_of, expect_near, expect_same, numbers, tensor_of

SIZES = [(7, 9), (14, 18), (3, 4), (5, 20), (1, 1), (13, 2)]
SCALES = [2, 1.5, 0.4, (1.3, 0.7), 2.7]
ASKED = [{"size": size} for size in SIZES]
ASKED += [
    {"scale_factor": scale, "recompute_scale_factor": again}
    for scale in SCALES
    for again in (None, True)
]
MODES = [
    {"mode": "nearest"},
    {"mode": "nearest-exact"},
    {"mode": "area"},
    {"mode": "bilinear"},
    {"mode": "bilinear", "align_corners": True},
    {"mode": "bicubic"},
    {"mode": "bicubic", "align_corners": True},
    {"mode": "bilinear", "antialias": True},
    {"mode": "bilinear", "antialias": True, "align_corners": True},
    {"mode": "bicubic", "antialias": True},
    {"mode": "bicubic", "antialias": True, "align_corners": True},
    {"mode": "lanczos", "antialias": True},
]


def interpolated(kwargs):
    return lambda library: lambda x: library.nn.functional.interpolate(x, **kwargs)


@pytest.mark.parametrize("options", MODES, ids=str)
@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_images(both, asked, options):
    expect_same(both, interpolated({**asked, **options}), [numbers(2, 3, 7, 9)])


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "area", "linear"])
@pytest.mark.parametrize("asked", [{"size": 5}, {"scale_factor": 2.3}, {"size": (12,)}])
def test_lines(both, mode, asked):
    expect_same(both, interpolated({"mode": mode, **asked}), [numbers(2, 3, 8)])


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "area", "trilinear"])
@pytest.mark.parametrize("asked", [{"size": (5, 2, 7)}, {"scale_factor": (1.4, 2, 0.6)}])
def test_volumes(both, mode, asked):
    expect_same(both, interpolated({"mode": mode, **asked}), [numbers(2, 1, 3, 4, 5)])


@pytest.mark.parametrize("options", MODES, ids=str)
def test_single_precision(both, options):
    """Coordinates fall to the same side of an element as in PyTorch."""
    for size in [(11, 23), (40, 31), (70, 90), (3, 5)]:
        values = numbers(1, 2, 10, 30).astype("float32")
        results = [
            interpolated({"size": size, **options})(library)(tensor_of(library, values))
            for library in both
        ]
        expect_near(*results, str(size), tolerance=1e-5)


@pytest.mark.parametrize("options", [options for options in MODES if "near" not in options["mode"]])
def test_scales_that_do_not_change_the_size(both, options):
    """The values alone: the gradients of PyTorch are not those of its values here."""
    function = interpolated({"scale_factor": 1.2, **options})
    values = numbers(1, 2, 3, 4)
    results = [function(library)(tensor_of(library, values)) for library in both]
    expect_near(*results, "result")
    assert both[0].autograd.gradcheck(function(both[0]), tensor_of(both[0], values))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
def test_half_precision(both, dtype, mode):
    values = numbers(1, 2, 5, 6)
    results = [
        library.nn.functional.interpolate(
            tensor_of(library, values).to(getattr(library, dtype)), (7, 4), mode=mode
        )
        for library in both
    ]
    expect_near(*results, mode, tolerance=1e-2 if dtype == "bfloat16" else 2e-3)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_bytes(both, mode):
    values = np.random.default_rng(0).integers(0, 256, (1, 3, 6, 8))
    ours, theirs = (
        library.nn.functional.interpolate(
            library.tensor(values.tolist(), dtype=library.uint8), (9, 5), mode=mode
        )
        for library in both
    )
    assert ours.dtype == both[0].uint8
    # PyTorch computes these in fixed point.
    assert np.abs(array_of(ours) - array_of(theirs)).max() <= (0 if "nearest" in mode else 1)


def test_infinity_stays_where_it_is(both):
    values = numbers(1, 1, 4, 7)
    values[0, 0, 1, 2] = np.inf
    for options in ({"mode": "bilinear"}, {"mode": "area"}, {"mode": "nearest"}):
        results = [
            interpolated({"size": (6, 5), **options})(library)(tensor_of(library, values))
            for library in both
        ]
        expect_near(*results, str(options))


ERRORS = [
    ({}, ValueError, "either size or scale_factor"),
    ({"size": 2, "scale_factor": 2}, ValueError, "only one of"),
    ({"size": (2, 2, 2)}, ValueError, "same number of spatial dimensions"),
    ({"scale_factor": (2, 2, 2)}, ValueError, "same number of spatial dimensions"),
    ({"size": 2, "mode": "linear"}, NotImplementedError, "linear mode needs 3D"),
    ({"size": 2, "mode": "trilinear"}, NotImplementedError, "trilinear mode needs 5D"),
    ({"size": 2, "mode": "foo"}, NotImplementedError, "got foo"),
    ({"size": 2, "align_corners": True}, ValueError, "align_corners option"),
    ({"size": 2, "mode": "area", "align_corners": False}, ValueError, "align_corners option"),
    ({"size": 2, "recompute_scale_factor": True}, ValueError, "explicit size"),
    ({"size": 2, "antialias": True}, ValueError, "Anti-alias option"),
    ({"size": 2, "mode": "lanczos"}, ValueError, "antialias=True"),
    ({"size": 0}, RuntimeError, "greater than 0"),
    ({"scale_factor": 0.1}, RuntimeError, "greater than 0"),
    ({"size": (2.5, 2)}, TypeError, "expected size to be one of"),
    ({"scale_factor": "a"}, TypeError, None),
]


@pytest.mark.parametrize(("kwargs", "error", "text"), ERRORS)
def test_errors(torch, kwargs, error, text):
    with pytest.raises(error, match=text):
        torch.nn.functional.interpolate(torch.ones(2, 3, 4, 5), **kwargs)


def test_other_inputs(torch):
    interpolate = torch.nn.functional.interpolate
    with pytest.raises(NotImplementedError, match="got 2D"):
        interpolate(torch.ones(2, 3), 2)
    with pytest.raises(NotImplementedError, match="not implemented for"):
        interpolate(torch.ones(1, 1, 2, 2).long(), 3, mode="bilinear")
    with pytest.raises(RuntimeError, match="Non-empty"):
        interpolate(torch.ones(1, 0, 2, 2), 3)
    assert interpolate(torch.ones(0, 1, 2, 2), 3, mode="bilinear").shape == (0, 1, 3, 3)


def test_areas_of_no_size(torch):
    result = torch.nn.functional.interpolate(torch.ones(1, 2, 3, 4), (0, 3), mode="area")
    assert result.shape == (1, 2, 0, 3)


def test_older_names(both):
    def older(name):
        def call(library):
            def warned(x):
                with pytest.warns(UserWarning, match=f"{name}` is deprecated"):
                    return getattr(library.nn.functional, name)(x, scale_factor=2)

            return warned

        return call

    values = tensor_of(both[0], numbers(1, 2, 3, 4))
    for name in ("upsample", "upsample_nearest", "upsample_bilinear"):
        results = [older(name)(lib)(tensor_of(lib, array_of(values))) for lib in both]
        expect_near(*results, name)


MODULES = [
    ("Upsample", {"scale_factor": 2}),
    ("Upsample", {"scale_factor": (2, 1.5), "mode": "bilinear"}),
    ("Upsample", {"size": (3, 4), "mode": "bicubic", "align_corners": True}),
    ("UpsamplingNearest2d", {"scale_factor": 2}),
    ("UpsamplingBilinear2d", {"size": 5}),
]


@pytest.mark.parametrize(("name", "kwargs"), MODULES)
def test_modules(both, name, kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (getattr(library.nn, name)(**kwargs) for library in both)
    assert repr(ours) == repr(theirs)
    modules = dict(zip(both, (ours, theirs), strict=True))
    expect_same(both, modules.__getitem__, [numbers(1, 2, 4, 3)])


@pytest.mark.parametrize("options", MODES, ids=str)
def test_gradients(both, options):
    torch = both[0]
    x = tensor_of(torch, numbers(1, 2, 3, 4))

    def function(x):
        return torch.nn.functional.interpolate(x.sin(), (5, 2), **options)

    assert torch.autograd.gradcheck(function, x)
    assert torch.autograd.gradgradcheck(function, x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("size", [(10, 12), (7, 20), (3, 18)])
def test_gradient_of_nearest_in_half_is_rounded_once(torch, dtype, mode, size):
    x = tensor_of(torch, numbers(1, 2, 5, 6)).detach().to(getattr(torch, dtype)).requires_grad_()
    y = torch.nn.functional.interpolate(x, size=size, mode=mode)
    g = tensor_of(torch, numbers(*y.shape)).detach().to(y.dtype)
    y.backward(g)
    wide = x.detach().float().requires_grad_()
    torch.nn.functional.interpolate(wide, size=size, mode=mode).backward(g.float())
    assert y.dtype == x.dtype and torch.equal(x.grad, wide.grad.to(x.dtype))
