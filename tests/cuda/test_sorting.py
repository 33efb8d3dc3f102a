"""Sorting, searching and counting on a CUDA device, against the CPU.

Rows of up to 2,048 elements are sorted by one block, longer ones by radix.
"""

import pytest
from library import torch

from .comparing import compare

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8")
ROWS = [(1,), (2, 3), (40, 33), (3, 1000), (2, 2048), (2, 2049), (9001,)]
LONG_ROWS_OF = ("float32", "float64", "int64", "uint8")  # the emulator is slow


def numbers(sizes, name):
    """Numbers of which many are equal; floating ones with NaN, infinities and both zeros."""
    dtype = getattr(torch, name)
    x = (torch.randn(sizes) * 20).round() / 2
    if dtype.is_floating_point and x.numel() > 6:
        special = ["inf", "nan", "nan", "-0.0", "0.0", "-inf"]
        x.view(-1)[:6] = torch.tensor([float(text) for text in special])
    return x.abs().to(dtype) if name == "uint8" else x.to(dtype)


def each_row(test):
    cases = [
        (name, sizes)
        for name in DTYPES
        for sizes in ROWS
        if sizes[-1] < 2048 or name in LONG_ROWS_OF
    ]
    return pytest.mark.parametrize("name, sizes", cases, ids=str)(test)


@each_row
def test_sort(name, sizes):
    x = numbers(sizes, name)
    for descending in (False, True):
        compare(lambda x: torch.sort(x, descending=descending), x)  # noqa: B023
        found = torch.sort(x.cuda(), descending=descending).values.cpu()
        wanted = torch.sort(x, descending=descending).values
        if x.is_floating_point():  # the zeros keep their signs
            assert torch.equal(found.signbit(), wanted.signbit())


@each_row
def test_parts(name, sizes):
    x = numbers(sizes, name)
    for k in {1, (sizes[-1] + 2) // 3, sizes[-1]}:
        compare(lambda x: torch.topk(x, k), x)  # noqa: B023
        compare(lambda x: torch.topk(x, k, largest=False), x)  # noqa: B023
        compare(lambda x: torch.kthvalue(x, k), x)  # noqa: B023


@each_row
def test_medians_and_modes(name, sizes):
    x = numbers(sizes, name)
    compare(lambda x: torch.median(x, -1), x)
    compare(lambda x: torch.median(x, 0), x)
    compare(lambda x: torch.median(x.nan_to_num() if x.is_floating_point() else x, -1), x)
    compare(torch.mode, x)


def test_sort_of_bool():
    x = torch.randn(3, 500) > 0
    compare(lambda x: torch.sort(x, descending=True), x)
    compare(torch.mode, x)


def test_dimensions():
    x = torch.randn(3, 50, 4)
    for dim in (0, 1, 2):
        compare(lambda x: torch.sort(x, dim), x)  # noqa: B023
        compare(lambda x: torch.topk(x, 2, dim), x)  # noqa: B023
        compare(lambda x: torch.median(x.transpose(0, 2), dim), x)  # noqa: B023


def test_many_chunks():
    """More than one block adds up by itself."""
    x = torch.randn(150_000)
    compare(torch.sort, x)
    compare(lambda x: torch.topk(x, 3000), x)
    compare(lambda x: torch.topk(x.view(15, 10_000), 7), x)


def test_keys_that_are_all_equal():
    x = torch.full((5000,), 2.0)
    compare(torch.sort, x)
    compare(lambda x: torch.topk(x, 17), x)
    compare(torch.mode, x)


@pytest.mark.parametrize("name", ["float32", "int64", "uint8"])
@pytest.mark.parametrize("sizes", [(1,), (300,), (5000,), (30, 4), (3000, 3), (0,)], ids=str)
def test_unique(name, sizes):
    x = torch.randint(0, 4, sizes).to(getattr(torch, name))
    both = {"return_inverse": True, "return_counts": True}
    compare(lambda x: torch.unique(x.detach(), **both), x)
    compare(lambda x: torch.unique(x.detach(), dim=0, **both), x)
    compare(lambda x: torch.unique_consecutive(x.detach(), **both), x)


@pytest.mark.parametrize("name", ["float32", "float16", "int64", "int16"])
def test_searchsorted(name):
    rows = torch.sort(numbers((4, 300), name).nan_to_num()).values
    values = numbers((4, 70), name)
    for right in (False, True):
        compare(lambda r, v: torch.searchsorted(r, v, right=right), rows, values)  # noqa: B023
        compare(lambda r, v: torch.bucketize(v, r[0], right=right, out_int32=True), rows, values)  # noqa: B023
    order = torch.randperm(300).expand(4, 300).contiguous()
    shuffled = torch.empty_like(rows).scatter(1, order, rows)
    compare(lambda s, v, o: torch.searchsorted(s, v, sorter=o), shuffled, values, order)


@pytest.mark.parametrize("count", [1, 900, 30_000])
def test_bincount(count):
    x = torch.randint(0, 50, (count,))
    compare(torch.bincount, x)
    compare(lambda x: torch.bincount(x, minlength=70), x)
    weights = torch.rand(count, dtype=torch.float64)
    compare(lambda x, w: torch.bincount(x, w.detach()), x, weights, units=1000)
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.bincount(torch.tensor([3, -1]).cuda())
