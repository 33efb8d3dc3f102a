"""nn.functional.pad and its modules, beside PyTorch."""

import pytest

from .side_by_side import expect_near, expect_same, numbers, tensor_of


def padded(pad, mode="constant", value=None):
    return lambda library: lambda x: library.nn.functional.pad(x, pad, mode, value)


CONSTANT = [
    ((3,), (1, 2)),
    ((2, 3), (1, 2)),
    ((2, 3), (1, 2, 0, 3)),
    ((2, 3), ()),
    ((2, 3), (0, 0)),
    ((2, 3, 4), (-1, 2, 1, -1)),
    ((2, 3, 4), (-1, -3)),
    ((2, 3, 4), (-4, 5)),
    ((2, 3, 4, 2), (1, 1, 2, 2, 0, 1)),
    ((2, 1, 2, 3, 2), (1, 0, 0, 1, 2, 2, 0, 0, 1, 1)),
]


@pytest.mark.parametrize("value", [None, 0, 2.5])
@pytest.mark.parametrize(("shape", "pad"), CONSTANT)
def test_constant(both, shape, pad, value):
    expect_same(both, padded(pad, value=value), [numbers(*shape)])


OTHERS = [
    ((2, 5), (1, 3)),
    ((2, 3, 5), (2, 4)),
    ((2, 3, 5), (-1, 2)),
    ((2, 3, 5), (3, -2)),
    ((2, 3, 5), (-2, -2)),
    ((3, 4, 5), (1, 2, 3, 1)),
    ((2, 3, 4, 5), (1, 2, 3, 0)),
    ((2, 3, 4, 5), (0, 0, 0, 0)),
    ((2, 3, 4, 5), (0, 1, -1, 2)),
    ((2, 3, 3, 4), (1, 2, 2, 0, 1, 1)),
    ((2, 1, 3, 4, 3), (1, 2, 0, 3, 2, 1)),
]


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize(("shape", "pad"), OTHERS)
def test_other_modes(both, mode, shape, pad):
    expect_same(both, padded(pad, mode), [numbers(*shape)])


def test_crops_that_leave_nothing(both):
    for mode in ("reflect", "replicate", "circular"):
        x, pad = (1, 2, 3, 4), (-2, -2, 1, 1)
        results = [lib.nn.functional.pad(lib.ones(x), pad, mode) for lib in both]
        assert tuple(results[0].shape) == tuple(results[1].shape) == (1, 2, 5, 0)
    expect_same(both, padded((-2, 5), "replicate"), [numbers(2, 3, 1)])
    with pytest.raises(RuntimeError, match="empty dimension"):  # PyTorch returns what was there.
        both[0].nn.functional.pad(both[0].ones(1, 2, 2), (-2, 2), "circular")


def test_wide_borders(both):
    expect_same(both, padded((7, 9), "replicate"), [numbers(2, 3, 4)])
    expect_same(both, padded((4, 4), "circular"), [numbers(2, 3, 4)])


def test_dtypes(both):
    for mode in ("constant", "reflect", "replicate", "circular"):
        results = [
            library.nn.functional.pad(library.arange(6).reshape(1, 2, 3), (1, 2), mode)
            for library in both
        ]
        expect_near(*results, mode)
    results = [library.nn.functional.pad(library.tensor([True]), (1, 1)) for library in both]
    assert results[0].tolist() == results[1].tolist() == [False, True, False]
    results = [lib.nn.functional.pad(lib.arange(2), (1, 1), value=1.5) for lib in both]
    expect_near(*results, "an integer constant")


def test_the_result_is_a_copy(torch):
    for pad in ((), (0, 0)):
        x = torch.ones(2)
        torch.nn.functional.pad(x, pad).zero_()
        assert x.tolist() == [1, 1]
    x = torch.ones(1, 2, 3)
    torch.nn.functional.pad(x, (0, 0), "reflect").zero_()
    assert x.sum().item() == 6


ERRORS = [
    ((2, 3), (1, 2, 3), "constant", RuntimeError, "divisible by 2"),
    ((2, 3), (1,) * 6, "constant", RuntimeError, "two times the input dimension"),
    ((2, 3, 4), (-3, -3), "constant", RuntimeError, None),
    ((2, 3, 4), (1, 1), "foo", NotImplementedError, "Unrecognised padding mode foo"),
    ((3,), (1, 1), "reflect", NotImplementedError, "not supported for 1D"),
    ((2, 3, 4, 5), (1, 1), "reflect", NotImplementedError, "not supported for 4D"),
    ((2, 3, 4), (4, 0), "reflect", RuntimeError, "less than the corresponding input dim"),
    ((2, 3, 4), (0, 5), "circular", RuntimeError, "wrapping around more than once"),
    ((2, 3, 4), (-3, -3), "circular", RuntimeError, "empty dimension"),
    ((2, 3, 4), (-3, -3), "replicate", RuntimeError, None),
    ((2, 0, 4), (1, 1), "reflect", RuntimeError, "possibly 0 batch size"),
    ((2, 3, 0), (1, 1), "replicate", RuntimeError, "possibly 0 batch size"),
]


@pytest.mark.parametrize(("shape", "pad", "mode", "error", "text"), ERRORS)
def test_errors(torch, shape, pad, mode, error, text):
    with pytest.raises(error, match=text):
        torch.nn.functional.pad(torch.ones(shape), pad, mode)


def test_a_value_is_for_constants_alone(torch):
    with pytest.raises(RuntimeError, match="doesn't take in value"):
        torch.nn.functional.pad(torch.ones(2, 3), (1, 1), "reflect", value=3.0)
    assert torch.nn.functional.pad(torch.ones(0, 2, 3), (1, 1), "replicate").shape == (0, 2, 5)


@pytest.mark.parametrize("kind", ["Constant", "Zero", "Reflection", "Replication", "Circular"])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("is_one", [True, False])
def test_modules(both, kind, dims, is_one):
    widths = 2 if is_one else (1, 2, 0, 1, 2, 2)[: 2 * dims]
    more = (1.5,) if kind == "Constant" else ()

    def module(library):
        return getattr(library.nn, f"{kind}Pad{dims}d")(widths, *more)

    for shape in ((2, 3, 4, 5, 4)[-dims - 1 :], (2, 3, 3, 4, 5)[-dims - 2 :]):
        expect_same(both, module, [numbers(*shape)])
    ours, theirs = (module(library) for library in both)
    assert repr(ours) == repr(theirs) and ours.padding == theirs.padding
    assert list(ours.state_dict()) == list(theirs.state_dict()) == []


def test_circular_modules_check_dimensions(torch):
    with pytest.raises(ValueError, match="expected 2D or 3D input"):
        torch.nn.CircularPad1d(1)(torch.ones(2, 3, 4, 5))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize(("shape", "pad"), OTHERS)
def test_many_elements(both, mode, shape, pad, monkeypatch):
    """Borders of many elements are made in another way."""
    monkeypatch.setattr("tapegrad.nn.functional.padding._FEW", 0)
    expect_same(both, padded(pad, mode), [numbers(*shape)])
    torch = both[0]
    x = tensor_of(torch, numbers(*shape)[..., :4])

    def function(x):
        return torch.nn.functional.pad(x.sin(), [min(max(width, 0), 3) for width in pad], mode)

    if x.numel() < 60:
        assert torch.autograd.gradcheck(function, x)
        assert torch.autograd.gradgradcheck(function, x)
        jacobian = torch.func.jacrev(function)(x.detach())
        assert torch.allclose(jacobian, torch.func.jacfwd(function)(x.detach()))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_gradients(both, mode):
    torch = both[0]
    x = tensor_of(torch, numbers(2, 3, 4))
    for pad in ((2, 3, 1, 0), (-1, 2, 2, -1)):

        def function(x, pad=pad):
            return torch.nn.functional.pad(x.sin(), pad, mode)

        assert torch.autograd.gradcheck(function, x)
        assert torch.autograd.gradgradcheck(function, x)
    batched = torch.vmap(lambda row: torch.nn.functional.pad(row, (1, 2, 1, 1), mode))
    values = numbers(3, 2, 4, 5)
    expected = torch.nn.functional.pad(tensor_of(torch, values), (1, 2, 1, 1), mode)
    expect_near(batched(tensor_of(torch, values)), expected, "vmap")
