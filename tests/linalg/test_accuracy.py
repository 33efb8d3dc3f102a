"""How well factors give back their matrix: small ones at most twice PyTorch's residual."""

import numpy as np
import pytest
from library import torch

SHAPES = [(2, 2), (3, 3), (5, 5), (8, 8), (9, 9), (17, 17), (40, 40), (100, 100), (20, 4, 4),
          (6, 3), (3, 6), (8, 5), (50, 30), (30, 50)]  # fmt: skip


DTYPES = ["float32", "float64", "complex64", "complex128"]


def drawn(random, shape, dtype):
    a = random.standard_normal(shape)
    return a + 1j * random.standard_normal(shape) if "complex" in dtype else a


def matrices(shape, kind, dtype):
    random = np.random.default_rng(1)
    a = drawn(random, shape, dtype)
    if kind == "scaled":
        a = a * 10.0 ** random.integers(-6, 6, shape[-1])
    if kind == "rank":
        a[..., -1] = a[..., 0]
        a[..., -1, :] = a[..., 0, :]
    if kind == "huge":
        a = a * 1e18
    if kind == "tiny":
        a = a * 1e-18
    return a


def size(x):
    return float(x.abs().max())


def wide(x):
    """Return it with parts of 64 bits."""
    return x.cdouble() if x.is_complex() else x.double()


def identity(library, x):
    return library.eye(x.shape[-1], dtype=x.dtype)


def of_qr(library, a):
    q, r, a = map(wide, (*library.linalg.qr(a), a))
    return size(q @ r - a) / size(a), size(q.mH @ q - identity(library, q))


def of_svd(library, a):
    u, s, vh, a = map(wide, (*library.linalg.svd(a), a))
    k = s.shape[-1]
    rest = (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :] - a
    turned = [x.mH @ x - identity(library, x) for x in (u, vh)]
    return size(rest) / size(a), *map(size, turned)


def of_eigh(library, a):
    a = a[..., : min(a.shape[-2:]), : min(a.shape[-2:])]
    a = a + a.mH
    w, v, a = map(wide, (*library.linalg.eigh(a), a))
    assert bool((w.diff(dim=-1) >= 0).all())
    rest = (v * w.unsqueeze(-2)) @ v.mH - a
    return size(rest) / size(a), size(v.mH @ v - identity(library, v))


def of_lu(library, a):
    p, low, up, a = map(wide, (*library.linalg.lu(a), a))
    return (size(p @ low @ up - a) / size(a),)


RESIDUALS = {"qr": of_qr, "svd": of_svd, "eigh": of_eigh, "lu": of_lu}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["normal", "scaled", "rank", "huge", "tiny"])
@pytest.mark.parametrize("name", RESIDUALS)
def test_residuals(pytorch, name, kind, dtype):
    for shape in SHAPES:
        a = matrices(shape, kind, dtype)
        ours, theirs = (
            RESIDUALS[name](library, library.tensor(a.tolist(), dtype=getattr(library, dtype)))
            for library in (torch, pytorch)
        )
        epsilon = torch.finfo(getattr(torch, dtype)).eps
        for mine, other in zip(ours, theirs, strict=True):
            # Where LAPACK works, OpenBLAS's rounds more than PyTorch's, still within its bounds.
            is_ours = max(shape[-2:]) <= 8 and "complex" not in dtype
            floor = 4 if is_ours else max(8, max(shape[-2:]) / 2)
            assert mine <= 2 * max(other, floor * epsilon), (shape, mine, other)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 16, 17, 33, 100])
def test_solutions(pytorch, n, dtype):
    random = np.random.default_rng(n)
    a, b = (drawn(random, (3, n, columns), dtype) for columns in (n, 2))
    errors = []
    for library in (torch, pytorch):
        x, y = (library.tensor(each.tolist(), dtype=getattr(library, dtype)) for each in (a, b))
        p = x @ x.mH + n * library.eye(n, dtype=x.dtype)
        factor = library.linalg.cholesky(p)
        inverse = library.linalg.inv(x)
        errors.append((
            size(wide(x) @ wide(library.linalg.solve(x, y)) - wide(y)),
            size(wide(factor) @ wide(factor).mH - wide(p)) / size(p),
            size(wide(x) @ wide(inverse) - library.eye(n, dtype=library.float64)),
        ))  # fmt: skip
    epsilon = torch.finfo(getattr(torch, dtype)).eps
    for index, (mine, other) in enumerate(zip(*errors, strict=True)):
        floor = 4 * n * epsilon * (1 if index == 1 else np.linalg.cond(a).max() ** 0.5)
        assert mine <= 2 * max(other, floor), (index, mine, other)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_exponentials(n, scale, dtype):
    scipy = pytest.importorskip("scipy.linalg")
    a = drawn(np.random.default_rng(n), (n, n), dtype) * scale / n
    exact = scipy.expm(a)
    ours = torch.linalg.matrix_exp(torch.tensor(a.tolist(), dtype=getattr(torch, dtype)))
    epsilon = torch.finfo(getattr(torch, dtype)).eps
    error = np.abs(np.array(ours.tolist()) - exact).max() / np.abs(exact).max()
    assert error <= 64 * max(1, scale) * epsilon
