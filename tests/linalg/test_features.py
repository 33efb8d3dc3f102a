"""Linear algebra with everything else: vmap, forward mode, meta, out=, threads, compile."""

import threading

import numpy as np
import pytest
from library import torch

linalg = torch.linalg


def eye(x):
    return torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)


def symmetric(function):
    return lambda a: function(a + a.mT)


CALLS = {
    "cholesky": lambda a: linalg.cholesky(a @ a.mT + eye(a)),
    "det": linalg.det,
    "slogdet": lambda a: linalg.slogdet(a)[1],
    "inv": linalg.inv,
    "solve": lambda a: linalg.solve(a, a.mT),
    "solve_triangular": lambda a: linalg.solve_triangular(a, a.mT, upper=True),
    "lu": lambda a: linalg.lu(a)[1:],
    "lu_factor": lambda a: linalg.lu_factor(a)[0],
    "lu_solve": lambda a: linalg.lu_solve(*linalg.lu_factor(a), a.mT),
    "qr": lambda a: tuple(linalg.qr(a)),
    "eigvalsh": symmetric(linalg.eigvalsh),
    "eigh": symmetric(lambda a: linalg.eigh(a).eigenvectors.square()),
    "svdvals": linalg.svdvals,
    "svd": lambda a: linalg.svd(a).U.square(),
    "pinv": linalg.pinv,
    "lstsq": lambda a: linalg.lstsq(a, a.mT).solution,
    "matrix_exp": linalg.matrix_exp,
    "matrix_power": lambda a: linalg.matrix_power(a, 3),
    "householder_product": lambda a: linalg.householder_product(a / 3, a[..., 0] / 3),
    "ormqr": lambda a: torch.ormqr(a / 3, a[..., 0] / 3, a.mT),
    "norm_nuc": lambda a: linalg.matrix_norm(a, "nuc"),
    "cond": lambda a: linalg.cond(a, 1),
    "cholesky_inverse": torch.cholesky_inverse,
}


def draw(*shape):
    torch.manual_seed(2)
    a = torch.rand(*shape, dtype=torch.float64)
    return a + torch.diag(torch.arange(2.0, 2 + shape[-1], dtype=torch.float64))


def flat(result):
    return list(result) if isinstance(result, tuple) else [result]


def expect_equal(ours, theirs):
    for mine, other in zip(flat(ours), flat(theirs), strict=True):
        assert mine.shape == other.shape
        assert torch.allclose(mine, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CALLS)
def test_derivatives(name):
    """Backward, forward, and backward of backward, against differences."""
    a = draw(3, 3).requires_grad_()
    check = torch.autograd.gradcheck
    assert check(CALLS[name], (a,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(CALLS[name], (a,))


@pytest.mark.parametrize("name", CALLS)
def test_vmap(name):
    a = draw(4, 3, 3)
    expected = [flat(CALLS[name](each)) for each in a]
    expected = tuple(torch.stack(parts) for parts in zip(*expected, strict=True))
    expect_equal(tuple(flat(torch.vmap(CALLS[name])(a))), expected)
    moved = torch.vmap(CALLS[name], in_dims=1)(a.movedim(0, 1))
    expect_equal(tuple(flat(moved)), expected)
    nested = torch.vmap(torch.vmap(CALLS[name]))(a.reshape(2, 2, 3, 3))
    expect_equal(
        tuple(flat(nested)), tuple(part.reshape(2, 2, *part.shape[1:]) for part in expected)
    )


@pytest.mark.parametrize("name", CALLS)
def test_vmap_of_gradients(name):
    a = draw(4, 3, 3)

    def loss(x):
        return sum(part.sin().sum() for part in flat(CALLS[name](x)))

    per_sample = torch.func.vmap(torch.func.grad(loss))(a)
    expect_equal(per_sample, torch.stack([torch.func.grad(loss)(each) for each in a]))


def test_vmap_over_one_operand():
    a, b = draw(3, 3), draw(4, 3, 3)
    expect_equal(
        torch.vmap(linalg.solve, in_dims=(None, 0))(a, b),
        torch.stack([linalg.solve(a, each) for each in b]),
    )
    expect_equal(
        torch.vmap(linalg.solve, in_dims=(0, None))(b, a),
        torch.stack([linalg.solve(each, a) for each in b]),
    )


@pytest.mark.parametrize("name", CALLS)
def test_layouts_and_batches(name):
    a = draw(2, 3, 4, 4)
    expected = flat(CALLS[name](a))
    for other in (
        a.mT.contiguous().mT,
        torch.stack([a, a], dim=-1)[..., 1],
        torch.stack([a, a], dim=2)[:, :, 0],
        a.permute(1, 0, 3, 2).contiguous().permute(1, 0, 3, 2),
        a.flip(0).flip(0),
    ):
        expect_equal(tuple(flat(CALLS[name](other))), tuple(expected))
    expanded = a[:1].expand(2, 3, 4, 4)
    expect_equal(tuple(flat(CALLS[name](expanded))), tuple(flat(CALLS[name](expanded.clone()))))


@pytest.mark.parametrize("name", CALLS)
def test_meta(name):
    a = draw(2, 3, 3)
    if name in ("lstsq",):
        pytest.skip("its residuals depend on the ranks")
    found = flat(CALLS[name](a.to("meta")))
    for mine, real in zip(found, flat(CALLS[name](a)), strict=True):
        assert mine.device.type == "meta"
        assert (mine.shape, mine.dtype) == (real.shape, real.dtype)


@pytest.mark.parametrize(
    "name", ["cholesky", "qr", "svd", "eigh", "solve", "det", "inv", "lu_factor"]
)
def test_batches_are_the_same_as_one_by_one(name):
    """Whatever the number of threads, and on both sides of the limits of the small loops."""
    for n in (2, 5, 7, 12, 20, 40):
        a = draw(20, n, n)
        together = flat(CALLS[name](a))
        alone = [flat(CALLS[name](each)) for each in a]
        for part, pieces in zip(together, zip(*alone, strict=True), strict=True):
            assert torch.equal(part, torch.stack(pieces))


def test_out():
    a = draw(3, 3)
    out = torch.empty(3, 3, dtype=torch.float64)
    for function in (linalg.inv, linalg.matrix_power):
        arguments = (a, 2) if function is linalg.matrix_power else (a,)
        assert function(*arguments, out=out) is out
        expect_equal(out, function(*arguments))
    pair = torch.empty(3, 3, dtype=torch.float64), torch.empty(3, 3, dtype=torch.float64)
    found = linalg.qr(a, out=pair)
    assert found.Q is pair[0] and found.R is pair[1]
    expect_equal(pair[0] @ pair[1], a)
    with pytest.raises(RuntimeError, match="dtype"):
        linalg.inv(a, out=torch.empty(3, 3))


def test_names_of_results():
    a = draw(3, 3)
    assert repr(linalg.qr(a)).startswith("torch.return_types.linalg_qr(\nQ=tensor(")
    assert linalg.svd(a)._fields == ("U", "S", "Vh")
    assert isinstance(linalg.eigh(a), torch.return_types.linalg_eigh)
    assert isinstance(torch.svd(a), torch.return_types.svd)
    assert linalg.lstsq(a, a)._fields == ("solution", "residuals", "rank", "singular_values")


def test_checkpoint():
    a = draw(3, 3).requires_grad_()
    function = CALLS["solve"]
    (direct,) = torch.autograd.grad(function(a).sum(), a)
    again = torch.utils.checkpoint.checkpoint(function, a, use_reentrant=False)
    expect_equal(torch.autograd.grad(again.sum(), a)[0], direct)


@pytest.mark.parametrize("name", ["solve", "cholesky", "det", "qr", "svdvals", "matrix_exp"])
def test_compiled(name):
    compiled = torch.compile(CALLS[name])
    for seed in range(3):
        a = draw(3, 3) + seed
        expect_equal(tuple(flat(compiled(a))), tuple(flat(CALLS[name](a))))


def test_compiled_calls_still_check():
    compiled = torch.compile(linalg.inv)
    for _ in range(3):
        compiled(draw(2, 2))
    with pytest.raises(linalg.LinAlgError):
        compiled(torch.zeros(2, 2, dtype=torch.float64))


def test_threads():
    """Several at once, each of which releases the lock."""
    a = draw(60, 60)
    expected = [linalg.inv(a), linalg.svdvals(a), linalg.eigvalsh(a + a.mT)]
    wrong = []

    def work():
        for _ in range(5):
            found = [linalg.inv(a), linalg.svdvals(a), linalg.eigvalsh(a + a.mT)]
            wrong.extend(
                1
                for mine, other in zip(found, expected, strict=True)
                if not torch.equal(mine, other)
            )

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_gradients_where_values_are_equal():
    """Those of the values alone do not divide by differences."""
    a = torch.eye(3, dtype=torch.float64, requires_grad=True)
    for function in (linalg.eigvalsh, linalg.svdvals):
        (grad,) = torch.autograd.grad(function(a).sum(), a)
        assert torch.allclose(grad, torch.eye(3, dtype=torch.float64))
    (grad,) = torch.autograd.grad(linalg.pinv(a).sum(), a)
    assert torch.allclose(grad, -torch.ones(3, 3, dtype=torch.float64))


def test_methods():
    a = draw(3, 3)
    for name in ("det", "logdet", "inverse", "pinverse", "matrix_exp"):
        expect_equal(getattr(a, name)(), getattr(torch, name)(a))
    for name in ("slogdet", "qr", "svd", "geqrf", "lu"):
        expect_equal(tuple(getattr(a, name)()), tuple(getattr(torch, name)(a)))
    expect_equal((a @ a.mT).cholesky(), torch.cholesky(a @ a.mT))
    expect_equal(a.matrix_power(2), a @ a)
    expect_equal(a.triangular_solve(a).solution, linalg.solve_triangular(a, a, upper=True))
    expect_equal(a.lu_solve(*a.lu()), torch.eye(3, dtype=torch.float64))
    expect_equal(a.cholesky_solve(a), torch.cholesky_solve(a, a))
    expect_equal(a.orgqr(a[0]), torch.orgqr(a, a[0]))


def cofactors(a):
    """Return the transposed adjugate of 3 by 3 matrices, by its definition."""
    rows = []
    for i in range(3):
        for j in range(3):
            (k, m), (p, q) = ([x for x in range(3) if x != y] for y in (i, j))
            minor = a[..., k, p] * a[..., m, q] - a[..., k, q] * a[..., m, p]
            rows.append(minor * (-1) ** (i + j))
    return torch.stack(rows, -1).unflatten(-1, (3, 3))


@pytest.mark.parametrize("seed", range(4))
def test_determinants_of_matrices_that_are_singular_up_to_rounding(seed):
    random = np.random.default_rng(seed)
    a = random.standard_normal((2, 3, 3))
    if seed > 1:
        a = a + 1j * random.standard_normal((2, 3, 3))
    a[..., 2] = a[..., 0] * 1.3
    x = torch.from_numpy(a).requires_grad_()
    weights = torch.from_numpy(random.standard_normal((2, 3, 3)))
    expected = cofactors(x).conj()
    (second,) = torch.autograd.grad((expected * weights).real.sum(), x)
    for create_graph in (False, True):
        (grad,) = torch.autograd.grad(linalg.det(x).real.sum(), x, create_graph=create_graph)
        assert torch.allclose(grad, expected, atol=1e-12)
    (found,) = torch.autograd.grad((grad * weights).real.sum(), x)
    assert torch.allclose(found, second, rtol=1e-9, atol=1e-9)
