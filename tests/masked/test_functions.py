"""Reductions and normalizations over the elements that count, beside PyTorch and by definition."""

import math

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
beside_pytorch = pytest.mark.skipif(
    pytorch is None or IS_TORCH, reason=REASON or "nothing to compare with"
)

REDUCTIONS = ("sum", "prod", "amax", "amin", "mean", "var", "std", "logsumexp", "norm")
ROWS = ("softmax", "log_softmax", "softmin", "cumsum", "cumprod")
DIMS = (None, 0, 1, -1, (0, 2), (), (0, 1, 2))


def operands(library, shape=(3, 4, 5), dtype="float64", seed=0, masked_row=True):
    rng = np.random.default_rng(seed)
    data = rng.standard_normal(shape) * 3
    mask = rng.random(shape) < 0.6
    if masked_row and mask.size:
        mask[0] = False
    x = library.from_numpy(data).to(getattr(library, dtype))
    return x, library.from_numpy(mask)


def assert_same(ours, theirs, tolerance=1e-12):
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype) == str(theirs.dtype)
    np.testing.assert_allclose(
        ours.detach().double().numpy(),
        theirs.detach().double().numpy(),
        rtol=tolerance,
        atol=tolerance,
    )


@beside_pytorch
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("masked", [True, False])
def test_reductions(name, dim, keepdim, masked):
    results = []
    for library in (torch, pytorch):
        x, mask = operands(library)
        call = getattr(library.masked, name)
        options = {"keepdim": keepdim, "mask": mask if masked else None}
        if name == "logsumexp" and dim == ():
            dim = None
        results.append(call(x, dim=dim, **options))
    assert_same(*results)


@beside_pytorch
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "argmax", "argmin", "median"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "float32", "bfloat16"])
def test_dtypes(name, dtype):
    results = []
    for library in (torch, pytorch):
        x, mask = operands(library, dtype=dtype, masked_row=name != "median")
        if name == "median":
            mask[:, :, 0] = True
        results.append(getattr(library.masked, name)(x, 2, mask=mask))
    assert_same(*results, tolerance=1e-6)


@beside_pytorch
@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dim", [None, 0, 1, -1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_places(name, dim, keepdim):
    results = []
    for library in (torch, pytorch):
        x, mask = operands(library)
        results.append(getattr(library.masked, name)(x, dim, keepdim=keepdim, mask=mask))
    assert_same(*results)


@beside_pytorch
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("masked", [True, False])
def test_rows(name, dim, masked):
    results = []
    for library in (torch, pytorch):
        x, mask = operands(library)
        results.append(getattr(library.masked, name)(x, dim, mask=mask if masked else None))
    assert_same(*results)


@beside_pytorch
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_median(keepdim, dim):
    results = []
    for library in (torch, pytorch):
        x, mask = operands(library)
        x[1, 1, 1] = math.nan
        results.append(library.masked.median(x, dim, keepdim=keepdim, mask=mask))
    assert_same(*results)


@beside_pytorch
@pytest.mark.parametrize("order", [0, 1, 2.0, 3, math.inf, -math.inf])
def test_norms(order):
    for call in ("norm", "normalize"):
        results = []
        for library in (torch, pytorch):
            x, mask = operands(library)
            if call == "norm":
                results.append(library.masked.norm(x, order, 1, mask=mask))
            elif order in (1, 2.0, 3):
                results.append(library.masked.normalize(x, order, 1, mask=mask, eps=0.5))
        if results:
            assert_same(*results)


def test_negative_orders_leave_out_what_does_not_count():
    """PyTorch counts zeros there."""
    x = torch.tensor([1.0, 5.0, 3.0])
    mask = torch.tensor([True, False, True])
    assert torch.masked.norm(x, -1, mask=mask).item() == pytest.approx(0.75)


@beside_pytorch
@pytest.mark.parametrize(
    "options",
    [
        {"unbiased": True},
        {"unbiased": False},
        {"correction": 0},
        {"correction": 1},
        {"correction": 2.5},
        {"correction": 100},
        {"dtype": "float32"},
    ],
)
def test_variances(options):
    for name in ("var", "std"):
        results = []
        for library in (torch, pytorch):
            x, mask = operands(library)
            given = dict(options)
            if "dtype" in given:
                given["dtype"] = getattr(library, given["dtype"])
            mask[1:, :2] = True  # the variance of one element depends on how it was rounded
            results.append(getattr(library.masked, name)(x, 1, mask=mask, **given))
        assert_same(*results, tolerance=1e-5 if "dtype" in options else 1e-12)
    with pytest.raises(AssertionError):
        torch.masked.var(torch.ones(2), 0, True, correction=1)


@beside_pytorch
def test_logaddexp():
    for names in ((), ("input_mask",), ("other_mask",), ("input_mask", "other_mask")):
        results = []
        for library in (torch, pytorch):
            x, mask = operands(library)
            y, other = operands(library, seed=1)
            masks = {"input_mask": mask, "other_mask": other}
            chosen = {name: masks[name] for name in names}
            results.append(library.masked.logaddexp(x, y, **chosen))
        assert_same(*results)


@beside_pytorch
@pytest.mark.parametrize("shape", [(), (5,), (1, 5), (3, 1, 1), (4, 1)])
def test_masks_broadcast(shape):
    results = []
    for library in (torch, pytorch):
        x, _ = operands(library)
        mask = library.from_numpy(np.asarray(np.random.default_rng(3).random(shape) < 0.5))
        results.append(library.masked.mean(x, (0, 2), mask=mask))
        results.append(library.masked.sum(x, 1, mask=mask.int()))
    assert_same(results[0], results[2])
    assert_same(results[1], results[3])


@beside_pytorch
def test_edges():
    for library in (torch, pytorch):
        scalar, off = library.tensor(2.0), library.tensor(False)
        assert library.masked.sum(scalar, mask=off).item() == 0
        assert library.masked.amax(scalar, mask=off).item() == -math.inf
        assert library.masked.prod(scalar, 0, mask=off).item() == 1
        empty = library.zeros(0, 3)
        mask = library.zeros(0, 3, dtype=library.bool)
        assert library.masked.sum(empty, 0, mask=mask).tolist() == [0, 0, 0]
        assert library.masked.mean(empty, 0, mask=mask).isnan().all()
        with pytest.raises(IndexError):
            library.masked.amax(empty, 0, mask=mask)
        x, mask = operands(library)
        with pytest.raises(IndexError):
            library.masked.sum(x, 3, mask=mask)
        with pytest.raises(RuntimeError):
            library.masked.sum(x, (1, -2), mask=mask)
        with pytest.raises(IndexError):
            library.masked.sum(x, 1, mask=mask[None])
        with pytest.raises(RuntimeError):
            library.masked.sum(x, 1, mask=mask[:, :, :2])
        with pytest.raises(ValueError, match="mean"):
            library.masked.mean(x.int(), 1, mask=mask)
        with pytest.raises(NotImplementedError, match="amax"):
            library.masked.amax(x.bool(), 1, mask=mask)
        with pytest.raises(ValueError, match="median"):
            library.masked.median(x.int(), 2, mask=mask)
    with pytest.raises(TypeError, match="mask"):
        torch.masked.sum(torch.ones(2), mask=[True, False])
    with pytest.raises(TypeError, match="sum: expected a Tensor"):
        torch.masked.sum([1.0, 2.0])


DIFFERENTIABLE = {
    **{name: lambda x, m, name=name: getattr(torch.masked, name)(x, 1, mask=m) for name in ROWS},
    **{
        name: lambda x, m, name=name: getattr(torch.masked, name)(x, dim=(0, 1), mask=m)
        for name in REDUCTIONS
    },
    "median": lambda x, m: torch.masked.median(x, 1, mask=m),
    "normalize": lambda x, m: torch.masked.normalize(x, 2.0, 1, mask=m),
    "logaddexp": lambda x, m: torch.masked.logaddexp(x, x * 2, input_mask=m, other_mask=m),
    "MaskedTensor": lambda x, m: (
        (torch.masked.as_masked_tensor(x, m).exp() * 2).sum(1).to_tensor(0)
    ),
}


@pytest.mark.parametrize("name", list(DIFFERENTIABLE))
def test_gradients(name):
    x, mask = operands(torch, (3, 4), masked_row=False)
    mask[:, 0] = True

    def call(x):
        y = DIFFERENTIABLE[name](x, mask)
        return torch.where(y.isfinite(), y, 0.0)

    x.requires_grad_()
    torch.autograd.gradcheck(call, x, check_forward_ad=True)
    torch.autograd.gradgradcheck(call, x)
    strange = torch.where(mask, x.detach(), math.nan).requires_grad_()
    call(strange).sum().backward()
    assert torch.equal(strange.grad.isnan(), torch.zeros_like(mask))
    assert (strange.grad[~mask] == 0).all()


@beside_pytorch
@pytest.mark.parametrize("name", REDUCTIONS)
def test_gradients_beside_pytorch(name):
    grads = []
    for library in (torch, pytorch):
        x, mask = operands(library, masked_row=False)
        x.requires_grad_()
        (getattr(library.masked, name)(x, dim=1, mask=mask) ** 2).nansum().backward()
        grads.append(x.grad)
    counting = operands(torch, masked_row=False)[1]
    both = torch.where(counting, grads[0], 0), torch.from_numpy(grads[1].numpy())
    several = counting.sum(1, keepdim=True) > 1  # of one element PyTorch's variance gives NaN
    assert_same(*(torch.where(several & counting, each, 0) for each in both), tolerance=1e-9)


def test_transforms():
    x, mask = operands(torch, (3, 4), dtype="float32")
    rows = torch.vmap(lambda row, m: torch.masked.softmax(row, 0, mask=m))(x, mask)
    assert torch.allclose(rows, torch.masked.softmax(x, 1, mask=mask), equal_nan=True)
    call = torch.compile(lambda a, m: torch.masked.mean(a, 1, mask=m) * 2)
    for _ in range(3):
        assert torch.allclose(call(x, mask), torch.masked.mean(x, 1, mask=mask) * 2, equal_nan=True)
    assert torch.masked.sum(x.to("meta"), 1, mask=mask.to("meta")).shape == (3,)
