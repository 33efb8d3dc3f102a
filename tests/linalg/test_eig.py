"""Eigenvalues and eigenvectors of any square matrix: torch.linalg.eig and eigvals."""

import numpy as np
import pytest
from library import torch

linalg = torch.linalg
DTYPES = ["float32", "float64", "complex64", "complex128"]
SIZES = [1, 2, 3, 4, 8, 17, 60]


def matrices(shape, dtype, kind="normal"):
    random = np.random.default_rng(sum(shape))
    a = random.standard_normal(shape)
    if "complex" in dtype:
        a = a + 1j * random.standard_normal(shape)
    if kind == "triangular":
        a = np.triu(a)
    if kind == "scaled":
        a = a * 10.0 ** random.integers(-2, 2, shape[-1])
    if kind == "huge":
        a = a * 1e15
    if kind == "tiny":
        a = a * 1e-15
    return a.astype(dtype)


def size(x):
    return float(x.abs().max())


def residual(library, a):
    """Return the largest element of A V - V L, and how far columns are from length one."""
    values, vectors = library.linalg.eig(a)
    wide = library.complex128
    a, values, vectors = a.to(wide), values.to(wide), vectors.to(wide)
    lengths = vectors.abs().square().sum(-2)
    return size(a @ vectors - vectors * values.unsqueeze(-2)) / size(a), size(lengths - 1)


@pytest.mark.parametrize("kind", ["normal", "triangular", "scaled", "huge", "tiny"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_residuals(pytorch, n, dtype, kind):
    a = matrices((3, n, n), dtype, kind)
    ours, theirs = (residual(t, t.from_numpy(a)) for t in (torch, pytorch))
    epsilon = torch.finfo(torch.from_numpy(a).dtype).eps
    for mine, other in zip(ours, theirs, strict=True):
        assert mine <= 2 * max(other, 4 * n * epsilon)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 1, 4, 4), (20, 20), (0, 0), (0, 3, 3), (2, 0, 0)])
def test_values_are_those_of_pytorch(pytorch, shape, dtype):
    a = matrices(shape, dtype)
    tolerance = 1e-3 if dtype in ("float32", "complex64") else 1e-8
    ours, theirs = (t.linalg.eig(t.from_numpy(a)) for t in (torch, pytorch))
    for mine, other in zip(ours, theirs, strict=True):
        assert str(mine.dtype) == str(other.dtype)
        assert mine.stride() == other.stride()
    values, vectors = (each.numpy() for each in ours)
    other_values, other_vectors = (each.numpy() for each in theirs)
    np.testing.assert_allclose(values, other_values, rtol=tolerance, atol=tolerance)
    overlaps = np.abs((vectors.conj() * other_vectors).sum(-2))
    np.testing.assert_allclose(overlaps, np.ones_like(overlaps), rtol=tolerance)
    alone = linalg.eigvals(torch.from_numpy(a)).numpy()
    np.testing.assert_allclose(
        np.sort_complex(alone.round(3)), np.sort_complex(ours[0].numpy().round(3)), atol=2e-3
    )


def test_pairs_of_a_real_matrix_are_conjugate():
    a = torch.from_numpy(matrices((7, 7), "float64"))
    values, vectors = linalg.eig(a)
    first = [k for k in range(7) if values[k].imag > 0]
    assert first
    for k in first:
        assert torch.equal(values[k + 1], values[k].conj())
        assert torch.equal(vectors[:, k + 1], vectors[:, k].conj())
    for k in range(7):
        if values[k].imag == 0:
            assert not vectors[:, k].imag.any()


def test_batches_and_layouts_are_the_same_as_one_by_one():
    for dtype in ("float64", "complex128"):
        a = torch.from_numpy(matrices((6, 5, 5), dtype))
        alone = [linalg.eig(each) for each in a]
        for other in (a, a.mT.contiguous().mT, torch.stack([a, a], -1)[..., 0]):
            values, vectors = linalg.eig(other)
            assert torch.equal(values, torch.stack([each[0] for each in alone]))
            assert torch.equal(vectors, torch.stack([each[1] for each in alone]))
        values, vectors = torch.vmap(linalg.eig, in_dims=1)(a.movedim(0, 1))
        assert torch.equal(vectors, torch.stack([each[1] for each in alone]))


def function(a):
    """Return what does not depend on phases: values, lengths, and a function of the matrix."""
    values, vectors = linalg.eig(a)
    inside = (vectors * values.exp().unsqueeze(-2)) @ linalg.inv(vectors)
    return (
        values.real.square().sum(-1),
        (vectors.abs() * values.abs().unsqueeze(-2)).sum(-1),
        inside,
    )


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_derivatives(dtype):
    a = torch.from_numpy(matrices((2, 4, 4), dtype) / 2).requires_grad_()
    check = torch.autograd.gradcheck
    assert check(
        function, (a,), check_forward_ad=True, check_batched_grad=True,
        check_batched_forward_grad=True,
    )  # fmt: skip
    assert torch.autograd.gradgradcheck(function, (a,), fast_mode=True)
    assert check(lambda x: linalg.eigvals(x).pow(3).sum(-1), (a,), check_forward_ad=True)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradients_are_those_of_pytorch(pytorch, dtype):
    found = []
    for t in (torch, pytorch):
        a = t.from_numpy(matrices((2, 5, 5), dtype)).requires_grad_()
        values, vectors = t.linalg.eig(a)
        weights = t.arange(1.0, 6.0, dtype=t.float64)
        loss = (vectors.abs() @ weights).sum() + (values.abs() * weights).sum()
        (grad,) = t.autograd.grad(loss, a, create_graph=True)
        (second,) = t.autograd.grad(grad.abs().square().sum(), a)
        found.append((grad, second))
    for ours, theirs in zip(*found, strict=True):
        assert str(ours.dtype) == str(theirs.dtype)
        ours, theirs = ours.detach().numpy(), theirs.detach().resolve_conj().numpy()
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7 * np.abs(theirs).max())


def test_gradient_of_the_matrix_itself():
    """The eigenvectors and values together are the matrix, whose derivative is known."""
    a = torch.from_numpy(matrices((5, 5), "float64")).requires_grad_()
    values, vectors = linalg.eig(a)
    again = ((vectors * values.unsqueeze(-2)) @ linalg.inv(vectors)).real
    weights = torch.from_numpy(matrices((5, 5), "float64", "triangular"))
    (grad,) = torch.autograd.grad((again * weights).sum(), a)
    assert torch.allclose(again, a) and torch.allclose(grad, weights)


@pytest.mark.parametrize("name", ["eig", "eigvals"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite(pytorch, name, value):
    a = np.eye(3)
    a[2, 0] = value
    with pytest.raises(RuntimeError, match="should not contain infs or NaNs"):
        getattr(linalg, name)(torch.from_numpy(a))
    with pytest.raises(RuntimeError, match="should not contain infs or NaNs"):
        pytorch.linalg.eig(pytorch.from_numpy(a))
    with pytest.raises(RuntimeError, match=rf"torch.linalg.{name}: .*infs or NaNs"):
        torch.vmap(getattr(linalg, name))(torch.from_numpy(np.stack([np.eye(3), a])))


BAD = {
    "integers": (lambda t: t.linalg.eig(t.ones(2, 2, dtype=t.int64)), RuntimeError),
    "rectangle": (lambda t: t.linalg.eigvals(t.ones(2, 3)), RuntimeError),
    "vector": (lambda t: t.linalg.eig(t.ones(2)), RuntimeError),
    "half": (lambda t: t.linalg.eig(t.ones(2, 2, dtype=t.float16)), NotImplementedError),
    "bfloat16": (lambda t: t.linalg.eigvals(t.ones(2, 2, dtype=t.bfloat16)), NotImplementedError),
    "real out": (lambda t: t.linalg.eigvals(t.ones(2, 2), out=t.empty(2)), RuntimeError),
    "real outs": (
        lambda t: t.linalg.eig(t.ones(2, 2), out=(t.empty(2), t.empty(2, 2))), RuntimeError
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_refusals(pytorch, name):
    call, error = BAD[name]
    for t in (torch, pytorch):
        with pytest.raises(error):
            call(t)


def test_out_meta_and_names():
    a = torch.from_numpy(matrices((2, 3, 3), "float64"))
    out = torch.empty(0, dtype=torch.complex128), torch.empty(0, dtype=torch.complex128)
    found = linalg.eig(a, out=out)
    assert found.eigenvalues is out[0] and found.eigenvectors is out[1]
    assert isinstance(found, torch.return_types.linalg_eig)
    assert torch.equal(out[1], linalg.eig(a).eigenvectors)
    values = torch.empty(2, 3, dtype=torch.complex128)
    assert linalg.eigvals(a, out=values) is values
    for mine, real in zip(linalg.eig(a.to("meta")), found, strict=True):
        assert (mine.device.type, mine.shape, mine.dtype) == ("meta", real.shape, real.dtype)
    assert linalg.eigvals(a.float().to("meta")).dtype is torch.complex64


@pytest.mark.parametrize("n", [3, 4])
def test_a_matrix_that_has_too_few_vectors_has_values(n):
    a = torch.eye(n, dtype=torch.float64) + torch.diag(torch.ones(n - 1, dtype=torch.float64), 1)
    values, vectors = linalg.eig(a)
    assert torch.allclose(values, torch.ones_like(values), atol=1e-3)
    assert (a.to(vectors.dtype) @ vectors - vectors).abs().max() < 1e-3
