"""What is refused, in PyTorch's words; what is not finite; what is too much."""

import pytest
from library import torch

linalg = torch.linalg
NAN, INFINITY = float("nan"), float("inf")


def zeros(*shape):
    return torch.zeros(*shape, dtype=torch.float64)


FAILURES = {
    "cholesky": lambda t, a: t.linalg.cholesky(a),
    "cholesky_ex": lambda t, a: t.linalg.cholesky_ex(a, check_errors=True),
    "old_cholesky": lambda t, a: t.cholesky(a),
    "inv": lambda t, a: t.linalg.inv(a),
    "inverse": lambda t, a: t.inverse(a),
    "inv_ex": lambda t, a: t.linalg.inv_ex(a, check_errors=True),
    "matrix_power": lambda t, a: t.linalg.matrix_power(a, -1),
    "solve": lambda t, a: t.linalg.solve(a, a),
    "solve_ex": lambda t, a: t.linalg.solve_ex(a, a, check_errors=True),
    "lu_factor": lambda t, a: t.linalg.lu_factor(a),
    "lu_factor_ex": lambda t, a: t.linalg.lu_factor_ex(a, check_errors=True),
    "square": lambda t, a: t.linalg.cholesky(a[..., :1]),
    "square_solve": lambda t, a: t.linalg.solve(a[..., :1], a),
    "square_eigh": lambda t, a: t.linalg.eigh(a[..., :1]),
    "matrix": lambda t, a: t.linalg.qr(a.flatten()),
    "matrix_svd": lambda t, a: t.linalg.svd(a.flatten()),
    "integers": lambda t, a: t.linalg.cholesky(a.long()),
    "integers_inv": lambda t, a: t.linalg.inv(a.long()),
    "integers_norm": lambda t, a: t.linalg.vector_norm(a.long()),
    "triangle": lambda t, a: t.linalg.solve_triangular(a, a[..., :1, :], upper=True),
    "sides": lambda t, a: t.linalg.solve(a, a[..., :2, :]),
    "dtypes": lambda t, a: t.linalg.solve(a, a.float()),
    "uplo": lambda t, a: t.linalg.eigh(a, UPLO="X"),
    "mode": lambda t, a: t.linalg.qr(a, mode="x"),
    "driver": lambda t, a: t.linalg.svd(a, driver="gesvd"),
    "pivot": lambda t, a: t.linalg.lu_factor(a, pivot=False),
    "lstsq_driver": lambda t, a: t.linalg.lstsq(a, a, driver="x"),
    "lstsq_rows": lambda t, a: t.linalg.lstsq(a, a[..., :2, :]),
    "order": lambda t, a: t.linalg.matrix_norm(a, "x"),
    "order_3": lambda t, a: t.linalg.matrix_norm(a, 3),
    "chain": lambda t, a: t.linalg.multi_dot([a]),
    "symeig": lambda t, a: t.symeig(a),
}


def outcome(library, function, a):
    try:
        function(library, a)
    except Exception as error:
        return error
    return None


def first_words(error):
    """Return a text up to where ours says what to do."""
    return str(error).split("\n")[0].split(";")[0].split(". ")[0].rstrip(".")


@pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "batch"])
@pytest.mark.parametrize("name", FAILURES)
def test_same_refusals(pytorch, name, batch):
    ours = outcome(torch, FAILURES[name], torch.zeros(*batch, 3, 3, dtype=torch.float64))
    theirs = outcome(pytorch, FAILURES[name], pytorch.zeros(*batch, 3, 3, dtype=pytorch.float64))
    assert isinstance(ours, RuntimeError) and isinstance(theirs, RuntimeError), (ours, theirs)
    is_ours = isinstance(ours, linalg.LinAlgError)
    assert is_ours == isinstance(theirs, pytorch.linalg.LinAlgError)
    if is_ours:
        assert str(ours) == str(theirs)
    elif name not in ("chain", "order", "order_3", "integers", "integers_inv", "integers_norm"):
        assert first_words(ours)[:60] == first_words(theirs)[:60]


def test_errors_are_runtime_errors():
    assert issubclass(linalg.LinAlgError, RuntimeError)
    assert linalg.LinAlgError.__name__ == "LinAlgError"


def test_the_matrix_of_a_batch_is_named():
    batch = torch.stack([torch.eye(2), torch.eye(2), -torch.eye(2)])
    with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 2\).*order 1"):
        linalg.cholesky(batch)
    with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 1\)"):
        torch.vmap(linalg.inv)(torch.stack([torch.eye(2), zeros(2, 2).float()]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["cholesky", "inv", "det", "qr", "svd", "eigh", "svdvals", "pinv"])
def test_half_types(name, dtype):
    with pytest.raises(NotImplementedError, match=dtype):
        getattr(linalg, name)(torch.eye(2, dtype=getattr(torch, dtype)))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 9, 30])
@pytest.mark.parametrize("value", [NAN, INFINITY])
@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "batch"])
def test_what_is_not_finite(n, value, batch):
    a = torch.eye(n, dtype=torch.float64).expand(*batch, n, n).clone()
    a[..., n - 1, 0] = value
    for function in (linalg.eigh, linalg.eigvalsh, linalg.svd, linalg.svdvals, linalg.pinv):
        with pytest.raises(linalg.LinAlgError, match="failed to converge"):
            function(a)
    for function in (linalg.det, linalg.qr, linalg.lu_factor_ex, linalg.inv_ex, linalg.matrix_exp):
        function(a)
    linalg.solve_ex(a, a)
    linalg.solve_triangular(a, a, upper=False)
    for driver in ("gelsd", "gelss"):
        with pytest.raises(linalg.LinAlgError):
            linalg.lstsq(a, a, driver=driver)


def test_derivatives_that_there_are_not():
    a = torch.randn(3, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="mode='r'"):
        linalg.qr(a, mode="r").R.sum().backward()
    with pytest.raises(RuntimeError, match="nrows > ncols"):
        linalg.qr(a, mode="complete").Q.sum().backward()
    with pytest.raises(NotImplementedError, match="geqrf"):
        torch.geqrf(a)[0].sum().backward()
    with pytest.raises(NotImplementedError, match="ldl_factor"):
        linalg.ldl_factor(a @ a.mT)[0].sum().backward()


def test_pivots_from_elsewhere():
    a = torch.eye(3)
    for pivots in ([0, 1, 2], [1, 2, 4], [-1, 2, 3], [2**31 - 1, 1, 1]):
        bad = torch.tensor(pivots, dtype=torch.int32)
        with pytest.raises(RuntimeError, match="pivots"):
            linalg.lu_solve(a, bad, a)
        with pytest.raises(RuntimeError, match="pivots"):
            torch.lu_unpack(a, bad)
    with pytest.raises(RuntimeError, match="pivots"):
        linalg.ldl_solve(a, torch.tensor([9, 1, 1], dtype=torch.int32), a)
    with pytest.raises(RuntimeError, match="int32"):
        linalg.lu_solve(a, torch.tensor([1, 2, 3]), a)
