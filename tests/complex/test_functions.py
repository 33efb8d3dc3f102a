"""Functions of complex numbers with their options: factors, rows, logarithms of sums, modules."""

import warnings

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
beside_pytorch = pytest.mark.skipif(
    pytorch is None or IS_TORCH, reason=REASON or "nothing to compare with"
)
INFINITY = float("inf")


def numbers(*shape, seed=0):
    random = np.random.default_rng(seed)
    return random.standard_normal(shape) + 1j * random.standard_normal(shape)


def expect_same(ours, theirs, tolerance=1e-12):
    assert str(ours.dtype) == str(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)
    ours, theirs = (x.detach().resolve_conj().numpy() for x in (ours, theirs))
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


ROWS = [
    ("linspace", (0, 1j, 5), {}),
    ("linspace", (1 + 2j, -3 - 1j, 8), {}),
    ("linspace", (0, 1, 4), {"dtype": "complex64"}),
    ("linspace", (1j, 2, 7), {"dtype": "complex128"}),
    ("linspace", (1j, 2j, 1), {}),
    ("linspace", (1j, 2j, 0), {}),
    ("logspace", (0, 1j, 5), {}),
    ("logspace", (0.5, 1, 5), {"dtype": "complex128", "base": 2.0}),
    ("logspace", (1 + 1j, 2 - 1j, 6), {"dtype": "complex128"}),
]


@beside_pytorch
@pytest.mark.parametrize(("name", "arguments", "options"), ROWS)
def test_rows_between_two_numbers(name, arguments, options):
    found = []
    for t in (torch, pytorch):
        given = {key: getattr(t, v) if key == "dtype" else v for key, v in options.items()}
        found.append(getattr(t, name)(*arguments, **given))
    expect_same(*found, tolerance=1e-5 if found[1].dtype == pytorch.complex64 else 1e-12)


def test_rows_with_everything_else():
    start, end = torch.tensor(1j), torch.tensor(2.0)
    assert torch.linspace(start, end, 3).tolist() == [1j, 1 + 0.5j, 2]
    out = torch.empty(3, dtype=torch.complex64)
    assert torch.linspace(0, 2j, 3, out=out) is out
    assert out.tolist() == [0, 1j, 2j]
    assert torch.linspace(0, 1j, 3, requires_grad=True).requires_grad
    assert torch.linspace(0, 1j, 3, device="meta").dtype is torch.complex64
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.linspace(0, 1j, 3).dtype is torch.complex128
    finally:
        torch.set_default_dtype(torch.float32)


# ---- factors


@beside_pytorch
@pytest.mark.parametrize("name", ["add_", "sub_", "addcmul_", "addcdiv_", "addmm_", "index_add_"])
def test_complex_factors_in_place(name):
    found = []
    for t in (torch, pytorch):
        x, y, z = (t.from_numpy(numbers(3, 3, seed=seed)) for seed in range(3))
        factor = 0.5 - 2j
        if name.startswith("addc"):
            result = getattr(x, name)(y, z, value=factor)
        elif name == "addmm_":
            result = x.addmm_(y, z, beta=1j, alpha=factor)
        elif name == "index_add_":
            result = x.index_add_(0, t.tensor([0, 0, 2]), y, alpha=factor)
        else:
            result = getattr(x, name)(y, alpha=factor)
        assert result is x
        found.append(x)
    expect_same(*found)


@beside_pytorch
def test_complex_factors_with_out_and_promotion():
    found = []
    for t in (torch, pytorch):
        x, y = t.from_numpy(numbers(3)), t.from_numpy(numbers(3, seed=1))
        out = t.empty(3, dtype=t.complex128)
        t.add(x, y, alpha=1j, out=out)
        whole = t.arange(3)
        found.append((
            out, t.add(x, whole, alpha=2j), t.sub(whole, x, alpha=1j),
            t.add(x, 2.0, alpha=3j), t.addcmul(x, y, whole, value=2j),
            t.addmm(x.outer(y), x.outer(x), y.outer(y), alpha=2 + 0j, beta=0),
        ))  # fmt: skip
    for ours, theirs in zip(*found, strict=True):
        expect_same(ours, theirs)


def test_factors_may_be_numbers_of_numpy():
    x = torch.ones(2) * 1j
    assert torch.add(x, x, alpha=np.complex64(2j)).tolist() == [-2 + 1j] * 2
    assert torch.addcmul(x, x, x, value=np.complex128(2j)).tolist() == [-1j] * 2


def test_a_factor_of_zero_drops_what_it_multiplies():
    nothing = torch.full((2, 2), complex("nan"))
    one = torch.eye(2, dtype=torch.complex64)
    for beta in (0, 0j):
        assert torch.addmm(nothing, one, one, beta=beta, alpha=2j).tolist() == [[2j, 0], [0, 2j]]


REFUSED = {
    "alpha": lambda t, x, z: t.add(x, x, alpha=2j),
    "value": lambda t, x, z: t.addcmul(x, x, x, value=2j),
    "addmm": lambda t, x, z: t.addmm(x, x, x, alpha=2j),
    "baddbmm": lambda t, x, z: t.baddbmm(x[None], x[None], x[None], beta=2j),
    "arange": lambda t, x, z: t.arange(3, dtype=t.complex64),
    "arange_number": lambda t, x, z: t.arange(1j, 3),
    "linspace": lambda t, x, z: t.linspace(0, 1j, 3, dtype=t.float32),
    "logaddexp2": lambda t, x, z: t.logaddexp2(z, z),
    "mse_loss": lambda t, x, z: t.nn.functional.mse_loss(z, z),
    "mse_loss_real": lambda t, x, z: t.nn.functional.mse_loss(x, z),
    "smooth_l1_loss": lambda t, x, z: t.nn.functional.smooth_l1_loss(z, z),
    "huber_loss": lambda t, x, z: t.nn.functional.huber_loss(z, z),
    "softmax": lambda t, x, z: t.nn.functional.softmax(z, 0),
    "dropout": lambda t, x, z: t.nn.functional.dropout(z),
    "relu": lambda t, x, z: t.nn.functional.relu(z),
    "layer_norm": lambda t, x, z: t.nn.functional.layer_norm(z, (2,)),
    "cosine": lambda t, x, z: t.nn.functional.cosine_similarity(z, z),
    "cdist": lambda t, x, z: t.cdist(z, z),
    "nansum": lambda t, x, z: t.nansum(z),
    "orthogonal": lambda t, x, z: t.nn.init.orthogonal_(z.clone()),
    "trunc_normal": lambda t, x, z: t.nn.init.trunc_normal_(z.clone()),
    "conv_mixed": lambda t, x, z: t.nn.functional.conv1d(x[None], z[None]),
    "conv_bias": lambda t, x, z: t.nn.functional.conv1d(z[None], z[:, :1][None].mT, x[0, :1]),
}


@beside_pytorch
@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_those_of_pytorch(name):
    kinds = []
    for t in (torch, pytorch):
        x = t.ones(2, 2)
        z = x * (1 + 1j)
        with pytest.raises((RuntimeError, TypeError)) as caught:
            REFUSED[name](t, x, z)
        kinds.append(caught.type)
    assert kinds[0] is kinds[1]


# ---- logarithms of sums

EDGES = [complex(a, b) for a in (-INFINITY, -800.0, 0.0, 800.0) for b in (0.0, 1.0, -3.0)]


@beside_pytorch
def test_logarithms_of_sums_neither_overflow_nor_vanish():
    a, b = (x.ravel() for x in np.meshgrid(EDGES, EDGES))
    ours, theirs = (t.logaddexp(t.from_numpy(a), t.from_numpy(b)) for t in (torch, pytorch))
    same_value(ours, theirs)
    exact, far = np.maximum(a.real, b.real), a.real != b.real
    np.testing.assert_allclose(ours.numpy()[far].real, exact[far])


def same_value(ours, theirs):
    """Compare logarithms whose real part is finite by the numbers that they are logarithms of."""
    ours, theirs = ours.numpy(), theirs.numpy()
    np.testing.assert_allclose(ours.real, theirs.real, rtol=1e-12)
    finite = np.isfinite(theirs.real)
    turn = np.exp(1j * (ours.imag[finite] - theirs.imag[finite]))
    np.testing.assert_allclose(turn, np.ones_like(turn), rtol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 64, 1000])
def test_running_logarithms_of_sums(n):
    """Against sums in a wider range, where the first terms are tiny beside the last."""
    random = np.random.default_rng(n)
    x = np.linspace(-2000, 0, n) + 1j * random.uniform(-3, 3, n)
    found = torch.from_numpy(x).logcumsumexp(0).numpy()
    largest = np.maximum.accumulate(x.real)
    for k in range(n):
        exact = np.log(np.exp(x[: k + 1] - largest[k]).sum()) + largest[k]
        assert abs(np.exp(found[k] - exact) - 1) < 1e-10
    whole = torch.from_numpy(x).logsumexp(0).numpy()
    assert abs(np.exp(whole - exact) - 1) < 1e-10


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3)])
def test_shapes_of_logarithms_of_sums(shape):
    x = torch.ones(shape, dtype=torch.complex64)
    assert x.logcumsumexp(0).shape == shape
    assert torch.logaddexp(x, x).shape == shape
    if shape in ((), (1,)):
        assert x.logsumexp(0).shape == ()
    out = torch.empty(shape, dtype=torch.complex64)
    assert torch.logaddexp(x, x, out=out) is out


def test_vmap_of_what_is_composed():
    x = torch.from_numpy(numbers(3, 4, 2))
    F = torch.nn.functional
    for function in (
        lambda z: z.logcumsumexp(0),
        lambda z: z.logsumexp(1),
        lambda z: torch.logaddexp(z, z * 2j),
        lambda z: torch.add(z, z, alpha=2j),
        lambda z: torch.addmm(z, z @ z.mT, z, beta=1j, alpha=2j),
        lambda z: F.conv1d(z.mT[None], z.mT[:, None, :2], groups=2),
        F.silu,
        torch.nan_to_num,
    ):  # fmt: skip
        expected = torch.stack([function(each) for each in x])
        assert torch.allclose(torch.vmap(function)(x), expected)


# ---- modules


@beside_pytorch
@pytest.mark.parametrize("name", ["Linear", "Conv1d", "Conv2d", "ConvTranspose2d"])
def test_modules_of_complex_weights_learn_as_in_pytorch(name):
    shapes = {"Linear": ((5, 3), (3, 4)), "Conv1d": ((2, 3, 5), (3, 4, 2))}
    shape, arguments = shapes.get(name, ((2, 3, 5, 5), (3, 4, 2)))
    found = []
    for t in (torch, pytorch):
        module = getattr(t.nn, name)(*arguments, dtype=t.complex128)
        assert module.weight.dtype == t.complex128
        with t.no_grad():
            for k, parameter in enumerate(module.parameters()):
                parameter.copy_(t.from_numpy(numbers(*parameter.shape, seed=k)))
        optimizer = t.optim.Adam(module.parameters(), lr=0.1)
        x = t.from_numpy(numbers(*shape, seed=9))
        for _ in range(3):
            optimizer.zero_grad()
            loss = module(x).abs().square().mean()
            loss.backward()
            optimizer.step()
        found.append([loss.detach(), *(p.detach() for p in module.parameters())])
    for ours, theirs in zip(*found, strict=True):
        expect_same(ours, theirs, tolerance=1e-9)


def test_modules_become_complex_and_real_again():
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    weight = module[0].weight.detach().clone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's: that this is new
        module.to(torch.complex128)
    assert module[0].weight.dtype is module[1].running_mean.dtype is torch.complex128
    assert module[1].num_batches_tracked.dtype is torch.int64
    assert torch.equal(module[0].weight.real.float(), weight)
    assert module.double()[0].weight.dtype is torch.complex128
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        module.to(torch.float32)
    assert torch.equal(module[0].weight, weight)
    with pytest.raises(TypeError, match="floating point or complex"):
        module.to(torch.int64)


@pytest.mark.parametrize(
    "name",
    ["uniform_", "normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_",
     "kaiming_normal_", "ones_", "zeros_", "eye_"],
)  # fmt: skip
@beside_pytorch
def test_starts_are_spread_as_in_pytorch(name):
    found = []
    for t in (torch, pytorch):
        t.manual_seed(0)
        x = getattr(t.nn.init, name)(t.empty(400, 300, dtype=t.complex64))
        parts = [p for part in (x.real, x.imag) for p in (part.mean(), part.std(), part.max())]
        found.append([p.item() for p in parts])
    np.testing.assert_allclose(*found, atol=0.02, rtol=0.2)


def test_convolutions_with_everything_else():
    F = torch.nn.functional
    x, w = torch.from_numpy(numbers(2, 3, 6)), torch.from_numpy(numbers(4, 3, 2))
    alone = F.conv1d(x[0], w)
    assert alone.shape == (4, 5)
    assert torch.allclose(alone, F.conv1d(x, w)[0])
    strided = torch.stack([x, x], -1)[..., 0]
    assert torch.allclose(F.conv1d(strided, w), F.conv1d(x, w))
    assert F.conv1d(x.to("meta"), w.to("meta")).shape == (2, 4, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.allclose(F.conv1d(x, w), F.conv1d(x, w)) and F.conv1d(x, w).dtype is x.dtype
    compiled = (lambda f: f) if IS_TORCH else torch.compile
    run = compiled(lambda z: F.conv1d(z, w).abs().sum())
    for _ in range(3):
        assert torch.allclose(run(x), F.conv1d(x, w).abs().sum())


def test_finfo_of_complex_dtypes_is_that_of_their_parts():
    assert torch.finfo(torch.complex64).eps == torch.finfo(torch.float32).eps
    assert torch.finfo(torch.complex128).bits == 64
    assert torch.finfo(torch.complex128).max == torch.finfo(torch.float64).max
