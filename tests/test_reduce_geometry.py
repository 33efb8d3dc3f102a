"""Reductions of tensors that are large enough for threads, in every memory order.

Small tensors, which the rows of op_db have, go through one block on one thread; here sizes lie
around the widths at which the driver cuts, folds narrow rows, or shares a line between threads.
"""

import random

import numpy as np
import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the driver under test is tapegrad's", allow_module_level=True)

SIZES = (1, 2, 3, 7, 31, 63, 64, 65, 70, 100, 127, 128, 129, 200, 255, 257, 300)
REDUCTIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "amax": np.max,
    "amin": np.min,
    "var": lambda x, axis: np.var(x, axis=axis, ddof=1),
    "logsumexp": lambda x, axis: np.log(np.sum(np.exp(x), axis=axis)),
}


def random_case(number):
    """A view of an array, its dimensions permuted and some cut, and reduced dimensions."""
    choose = random.Random(number)
    rank = choose.choice((2, 3, 3, 4))
    while True:
        sizes = [choose.choice(SIZES) for _ in range(rank)]
        if 30_000 < np.prod(sizes) < 400_000:
            break
    array = np.random.default_rng(number).standard_normal(sizes)
    cut = [slice(None)] * rank
    if choose.random() < 0.3:
        dim = choose.randrange(rank)
        cut[dim] = slice(0, None, 2) if choose.random() < 0.5 else slice(0, max(1, sizes[dim] - 1))
    order = choose.sample(range(rank), rank)
    dims = sorted(choose.sample(range(rank), choose.randint(1, rank)))
    return array, tuple(cut), order, tuple(dims)


@pytest.mark.parametrize("number", range(150))
def test_against_numpy(number):
    array, cut, order, dims = random_case(number)
    for dtype, tolerance in (("float64", 1e-10), ("float32", 2e-4)):
        x = torch.tensor(array.astype(dtype))[cut].permute(order)
        y = array[cut].transpose(order)
        if np.prod([y.shape[d] for d in dims]) < 2:
            continue  # no variance
        for name, reference in REDUCTIONS.items():
            result, expected = getattr(torch, name)(x, dims).numpy(), reference(y, axis=dims)
            np.testing.assert_allclose(
                result, expected, rtol=tolerance, atol=tolerance * np.sqrt(y.size), err_msg=name
            )


def test_rows_that_are_left_over_by_folding():
    """After the first of several blocks some columns have seen a row more than others."""
    array = np.random.default_rng(0).standard_normal((257, 129, 3))
    x = torch.tensor(array).permute(1, 2, 0)
    np.testing.assert_allclose(x.var((0, 2)).numpy(), array.var((0, 1), ddof=1), rtol=1e-10)


@pytest.mark.parametrize("columns", [65, 70, 96, 127])
def test_columns_that_are_folded(columns):
    """Many matrices with narrow rows: a thread takes whole rows, never a part of several."""
    x = torch.arange(8 * 70 * columns, dtype=torch.float64).reshape(8, 70, columns)
    expected = np.arange(8 * 70 * columns, dtype="float64").reshape(8, 70, columns)
    assert np.array_equal(x.sum(1).numpy(), expected.sum(1))
    assert np.array_equal(x.mT.sum(-1).numpy(), expected.sum(1))
    values, places = x.max(1)
    assert np.array_equal(values.numpy(), expected.max(1))
    assert np.array_equal(places.numpy(), expected.argmax(1))
