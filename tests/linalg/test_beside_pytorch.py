"""Values, gradients and second gradients beside those of PyTorch, for every function."""

import warnings

import numpy as np
import pytest
from library import torch

SQUARES = [(3, 3), (2, 4, 4), (2, 1, 5, 5), (20, 20), (3, 18, 18), (1, 1), (0, 0), (0, 3, 3)]
RECTANGLES = [
    (4, 3),
    (3, 4),
    (2, 5, 3),
    (2, 3, 5),
    (30, 20),
    (20, 30),
    (2, 9, 1),
    (1, 7),
    (0, 4, 3),
]
EMPTY = [(3, 0), (0, 3)]
INFINITY = float("inf")


def numbers(*shape, seed=0):
    return np.random.default_rng(seed + len(shape)).standard_normal(shape)


def eye(library, x):
    return library.eye(x.shape[-1], dtype=library.float64)


def positive(library, a):
    return a @ a.mT + eye(library, a)


def regular(library, a):
    return a + 4 * eye(library, a)


def as_list(answer):
    return list(answer) if isinstance(answer, tuple) else [answer]


def error_of(ours, theirs):
    ours, theirs = (
        np.asarray((each.detach() + 0).tolist()).reshape(tuple(each.shape))
        for each in (ours, theirs)
    )
    assert ours.shape == theirs.shape
    finite = np.isfinite(theirs)
    assert (np.isfinite(ours) == finite).all(), (ours, theirs)
    ours, theirs = ours[finite], theirs[finite]
    return np.max(np.abs(ours - theirs) / (1 + np.abs(theirs)), initial=0)


def weighted(library, results, seed):
    """Return a sum of what depends on the leaves, with weights that are the same everywhere."""
    total = 0
    for result in results:
        if result is not None and result.requires_grad:
            weights = numbers(*result.shape, seed=seed)
            total = total + (result * tensor(library, weights)).sum()
    return total


def tensor(library, array):
    return library.tensor(array.tolist(), dtype=library.float64).reshape(array.shape)


def derivatives(library, total, leaves):
    """Return gradients, zeros where nothing depends on a leaf."""
    if isinstance(total, int):
        return [leaf.detach() * 0 for leaf in leaves]
    found = library.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    return [
        leaf.detach() * 0 if each is None else each
        for each, leaf in zip(found, leaves, strict=True)
    ]


def expect_same(pytorch, function, *arrays, grad=True):
    """Compare a function's results, gradients and second gradients in both libraries."""
    answers = []
    for library in (torch, pytorch):
        leaves = [tensor(library, array).requires_grad_(grad) for array in arrays]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = as_list(function(library, *leaves))
        firsts = derivatives(library, weighted(library, results, 7), leaves)
        seconds = derivatives(library, weighted(library, firsts, 3), leaves)
        answers.append((results, firsts, seconds))
    for ours, theirs, tolerance in zip(*answers, (1e-9, 1e-7, 1e-5), strict=True):
        for mine, other in zip(ours, theirs, strict=True):
            assert str(mine.dtype).rpartition(".")[2] == str(other.dtype).rpartition(".")[2]
            assert error_of(mine, other) < tolerance, (mine, other)


ON_SQUARES = {
    "cholesky": lambda t, a: t.linalg.cholesky(positive(t, a)),
    "cholesky_upper": lambda t, a: t.linalg.cholesky(positive(t, a), upper=True),
    "cholesky_ex": lambda t, a: t.linalg.cholesky_ex(positive(t, a)),
    "old_cholesky": lambda t, a: t.cholesky(positive(t, a)),
    "cholesky_inverse": lambda t, a: t.cholesky_inverse(regular(t, a).tril()),
    "cholesky_inverse_upper": lambda t, a: t.cholesky_inverse(regular(t, a).triu(), upper=True),
    "det": lambda t, a: t.linalg.det(a),
    "slogdet": lambda t, a: t.linalg.slogdet(a),
    "logdet": lambda t, a: t.logdet(positive(t, a)),
    "inv": lambda t, a: t.linalg.inv(regular(t, a)),
    "inverse": lambda t, a: t.inverse(regular(t, a).mT),
    "inv_ex": lambda t, a: t.linalg.inv_ex(regular(t, a)),
    "lu": lambda t, a: t.linalg.lu(a),
    "matrix_exp": lambda t, a: t.linalg.matrix_exp(a),
    "matrix_power": lambda t, a: t.linalg.matrix_power(a / 3, 5),
    "matrix_power_0": lambda t, a: t.linalg.matrix_power(a, 0),
    "matrix_power_negative": lambda t, a: t.linalg.matrix_power(regular(t, a), -2),
    "eigvalsh": lambda t, a: t.linalg.eigvalsh(a + a.mT),
    "eigvalsh_upper": lambda t, a: t.linalg.eigvalsh(a, UPLO="U"),
    "pinv_hermitian": lambda t, a: t.linalg.pinv(positive(t, a), hermitian=True),
    "diagonal": lambda t, a: t.linalg.diagonal(a),
}


@pytest.mark.parametrize("shape", SQUARES, ids=str)
@pytest.mark.parametrize("name", ON_SQUARES)
def test_squares(pytorch, name, shape):
    if name in ("cholesky_ex", "inv_ex") and 0 in shape:
        pytest.skip("the same as without outcomes")
    expect_same(pytorch, ON_SQUARES[name], numbers(*shape))


SYSTEMS = {
    "solve": lambda t, a, b: t.linalg.solve(regular(t, a), b),
    "solve_right": lambda t, a, b: t.linalg.solve(regular(t, a), b.mT, left=False),
    "solve_vector": lambda t, a, b: t.linalg.solve(regular(t, a), b[..., 0]),
    "solve_ex": lambda t, a, b: t.linalg.solve_ex(regular(t, a), b),
    "solve_one_matrix": lambda t, a, b: t.linalg.solve(
        regular(t, a.reshape(-1, *a.shape[-2:])[0]), b
    ),
    "lu_solve": lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(regular(t, a)), b),
    "lu_solve_adjoint": lambda t, a, b: t.linalg.lu_solve(
        *t.linalg.lu_factor(regular(t, a)), b, adjoint=True
    ),
    "lu_solve_right": lambda t, a, b: t.linalg.lu_solve(
        *t.linalg.lu_factor(regular(t, a)), b.mT, left=False
    ),
    "cholesky_solve": lambda t, a, b: t.cholesky_solve(b, regular(t, a).tril()),
    "cholesky_solve_upper": lambda t, a, b: t.cholesky_solve(b, regular(t, a).triu(), upper=True),
    "triangular_solve": lambda t, a, b: t.triangular_solve(b, regular(t, a), transpose=True),
}


@pytest.mark.parametrize("shape", [s for s in SQUARES if 0 not in s], ids=str)
@pytest.mark.parametrize("name", SYSTEMS)
def test_systems(pytorch, name, shape):
    expect_same(pytorch, SYSTEMS[name], numbers(*shape), numbers(*shape[:-1], 2))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (2, 5, 5), (20, 20)], ids=str)
def test_triangles(pytorch, shape, turned, unit, left, upper):
    def function(library, a, b):
        a = regular(library, a.mT if turned else a) / 4
        return library.linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)

    other = (*shape[:-1], 2) if left else (*shape[:-2], 2, shape[-1])
    expect_same(pytorch, function, numbers(*shape) / shape[-1], numbers(*other))


ON_RECTANGLES = {
    "lu_factor": lambda t, a: t.linalg.lu_factor(a),
    "lu": lambda t, a: t.linalg.lu(a),
    "lu_unpack": lambda t, a: t.lu_unpack(*t.linalg.lu_factor(a)),
    "qr": lambda t, a: t.linalg.qr(a),
    "old_qr": lambda t, a: t.qr(a),
    "svdvals": lambda t, a: t.linalg.svdvals(a),
    "pinv": lambda t, a: t.linalg.pinv(a),
    "pinverse": lambda t, a: t.pinverse(a),
    "nuclear": lambda t, a: t.linalg.matrix_norm(a, "nuc"),
    "norm_2": lambda t, a: t.linalg.matrix_norm(a, 2, keepdim=True),
    "norm_minus_2": lambda t, a: t.linalg.matrix_norm(a, -2, dim=(-1, -2)),
    "norm_1": lambda t, a: t.linalg.matrix_norm(a, 1),
    "norm_inf": lambda t, a: t.linalg.matrix_norm(a, INFINITY, keepdim=True),
    "norm_minus_1": lambda t, a: t.linalg.matrix_norm(a, -1),
    "norm_fro": lambda t, a: t.linalg.matrix_norm(a, "fro"),
    "vector_3": lambda t, a: t.linalg.vector_norm(a, 3.5),
    "vector_inf": lambda t, a: t.linalg.vector_norm(a, INFINITY, dim=-1, keepdim=True),
    "cond": lambda t, a: t.linalg.cond(a),
    "cond_minus_2": lambda t, a: t.linalg.cond(a, -2),
}


@pytest.mark.parametrize("shape", [s for s in RECTANGLES if 0 not in s], ids=str)
@pytest.mark.parametrize("name", ON_RECTANGLES)
def test_rectangles(pytorch, name, shape):
    expect_same(pytorch, ON_RECTANGLES[name], numbers(*shape))


@pytest.mark.parametrize("shape", [(0, 4, 3), *EMPTY], ids=str)
@pytest.mark.parametrize("name", ["lu_factor", "lu", "qr", "svdvals", "pinv"])
def test_rectangles_without_elements(pytorch, name, shape):
    expect_same(pytorch, ON_RECTANGLES[name], numbers(*shape), grad=False)


@pytest.mark.parametrize("shape", RECTANGLES + EMPTY, ids=str)
@pytest.mark.parametrize("mode", ["complete", "r"])
def test_modes_of_qr(pytorch, mode, shape):
    grad = mode == "complete" and shape[-2] <= shape[-1] and 0 not in shape
    expect_same(pytorch, lambda t, a: t.linalg.qr(a, mode=mode), numbers(*shape), grad=grad)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [s for s in RECTANGLES if 0 not in s], ids=str)
def test_least_squares(pytorch, shape, driver):
    def function(library, a, b):
        found = library.linalg.lstsq(a, b, driver=driver)
        return (found.solution, found.rank, found.singular_values)

    expect_same(pytorch, function, numbers(*shape), numbers(*shape[:-1], 2))


@pytest.mark.parametrize("shape", [(4, 3), (2, 5, 3), (30, 20), (3, 3)], ids=str)
def test_reflectors(pytorch, shape):
    tau = numbers(*shape[:-2], shape[-1]) / 2
    expect_same(
        pytorch, lambda t, a, x: t.linalg.householder_product(a, x), numbers(*shape) / 4, tau
    )
    expect_same(pytorch, lambda t, a: t.geqrf(a), numbers(*shape), grad=False)
    for left in (True, False):
        for transpose in (True, False):
            other = (*shape[:-2], shape[-2], 2) if left else (*shape[:-2], 2, shape[-2])
            expect_same(
                pytorch,
                lambda t, a, x, c, left=left, transpose=transpose: t.ormqr(
                    a, x, c, left=left, transpose=transpose
                ),
                numbers(*shape) / 4,
                tau,
                numbers(*other),
            )


def gauge_free_of_svd(library, a, full):
    u, s, vh = library.linalg.svd(a, full_matrices=full)
    k = s.shape[-1]
    u, vh = u[..., :k], vh[..., :k, :]
    return s, u * u, vh * vh, (u * s.sin().unsqueeze(-2)) @ vh


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 5, 3), (9, 12), (3, 3)], ids=str)
def test_singular_vectors(pytorch, shape, full):
    expect_same(pytorch, lambda t, a: gauge_free_of_svd(t, a, full), numbers(*shape))


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (9, 9), (1, 1)], ids=str)
def test_eigenvectors(pytorch, shape):
    def function(library, a):
        values, vectors = library.linalg.eigh(a + a.mT)
        return values, vectors * vectors, (vectors * values.sin().unsqueeze(-2)) @ vectors.mT

    expect_same(pytorch, function, numbers(*shape))


def test_ldl(pytorch):
    def function(library, a, b):
        factors, pivots = library.linalg.ldl_factor(a + a.mT)
        return factors, pivots, library.linalg.ldl_solve(factors, pivots, b)

    expect_same(pytorch, function, numbers(2, 5, 5), numbers(2, 5, 2), grad=False)


@pytest.mark.parametrize(
    "matrix",
    [[[1.0, 2.0], [2.0, 4.0]], [[1.0, 2, 3], [2, 4, 6], [1, 0, 1]]],
    ids=["2", "3"],
)
def test_determinants_of_singular_matrices(pytorch, matrix):
    expect_same(pytorch, lambda t, a: t.linalg.det(a), np.array(matrix))


PRODUCTS = {
    "multi_dot": (lambda t, a, b, c: t.linalg.multi_dot([a, b, c]), (3,), (3, 4), (4,)),
    "multi_dot_4": (
        lambda t, a, b, c, d: t.linalg.multi_dot([a, b, c, d]), (2, 5), (5, 3), (3, 7), (7, 2),
    ),
    "vander": (lambda t, a: t.linalg.vander(a, N=4), (2, 3)),
    "vecdot": (lambda t, a, b: t.linalg.vecdot(a, b), (2, 3), (3,)),
    "vecdot_dim": (lambda t, a, b: t.linalg.vecdot(a, b, dim=0), (2, 3), (2, 3)),
    "cross": (lambda t, a, b: t.linalg.cross(a, b), (2, 3), (1, 3)),
    "tensorinv": (lambda t, a: t.linalg.tensorinv(a), (2, 3, 6)),
    "tensorsolve": (lambda t, a, b: t.linalg.tensorsolve(a, b), (2, 3, 6), (2, 3)),
    "tensorsolve_dims": (
        lambda t, a, b: t.linalg.tensorsolve(a, b, dims=(0,)), (6, 2, 3), (2, 3),
    ),
    "norm": (lambda t, a: t.linalg.norm(a), (2, 3, 4)),
    "norm_nuc": (lambda t, a: t.linalg.norm(a, "nuc"), (3, 4)),
    "norm_dim": (lambda t, a: t.linalg.norm(a, 1, dim=1), (3, 4)),
    "norm_dims": (lambda t, a: t.linalg.norm(a, 1, dim=(0, 2)), (3, 2, 4)),
    "norm_vector": (lambda t, a: t.linalg.norm(a, -1), (4,)),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(pytorch, name):
    function, *shapes = PRODUCTS[name]
    expect_same(pytorch, function, *(numbers(*shape, seed=i) for i, shape in enumerate(shapes)))


@pytest.mark.parametrize("p", [None, "fro", "nuc", 1, -1, 2, -2, INFINITY, -INFINITY])
def test_condition_numbers(pytorch, p):
    """Values alone: PyTorch's own derivative writes over what it saved."""
    for a in (numbers(2, 4, 4), np.zeros((3, 3)) if p not in (None, 2, -2) else numbers(3, 3)):
        expect_same(pytorch, lambda t, x: t.linalg.cond(x, p), a, grad=False)


def test_counts_of_what_is_not_zero(pytorch):
    a = np.array([[0.0, 1.0], [2.0, 3.0]])
    expect_same(pytorch, lambda t, x: t.linalg.vector_norm(x, 0, dim=1), a, grad=False)


@pytest.mark.parametrize("tolerances", [{}, {"atol": 0.5}, {"rtol": 0.3}, {"tol": 1.0}], ids=str)
def test_ranks(pytorch, tolerances):
    a = numbers(2, 5, 2) @ numbers(2, 2, 4)
    expect_same(pytorch, lambda t, x: t.linalg.matrix_rank(x, **tolerances), a, grad=False)


def test_low_rank():
    a = torch.randn(30, 3, dtype=torch.float64) @ torch.randn(3, 20, dtype=torch.float64)
    for matrix in (a, a.mT, torch.stack([a, 2 * a])):
        u, s, v = torch.svd_lowrank(matrix, q=5)
        assert torch.allclose((u * s.unsqueeze(-2)) @ v.mT, matrix)
        assert torch.allclose(s[..., :3], torch.linalg.svdvals(matrix)[..., :3])
    centred = a - a.mean(0)
    u, s, v = torch.pca_lowrank(a, q=4)
    assert torch.allclose((u * s) @ v.mT, centred)
