"""Calls in which the comparisons of this folder found differences: both libraries give the same."""

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

if IS_TORCH or pytorch_for_parity()[0] is None:
    pytest.skip(pytorch_for_parity()[1] or "nothing to compare", allow_module_level=True)

from parity.compare import Refused, Rule, attempt, difference
from parity.pytorch_ops import pytorch

CALLS = (
    # resize_ to the sizes that a tensor has keeps its strides
    "x.t().resize_(4, 3)", "x.t().resize_as_(t.zeros(4, 3))", "x.t().resize_(4, 3).stride()",
    "x.t().resize_(3, 4).stride()", "x.t().clone().resize_(2)", "x.requires_grad_().resize_(3, 4)",
    # complex numbers
    "t.linalg.vecdot(z, z + 1j)", "t.linalg.vecdot(z, z + 1j, dim=0)", "t.linalg.vander(z[0])",
    "t.nn.functional.silu(z)", "i.masked_fill(i > 2, t.tensor(1j))", "x.masked_fill(x > 2, 1j)",
    "x.index_fill(0, t.tensor([0]), t.tensor(1j))", "z.masked_fill(z.real > 2, 1j)",
    "t.nn.functional.conv1d(z[None], z.reshape(2, 3, 2))",
    "t.nn.functional.conv1d(z[None], z.reshape(2, 3, 2), z[0, :2], stride=2, padding=1)",
    "t.nn.functional.conv2d(z[None, None], z[None, None, :2, :2], groups=1)",
    "t.nn.functional.conv_transpose1d(z[None], z.reshape(3, 2, 2), z[0, :2])",
    "t.nn.functional.conv1d(z[None], x[None])",
    # results and refusals
    "[a.clone() for a in t.unravel_index(t.tensor([1, 5], dtype=t.uint8), (2, 3))]",
    "t.unravel_index(t.tensor([1j]), (2, 3))", "t.gradient(x, spacing=None)",
    "t.linalg.vander(t.tensor(2.0), N=3)", "t.linalg.matrix_norm(t.zeros(0, 5), 2)",
    "t.linalg.norm(t.zeros(0, 5), 2, keepdim=True)", "t.linalg.matrix_norm(t.zeros(2, 0, 5), 1)",
    "t.linalg.matrix_norm(t.zeros(0, 5), -2)", "t.tensor(2.0).mT", "t.tensor(2.0).mH", "x[0].mT",
    "t.gather(x[0], 0, t.zeros(0, dtype=t.uint8))", "t.gather(x[0], 0, t.ones(1, dtype=t.uint8))",
    "+t.tensor(True)", "+i", "t.norm(x, 'nuc')", "x.norm('nuc')", "t.norm(x, 'nuc', keepdim=True)",
    "t.norm(x.reshape(2, 2, 3), 'nuc', (0, 2))", "t.norm(x.reshape(2, 2, 3), 'nuc')",
    "t.norm(x, 'nuc', (0, 0))", "t.norm(x, 'nuc', dtype=t.float64)", "t.norm(x[0], 'nuc')",
    "t.max(i, out=t.empty(0))", "t.min(i, out=t.empty(0))", "t.angle(x, out=t.empty(0).double())",
    "t.max(x, out=t.empty(0, dtype=t.int64))", "t.diag_embed(x, dim1=0, dim2=1)",
    "t.diag_embed(x, 1, 0, 2)", "t.nn.functional.adaptive_avg_pool1d(x, -1)",
    "t.nn.functional.adaptive_max_pool2d(x[None], (-1, 2))",
    "t.nn.functional.adaptive_avg_pool2d(x[None], (None, 2))",
    "t.nn.functional.triplet_margin_loss(x, x, x + 1, margin=0)",
    "t.nn.functional.gaussian_nll_loss(x, x + 1, t.ones(1, 4))",
    "t.nn.functional.gaussian_nll_loss(x, x + 1, t.ones(3, 1))",
    "t.nn.functional.gaussian_nll_loss(x, x + 1, t.ones(1, 1))",
    "t.nn.functional.fractional_max_pool3d(t.arange(64.0).reshape(1, 4, 4, 4), 2, output_size=2,"
    " _random_samples=t.full((2, 1, 3), 0.5))",
    "t.fill(x.requires_grad_(), 2.0).requires_grad",
    # names of parameters
    "x.copy_(other=x + 1)", "x.copy_(src=x)", "x.map_(other=x, callable=lambda a, b: a + b)",
    "t.cholesky_solve(x[:3, :3], input2=t.eye(3))", "t.cholesky_inverse(input=t.eye(3))",
    "t.lu_solve(input=x[:3, :1], LU_data=t.eye(3), LU_pivots=t.tensor([1, 2, 3]).int())",
    "t.orgqr(t.eye(3), input2=t.ones(3))", "t.ormqr(t.eye(3), input2=t.ones(3), input3=t.eye(3))",
    "t.triangular_solve(input=x[:3, :1], A=t.eye(3)).solution", "t.hsplit(x, sections=2)",
    "t.hsplit(x, indices=(1, 2))", "x.hsplit(1, 3)", "x.vsplit(1, 2)", "x[None].dsplit(2)",
    "t.hsplit(x)", "t.vsplit(x, 2, sections=3)", "t.histogram(x).hist.shape",
    "t.histogramdd(x[:, :2], [2, 3], [0.0, 9, 1, 8]).hist",
    "t.tril_indices(2, 3, layout=t.strided, pin_memory=False)",
    "t.triu_indices(2, 3, dtype=t.int32)", "t.tril_indices(2, 2, requires_grad=True)",
    "t.nn.functional.max_pool1d_with_indices(x, 2)",
    # copies of views
    "t.alias_copy(x.t())", "t.as_strided_copy(x, (2, 2), (1, 2), 1)", "t.detach_copy(x)",
    "t.diagonal_copy(x, 1)", "t.expand_copy(x[:, :1], (3, 5))", "t.narrow_copy(x, 1, 1, 2)",
    "t.permute_copy(x, (1, 0))", "t.select_copy(x, 1, 2)", "t.slice_copy(x, 1, 0, None, 2)",
    "t.slice_copy(x, 0, -2)", "t.split_copy(x, 2)", "t.split_with_sizes_copy(x, [1, 2])",
    "t.squeeze_copy(x[None])", "t.squeeze_copy(x[None], 0)", "t.t_copy(x)",
    "t.transpose_copy(x, 0, 1)", "t.unbind_copy(x, 1)", "t.unfold_copy(x, 1, 2, 1)",
    "t.unsqueeze_copy(x, 1)", "t.view_as_complex_copy(x.reshape(6, 2))",
    "t.view_as_real_copy(z)", "t.view_copy(x, (4, 3))",
    "t.view_copy(x.t(), (2, 6))", "t.view_copy(x, t.int32)",
    "t.permute_copy(x, (1, 0), out=t.empty(0))", "t.slice_copy(x, 0, 0, 2, 0)",
    "t.empty_permuted((2, 3, 4), (0, 2, 1)).stride()", "t.empty_permuted((2, 3), (0,))",
    "t.empty_permuted((2, 3), (0, 0))",
)  # fmt: skip


def evaluate(text, t):
    names = {
        "t": t,
        "x": t.arange(12.0).reshape(3, 4),
        "i": t.arange(12).reshape(3, 4),
        "z": t.complex(t.arange(12.0).reshape(3, 4), t.ones(3, 4)),
    }
    return eval(text, names)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", CALLS)
def test_call(text):
    ours, theirs = (attempt(lambda t=t: evaluate(text, t)) for t in (torch, pytorch))
    if "empty_permuted" in text and not isinstance(theirs, Refused):
        assert ours == theirs
    else:
        found = difference(ours, theirs, Rule(factor=1))
        assert not found, found


def gradients(text, t, value):
    x = t.tensor(value, dtype=t.float64, requires_grad=True)
    (first,) = t.autograd.grad((eval(text, {"t": t, "x": x}) ** 2).sum(), x, create_graph=True)
    return first.detach(), t.autograd.grad(first.sum(), x)[0]


@pytest.mark.parametrize(
    ("text", "value"),
    (
        ("t.logcumsumexp(x, 0)", [10000.0, 9999.0, 3.0]),
        ("t.logcumsumexp(x, 0)", [-10000.0, 9999.0, 3.0]),
        ("t.logcumsumexp(x, 0)", [1.0, float("-inf"), 3.0]),
        ("t.norm(x, 'nuc')", [[1.0, 2.0], [3.0, 5.0]]),
        ("t.permute_copy(x, (1, 0))", [[1.0, 2.0]]),
        ("t.slice_copy(x, 0, 1)", [1.0, 2.0, 3.0]),
        ("t.diag_embed(x, dim1=0, dim2=1)", [[1.0, 2.0]]),
        (
            "t.view_as_real(t.nn.functional.conv1d(t.complex(x, x)[None], "
            "t.complex(x, 1 - x)[None]))",
            [[1.0, -2.0]],
        ),
    ),
)
def test_gradients(text, value):
    ours, theirs = gradients(text, torch, value), gradients(text, pytorch, value)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.tolist(), other.tolist(), rtol=1e-7, atol=1e-9)


def test_gradients_of_complex_silu():
    """Which PyTorch does not have."""
    z = torch.tensor([1 + 2j, -0.5j, 3.0], dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(torch.nn.functional.silu, z)
    assert torch.autograd.gradgradcheck(torch.nn.functional.silu, z)


def test_former_name_of_grad_tensors():
    x = torch.ones(2, requires_grad=True)
    with pytest.warns(FutureWarning, match="grad_variables"):
        torch.autograd.backward([x * 2], grad_variables=[torch.ones(2)])
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="both passed"):
        torch.autograd.backward([x], [torch.ones(2)], grad_variables=[torch.ones(2)])


def test_names_that_load_later():
    assert torch.GradScaler is torch.amp.GradScaler
    assert torch.wait(torch.fork(lambda a: a + 1, 2)) == 3
    with pytest.raises(AttributeError, match="nothing_copy"):
        _ = torch.nothing_copy
