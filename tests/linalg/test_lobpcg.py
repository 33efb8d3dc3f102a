"""torch.lobpcg: a few extreme eigenpairs by products alone."""

import numpy as np
import pytest
from library import torch

METHODS = ["ortho", "basic"]


def matrix(m, seed=0, dtype="float64"):
    """Return a symmetric matrix whose eigenvalues lie apart, of both signs."""
    random = np.random.default_rng(seed)
    basis = np.linalg.qr(random.standard_normal((m, m)))[0]
    values = np.concatenate([-np.arange(1.0, m // 3 + 1), np.arange(1.0, m - m // 3 + 1)])
    a = (basis * values) @ basis.T
    return torch.from_numpy(((a + a.T) / 2).astype(dtype))


def positive(m, seed=1):
    random = np.random.default_rng(seed)
    b = random.standard_normal((m, m)) / m**0.5
    return torch.from_numpy(b @ b.T + np.eye(m))


def wanted(A, B, k, largest):
    """Return the values by a direct method."""
    if B is not None:
        factor = torch.linalg.cholesky(B)
        half = torch.linalg.solve_triangular(factor, A, upper=False)
        A = torch.linalg.solve_triangular(factor, half.mT, upper=False)
    values = torch.linalg.eigvalsh(A)
    return values.flip(-1)[..., :k] if largest else values[..., :k]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("with_B", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(9, 1, 1), (30, 3, 3), (60, 2, 5), (100, 8, 8)])
def test_pairs(m, k, n, with_B, largest, method):
    torch.manual_seed(0)
    A, B = matrix(m), positive(m) if with_B else None
    E, X = torch.lobpcg(A, k, B=B, n=n, largest=largest, method=method, niter=500)
    assert E.shape == (k,) and X.shape == (m, k)
    assert torch.allclose(E, wanted(A, B, k, largest), rtol=1e-9, atol=1e-9)
    image = X if B is None else B @ X
    assert torch.allclose(X.mT @ image, torch.eye(k, dtype=X.dtype), atol=1e-8)
    residual = (A @ X - image * E).norm(dim=0)
    assert residual.max() < 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_values_are_those_of_pytorch(pytorch, method):
    a = matrix(40).numpy()
    b = positive(40).numpy()
    for options in ({}, {"largest": False}, {"k": 3, "niter": 300}):
        for with_B in (False, True):
            if method == "basic" and with_B and "k" in options:
                continue  # theirs finds two of three values
            found = []
            for t in (torch, pytorch):
                t.manual_seed(1)
                given = {"B": t.from_numpy(b)} if with_B else {}
                values = t.lobpcg(t.from_numpy(a), method=method, **options, **given)[0]
                found.append(values.numpy())
            np.testing.assert_allclose(*found, rtol=1e-8)


def test_single_precision():
    torch.manual_seed(0)
    A = matrix(50, dtype="float32")
    E, _ = torch.lobpcg(A, 3)
    assert E.dtype is torch.float32
    assert torch.allclose(E, wanted(A, None, 3, True), rtol=1e-4)


def test_batches():
    torch.manual_seed(0)
    A = torch.stack([torch.stack([matrix(20, seed=3 * i + j) for j in range(3)]) for i in range(2)])
    B = positive(20).expand(2, 3, 20, 20)
    X = torch.randn(2, 3, 20, 2, dtype=torch.float64)
    for given in ({}, {"B": B}, {"X": X}):
        E, found = torch.lobpcg(A, k=2, **given)
        assert E.shape == (2, 3, 2) and found.shape == (2, 3, 20, 2)
        expected = [[wanted(A[i, j], given.get("B", [[None] * 3] * 2)[i][j], 2, True)
                     for j in range(3)] for i in range(2)]  # fmt: skip
        assert torch.allclose(E, torch.stack([torch.stack(row) for row in expected]))
    E, found = torch.lobpcg(A[:0], k=2)
    assert E.shape == (0, 3, 2) and found.shape == (0, 3, 20, 2)


def count_steps(A, **options):
    steps = []
    torch.manual_seed(0)
    torch.lobpcg(A, 2, tracker=lambda state: steps.append(state.ivars["istep"]), **options)
    return len(steps)


@pytest.mark.parametrize("method", METHODS)
def test_preconditioners_and_good_starts_save_steps(method):
    A = torch.diag(torch.logspace(0, 5, 120, dtype=torch.float64)) + 0.1 * positive(120)
    plain = count_steps(A, largest=False, method=method, niter=600)
    rough = torch.diag(1 / A.diagonal())
    assert count_steps(A, largest=False, method=method, iK=rough) < plain / 2
    start = torch.linalg.eigh(A).eigenvectors[:, :2]
    assert count_steps(A, largest=False, method=method, X=start) == 0


def test_limits_and_trackers():
    A = matrix(40)
    seen = []

    def look(state):
        seen.append((state.ivars["istep"], state.X.shape, state.E.clone(), state.tvars["rerr"]))
        state.bvars["force_stop"] = state.ivars["istep"] == 3

    torch.manual_seed(0)
    E, _ = torch.lobpcg(A, 2, tracker=look)
    assert [each[0] for each in seen] == [1, 2, 3]
    assert torch.equal(seen[-1][2], E)
    # Each step can only make the sum of the largest values larger.
    sums = [each[2].sum().item() for each in seen]
    assert sums == sorted(sums)
    torch.manual_seed(0)
    assert torch.equal(torch.lobpcg(A, 2, niter=3)[0], E)
    assert torch.lobpcg(A, 2, niter=0)[0].shape == (2,)
    assert torch.allclose(torch.lobpcg(A, 2, niter=-1)[0], wanted(A, None, 2, True))


@pytest.mark.parametrize("method", METHODS)
def test_matrices_without_a_direction(method):
    """Every vector is an eigenvector: there is nothing to do."""
    for A in (torch.eye(9, dtype=torch.float64), torch.zeros(9, 9, dtype=torch.float64)):
        E, X = torch.lobpcg(A, 2, method=method)
        assert torch.allclose(E, A.diagonal()[:2])
        assert torch.allclose(X.mT @ X, torch.eye(2, dtype=torch.float64))


def test_repeated_values_and_unreachable_tolerances():
    torch.manual_seed(0)
    A = torch.diag(torch.tensor([5.0] * 3 + list(np.linspace(0, 1, 17)), dtype=torch.float64))
    E, X = torch.lobpcg(A, 3, tol=0.0, niter=60)
    assert torch.allclose(E, torch.full((3,), 5.0, dtype=torch.float64))
    assert torch.allclose(A @ X, 5 * X, atol=1e-12)


def pairs(x, largest=True):
    """Return what does not depend on signs."""
    torch.manual_seed(0)
    A = x @ x.mT + torch.diag(torch.arange(1.0, x.shape[-1] + 1, dtype=x.dtype)) * 3
    E, X = torch.lobpcg(A, 2, tol=1e-14, largest=largest)
    return E, X.abs(), (X * E.sin()) @ X.mT


@pytest.mark.parametrize("largest", [True, False])
def test_derivatives(largest):
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((8, 8)) / 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: pairs(x, largest), (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda x: pairs(x, largest), (x,), fast_mode=True)


def test_gradients_are_those_of_pytorch_and_of_eigh(pytorch):
    a = matrix(20).numpy()
    weights = np.random.default_rng(0).standard_normal((20, 2))
    found = []
    for t in (torch, pytorch):
        t.manual_seed(0)
        A = t.from_numpy(a).requires_grad_()
        E, X = t.lobpcg(A, 2, tol=1e-13)
        ((X.abs() * t.from_numpy(weights)).sum() + E.square().sum()).backward()
        found.append(A.grad.numpy())
    A = torch.from_numpy(a).requires_grad_()
    E, X = torch.linalg.eigh(A)
    E, X = E.flip(0)[:2], X.flip(1)[:, :2]
    ((X.abs() * torch.from_numpy(weights)).sum() + E.square().sum()).backward()
    np.testing.assert_allclose(found[0], A.grad.numpy(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6, atol=1e-8)
    assert (found[0] == found[0].T).all()


def test_gradients_in_batches():
    A = torch.stack([matrix(12, seed) for seed in range(3)]).requires_grad_()
    torch.manual_seed(0)
    E, X = torch.lobpcg(A, 2, tol=1e-13)
    (grad,) = torch.autograd.grad(E.sum() + X.abs().sum(), A)
    for i in range(3):
        one = A[i].detach().requires_grad_()
        torch.manual_seed(0)
        E, X = torch.lobpcg(one, 2, tol=1e-13)
        (expected,) = torch.autograd.grad(E.sum() + X.abs().sum(), one)
        assert torch.allclose(grad[i], expected, atol=1e-9)


BAD = {
    "too many": (lambda t, A: t.lobpcg(A, 5), ValueError),
    "rectangle": (lambda t, A: t.lobpcg(A[:, :4]), AssertionError),
    "X": (lambda t, A: t.lobpcg(A, X=A[:5, :2]), AssertionError),
    "B": (lambda t, A: t.lobpcg(A, B=A[:5, :5]), AssertionError),
    "integers": (lambda t, A: t.lobpcg(A.long()), RuntimeError),
    "complex": (lambda t, A: t.lobpcg(A.to(t.complex128)), RuntimeError),
    "nan": (lambda t, A: t.lobpcg(A * float("nan"), 2), RuntimeError),
    "gradient with B": (
        lambda t, A: t.lobpcg(A.requires_grad_(), B=t.eye(12, dtype=A.dtype))[0].sum().backward(),
        ValueError,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_refusals(pytorch, name):
    call, error = BAD[name]
    for t in (torch, pytorch):
        with pytest.raises(error):
            call(t, t.from_numpy(matrix(12).numpy().copy()))


def test_refusals_of_our_own():
    A = matrix(12)
    for call, error, text in (
        (lambda: torch.lobpcg(A, 2, method="other"), ValueError, "basic"),
        (lambda: torch.lobpcg(A, 0), ValueError, "at least one"),
        (lambda: torch.lobpcg(A.tolist()), TypeError, "list"),
        (lambda: torch.lobpcg(A[0]), AssertionError, "square"),
        (lambda: torch.lobpcg(A.half()), NotImplementedError, "float16"),
        (lambda: torch.lobpcg(A, B=A.float()), RuntimeError, "dtype of A"),
        (lambda: torch.lobpcg(A, X=torch.ones(12, 2, dtype=A.dtype)), RuntimeError, "dependent"),
        (lambda: torch.vmap(torch.lobpcg)(A[None]), RuntimeError, "vmap"),
        (lambda: torch.lobpcg(A.to("meta")), RuntimeError, "meta"),
    ):
        with pytest.raises(error, match=text):
            call()
