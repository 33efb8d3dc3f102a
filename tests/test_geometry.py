"""Ops on tensors of random geometry beside NumPy: memory orders, broadcasts, sizes for threads.

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
        """Return a tensor of these sizes in a random memory order, and the same as an array."""
        order = self.choose.sample(range(len(sizes)), len(sizes))
        base = [sizes[order.index(d)] for d in range(len(sizes))]
        array = self.numbers.standard_normal(base).astype(self.dtype)
        return torch.tensor(array).permute(order), array.transpose(order)

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
