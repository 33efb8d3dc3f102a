"""Gradients through sparse tensors: finite differences of the values, and PyTorch's own."""

import numpy as np
import pytest
from library import torch

from .cases import (
    IDS,
    MATRICES,
    PATTERNS,
    dense_of,
    needs_pytorch,
    pytorch,
    random_array,
    random_tensor,
)

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")  # PyTorch's
SMALL = [p for p in PATTERNS if 0 < np.prod(p.shape) < 1000 and p.terms > 0]
SMALL_IDS = [p.name for p in SMALL]
SMALL_MATRICES = [p for p in SMALL if p in MATRICES]


def built(pattern):
    """Return a function from values to a sparse tensor, and values that require a gradient."""
    indices, values = pattern.arrays(seed=3)
    places = torch.tensor(indices.tolist(), dtype=torch.int64).reshape(indices.shape)
    flag = True if pattern.coalesced else None
    return (
        lambda v: torch.sparse_coo_tensor(places, v, pattern.shape, is_coalesced=flag),
        torch.tensor(values * 0.4 + 0.05, requires_grad=True),
    )


FUNCTIONS = {
    "to_dense": lambda x: x.to_dense(),
    "coalesce": lambda x: x.coalesce().values(),
    "sin": lambda x: x.sin().to_dense(),
    "pow": lambda x: (x**3).to_dense(),
    "number": lambda x: (x * 3 / 2 - x).to_dense(),
    "self_product": lambda x: (x.coalesce() * x.coalesce()).to_dense(),
    "sum": lambda x: x.sum(),
    "sum_dim": lambda x: torch.sparse.sum(x, 0),
    "softmax": lambda x: torch.sparse.softmax(x, 0).to_dense(),
    "log_softmax": lambda x: torch.sparse.log_softmax(x, -1).coalesce().values(),
    "norm": lambda x: x.norm(),
    "cat": lambda x: torch.cat([x, x * 2]).to_dense(),
    "select": lambda x: x.select(0, 1),
    "index_select": lambda x: x.index_select(0, torch.tensor([1, 0, 1])).to_dense(),
    "plus_dense": lambda x: random_tensor(torch, *x.shape) + x,
    "times_dense": lambda x: (x * random_tensor(torch, *x.shape)).to_dense(),
    "mask": lambda x: x.to_dense().sin().sparse_mask(x.detach().coalesce()).to_dense(),
}


def as_dense(x):
    return x if x.layout is torch.strided else x.to_dense()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("pattern", SMALL, ids=SMALL_IDS)
def test_gradcheck_of_values(pattern, name):
    if name == "select" and pattern.shape[0] < 2:
        pytest.skip("one row")
    make, values = built(pattern)
    function = lambda v: as_dense(FUNCTIONS[name](make(v)))  # noqa: E731
    assert torch.autograd.gradcheck(function, [values])
    assert torch.autograd.gradgradcheck(function, [values], fast_mode=True)


PRODUCTS = {
    "mm": lambda x, right, left: x @ right,
    "left": lambda x, right, left: left @ x,
    "mv": lambda x, right, left: x @ right[:, 0],
    "addmm": lambda x, right, left: torch.sparse.addmm(left.t(), x, right, alpha=2),
    "sparse": lambda x, right, left: (x @ (x * 2).t()).to_dense(),
    "transposed": lambda x, right, left: x.t() @ left.t(),
    "linear": lambda x, right, left: torch.nn.functional.linear(right.t(), x),
    "smm": lambda x, right, left: torch.smm(x, right).to_dense(),
    "hspmm": lambda x, right, left: torch.hspmm(x, right).to_dense(),
}


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc"])
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("pattern", SMALL_MATRICES, ids=[p.name for p in SMALL_MATRICES])
def test_gradcheck_of_products(pattern, name, layout):
    make, values = built(pattern)
    right = torch.tensor(random_array(pattern.shape[1], 3), requires_grad=True)
    left = torch.tensor(random_array(3, pattern.shape[0], seed=2), requires_grad=True)

    def function(v, right, left):
        x = make(v)
        x = x if layout == "sparse_coo" else x.to_sparse(layout=getattr(torch, layout))
        return PRODUCTS[name](x, right, left)

    if right.shape[0] > 1000:
        pytest.skip("too many columns for finite differences")
    assert torch.autograd.gradcheck(function, [values, right, left])
    assert torch.autograd.gradgradcheck(function, [values, right, left], fast_mode=True)


def test_complex_products():
    make, _ = built(PATTERNS[0])
    values = torch.tensor(random_array(7, dtype="complex128"), requires_grad=True)
    right = torch.tensor(random_array(5, 3, dtype="complex128"), requires_grad=True)
    function = lambda v, r: make(v) @ r  # noqa: E731
    assert torch.autograd.gradcheck(function, [values, right])
    assert torch.autograd.gradgradcheck(function, [values, right], fast_mode=True)


@needs_pytorch
@pytest.mark.parametrize("pattern", SMALL_MATRICES, ids=[p.name for p in SMALL_MATRICES])
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_gradients_of_sparse_leaves_are_those_of_pytorch(pattern, layout):
    found = []
    for L in (torch, pytorch):
        x = pattern.make(L).coalesce()
        x = (x if layout == "sparse_coo" else x.to_sparse_csr()).requires_grad_()
        right = random_tensor(L, pattern.shape[1], 3).requires_grad_()
        y = L.sparse.mm(x, right)
        (y * random_tensor(L, *y.shape, seed=9)).sum().backward()
        found.append((x.grad, right.grad))
    (ours, ours_right), (theirs, theirs_right) = found
    assert str(ours.layout) == str(theirs.layout)
    np.testing.assert_allclose(dense_of(ours), dense_of(theirs), rtol=1e-10)
    np.testing.assert_allclose(dense_of(ours_right), dense_of(theirs_right), rtol=1e-10)


@needs_pytorch
@pytest.mark.parametrize("pattern", PATTERNS, ids=IDS)
def test_values_get_the_gradients_of_pytorch(pattern):
    found = []
    for L in (torch, pytorch):
        indices, values = pattern.arrays()
        v = L.tensor(values.tolist(), dtype=L.float64).reshape(values.shape).requires_grad_()
        places = L.tensor(indices.tolist(), dtype=L.int64).reshape(indices.shape)
        x = L.sparse_coo_tensor(places, v, pattern.shape)
        (x.coalesce() * 3).sum().backward()
        found.append(v.grad.numpy())
    np.testing.assert_allclose(*found)


def test_gradients_of_leaves_add_up_and_terms_share_them():
    x = torch.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], [1.0, 2.0, 3.0], (2, 2)).requires_grad_()
    for _ in range(2):
        (x @ torch.eye(2)).sum().backward()
    assert x.grad.to_dense().tolist() == [[0, 2], [2, 0]]
    assert x.grad.layout is torch.sparse_coo
    x.grad = None
    (x.to_dense() * torch.tensor([[5.0, 7.0], [11.0, 13.0]])).sum().backward()
    assert x.grad.to_dense().tolist() == [[0, 7], [11, 0]]


def test_grad_and_hooks_of_sparse_tensors():
    x = torch.eye(3).to_sparse().requires_grad_()
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.layout) or g * 10)
    z = (y @ torch.ones(3, 1)).sum()
    (grad,) = torch.autograd.grad(z, [x], retain_graph=True)
    assert grad.to_dense().tolist() == (20 * torch.eye(3)).tolist()
    assert seen == [torch.sparse_coo]
    (dense,) = torch.autograd.grad(y, [x], grad_outputs=[torch.ones(3, 3).sparse_mask(x.detach())])
    assert dense.to_dense().tolist() == (20 * torch.eye(3)).tolist()


def test_a_function_may_save_and_return_sparse_tensors():
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, indices, values, shape, b):
            a = torch.sparse_coo_tensor(indices, values, shape)
            ctx.save_for_backward(a, b)
            ctx.rows = shape[0]
            return torch.matmul(a, b)

        @staticmethod
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            dense = grad.matmul(b.t())
            edge = a._indices()[0, :] * ctx.rows + a._indices()[1, :]
            return None, dense.view(-1)[edge], None, a.t().matmul(grad)

    indices = torch.tensor([[0, 1, 2], [2, 0, 2]])
    values = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor(random_array(3, 2), requires_grad=True)
    run = lambda v, b: Product.apply(indices, v, torch.Size([3, 3]), b)  # noqa: E731
    assert torch.autograd.gradcheck(run, [values, b])

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = torch.eye(2).to_sparse().requires_grad_()
    y = Scaled.apply(x)
    assert y.layout is torch.sparse_coo and y.requires_grad
    y.sum().backward()
    assert x.grad.to_dense().tolist() == [[2, 0], [0, 2]]


def test_forward_mode_is_refused():
    x = torch.eye(2).to_sparse()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(2), torch.ones(2))
        with pytest.raises(NotImplementedError, match="forward mode: sparse tensors"):
            torch.sparse_coo_tensor([[0, 1]], dual, (2,)) * dual.sum()
            (x * dual).to_dense()
