"""Complex matrices: beside PyTorch, against differences, in batches and under transforms."""

import warnings

import numpy as np
import pytest
from library import torch

linalg = torch.linalg
INFINITY = float("inf")


def numbers(*shape, seed=0):
    random = np.random.default_rng(seed + len(shape))
    return random.standard_normal(shape) + 1j * random.standard_normal(shape)


def eye(library, x):
    return library.eye(x.shape[-1], dtype=x.dtype, device=x.device)


def regular(library, a):
    return a / a.shape[-1] + 2 * eye(library, a)


def positive(library, a):
    return a @ a.mH + eye(library, a)


def hermitian(a):
    return a + a.mH


def of_svd(t, a):
    u, s, vh = t.linalg.svd(a, full_matrices=False)
    return s, u.abs(), vh.abs(), (u * s.sin().unsqueeze(-2)) @ vh


def of_eigh(t, a):
    values, vectors = t.linalg.eigh(hermitian(a))
    return values, vectors.abs(), (vectors * values.sin().unsqueeze(-2)) @ vectors.mH


def of_eig(t, a):
    values, vectors = t.linalg.eig(a)
    turned = vectors * values.sin().unsqueeze(-2)
    return (vectors.abs() * values.abs().unsqueeze(-2)).sum(-1), turned @ t.linalg.inv(vectors)


# Of square matrices.
SQUARES = {
    "cholesky": lambda t, a: t.linalg.cholesky(positive(t, a)),
    "cholesky_upper": lambda t, a: t.linalg.cholesky(positive(t, a), upper=True),
    "cholesky_ex": lambda t, a: t.linalg.cholesky_ex(positive(t, a)),
    "old_cholesky": lambda t, a: t.cholesky(positive(t, a)),
    "cholesky_solve": lambda t, a: t.cholesky_solve(a, t.linalg.cholesky(positive(t, a))),
    "cholesky_solve_upper": lambda t, a: t.cholesky_solve(
        a, t.linalg.cholesky(positive(t, a), upper=True), upper=True
    ),
    "cholesky_inverse": lambda t, a: t.cholesky_inverse(t.linalg.cholesky(positive(t, a))),
    "det": lambda t, a: t.linalg.det(regular(t, a)),
    "slogdet": lambda t, a: t.linalg.slogdet(a),
    "logdet": lambda t, a: t.logdet(regular(t, a)),
    "inv": lambda t, a: t.linalg.inv(regular(t, a)),
    "inv_ex": lambda t, a: t.linalg.inv_ex(regular(t, a)),
    "lu_factor": lambda t, a: t.linalg.lu_factor(a),
    "solve": lambda t, a: t.linalg.solve(regular(t, a), a.conj()),
    "solve_right": lambda t, a: t.linalg.solve(regular(t, a), a.mH, left=False),
    "solve_vector": lambda t, a: t.linalg.solve(regular(t, a), a[..., 0]),
    "triangular_solve": lambda t, a: t.triangular_solve(a, regular(t, a), transpose=True)[0],
    "pinv_hermitian": lambda t, a: t.linalg.pinv(positive(t, a), hermitian=True),
    "eigvalsh": lambda t, a: t.linalg.eigvalsh(hermitian(a)),
    "eigvalsh_upper": lambda t, a: t.linalg.eigvalsh(a, UPLO="U"),
    "eigh": of_eigh,
    "eigvals": lambda t, a: (t.linalg.eigvals(a / 2) ** 2).sum(-1),
    "matrix_exp": lambda t, a: t.linalg.matrix_exp(a / 3),
    "matrix_power": lambda t, a: t.linalg.matrix_power(regular(t, a), -2),
    "cond_fro": lambda t, a: t.linalg.cond(regular(t, a), "nuc"),
}
for _left in (True, False):
    for _adjoint in (True, False):
        SQUARES[f"lu_solve_{_left}_{_adjoint}"] = lambda t, a, left=_left, adjoint=_adjoint: (
            t.linalg.lu_solve(
                *t.linalg.lu_factor(regular(t, a)), a.conj(), left=left, adjoint=adjoint
            )
        )
for _upper in (True, False):
    for _unit in (True, False):
        SQUARES[f"solve_triangular_{_upper}_{_unit}"] = lambda t, a, upper=_upper, unit=_unit: (
            t.linalg.solve_triangular(
                regular(t, a), a.mH, upper=upper, left=not unit, unitriangular=unit
            )
        )

RECTANGLES = {
    "lu": lambda t, a: t.linalg.lu(a),
    "qr": lambda t, a: t.linalg.qr(a),
    "old_qr": lambda t, a: t.qr(a),
    "svdvals": lambda t, a: t.linalg.svdvals(a),
    "svd": of_svd,
    "pinv": lambda t, a: t.linalg.pinv(a),
    "nuclear": lambda t, a: t.linalg.matrix_norm(a, "nuc"),
    "norm_2": lambda t, a: t.linalg.matrix_norm(a, 2, keepdim=True),
    "norm_1": lambda t, a: t.linalg.matrix_norm(a, 1),
    "norm_inf": lambda t, a: t.linalg.matrix_norm(a, INFINITY),
    "norm_fro": lambda t, a: t.linalg.matrix_norm(a, "fro"),
    "vector_3": lambda t, a: t.linalg.vector_norm(a, 3.5, dim=-1),
    "cond": lambda t, a: t.linalg.cond(a),
    "vecdot": lambda t, a: t.linalg.vecdot(a, a.roll(1, -1)),
    "vander": lambda t, a: t.linalg.vander(a),
}
CASES = {**SQUARES, **RECTANGLES}

SHAPES = [(3, 3), (2, 5, 5), (18, 18), (2, 1, 2, 2), (1, 1)]
WIDE = [(4, 3), (3, 4), (2, 2, 5), (26, 18)]


def as_list(answer):
    return list(answer) if isinstance(answer, tuple) else [answer]


def array(x):
    return x.detach().resolve_conj().numpy()


def loss(library, results, seed):
    total = 0
    for result in results:
        if result is None or not result.requires_grad:
            continue
        weights = numbers(*result.shape, seed=seed)
        if not result.is_complex():
            weights = weights.real
        total = total + (result * library.from_numpy(np.asarray(weights))).real.sum()
    return total


def derivatives(library, total, leaves):
    if isinstance(total, int):
        return [leaf.detach() * 0 for leaf in leaves]
    found = library.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    pairs = zip(found, leaves, strict=True)
    return [leaf.detach() * 0 if each is None else each for each, leaf in pairs]


def expect_same(pytorch, function, *arrays, grad=True):
    """Compare results, gradients and second gradients in both libraries."""
    answers = []
    for library in (torch, pytorch):
        leaves = [library.from_numpy(each.copy()).requires_grad_(grad) for each in arrays]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = as_list(function(library, *leaves))
        found = [results]
        if grad:
            found.append(derivatives(library, loss(library, results, 7), leaves))
            found.append(derivatives(library, loss(library, found[1], 3), leaves))
        answers.append(found)
    for ours, theirs, tolerance in zip(*answers, (1e-9, 1e-7, 1e-5)[: len(found)], strict=True):
        for mine, other in zip(ours, theirs, strict=True):
            assert str(mine.dtype).rpartition(".")[2] == str(other.dtype).rpartition(".")[2]
            mine, other = array(mine), array(other)
            scale = 1 + np.abs(other).max(initial=0)
            np.testing.assert_allclose(mine, other, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_beside_pytorch(pytorch, name, shape):
    if name == "vander" and shape == (1, 1):
        pytest.skip("PyTorch refuses vectors of one element")
    expect_same(pytorch, CASES[name], numbers(*shape))


@pytest.mark.parametrize("shape", WIDE, ids=str)
@pytest.mark.parametrize("name", RECTANGLES)
def test_rectangles_beside_pytorch(pytorch, name, shape):
    expect_same(pytorch, RECTANGLES[name], numbers(*shape))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_no_elements(pytorch, name, shape):
    if name in ("norm_2", "norm_1", "norm_inf", "cond", "vander", "eigh", "svd", "solve_vector"):
        pytest.skip("refused there, or of sizes that ours need not have")
    expect_same(pytorch, CASES[name], numbers(*shape), grad=False)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(3, 3), *WIDE], ids=str)
def test_least_squares(pytorch, shape, driver):
    def function(library, a, b):
        return tuple(library.linalg.lstsq(a, b, driver=driver))

    expect_same(pytorch, function, numbers(*shape), numbers(*shape[:-1], 2, seed=1))


@pytest.mark.parametrize("shape", [(4, 3), (2, 5, 3), (30, 20), (3, 3)], ids=str)
def test_reflectors(pytorch, shape):
    tau = numbers(*shape[:-2], shape[-1]) / shape[-1]
    a = numbers(*shape) / shape[-1]
    expect_same(pytorch, lambda t, a, x: t.linalg.householder_product(a, x), a, tau)
    expect_same(pytorch, lambda t, a: t.geqrf(a), a, grad=False)
    for left in (True, False):
        for transpose in (True, False):
            other = (*shape[:-2], shape[-2], 2) if left else (*shape[:-2], 2, shape[-2])

            def function(t, a, x, c, left=left, transpose=transpose):
                return t.ormqr(a, x, c, left=left, transpose=transpose)

            for grad in (True, False):
                expect_same(pytorch, function, a, tau, numbers(*other), grad=grad)


@pytest.mark.parametrize("is_hermitian", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (2, 7, 7), (40, 40)], ids=str)
def test_symmetric_and_hermitian_factors(pytorch, shape, is_hermitian):
    def function(library, a, b):
        a = a + (a.mH if is_hermitian else a.mT)
        factors = library.linalg.ldl_factor(a, hermitian=is_hermitian)
        solution = library.linalg.ldl_solve(*factors, b, hermitian=is_hermitian)
        return *library.linalg.ldl_factor_ex(a, hermitian=is_hermitian), solution

    expect_same(pytorch, function, numbers(*shape), numbers(*shape[:-1], 2), grad=False)
    a = torch.from_numpy(numbers(*shape))
    a, b = a + (a.mH if is_hermitian else a.mT), a[..., :2]
    factors = linalg.ldl_factor(a, hermitian=is_hermitian)
    found = linalg.ldl_solve(*factors, b, hermitian=is_hermitian)
    assert torch.allclose(a @ found, b)


@pytest.mark.parametrize("mode", ["complete", "r"])
@pytest.mark.parametrize("shape", [(3, 3), *WIDE, (0, 3), (3, 0)], ids=str)
def test_modes_of_qr(pytorch, mode, shape):
    grad = mode == "complete" and shape[-2] <= shape[-1] and 0 not in shape
    expect_same(pytorch, lambda t, a: t.linalg.qr(a, mode=mode), numbers(*shape), grad=grad)


def test_tensors_as_matrices_and_chains(pytorch):
    expect_same(pytorch, lambda t, a: t.linalg.tensorinv(a), numbers(2, 3, 6))
    expect_same(
        pytorch, lambda t, a, b: t.linalg.tensorsolve(a, b), numbers(2, 3, 6), numbers(2, 3)
    )
    expect_same(
        pytorch, lambda t, a, b: t.linalg.multi_dot([a, b, a.mH]), numbers(3, 4), numbers(4, 4)
    )
    expect_same(pytorch, lambda t, a, b: t.linalg.cross(a, b), numbers(2, 3), numbers(2, 3, seed=1))


def test_ranks(pytorch):
    a = numbers(4, 3) @ numbers(3, 4, seed=1)
    for t in (torch, pytorch):
        x = t.from_numpy(a)
        assert t.linalg.matrix_rank(x).item() == 3
        assert t.linalg.matrix_rank(x @ x.mH, hermitian=True).item() == 3
        assert t.linalg.matrix_rank(x, atol=t.tensor(100.0)).item() == 0
        pinv = t.linalg.pinv(x, rtol=t.tensor(1e-9))
        assert t.allclose(x @ pinv @ x, x)


# ---- against differences, and under transforms

DIFFERENT = {
    name: CASES[name]
    for name in (
        "cholesky", "cholesky_upper", "det", "slogdet", "logdet", "inv", "solve", "solve_right",
        "lu_factor", "lu_solve_True_True", "lu_solve_False_True", "solve_triangular_True_True",
        "solve_triangular_False_False", "qr", "svdvals", "svd", "eigvalsh", "eigh", "eigvals",
        "pinv", "matrix_exp", "matrix_power", "nuclear", "cholesky_inverse", "vecdot",
    )
}  # fmt: skip
DIFFERENT |= {
    "eig": of_eig,
    "lstsq": lambda t, a: t.linalg.lstsq(a, a.mH)[0],
    "householder_product": lambda t, a: t.linalg.householder_product(a / 4, a[..., 0] / 4),
    "ormqr": lambda t, a: t.ormqr(a / 4, a[..., 0] / 4, a.mH, left=False, transpose=True),
}


def differentiable(name):
    """Leave out what has no derivative among the results, as functions of one matrix."""

    def call(a):
        results = as_list(DIFFERENT[name](torch, a))
        return tuple(x for x in results if x.is_floating_point() or x.is_complex())

    return call


@pytest.mark.parametrize("name", DIFFERENT)
def test_derivatives(name):
    a = torch.from_numpy(numbers(3, 3)).requires_grad_()
    function = differentiable(name)
    assert torch.autograd.gradcheck(
        function, (a,), check_forward_ad=True, check_batched_grad=True,
        check_batched_forward_grad=True,
    )  # fmt: skip
    assert torch.autograd.gradgradcheck(function, (a,), fast_mode=True)


@pytest.mark.parametrize("name", ["svd", "qr", "pinv"])
@pytest.mark.parametrize("shape", [(4, 2), (2, 4)], ids=str)
def test_derivatives_of_rectangles(name, shape):
    a = torch.from_numpy(numbers(*shape)).requires_grad_()
    function = differentiable(name)
    assert torch.autograd.gradcheck(function, (a,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, (a,), fast_mode=True)


def expect_close(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.shape == other.shape
        assert torch.allclose(mine, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", DIFFERENT)
def test_vmap_and_layouts(name):
    a = torch.from_numpy(numbers(4, 3, 3))
    function = differentiable(name)
    alone = [function(each) for each in a]
    expected = [torch.stack(parts) for parts in zip(*alone, strict=True)]
    expect_close(function(a), expected)
    expect_close(torch.vmap(function)(a), expected)
    expect_close(torch.vmap(function, in_dims=1)(a.movedim(0, 1)), expected)
    for other in (
        a.mT.contiguous().mT,
        a.mH.contiguous().mH,
        torch.stack([a, a], dim=-1)[..., 1],
        a.flip(0).flip(0),
    ):
        expect_close(function(other), expected)
    per_sample = torch.func.vmap(torch.func.grad(lambda x: loss(torch, function(x), 5)))
    one_by_one = [torch.func.grad(lambda x: loss(torch, function(x), 5))(each) for each in a]
    expect_close([per_sample(a)], [torch.stack(one_by_one)])


@pytest.mark.parametrize("name", DIFFERENT)
def test_meta(name):
    a = torch.from_numpy(numbers(2, 3, 3))
    if name == "lstsq":
        pytest.skip("its residuals depend on the ranks")
    function = differentiable(name)
    for mine, real in zip(function(a.to("meta")), function(a), strict=True):
        assert (mine.device.type, mine.shape, mine.dtype) == ("meta", real.shape, real.dtype)


@pytest.mark.parametrize("name", DIFFERENT)
def test_complex64(name):
    a = torch.from_numpy(numbers(2, 3, 3))
    function = differentiable(name)
    for mine, wide in zip(function(a.to(torch.complex64)), function(a), strict=True):
        assert mine.dtype is (torch.complex64 if wide.is_complex() else torch.float32)
        assert torch.allclose(mine.to(wide.dtype), wide, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["solve", "svd", "eigh", "eig", "qr", "slogdet", "matrix_exp"])
def test_compiled_checkpointed_and_budgeted(name):
    function = differentiable(name)

    def total(x):
        return loss(torch, function(x), 5)

    a = torch.from_numpy(numbers(20, 20) / 5).requires_grad_()
    (wanted,) = torch.autograd.grad(total(a), a)
    again = torch.utils.checkpoint.checkpoint(total, a, use_reentrant=False)
    expect_close(torch.autograd.grad(again, a), (wanted,))
    with torch.tape.budget("100 KiB"):
        value = total(a)
        expect_close(torch.autograd.grad(value, a), (wanted,))
    compiled = torch.compile(total)
    for _ in range(3):
        expect_close(torch.autograd.grad(compiled(a), a), (wanted,))


# ---- what depends on phases, and other errors

PHASES = {
    "svd": lambda t, a: t.linalg.svd(a).U.sum().abs(),
    "svd_right": lambda t, a: t.linalg.svd(a).Vh.real.sum(),
    "eigh": lambda t, a: t.linalg.eigh(a).eigenvectors.sum().abs(),
    "eig": lambda t, a: t.linalg.eig(a).eigenvectors.real.sum(),
}


@pytest.mark.parametrize("name", PHASES)
def test_losses_that_depend_on_phases_are_refused(pytorch, name):
    texts = []
    for library in (torch, pytorch):
        a = library.from_numpy(numbers(3, 3)).requires_grad_()
        with pytest.raises(RuntimeError, match="ill-defined") as caught:
            PHASES[name](library, a).backward()
        texts.append(str(caught.value).split("\n")[0])
    assert texts[0].startswith(texts[1])


def test_losses_that_depend_on_phases_are_refused_in_batches():
    a = torch.from_numpy(numbers(4, 3, 3))
    with pytest.raises(RuntimeError, match="ill-defined"):
        torch.func.vmap(torch.func.grad(lambda x: linalg.svd(x).U.real.sum()))(a)


def test_numbers_that_turn_with_both_vectors_are_refused_not():
    """The product of a left and a right vector has no phase left."""
    a = torch.from_numpy(numbers(3, 3)).requires_grad_()

    def outer(x):
        u, _, vh = linalg.svd(x)
        return u[:, :1] @ vh[:1]

    assert torch.autograd.gradcheck(outer, (a,), check_forward_ad=True)


FAILURES = {
    "cholesky": lambda t, a: t.linalg.cholesky(a),
    "inv": lambda t, a: t.linalg.inv(a),
    "solve": lambda t, a: t.linalg.solve(a, a),
    "lu_factor_ex": lambda t, a: t.linalg.lu_factor_ex(a, check_errors=True),
    "dtypes": lambda t, a: t.linalg.solve(a, a.real),
    "narrow": lambda t, a: t.linalg.solve(a, a.to(t.complex64)),
    "tolerance": lambda t, a: t.linalg.pinv(a, atol=t.tensor(1j)),
}


@pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "batch"])
@pytest.mark.parametrize("name", FAILURES)
def test_same_refusals(pytorch, name, batch):
    caught = []
    for library in (torch, pytorch):
        with pytest.raises(RuntimeError) as found:
            FAILURES[name](library, library.zeros(*batch, 3, 3, dtype=library.complex128))
        caught.append(found)
    ours, theirs = (each.value for each in caught)
    assert type(ours).__name__ == type(theirs).__name__.lstrip("_")
    if isinstance(ours, linalg.LinAlgError):
        assert str(ours) == str(theirs)


@pytest.mark.parametrize("n", [1, 3, 9, 30])
@pytest.mark.parametrize("value", [complex("nan"), complex(0, INFINITY)])
def test_what_is_not_finite(n, value):
    a = torch.eye(n, dtype=torch.complex128).expand(2, n, n).clone()
    a[1, n - 1, 0] = value
    for function in (linalg.eigh, linalg.eigvalsh, linalg.svd, linalg.svdvals, linalg.pinv):
        with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 1\).*failed to converge"):
            function(a)
    for function in (linalg.det, linalg.qr, linalg.lu_factor_ex, linalg.inv_ex, linalg.matrix_exp):
        function(a)


def test_diagonals_of_what_is_hermitian_are_taken_as_real(pytorch):
    a = numbers(3, 3)
    a = a @ a.conj().T + 3j * np.eye(3)
    for name in ("cholesky", "eigvalsh"):
        ours, theirs = (getattr(t.linalg, name)(t.from_numpy(a)) for t in (torch, pytorch))
        np.testing.assert_allclose(array(ours), array(theirs), rtol=1e-12, atol=1e-12)


def test_triangles_that_are_not_read_may_hold_anything():
    a = torch.from_numpy(numbers(4, 4))
    p = positive(torch, a)
    broken = p.tril() + torch.full_like(p, complex("nan")).triu(1)
    assert torch.equal(linalg.cholesky(broken), linalg.cholesky(p))
    assert torch.allclose(linalg.eigvalsh(broken), linalg.eigvalsh(p))
    assert torch.allclose(linalg.cholesky(broken.mH, upper=True), linalg.cholesky(p).mH)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=["64", "128"])
@pytest.mark.parametrize("n", [2, 3, 7, 16])
def test_equal_rows_are_found_singular(n, dtype):
    a = torch.from_numpy(numbers(5, n, n)).to(dtype)
    a[:, -1] = a[:, 0]
    assert linalg.lu_factor_ex(a).info.tolist() == [n] * 5
    assert linalg.det(a).tolist() == [0] * 5
    with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 0\)"):
        linalg.inv(a)


@pytest.mark.parametrize("scale", [1e-30, 1e-18, 1e18, 1e30])
def test_quotients_neither_overflow_nor_vanish(scale):
    """Pivots far from one, in single precision."""
    a = torch.from_numpy(numbers(4, 4)).to(torch.complex64)
    b = torch.from_numpy(numbers(4, 2)).to(torch.complex64)
    for rows in (1, scale):
        found = linalg.solve(a * scale, b * rows)
        assert torch.allclose(found * (scale / rows), linalg.solve(a, b), rtol=1e-4)
