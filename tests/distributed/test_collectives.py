"""Every collective beside NumPy: all dtypes, odd sizes, no elements, layouts with gaps."""

import os

import numpy as np
import pytest

import tapegrad as torch
from distributed.processes import UNDER_MPI
from tapegrad import distributed as dist

SIZE = 3
OPS = dist.ReduceOp
FLOATS = ("float32", "float64", "float16", "bfloat16")
WHOLE = ("int8", "int16", "int32", "int64", "uint8")
COMPLEX = ("complex64", "complex128")
ALL = (*FLOATS, *WHOLE, "bool", *COMPLEX)
# Processes of MPI take longer than threads: all dtypes with TAPEGRAD_TEST_LONG=1.
FEW = ("float32", "bfloat16", "bool", "complex64")
DTYPES = FEW if UNDER_MPI and "TAPEGRAD_TEST_LONG" not in os.environ else ALL
# By name: the shape, and what a program has of it.
LAYOUTS = {
    "odd": ((7,), lambda x: x),
    "many": ((1025,), lambda x: x),
    "none": ((0, 3), lambda x: x),
    "one": ((), lambda x: x),
    "turned": ((5, 3), lambda x: x.t()),
    "gaps": ((4, 6), lambda x: x[1:, ::2]),
    "moved": ((2, 3, 4), lambda x: x.permute(2, 0, 1)),
}


def numbers(rank, shape, dtype, kind=0):
    """Return small whole numbers, which all dtypes hold, as they do sums of three of them."""
    rng = np.random.default_rng([rank, kind, len(shape), *shape])
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    values = rng.integers(1, 5, shape)
    if dtype in COMPLEX:
        return (values + 1j * rng.integers(1, 5, shape)).astype(dtype)
    return values.astype("float32" if dtype == "bfloat16" else dtype)


def tensor(values, dtype, layout):
    """Return a tensor of a layout that holds values."""
    shape, view = LAYOUTS[layout]
    found = view(torch.full(shape, 1).to(getattr(torch, dtype)))
    found.copy_(torch.from_numpy(np.array(values, order="C")).reshape(found.shape))
    return found


def each(dtype, layout, kind=0):
    """Return the values of each rank."""
    shape, view = LAYOUTS[layout]
    return [numbers(rank, tuple(view(torch.zeros(shape)).shape), dtype, kind) for rank in range(3)]


def reduced(values, op):
    """Return what NumPy makes of the values of all ranks."""
    stack = np.stack(values)
    if op is OPS.AVG:
        return (stack.sum(0) / SIZE).astype(stack.dtype)
    if stack.dtype == bool:
        return stack.any(0) if op in (OPS.SUM, OPS.MAX, OPS.BOR) else stack.all(0)
    names = {OPS.SUM: "add", OPS.PRODUCT: "multiply", OPS.MIN: "minimum", OPS.MAX: "maximum"}
    names |= {OPS.BAND: "bitwise_and", OPS.BOR: "bitwise_or", OPS.BXOR: "bitwise_xor"}
    return getattr(np, names[op]).reduce(stack, 0).astype(stack.dtype)


def check(found, expected, dtype, op=None):
    """Compare; only averages round, those of half types once."""
    found = found.float() if found.dtype is torch.bfloat16 else found
    ours = found.contiguous().numpy()
    assert ours.shape == expected.shape
    if op is OPS.AVG:
        tolerance = {"float16": 1e-3, "bfloat16": 1e-2, "float64": 1e-15}.get(dtype, 1e-6)
        np.testing.assert_allclose(ours, expected, rtol=tolerance)
    else:
        np.testing.assert_array_equal(ours, expected)


def kinds_of(dtype):
    """Return the reductions that a dtype has."""
    if dtype == "bool":
        return [OPS.SUM, OPS.MIN, OPS.MAX, OPS.BAND, OPS.BOR]
    if dtype in COMPLEX:
        return [OPS.SUM, OPS.AVG]
    common = [OPS.SUM, OPS.PRODUCT, OPS.MIN, OPS.MAX]
    return [*common, OPS.AVG] if dtype in FLOATS else [*common, OPS.BAND, OPS.BOR, OPS.BXOR]


REDUCTIONS = [
    pytest.param(dtype, op, id=f"{dtype}-{number}")
    for dtype in DTYPES
    for number, op in enumerate(kinds_of(dtype))
]
by_dtype = pytest.mark.parametrize("dtype", DTYPES)


@pytest.mark.parametrize("dtype, op", REDUCTIONS)
def test_all_reduce_and_reduce(ranks, dtype, op):
    def run(rank):
        for layout in LAYOUTS:
            values = each(dtype, layout)
            expected = reduced(values, op)
            x = tensor(values[rank], dtype, layout)
            dist.all_reduce(x, op)
            check(x, expected, dtype, op)
            x = tensor(values[rank], dtype, layout)
            dist.reduce(x, 2, op)
            if rank == 2:
                check(x, expected, dtype, op)

    ranks(SIZE, run)


@pytest.mark.parametrize("dtype, op", REDUCTIONS)
def test_reduce_scatter(ranks, dtype, op):
    def run(rank):
        for layout in LAYOUTS:
            parts = [each(dtype, layout, to) for to in range(SIZE)]  # for each rank, of each
            mine = [tensor(parts[to][rank], dtype, layout) for to in range(SIZE)]
            expected = reduced(parts[rank], op)
            out = tensor(expected, dtype, layout).fill_(1)
            dist.reduce_scatter(out, mine, op)
            check(out, expected, dtype, op)
            out.fill_(1)
            dist.reduce_scatter_tensor(out, torch.stack(mine), op)
            check(out, expected, dtype, op)

    ranks(SIZE, run)


@by_dtype
@pytest.mark.parametrize("root", range(SIZE))
def test_broadcast_gather_and_scatter(ranks, dtype, root):
    def run(rank):
        for layout in LAYOUTS:
            values = each(dtype, layout)
            x = tensor(values[rank], dtype, layout)
            dist.broadcast(x, root)
            check(x, values[root], dtype)
            x = tensor(values[rank], dtype, layout)
            found = [tensor(v, dtype, layout).fill_(1) for v in values] if rank == root else None
            dist.gather(x, found, root)
            for ours, theirs in zip(found or (), values, strict=rank == root):
                check(ours, theirs, dtype)
            given = [tensor(v, dtype, layout) for v in values] if rank == root else None
            dist.scatter(x.fill_(1), given, root)
            check(x, values[rank], dtype)

    ranks(SIZE, run)


@by_dtype
@pytest.mark.parametrize("async_op", [False, True])
def test_all_gather(ranks, dtype, async_op):
    def run(rank):
        for layout in LAYOUTS:
            values = each(dtype, layout)
            x = tensor(values[rank], dtype, layout)
            found = [tensor(v, dtype, layout).fill_(1) for v in values]
            whole = torch.ones(SIZE, *x.shape, dtype=x.dtype)
            works = [
                dist.all_gather(found, x, async_op=async_op),
                dist.all_gather_into_tensor(whole, x, async_op=async_op),
            ]
            for work in works if async_op else ():
                work.wait()
            for ours, theirs in zip(found, values, strict=True):
                check(ours, theirs, dtype)
            check(whole, np.stack(values), dtype)

    ranks(SIZE, run)


@by_dtype
def test_all_to_all(ranks, dtype):
    def run(rank):
        for layout in LAYOUTS:
            parts = [each(dtype, layout, to) for to in range(SIZE)]
            mine = [tensor(parts[to][rank], dtype, layout) for to in range(SIZE)]
            found = [tensor(part, dtype, layout).fill_(1) for part in parts[rank]]
            dist.all_to_all(found, mine)
            for ours, theirs in zip(found, parts[rank], strict=True):
                check(ours, theirs, dtype)
            whole = torch.ones(SIZE, *mine[0].shape, dtype=mine[0].dtype)
            dist.all_to_all_single(whole, torch.stack(mine))
            check(whole, np.stack(parts[rank]), dtype)

    ranks(SIZE, run)


@by_dtype
def test_rows_of_uneven_number(ranks, dtype):
    counts = np.array([[1, 0, 2], [3, 1, 0], [0, 2, 1]])  # from, to

    def run(rank):
        rows = [numbers(r, (int(counts[r].sum()), 3), dtype) for r in range(SIZE)]
        ends = counts.cumsum(1)
        parts = [rows[r][ends[r, rank] - counts[r, rank] : ends[r, rank]] for r in range(SIZE)]
        expected = np.concatenate(parts)
        mine = torch.from_numpy(rows[rank]).to(getattr(torch, dtype))
        out = torch.ones(*expected.shape, dtype=mine.dtype)
        dist.all_to_all_single(out, mine, counts[:, rank].tolist(), counts[rank].tolist())
        check(out, expected, dtype)

    ranks(SIZE, run)


@by_dtype
def test_messages(ranks, dtype):
    def run(rank):
        left, right = (rank - 1) % SIZE, (rank + 1) % SIZE
        for layout in LAYOUTS:
            values = each(dtype, layout)
            found = tensor(values[rank], dtype, layout).fill_(1)
            sent = dist.isend(tensor(values[rank], dtype, layout), right)
            assert dist.recv(found, left) == left
            sent.wait()
            check(found, values[left], dtype)

    ranks(SIZE, run)


@by_dtype
def test_a_group_of_two(ranks, dtype):
    def run(rank):
        pair = dist.new_group([0, 2])
        for layout in LAYOUTS if rank != 1 else ():
            values = each(dtype, layout)
            found = [tensor(v, dtype, layout).fill_(1) for v in values[::2]]
            dist.all_gather(found, tensor(values[rank], dtype, layout), group=pair)
            for ours, theirs in zip(found, values[::2], strict=True):
                check(ours, theirs, dtype)

    ranks(SIZE, run)
