"""Indexing, gather and scatter on a CUDA device, against the CPU.

Sizes are those at which the kernels change their way: few values that meet are done by one block,
few index tuples by chains, small blocks by elements, large ones by rows. Many values meet in any
order, or are sorted where they must not.
"""

import pytest
from library import torch

from .comparing import compare

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
# How many values meet in how many places: some in one block, some in several tiles, all in one.
MEETINGS = [(5, 3), (1024, 50), (1025, 2000), (5000, 70000), (5000, 2)]


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def numbers(*sizes, dtype=torch.float32):
    return (torch.randn(*sizes) * 3).round().abs().to(dtype)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gather_along_any_dimension(dim):
    x, index = torch.randn(4, 5, 6), torch.randint(0, 4, (3, 4, 5))
    compare(lambda x, i: x.gather(dim, i), x, index)
    compare(lambda x, i: x.transpose(0, 2).gather(2 - dim, i.transpose(0, 2)), x, index)
    compare(lambda x, i: x.gather(dim, i[:, :1].expand(3, 4, 5)), x, index)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gather_of_dtypes(dtype):
    compare(
        lambda x, i: x.gather(0, i), numbers(3000, dtype=dtype), torch.randint(0, 3000, (2500,))
    )


@pytest.mark.parametrize("count, places", MEETINGS)
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce(count, places, reduce):
    source = torch.randn(count) * 0.1 + 1 if reduce == "prod" else torch.randn(count)
    index = torch.randint(0, places, (count,))
    x = torch.randn(places)

    def function(x, i, s):
        return x.detach().scatter_reduce(0, i, s.detach(), reduce)

    compare(function, x, index, source, units=512)


@pytest.mark.parametrize("count, places", MEETINGS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_last_of_equal_places_is_set(count, places, dtype, deterministic):
    x, source = numbers(places, dtype=dtype), numbers(count, dtype=dtype)
    compare(lambda x, i, s: x.scatter(0, i, s), x, torch.randint(0, places, (count,)), source)
    compare(lambda x, i, s: x.index_copy(0, i, s), x, torch.randint(0, places, (count,)), source)


@pytest.mark.parametrize("count", [900, 5000])
@pytest.mark.parametrize("dtype", (*DTYPES, torch.int32), ids=str)
def test_setting_in_any_order(count, dtype):
    """Of equal places any may stay; different ones all arrive."""
    x, source = numbers(2 * count, dtype=dtype), numbers(count, dtype=dtype)
    index = torch.randperm(2 * count)[:count]
    compare(lambda x, i, s: x.scatter(0, i, s), x, index, source)
    compare(lambda x, i, s: x.index_put((i - 2 * count,), s), x, index, source)
    equal = torch.zeros(count, dtype=torch.int64).cuda()
    kept = x.cuda().index_put((equal,), source.cuda())[0]
    assert (source.cuda() == kept).any()


@pytest.mark.parametrize("reduce", ["sum", "amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_integers_meet_in_any_order(dtype, reduce):
    limits = torch.iinfo(dtype)
    source = torch.randint(limits.min, limits.max, (5000,)).to(dtype)
    x, index = source[:9].clone(), torch.randint(0, 9, (5000,))
    compare(lambda x, i, s: x.scatter_reduce(0, i, s, reduce), x, index, source)
    compare(lambda x, i, s: x.index_add(0, i, s), x, index, source)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_in_one_order(dtype, deterministic):
    test_sums_of_dtypes(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_of_dtypes(dtype):
    x, source = numbers(40, dtype=dtype), numbers(2000, dtype=dtype)
    index = torch.randint(0, 40, (2000,))
    # The CPU rounds each sum to 16 bits.
    units = 2000 if dtype is torch.bfloat16 else 64
    compare(lambda x, i, s: x.scatter_add(0, i, s), x, index, source, units=units)
    compare(lambda x, i, s: x.index_put((i,), s, accumulate=True), x, index, source, units=units)


def test_scatter_of_a_matrix():
    x, source = torch.randn(30, 70), torch.randn(20, 60)
    for dim in (0, 1):
        index = torch.randint(0, 30, (20, 60))
        compare(lambda x, i, s: x.scatter_add(dim, i, s), x, index, source)  # noqa: B023
        compare(lambda x, i, s: x.t().scatter(dim, i, s), x, index.t()[:20, :20], source)  # noqa: B023


@pytest.mark.parametrize("tuples", [3, 256, 257, 900])
@pytest.mark.parametrize("block", [1, 3, 31, 32, 72, 200])
def test_rows_are_read_and_added(tuples, block, deterministic):
    table = torch.randn(50, block)
    index = torch.randint(-50, 50, (tuples,))
    compare(lambda x, i: x[i], table, index, units=256)
    compare(lambda x, i, s: x.index_put((i,), s), table, index, torch.randn(tuples, block))
    compare(lambda x, i: x.index_fill(0, i % 50, 2.5), table, index)


@pytest.mark.parametrize("block", [1, 31])
def test_rows_are_added_in_any_order(block):
    table, index = torch.randn(3, 50, block), torch.randint(-50, 50, (300,))
    compare(lambda x, i: x[:, i], table, index, units=256)


def test_many_equal_rows():
    """Runs of equal indices that a whole block adds up."""
    index = torch.cat([torch.full((700,), 3), torch.arange(50), torch.full((100,), 7)])
    for dtype in (torch.float32, torch.float64, torch.int64):
        source = (torch.randn(850, 40) * 8).to(dtype)
        compare(lambda x, i, s: x.index_add(0, i, s), source[:50], index, source, units=256)
        compare(lambda x, i, s: x.index_copy(0, i, s), source[:50], index, source)


def test_several_index_tensors():
    x = torch.randn(4, 5, 6, 7)
    a, b = torch.randint(-4, 4, (3, 1)), torch.randint(-5, 5, (1, 8))
    compare(lambda x, a, b: x[a, b], x, a, b, units=64)
    compare(lambda x, a, b: x[a, :, b], x, a, b, units=64)
    compare(lambda x, a, b: x[:, a, b], x.transpose(0, 1), a, b, units=64)
    compare(lambda x, a: x[..., a], x.transpose(0, 3), a, units=64)


def test_a_block_that_is_not_dense():
    x, source = torch.randn(3, 71, 40), torch.randn(3, 600, 71)
    index = torch.randint(0, 40, (600,))
    compare(lambda x, i, s: x.transpose(1, 2).index_add(1, i, s), x, index, source, units=64)
    compare(lambda x, i: x.transpose(1, 2).index_select(1, i), x, index, units=64)


def test_rows_that_are_not_aligned():
    x, index = torch.randn(33 * 8 + 1), torch.randint(0, 33, (300,))
    compare(lambda x, i: x[1:].view(33, 8)[i], x, index, units=64)
    compare(lambda x, i: x[:-1].view(33, 8)[:, 1:][i], x, index, units=64)


def test_nothing_to_do():
    none = torch.empty(0, dtype=torch.int64)
    compare(lambda x, i: x[i], torch.randn(4, 3), none)
    compare(lambda x, i: x.scatter_add(0, i, x[:0]), torch.randn(4), none)
    compare(lambda x, i: x.index_put((i,), x[:0]), torch.randn(4), none)


def test_sums_do_not_change_from_run_to_run(deterministic):
    index, source = torch.randint(0, 7, (5000,)).cuda(), torch.randn(5000).cuda()
    sums = [torch.zeros(7, device="cuda").scatter_add(0, index, source).cpu() for _ in range(3)]
    assert torch.equal(sums[0], sums[1]) and torch.equal(sums[0], sums[2])


# ---- masks


@pytest.mark.parametrize(
    "sizes", [(1,), (37,), (3, 5, 7), (4096,), (3, 16385), (0,), (4, 0)], ids=str
)
def test_masks(sizes):
    x = torch.randn(*sizes)
    mask = x > 0.3
    compare(torch.nonzero, mask)
    compare(torch.masked_select, x, mask)
    compare(lambda x, m: x.masked_fill(m, 2.5), x, mask)
    compare(lambda x, m: x.masked_scatter(m, x.flip(0)), x, mask)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_masks_of_dtypes(dtype):
    x = numbers(999, dtype=dtype)
    mask = torch.randn(999) > 0
    compare(lambda x, m: x[m], x, mask)
    compare(lambda x, m: x.masked_fill(m, 1), x, mask)
    compare(lambda x, m: x[1:].masked_fill(m[1:], 1), x, mask)  # not aligned
    compare(lambda x, m: x.masked_scatter(m, x.flip(0)), x, mask)
    compare(lambda x: torch.nonzero(x[1:]), x)


# ---- joining


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cat(dtype):
    a, b = numbers(4, 6, 5, dtype=dtype), numbers(4, 6, 5, dtype=dtype)
    for dim in (0, 1, 2):
        compare(lambda a, b: torch.cat([a, b[:, :6], a], dim), a, b)  # noqa: B023
        compare(lambda a, b: torch.cat([a.narrow(dim, 0, 3), b], dim), a, b)  # noqa: B023
        compare(lambda a, b: torch.stack([a, b], dim), a, b)  # noqa: B023


def test_cat_of_more_pieces_than_one_launch_takes():
    compare(lambda x: torch.cat([x[i : i + 1] for i in range(150)]), torch.randn(150, 3))
    compare(lambda x: torch.cat([x[:, :i] for i in range(20)], 1), torch.randn(7, 20))


@pytest.mark.parametrize("diagonal", [-9, -1, 0, 2, 9])
def test_triangles(diagonal):
    for x in (torch.randn(3, 5, 7), torch.randn(7, 5, 3).transpose(0, 2)):
        compare(lambda x: (x.tril(diagonal), x.triu(diagonal)), x)
    compare(lambda x: x.detach().clone().tril_(diagonal), torch.randn(40, 40))


def test_flips_and_repeats():
    x = torch.randn(5, 6, 7)
    compare(lambda x: (x.flip(0), x.flip(2), x.flip(0, 1, 2), x.roll(2, 1)), x)
    compare(lambda x, r: x.repeat_interleave(r, 0), x, torch.tensor([0, 2, 1, 0, 40]))
    counts = torch.randint(0, 4, (5000,))
    compare(lambda r: torch.repeat_interleave(r), counts)
    with pytest.raises(RuntimeError, match="negative"):
        torch.repeat_interleave(torch.tensor([1, -1]).cuda())


def test_gradients_of_views_that_overlap():
    compare(lambda x: x.unfold(0, 3, 1) * 1, torch.randn(20))
    compare(lambda x: x.unfold(0, 30, 7) * 1, torch.randn(900), units=64)
    compare(lambda x: x[1:5, ::2] * 1, torch.randn(7, 9))
    compare(torch.diag, torch.randn(6))


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "int64", "uint8", "bool"])
def test_creation(name):
    dtype = getattr(torch, name)

    def compare_made(make):
        compare(lambda x: make(device=x.device, dtype=dtype), torch.zeros(1))

    compare_made(lambda **options: torch.eye(3, 5, **options))
    if name == "bool":
        return
    for start, end, step in [(0, 20, 3), (10, 0, -2), (1.5, 9, 1.5)]:
        compare_made(lambda **options: torch.arange(start, end, step, **options))  # noqa: B023
    for steps in (0, 1, 2, 301):
        compare_made(lambda **options: torch.linspace(0, 5, steps, **options))  # noqa: B023
    compare_made(lambda **options: torch.logspace(0, 2, 5, **options))
