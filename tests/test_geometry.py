"""Ops on tensors of random geometry beside NumPy: kinds of views, broadcasts, sizes for threads.

The rows of op_db have small tensors, for the many things that are tested with each. Kernels cut,
fold and share work at sizes that only larger ones reach.
"""

import random

import numpy as np
import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the kernels under test are tapegrad's", allow_module_level=True)

SIZES = (1, 2, 3, 5, 17, 31, 64, 65, 70, 100, 127, 129, 200, 257)


class Geometry:
    """How a view of given sizes lies in its base: memory order, steps, parts, repetition."""

    KINDS = ("all", "all", "all", "step", "part")

    def __init__(self, choose, sizes, kinds=(*KINDS, "one")):
        self.order = choose.sample(range(len(sizes)), len(sizes))
        self.inner = tuple(sizes[self.order.index(d)] for d in range(len(sizes)))
        cuts = [self.cut(choose, size, choose.choice(kinds)) for size in self.inner]
        self.base, self.places = zip(*cuts, strict=True)

    @staticmethod
    def cut(choose, size, kind):
        """Return the size of a dimension of the base, and which of its places the view takes."""
        if kind == "step":
            first, step = choose.choice(((0, 2), (1, 2), (1, 3)))
            return size * step, slice(first, None, step)
        if kind == "part":
            before, behind = choose.choice(((1, 0), (0, 1), (2, 3)))
            return before + size + behind, slice(before, before + size)
        return 1 if kind == "one" else size, slice(None)

    def of_tensor(self, base):
        return base[self.places].expand(self.inner).permute(self.order)

    def of_array(self, base):
        part = base[self.places]
        repeated = part if part.shape == self.inner else np.broadcast_to(part, self.inner)
        return repeated.transpose(self.order)


class Case:
    """A random tensor, another that broadcasts to it, and a dimension."""

    def __init__(self, number):
        self.choose, self.numbers = random.Random(number), np.random.default_rng(number)
        self.rank = self.choose.choice((1, 2, 2, 3, 3, 4))
        while True:
            self.sizes = [self.choose.choice(SIZES) for _ in range(self.rank)]
            if np.prod(self.sizes) < 300_000:
                break
        self.dtype = self.choose.choice(("float32", "float64"))
        self.tolerance = 1e-3 if self.dtype == "float32" else 1e-9
        self.dim = self.choose.randrange(self.rank)
        self.x, self.a = self.view(self.sizes)
        self.y, self.b = self.view([s if self.choose.random() < 0.7 else 1 for s in self.sizes])

    def view(self, sizes):
        """Return a tensor of these sizes, some view of a larger or smaller one, and its array."""
        geometry = Geometry(self.choose, sizes)
        base = self.normal(geometry.base)
        return geometry.of_tensor(torch.tensor(base)), geometry.of_array(base)

    def normal(self, sizes):
        return self.numbers.standard_normal(sizes).astype(self.dtype)

    def check(self, name, result, expected, slack=1):
        tolerance = self.tolerance * slack
        size = max(1.0, np.abs(expected).max()) if expected.size else 1.0
        result = result.numpy()
        assert result.shape == expected.shape, name
        np.testing.assert_allclose(
            result, expected, rtol=tolerance, atol=tolerance * size, err_msg=name
        )


NUMBERS = range(80)


@pytest.mark.parametrize("number", NUMBERS)
def test_pointwise(number):
    case = Case(number)
    x, a, y, b = case.x, case.a, case.y, case.b
    case.check("add", x + y, a + b)
    case.check("mul", x * y - x, a * b - a)
    case.check("where", torch.where(x > y, x, y), np.where(a > b, a, b))
    case.check("tanh", torch.tanh(y) * x, np.tanh(b) * a)
    case.check("clone", x.clone(), a)
    case.check("contiguous", x.contiguous(), a)


@pytest.mark.parametrize("number", NUMBERS)
def test_along_a_dimension(number):
    case = Case(number)
    x, a, dim = case.x, case.a, case.dim
    shifted = a - a.max(dim, keepdims=True)
    sums = np.exp(shifted).sum(dim, keepdims=True)
    case.check("softmax", torch.softmax(x, dim), np.exp(shifted) / sums)
    case.check("log_softmax", torch.log_softmax(x, dim), shifted - np.log(sums))
    case.check("cumsum", torch.cumsum(x, dim), np.cumsum(a, dim))
    case.check("sort", torch.sort(x, dim)[0], np.sort(a, dim))
    case.check("argmax", x.argmax(dim), a.argmax(dim))
    case.check("flip", x.flip(dim), np.flip(a, dim))
    case.check("cat", torch.cat([x, x * 2], dim), np.concatenate([a, a * 2], dim))
    mean, variance = a.mean(dim, keepdims=True), a.var(dim, keepdims=True)
    normal = torch.nn.functional.layer_norm(x.transpose(dim, -1), (a.shape[dim],)).transpose(
        dim, -1
    )
    case.check("layer_norm", normal, (a - mean) / np.sqrt(variance + 1e-5), slack=10)


@pytest.mark.parametrize("number", NUMBERS)
def test_indexing(number):
    case = Case(number)
    x, a, dim = case.x, case.a, case.dim
    places = case.numbers.integers(0, a.shape[dim], (case.choose.choice((1, 3, 50)),))
    taken = np.take(a, places, dim)
    index = torch.tensor(places)
    case.check("index_select", torch.index_select(x, dim, index), taken)
    everywhere = case.numbers.integers(0, a.shape[dim], a.shape)
    gathered = torch.gather(x, dim, torch.tensor(everywhere))
    case.check("gather", gathered, np.take_along_axis(a, everywhere, dim))
    total = a.copy()
    np.add.at(np.moveaxis(total, dim, 0), places, np.moveaxis(taken, dim, 0))
    result = x.clone().index_add_(dim, index, torch.index_select(x, dim, index))
    case.check("index_add_", result, total)


@pytest.mark.parametrize("number", NUMBERS)
def test_products(number):
    case = Case(number)
    if case.rank < 2:
        return
    x, a = case.x, case.a
    columns = case.choose.choice(SIZES)
    batch = [s if case.choose.random() < 0.7 else 1 for s in case.sizes[:-2]]
    w, c = case.view([*batch, case.sizes[-1], columns])
    case.check("matmul", x @ w, a @ c)
    weight, array = case.view([columns, case.sizes[-1]])
    bias = case.numbers.standard_normal(columns).astype(case.dtype)
    product = torch.nn.functional.linear(x, weight, torch.tensor(bias))
    case.check("linear", product, a @ array.T + bias)


@pytest.mark.parametrize("number", NUMBERS)
def test_reductions(number):
    case = Case(number)
    x, a, dim = case.x, case.a, case.dim
    case.check("sum", x.sum(dim), a.sum(dim), slack=10)
    case.check("mean of all", x.mean(), np.mean(a, dtype="float64"))
    case.check("amax", x.amax(dim, keepdim=True), a.max(dim, keepdims=True))
    case.check("norm", x.norm(2, dim), np.sqrt(np.square(a).sum(dim)))
    case.check("any", (x > 1).any(dim), (a > 1).any(dim))
    middle = np.sort(a, dim).take((a.shape[dim] - 1) // 2, dim)
    case.check("median", x.median(dim).values, middle)
    if a.shape[dim] > 1:
        case.check("var", x.var(dim), a.var(dim, ddof=1))


@pytest.mark.parametrize("number", NUMBERS)
def test_writes_through_a_view(number):
    """The places of the base beside the view stay as they were."""
    case = Case(number)
    geometry = Geometry(case.choose, case.sizes, Geometry.KINDS)
    array = case.normal(geometry.base)
    base = torch.tensor(array)
    target, expected = geometry.of_tensor(base), geometry.of_array(array)
    x, a, y, b = case.x, case.a, case.y, case.b

    target.mul_(y)
    expected *= b
    case.check("mul_", base, array)
    target.addcmul_(x, y)
    expected += a * b
    case.check("addcmul_", base, array)
    torch.sub(x, y, out=target)
    expected[...] = a - b
    case.check("out=", base, array)
    target.masked_fill_(y > 0, 3)
    expected[np.broadcast_to(b > 0, expected.shape)] = 3
    case.check("masked_fill_", base, array)
    target.select(case.dim, 0).copy_(y.expand(x.shape).select(case.dim, 0))
    np.moveaxis(expected, case.dim, 0)[0] = np.moveaxis(np.broadcast_to(b, a.shape), case.dim, 0)[0]
    case.check("copy_", base, array)
    target.cumsum_(case.dim)
    expected[...] = np.cumsum(expected, case.dim)
    case.check("cumsum_", base, array)
    target.zero_()
    expected[...] = 0
    case.check("zero_", base, array)


@pytest.mark.parametrize("number", NUMBERS)
def test_gradients_reach_the_base(number):
    """As those of a copy do, put into the places of the base and added where one is repeated."""
    case = Case(number)
    geometry = Geometry(case.choose, case.sizes)
    base = torch.tensor(case.normal(geometry.base), requires_grad=True)
    view = geometry.of_tensor(base)
    copy = view.detach().contiguous().requires_grad_()
    for leaf, x in ((base, view), (copy, copy)):
        y = torch.softmax(x, case.dim) * case.y + torch.cumsum(torch.tanh(x), case.dim)
        (y * case.x).sum().backward()
        assert leaf.grad.shape == leaf.shape
    expected = np.zeros(geometry.base, dtype=case.dtype)
    inner = copy.grad.numpy().transpose(np.argsort(geometry.order))
    repeated = tuple(d for d in range(case.rank) if geometry.base[d] < geometry.inner[d])
    expected[geometry.places] = inner.sum(repeated, keepdims=True)
    case.check("gradient", base.grad, expected, slack=10)
