"""Pooling beside PyTorch's: values, places, gradients of both orders, modules, errors."""

import warnings

import numpy as np
import pytest

from .side_by_side import expect_near, expect_same, numbers, tensor_of

INPUTS = {
    1: [numbers(2, 3, 13), numbers(3, 20)],
    2: [numbers(2, 3, 9, 11), numbers(3, 8, 17)],
    3: [numbers(2, 2, 5, 6, 7), numbers(2, 6, 4, 9)],
}
WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 1, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 4, "stride": 3, "ceil_mode": True},
    {"kernel_size": 4, "stride": 1, "padding": 2},
    {"kernel_size": 1, "stride": 2},
]
DILATED = [
    {"kernel_size": 2, "dilation": 2},
    {"kernel_size": 3, "stride": 1, "padding": 1, "dilation": 2},
    {"kernel_size": 2, "stride": 3, "dilation": 3, "ceil_mode": True},
]
PER_DIM = {
    2: [{"kernel_size": (3, 2), "stride": (1, 2), "padding": (1, 0)}, {"kernel_size": (1, 5)}],
    3: [{"kernel_size": (2, 1, 3), "stride": (1, 2, 1), "padding": (0, 0, 1)}],
}
EACH_RANK = pytest.mark.parametrize("rank", [1, 2, 3])


def function_named(name):
    return lambda library: getattr(library.nn.functional, name)


@EACH_RANK
@pytest.mark.parametrize("unbatched", [False, True])
def test_max_pool(both, rank, unbatched):
    for kwargs in [*WINDOWS, *DILATED, *PER_DIM.get(rank, [])]:
        expect_same(both, function_named(f"max_pool{rank}d"), [INPUTS[rank][unbatched]], kwargs)


@EACH_RANK
def test_places_of_maxima(both, rank):
    for kwargs in [*WINDOWS, *DILATED]:
        results = []
        for library in both:
            x = tensor_of(library, INPUTS[rank][0])
            pool = getattr(library.nn.functional, f"max_pool{rank}d")
            results.append(pool(x, return_indices=True, **kwargs))
        for ours, theirs in zip(*results, strict=True):
            expect_near(ours, theirs, str(kwargs))
        assert str(results[0][1].dtype).endswith("int64")


@EACH_RANK
def test_avg_pool(both, rank):
    options = [{}, {"count_include_pad": False}]
    if rank > 1:
        options.append({"divisor_override": 5})
    for kwargs in [*WINDOWS, *PER_DIM.get(rank, [])]:
        for extra in options:
            for x in INPUTS[rank]:
                expect_same(both, function_named(f"avg_pool{rank}d"), [x], {**kwargs, **extra})


@EACH_RANK
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_adaptive_pools(both, rank, kind):
    sizes = [1, 2, 3, 5]
    sizes += {1: [13], 2: [(None, 4), (9, 11), (20, 3)], 3: [(2, None, 7), (1, 3, 2)]}[rank]
    for size in sizes:
        for x in INPUTS[rank]:
            expect_same(both, function_named(f"adaptive_{kind}_pool{rank}d"), [x, size])


@EACH_RANK
def test_places_of_adaptive_maxima(both, rank):
    for size in (1, 2, 4):
        results = []
        for library in both:
            x = tensor_of(library, INPUTS[rank][0])
            pool = getattr(library.nn.functional, f"adaptive_max_pool{rank}d")
            results.append(pool(x, size, return_indices=True))
        for ours, theirs in zip(*results, strict=True):
            expect_near(ours, theirs, str(size))


@pytest.mark.parametrize("name", ["lp_pool1d", "lp_pool2d", "lp_pool3d"])
def test_lp_pool(both, name):
    positive = np.abs(INPUTS[int(name[-2])][0]) + 0.1
    for norm_type, kernel, stride in ((2, 2, None), (3.0, 3, 1), (1.5, 2, 3)):
        args = [positive, norm_type, kernel, stride, True]
        expect_same(both, function_named(name), args)


@pytest.mark.parametrize("name", ["max_unpool1d", "max_unpool2d", "max_unpool3d"])
def test_unpooling_undoes_pooling(both, name):
    results, rank = [], int(name[-2])
    for library in both:
        F = library.nn.functional
        x = tensor_of(library, INPUTS[rank][0])
        y, places = getattr(F, f"max_pool{rank}d")(x, 2, return_indices=True)
        unpool = getattr(F, name)
        whole = unpool(y, places, 2, output_size=list(x.shape))
        (grad,) = library.autograd.grad((whole * whole).sum(), x)
        results.append((whole, grad))
        assert whole.shape == x.shape
    for ours, theirs in zip(*results, strict=True):
        expect_near(ours, theirs, "unpooled")


@pytest.mark.parametrize("name", ["fractional_max_pool2d", "fractional_max_pool3d"])
def test_fractional_max_pool(both, name):
    """With the same random numbers, windows begin at the same places."""
    rank = int(name[-2])
    samples = numbers(2, 3 if rank == 2 else 2, rank, low=0.01, high=0.99)
    for options in ({"output_size": 3}, {"output_ratio": (0.5,) * rank}, {"output_size": 1}):
        results = []
        for library in both:
            x = tensor_of(library, INPUTS[rank][0])
            u = tensor_of(library, samples).detach()
            pool = getattr(library.nn.functional, name)
            y, places = pool(x, 2, return_indices=True, _random_samples=u, **options)
            (grad,) = library.autograd.grad((y * y).sum(), x)
            results.append((y, places, grad))
        for ours, theirs in zip(*results, strict=True):
            expect_near(ours, theirs, str(options))


def test_fractional_max_pool_draws_its_own_numbers(torch):
    x = torch.arange(100.0).view(1, 10, 10)
    y = torch.nn.FractionalMaxPool2d(2, output_size=(4, 5))(x)
    assert tuple(y.shape) == (1, 4, 5)
    assert y[0, -1, -1] == 99
    with pytest.raises(ValueError, match=r"output.size"):
        torch.nn.FractionalMaxPool2d(2)
    with pytest.raises(ValueError, match="between 0 and 1"):
        torch.nn.FractionalMaxPool2d(2, output_ratio=1.5)


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"])
def test_gradients_of_gradients(torch, name):
    x = torch.tensor(numbers(1, 2, 5, 6), requires_grad=True)
    args = (3,) if name.startswith("adaptive") else (3, 2, 1)

    def pooled(x):
        return getattr(torch.nn.functional, name)(x, *args) ** 3

    assert torch.autograd.gradcheck(pooled, (x,))
    assert torch.autograd.gradgradcheck(pooled, (x,))


def test_forward_mode_and_vmap(torch):
    x = torch.tensor(numbers(2, 3, 6, 6))
    tangent = torch.tensor(numbers(2, 3, 6, 6, seed=3))
    for name in ("max_pool2d", "avg_pool2d"):
        pool = getattr(torch.nn.functional, name)

        def pooled(x, pool=pool):
            return pool(x, 3, 2, 1)

        _, jvp = torch.func.jvp(pooled, (x,), (tangent,))
        _, vjp = torch.func.vjp(pooled, x)
        cotangent = torch.ones_like(jvp)
        left, right = (jvp * cotangent).sum(), (vjp(cotangent)[0] * tangent).sum()
        assert abs(float(left - right)) < 1e-9
        assert torch.equal(torch.func.vmap(pooled)(x), pooled(x))


def test_of_equals_the_first_and_of_nans_the_last(both):
    nan = float("nan")
    rows = [
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        [-np.inf] * 8,
        [0.0, nan, 2.0, nan, -1.0, nan, 3.0, 0.0],
        [np.inf, np.inf, -np.inf, nan, nan, nan, 1.0, -0.0],
    ]
    for kwargs in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 1, "padding": 1}):
        results = []
        for library in both:
            x = library.tensor([rows * 2], dtype=library.float32)
            results.append(library.nn.functional.max_pool2d(x, return_indices=True, **kwargs))
        for ours, theirs in zip(*results, strict=True):
            np.testing.assert_array_equal(ours.tolist(), theirs.tolist())


def test_long_windows_follow_the_same_rules(both):
    """Long rows are searched in lanes: ties, NaNs, tails and infinities come out the same."""
    rows = np.round(numbers(6, 3, 75) * 2) / 2
    rows[1, 0, [5, 40, 70]] = np.nan
    rows[2, 1, 74] = np.nan
    rows[3] = -np.inf
    rows[4, 2, [3, 60]] = np.inf
    for kwargs in ({"kernel_size": (3, 75)}, {"kernel_size": (2, 70), "stride": 1}):
        results = []
        for library in both:
            x = library.tensor(rows[:, None], dtype=library.float32)
            pooled = library.nn.functional.max_pool2d(x, return_indices=True, **kwargs)
            whole = library.nn.functional.adaptive_max_pool2d(x, 1, return_indices=True)
            alone = library.nn.functional.max_pool2d(x, **kwargs)
            results.append([*pooled, *whole, alone])
        for ours, theirs in zip(*results, strict=True):
            np.testing.assert_array_equal(ours.tolist(), theirs.tolist())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_other_dtypes(both, dtype):
    for name, args in (
        ("max_pool2d", (3, 2, 1)),
        ("avg_pool2d", (3, 2, 1)),
        ("adaptive_avg_pool2d", (4,)),
        ("adaptive_max_pool2d", (4,)),
    ):
        results = []
        for library in both:
            x = library.tensor(numbers(2, 3, 9, 11)).to(getattr(library, dtype)).requires_grad_()
            y = getattr(library.nn.functional, name)(x, *args)
            y.float().sum().backward()
            results.append((y.float(), x.grad.float()))
            assert str(y.dtype) == str(x.dtype)
        tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6}[dtype]
        for ours, theirs in zip(*results, strict=True):
            expect_near(ours, theirs, name, tolerance)


def test_large_inputs_are_shared_among_threads(both):
    """Many planes, and rows longer than a vector, with tails."""
    for kwargs in (
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 1, "padding": 1},
        {"kernel_size": 5, "stride": 2, "padding": 2},
    ):
        for name in ("max_pool2d", "avg_pool2d"):
            results = []
            for library in both:
                x = library.tensor(numbers(7, 5, 33, 67), dtype=library.float32).requires_grad_()
                y = getattr(library.nn.functional, name)(x, **kwargs)
                (grad,) = library.autograd.grad((y * y).sum(), x)
                results.append((y, grad))
            for ours, theirs in zip(*results, strict=True):
                np.testing.assert_allclose(
                    ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-5, atol=1e-5
                )


MODULES = [
    *((f"MaxPool{r}d", (3,), {"stride": 2, "padding": 1}, r) for r in (1, 2, 3)),
    *((f"MaxPool{r}d", (2,), {"dilation": 2, "ceil_mode": True}, r) for r in (1, 2, 3)),
    *((f"AvgPool{r}d", (3,), {"stride": 2, "padding": 1}, r) for r in (1, 2, 3)),
    *((f"AvgPool{r}d", (2, None, 1), {"count_include_pad": False}, r) for r in (1, 2, 3)),
    ("AvgPool2d", ((3, 2),), {"divisor_override": 2}, 2),
    *((f"AdaptiveAvgPool{r}d", (2,), {}, r) for r in (1, 2, 3)),
    *((f"AdaptiveMaxPool{r}d", (3,), {}, r) for r in (1, 2, 3)),
    ("AdaptiveAvgPool2d", ((None, 3),), {}, 2),
    *((f"LPPool{r}d", (2, 3), {"stride": 2}, r) for r in (1, 2, 3)),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "rank"), MODULES, ids=str)
def test_modules(both, name, args, kwargs, rank):
    layers = [getattr(library.nn, name)(*args, **kwargs) for library in both]
    assert repr(layers[0]) == repr(layers[1])
    x = np.abs(INPUTS[rank][0]) + 0.1
    outs = [layer(tensor_of(library, x)) for layer, library in zip(layers, both, strict=True)]
    expect_near(*outs, name)


@EACH_RANK
def test_unpooling_modules(both, rank):
    results = []
    for library in both:
        pool = getattr(library.nn, f"MaxPool{rank}d")(2, return_indices=True)
        unpool = getattr(library.nn, f"MaxUnpool{rank}d")(2)
        y, places = pool(tensor_of(library, numbers(2, 3, *[6] * rank)))
        results.append((unpool(y, places), repr(unpool)))
    expect_near(results[0][0], results[1][0], "unpooled")
    assert results[0][1] == results[1][1]


def test_second_names(torch):
    x = torch.arange(8.0).view(1, 8)
    F = torch.nn.functional
    assert F.max_pool1d_with_indices(x, 2)[1].tolist() == [[1, 3, 5, 7]]
    assert F.max_pool2d_with_indices(x.view(1, 2, 4), 2)[1].tolist() == [[[5, 7]]]
    assert F.max_pool3d_with_indices(x.view(1, 2, 2, 2), 2)[1].tolist() == [[[[7]]]]
    assert F.adaptive_max_pool1d_with_indices(x, 2)[1].tolist() == [[3, 7]]
    assert F.adaptive_max_pool2d_with_indices(x.view(1, 2, 4), 1)[1].tolist() == [[[7]]]
    assert F.adaptive_max_pool3d_with_indices(x.view(1, 2, 2, 2), 1)[1].tolist() == [[[[7]]]]
    cube = torch.arange(64.0).view(1, 4, 4, 4)
    assert len(F.fractional_max_pool2d_with_indices(cube, 2, output_size=2)) == 2
    assert len(F.fractional_max_pool3d_with_indices(cube, 2, output_size=2)) == 2


# What both refuse, with the same type of error.
REFUSED = [
    ("max_pool2d", [numbers(1, 4, 4), 0], {}, RuntimeError),
    ("max_pool2d", [numbers(1, 4, 4), 2, 0], {}, RuntimeError),
    ("max_pool2d", [numbers(1, 4, 4), 2, 1, 2], {}, RuntimeError),
    ("max_pool2d", [numbers(1, 4, 4), 2, 1, -1], {}, RuntimeError),
    ("max_pool2d", [numbers(1, 4, 4), 2, 1, 0, 0], {}, RuntimeError),
    ("max_pool2d", [numbers(1, 4, 4), (2, 2, 2)], {}, RuntimeError),
    ("max_pool2d", [numbers(4), 2], {}, RuntimeError),
    ("max_pool2d", [numbers(1, 4, 4), 7], {}, RuntimeError),
    ("max_pool2d", [numbers(2, 0, 4, 4), 2], {}, RuntimeError),
    ("avg_pool2d", [numbers(1, 4, 4), 2], {"divisor_override": 0}, RuntimeError),
    ("adaptive_avg_pool2d", [numbers(4), 2], {}, RuntimeError),
    ("adaptive_avg_pool2d", [numbers(1, 4, 4), -5], {}, RuntimeError),
    ("adaptive_avg_pool2d", [numbers(1, 0, 4), 2], {}, RuntimeError),
    ("fractional_max_pool2d", [numbers(1, 4, 4), 2], {}, ValueError),
    ("fractional_max_pool2d", [numbers(1, 4, 4), 2], {"output_size": 9}, RuntimeError),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "error"), REFUSED, ids=str)
def test_refusals(torch, name, args, kwargs, error):
    with pytest.raises(error):
        getattr(torch.nn.functional, name)(*(tensor_of(torch, arg) for arg in args), **kwargs)


def test_unpooling_refuses_places_outside(torch):
    x = torch.ones(1, 2, 2)
    unpool = torch.nn.functional.max_unpool2d
    with pytest.raises(RuntimeError, match="invalid max index"):
        unpool(x, torch.full((1, 2, 2), 16), 2)
    with pytest.raises(RuntimeError, match="invalid max index"):
        unpool(x, torch.full((1, 2, 2), -1), 2)
    with pytest.raises(RuntimeError, match="same as that of the input"):
        unpool(x, torch.zeros(1, 2, 1, dtype=torch.int64), 2)
    with pytest.raises(RuntimeError, match="int64"):
        unpool(x, torch.zeros(1, 2, 2, dtype=torch.int32), 2)
    with pytest.raises(ValueError, match="invalid output_size"):
        unpool(x, torch.zeros(1, 2, 2, dtype=torch.int64), 2, output_size=[9, 9])


def test_a_change_of_the_input_after_pooling_does_no_harm(torch):
    """Only the places are saved."""
    x = torch.tensor([[1.0, 3.0, 2.0, 0.0]], requires_grad=True)
    z = x * 1
    y = torch.nn.functional.avg_pool1d(z, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        z.data.zero_()
    y.sum().backward()
    assert x.grad.tolist() == [[0.5, 0.5, 0.5, 0.5]]
