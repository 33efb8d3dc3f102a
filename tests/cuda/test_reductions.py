"""Reductions on a CUDA device, against the CPU: by rows, by columns, of everything, and mixed."""

import math

import pytest
from library import torch

from .comparing import assert_close

FLOATING = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
INF, NAN = math.inf, math.nan

# Sizes and reduced dimensions: rows of a few elements, of a warp, of a block; columns in one block
# and in several; several axes on either side.
GEOMETRIES = [
    ((), ()),
    ((1,), (0,)),
    ((5,), (0,)),
    ((0,), (0,)),
    ((3, 0), (1,)),
    ((0, 3), (1,)),
    ((7, 33), (0,)),
    ((7, 33), (1,)),
    ((7, 33), (0, 1)),
    ((6, 128), (1,)),
    ((64, 128), (0,)),
    ((3, 1000), (1,)),
    ((4, 5, 6), (1,)),
    ((4, 5, 8), (0, 2)),
    ((2, 3, 4, 5), (1, 3)),
    ((2, 3, 4, 5), (0, 2)),
    ((2, 1, 3, 2, 2, 3, 2), (0, 2, 4, 6)),
    ((2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3), (0, 2, 4, 6, 8, 10)),
    ((4200, 3, 2), (1,)),
    ((300, 3), (0,)),
]
# Few results, whose elements are cut into parts.
CUT = [((70_001,), (0,)), ((2, 40_000), (1,)), ((33_000, 2), (0,)), ((30, 40, 60), (0, 2))]


def drawn(sizes, dtype):
    torch.manual_seed(0)
    x = torch.randn(sizes)
    if dtype == torch.bool:
        return x > 0.5
    return x.to(dtype) if dtype.is_floating_point else (3 * x).abs().to(dtype)


def layouts(x):
    """The same elements in other orders: transposed, and every second one."""
    yield x
    if x.dim() > 1:
        yield x.transpose(0, -1).contiguous().transpose(0, -1)
        yield torch.stack([x, x], -1)[..., 0]


def check(function, x, units=16):
    for each in layouts(x):
        try:
            wanted = function(each)
        except (RuntimeError, IndexError) as error:
            with pytest.raises(type(error)):
                function(each.cuda())
            continue
        found = function(each.cuda())
        pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
        for a, b in pairs:
            assert_close(a, b, units)


OF_ANY = {
    "sum": lambda x, dims: x.sum(dims),
    "amax": lambda x, dims: x.amax(dims),
    "amin": lambda x, dims: x.amin(dims),
    "count_nonzero": lambda x, dims: torch.count_nonzero(x, dims),
    "any": lambda x, dims: torch.any(x, dims),
    "all": lambda x, dims: torch.all(x, dims),
}
OF_FLOATS = {
    "mean": lambda x, dims: x.mean(dims),
    "norm0": lambda x, dims: x.norm(0, dims),
    "norm1": lambda x, dims: x.norm(1, dims),
    "norm2": lambda x, dims: x.norm(2, dims),
    "norm inf": lambda x, dims: x.norm(INF, dims),
    "norm -inf": lambda x, dims: x.norm(-INF, dims),
    "logsumexp": lambda x, dims: torch.logsumexp(x, dims),
    "var_mean": lambda x, dims: torch.var_mean(x, dims),
    "std": lambda x, dims: torch.std(x, dims, correction=0),
}
ALONG_ONE = {
    "max": lambda x, dim: tuple(x.max(dim)),
    "min": lambda x, dim: tuple(x.min(dim)),
    "argmax": lambda x, dim: x.argmax(dim),
    "argmin": lambda x, dim: x.argmin(dim),
    "prod": lambda x, dim: x.prod(dim),
}


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0")
@pytest.mark.parametrize(("sizes", "dims"), GEOMETRIES, ids=str)
def test_geometries(sizes, dims):
    x = drawn(sizes, torch.float32)
    for function in (OF_ANY | OF_FLOATS).values():
        check(lambda x, function=function: function(x, dims), x)
    if len(dims) == 1:
        for function in ALONG_ONE.values():
            check(lambda x, function=function: function(x, dims[0]), x)


@pytest.mark.parametrize(("sizes", "dims"), CUT, ids=str)
def test_few_results_of_many_elements(sizes, dims):
    x = drawn(sizes, torch.float32)
    for name in ("sum", "amax", "var_mean", "logsumexp"):
        function = (OF_ANY | OF_FLOATS)[name]
        assert_close_of_each(lambda x, function=function: function(x, dims), x)
    if len(dims) == 1:
        assert_close_of_each(lambda x: x.round().max(dims[0]), x)


def assert_close_of_each(function, x):
    found, wanted = function(x.cuda()), function(x)
    if not isinstance(wanted, tuple):
        found, wanted = (found,), (wanted,)
    for a, b in zip(found, wanted, strict=True):
        assert_close(a, b)


@pytest.mark.parametrize("dtype", FLOATING + INTEGERS, ids=str)
@pytest.mark.parametrize(
    ("sizes", "dims"), [((5, 48), (1,)), ((40, 16), (0,)), ((3, 5, 7), (0, 2))], ids=str
)
def test_dtypes(sizes, dims, dtype):
    x = drawn(sizes, dtype)
    functions = OF_ANY | OF_FLOATS if dtype.is_floating_point else OF_ANY
    for function in functions.values():
        check(lambda x, function=function: function(x, dims), x)
    for function in ALONG_ONE.values():
        check(lambda x, function=function: function(x, dims[0]), x)
    check(lambda x: x.sum(dims, dtype=torch.float64), x)


def test_sums_wrap_and_do_not_saturate():
    x = torch.full((3, 300), 2**62)
    check(lambda x: x.sum(1), x)
    check(lambda x: x.prod(1), x)


@pytest.mark.parametrize("sizes", [(3, 70), (3, 3000)], ids=str)
def test_the_first_of_equal_elements(sizes):
    torch.manual_seed(0)
    x = torch.randint(0, 3, sizes).float()
    x[1, 40] = x[1, 20] = NAN
    for function in ALONG_ONE.values():
        check(lambda x, function=function: function(x, 1), x)
        check(lambda x, function=function: function(x, 0), x.t().contiguous())
    check(lambda x: x.argmax(), x)
    check(lambda x: x.argmin(), x[::2])


@pytest.mark.parametrize(
    "row", [[-INF, -INF], [INF, 1.0], [INF, -INF], [NAN, 1.0], [-INF, 3.0]], ids=str
)
def test_infinities(row):
    x = torch.tensor([row, row[::-1], [0.0, 1.0]]).repeat(1, 20)
    for function in (OF_ANY | OF_FLOATS).values():
        check(lambda x, function=function: function(x, (1,)), x)


def test_deviation_whose_square_overflows():
    x = torch.tensor([[3e30, -3e30, 1e30]])
    check(lambda x: x.std(1), x)
    check(lambda x: x.var(1), x)


def test_variance_far_from_zero():
    """Sums about zero would lose it all."""
    torch.manual_seed(0)
    for dtype, level in ((torch.float32, 1e4), (torch.float64, 1e8)):
        x = torch.randn(2, 5000, dtype=torch.float64).add(level).to(dtype)
        wanted = x.double().sub(level).var(1)
        assert (x.cuda().var(1).cpu().double() / wanted - 1).abs().max() < 1e-5
        assert (x.t().contiguous().cuda().var(0).cpu().double() / wanted - 1).abs().max() < 1e-5


def test_a_long_sum_is_accurate():
    x = torch.full((200_000,), 0.1)
    wanted = x.double().sum()
    assert abs(x.cuda().sum().item() / wanted.item() - 1) < 1e-6
    assert abs(x.cuda().view(-1, 2).sum(0)[0].item() / wanted.item() * 2 - 1) < 1e-6


def test_a_zero_is_found():
    """The check of integer divisors."""
    divisor = torch.ones(3, 5000, dtype=torch.int64, device="cuda")
    assert torch.equal(torch.floor_divide(divisor, divisor), divisor)
    divisor[2, 4321] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.floor_divide(divisor, divisor)
    torch.floor_divide(divisor, divisor[:, ::2].contiguous()[:, :1])
