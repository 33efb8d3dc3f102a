"""Ops on sparse tensors beside PyTorch's: over patterns, dtypes and layouts."""

import numpy as np
import pytest
from library import torch

from .cases import (
    IDS,
    MATRICES,
    MATRIX_IDS,
    PATTERNS,
    assert_alike,
    needs_pytorch,
    outcome,
    pytorch,
    random_tensor,
)

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")  # PyTorch's

UNARY = [
    "abs",
    "neg",
    "sqrt",
    "sin",
    "sinh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "tan",
    "tanh",
    "ceil",
    "floor",
    "round",
    "trunc",
    "sign",
    "sgn",
    "expm1",
    "log1p",
    "erf",
    "erfinv",
    "frac",
    "relu",
    "isnan",
    "isinf",
    "deg2rad",
    "rad2deg",
    "signbit",
    "nan_to_num",
    "isposinf",
    "isneginf",
]


def both(pattern, call, **options):
    """Return what both libraries give for one pattern."""
    return (
        call(torch, pattern.make(torch, **options)),
        call(pytorch, pattern.make(pytorch, **options)),
    )


@needs_pytorch
@pytest.mark.parametrize("pattern", PATTERNS, ids=IDS)
class TestPatterns:
    def test_to_dense_and_coalesce(self, pattern):
        assert_alike(*both(pattern, lambda L, x: x.coalesce()))
        if np.prod(pattern.shape) < 10**6:
            assert_alike(*both(pattern, lambda L, x: x.to_dense()))
        ours, theirs = both(pattern, lambda L, x: x.coalesce())
        assert ours.is_coalesced() and theirs.is_coalesced()
        assert ours.indices().tolist() == theirs.indices().tolist()
        np.testing.assert_allclose(ours.values().numpy(), theirs.values().numpy(), rtol=1e-12)

    def test_facts(self, pattern):
        for name in ("sparse_dim", "dense_dim", "_nnz", "is_coalesced", "dim", "numel", "size",
                     "element_size", "is_floating_point", "is_contiguous", "__len__"):  # fmt: skip
            ours, theirs = both(pattern, lambda L, x, name=name: getattr(x, name)())
            assert ours == theirs, name
        ours, theirs = both(pattern, lambda L, x: (x.is_sparse, x.is_sparse_csr, x.ndim, x.is_leaf))
        assert ours == theirs

    def test_prints_as_pytorch(self, pattern):
        for call in (
            lambda L, x: x,
            lambda L, x: x.coalesce(),
            lambda L, x: x.float().requires_grad_(),
            lambda L, x: x.long(),
        ):
            ours, theirs = both(pattern, call)
            assert repr(ours) == repr(theirs)

    @pytest.mark.parametrize("name", UNARY)
    def test_unary(self, pattern, name):
        assert_alike(*both(pattern, lambda L, x: getattr(x * 0.3, name)()))
        assert_alike(*both(pattern, lambda L, x: getattr(L, name)(x * 0.3)))

    def test_numbers(self, pattern):
        for call in (
            lambda L, x: x * 2.5,
            lambda L, x: 2.5 * x,
            lambda L, x: x / 2,
            lambda L, x: x * L.tensor(2.0),
            lambda L, x: x / L.tensor(4),
            lambda L, x: x**2,
            lambda L, x: x.pow(3),
            lambda L, x: x // 0.3,
            lambda L, x: x.div(0.3, rounding_mode="floor"),
            lambda L, x: -x,
            lambda L, x: abs(x),
        ):
            assert_alike(*both(pattern, call))

    def test_sums(self, pattern):
        for call in (
            lambda L, x: x + x,
            lambda L, x: x - pattern.make(L, seed=5),
            lambda L, x: L.add(x, pattern.make(L, seed=5), alpha=3),
            lambda L, x: x.coalesce() + pattern.make(L, seed=5).coalesce(),
            lambda L, x: x.sum(),
            lambda L, x: L.sparse.sum(x, -1),
            lambda L, x: L.sparse.sum(x, 0),
            lambda L, x: L.sparse.sum(x, tuple(range(x.dim()))),
            lambda L, x: L.sparse.sum(x.int(), 0, dtype=L.float32),
            lambda L, x: x.norm(),
        ):
            assert_alike(*both(pattern, call))

    def test_with_dense(self, pattern):
        if np.prod(pattern.shape) > 10**6:
            pytest.skip("too large to be dense")
        for call in (
            lambda L, x: random_tensor(L, *pattern.shape) + x,
            lambda L, x: random_tensor(L, *pattern.shape) - x,
            lambda L, x: L.add(random_tensor(L, *pattern.shape), x, alpha=-2),
            lambda L, x: random_tensor(L, *pattern.shape).add_(x, alpha=2),
            lambda L, x: (
                random_tensor(L, *pattern.shape).t().contiguous().t().add_(x)
                if len(pattern.shape) == 2
                else x
            ),
            lambda L, x: x * random_tensor(L, *pattern.shape),
            lambda L, x: random_tensor(L, *pattern.shape) * x,
            lambda L, x: random_tensor(L, *pattern.shape).sparse_mask(x.coalesce()),
            lambda L, x: random_tensor(L, *pattern.shape).to_sparse(),
            lambda L, x: random_tensor(L, *pattern.shape).to_sparse(1),
        ):
            assert_alike(*both(pattern, call))

    def test_products_of_sparse(self, pattern):
        assert_alike(*both(pattern, lambda L, x: x.coalesce() * pattern.make(L, seed=3).coalesce()))

    def test_shapes(self, pattern):
        calls = [
            lambda L, x: x.unsqueeze(0),
            lambda L, x: x.unsqueeze(-1),
            lambda L, x: L.cat([x, pattern.make(L, seed=2)]),
            lambda L, x: L.cat([x, x], -1),
            lambda L, x: L.stack([x, x]),
            lambda L, x: x.index_select(0, L.tensor([0, 0])) if pattern.shape[0] else x,
            lambda L, x: x.index_select(-1, L.tensor([1, 0, 1])),
            lambda L, x: x.select(-1, 1),
            lambda L, x: x[0] if pattern.shape[0] else x,
            lambda L, x: x[..., -1],
            lambda L, x: x[None],
            lambda L, x: x.narrow_copy(-1, 1, 1),
            lambda L, x: x.clone(),
            lambda L, x: x.detach(),
            lambda L, x: L.zeros_like(x),
            lambda L, x: x.float(),
            lambda L, x: x.to(L.complex128),
            lambda L, x: x.type_as(L.zeros(1)),
            lambda L, x: x.new_zeros(3, 2),
        ]
        if len(pattern.shape) == 2 and pattern.dense == 0:
            calls += [lambda L, x: x.t(), lambda L, x: x.T, lambda L, x: x.permute(1, 0)]
        for number, call in enumerate(calls):
            ours, theirs = (outcome(call, L, pattern.make(L)) for L in (torch, pytorch))
            if isinstance(theirs, Exception):
                if not isinstance(ours, Exception):
                    continue  # here it has an answer, which other tests compare
                assert isinstance(ours, (RuntimeError, IndexError)), number
                continue
            assert not isinstance(ours, Exception), (number, ours)
            assert_alike(ours, theirs)

    def test_softmax(self, pattern):
        for dim in range(len(pattern.shape)):
            for name in ("softmax", "log_softmax"):
                assert_alike(
                    *both(pattern, lambda L, x: getattr(L.sparse, name)(x, dim))  # noqa: B023
                )

    def test_inplace(self, pattern):
        def written(L, write):
            x = pattern.make(L).coalesce()
            y = write(L, x)
            assert y is x
            return y

        for write in (
            lambda L, x: x.mul_(2),
            lambda L, x: x.div_(3),
            lambda L, x: x.neg_(),
            lambda L, x: x.add_(pattern.make(L, seed=4)),
            lambda L, x: x.sub_(pattern.make(L, seed=4), alpha=2),
            lambda L, x: x.zero_(),
            lambda L, x: x.sin_(),
            lambda L, x: x.copy_(pattern.make(L, seed=4)),
            lambda L, x: x.mul_(pattern.make(L, seed=4).coalesce()),
        ):
            assert_alike(written(torch, write), written(pytorch, write))


@needs_pytorch
@pytest.mark.parametrize("pattern", MATRICES, ids=MATRIX_IDS)
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc"])
class TestProducts:
    def made(self, L, pattern, layout, **options):
        x = pattern.make(L, **options)
        return x if layout == "sparse_coo" else x.to_sparse(layout=getattr(L, layout))

    def compare(self, pattern, layout, call):
        results = []
        for L in (torch, pytorch):
            x = self.made(L, pattern, layout)
            rows, columns = pattern.shape
            if columns > 10**6:
                pytest.skip("too large to be dense")
            results.append(
                call(L, x, random_tensor(L, columns, 3), random_tensor(L, 3, rows, seed=2))
            )
        assert_alike(*results)

    def test_with_dense(self, pattern, layout):
        for call in (
            lambda L, x, right, left: x @ right,
            lambda L, x, right, left: L.mm(x, right),
            lambda L, x, right, left: L.matmul(x, right),
            lambda L, x, right, left: L.sparse.mm(x, right),
            lambda L, x, right, left: L.spmm(x, right),
            lambda L, x, right, left: x @ right[:, 0],
            lambda L, x, right, left: L.mv(x, right[:, 1]),
            lambda L, x, right, left: left @ x,
            lambda L, x, right, left: L.addmm(L.ones(x.shape[0], 3).double(), x, right),
            lambda L, x, right, left: L.sparse.addmm(
                L.ones(x.shape[0], 3).double(), x, right, beta=2, alpha=3
            ),
            lambda L, x, right, left: x @ right.t().contiguous().t(),
        ):
            self.compare(pattern, layout, call)

    def test_of_both_sparse(self, pattern, layout):
        if layout == "sparse_csc" or pattern.shape[0] == 0:
            pytest.skip("PyTorch has no such product")
        results = []
        for L in (torch, pytorch):
            x = self.made(L, pattern, layout)
            y = pattern.make(L, seed=7).t()
            y = y.to_sparse_csr() if layout == "sparse_csr" else y
            results.append(x @ y)
        assert_alike(*results)

    def test_conversions(self, pattern, layout):
        for call in (
            lambda L, x: x.to_sparse_csr(),
            lambda L, x: x.to_sparse_csc(),
            lambda L, x: x.to_sparse(),
            lambda L, x: x.t(),
            lambda L, x: x * 2,
            lambda L, x: -x,
            lambda L, x: x.sum(),
            lambda L, x: x.float(),
            lambda L, x: x.clone(),
        ):
            assert_alike(*(call(L, self.made(L, pattern, layout)) for L in (torch, pytorch)))

    def test_prints_as_pytorch(self, pattern, layout):
        ours, theirs = (self.made(L, pattern, layout) for L in (torch, pytorch))
        assert repr(ours) == repr(theirs)


DTYPES = [
    "float32",
    "float64",
    "complex64",
    "complex128",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
]


@needs_pytorch
@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_dtypes(dtype):
    pattern = PATTERNS[0]
    tolerance = 1e-5 if dtype in ("float32", "complex64") else 1e-12
    for call in (
        lambda L, x, y: x @ y,
        lambda L, x, y: x + x,
        lambda L, x, y: x.coalesce(),
        lambda L, x, y: x * 2,
        lambda L, x, y: x.sum(),
    ):
        results = []
        for L in (torch, pytorch):
            x = pattern.make(L, dtype="int64" if dtype == "uint8" else dtype).abs()
            if dtype == "uint8":
                x = x.to(L.uint8)
            elif dtype.startswith("complex"):
                x = pattern.make(L, dtype=dtype)
            kind = "int64" if dtype == "uint8" else dtype
            right = random_tensor(L, 5, 70, dtype=kind)
            results.append(call(L, x, right.abs().to(x.dtype) if dtype == "uint8" else right))
        assert_alike(*results, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_products_are_summed_in_float(dtype):
    dtype = getattr(torch, dtype)
    ones = torch.ones(1, 4096, dtype=dtype)
    x = ones.to_sparse()
    assert float(x @ ones.t()) == 4096
    assert (x @ ones.t()).dtype is dtype


@pytest.mark.parametrize("threads", [1, 3])
def test_products_do_not_depend_on_threads(threads):
    rng = np.random.default_rng(0)
    before = torch.get_num_threads()
    x = torch.sparse_coo_tensor(
        torch.tensor(rng.integers(0, 500, (2, 20000))), torch.tensor(rng.normal(size=20000)),
        (500, 500),
    )  # fmt: skip
    dense = torch.tensor(rng.normal(size=(500, 37)))
    try:
        torch.set_num_threads(threads)
        found = x @ dense
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(found.numpy(), x.to_dense().numpy() @ dense.numpy(), atol=1e-10)
    assert torch.equal(found, x @ dense)
