"""Pointwise ops on a CUDA device, against the CPU: operands that are broadcast, or strided."""

import pytest
from library import torch

from .comparing import compare

DTYPES = [torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8]


def drawn(*sizes, dtype=torch.float32):
    torch.manual_seed(len(sizes))
    return (torch.randn(sizes) * 4).to(dtype)


# Each beside a tensor of (5, 40, 64): what is found in vectors, and what cannot be.
OTHERS = {
    "bias": lambda x: drawn(64, dtype=x.dtype),
    "column": lambda x: drawn(40, 1, dtype=x.dtype),
    "outer": lambda x: drawn(5, 1, 64, dtype=x.dtype),
    "one in each": lambda x: drawn(5, 1, 1, dtype=x.dtype),
    "part of rows": lambda x: drawn(5, 40, 128, dtype=x.dtype)[..., 64:],
    "unaligned": lambda x: drawn(65, dtype=x.dtype)[1:],
    "unaligned rows": lambda x: drawn(40, 65, dtype=x.dtype)[:, :64],
    "every second": lambda x: drawn(128, dtype=x.dtype)[::2],
    "backwards": lambda x: drawn(40, 64, dtype=x.dtype).flip(1),
    "transposed": lambda x: drawn(64, 40, dtype=x.dtype).t(),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OTHERS)
def test_beside_a_dense_tensor(name, dtype):
    x = drawn(5, 40, 64, dtype=dtype)
    compare(lambda x, y: x + y, x, OTHERS[name](x), units=512)


@pytest.mark.parametrize("length", [64, 62, 63])
def test_several_dtypes_and_layouts(length):
    x, y = drawn(300, length), drawn(length, dtype=torch.float16)
    compare(lambda x, y: torch.where(x > 0, x, y), x, y, units=64)
    column = drawn(300, 1, dtype=torch.float64)
    compare(lambda x, y, c: x * y * c, x, y, column, units=64)
    wide = drawn(300, 2 * length)

    def written(x, wide):
        wide = wide.clone()
        wide[:, length:] = x * 2
        return wide

    compare(written, x, wide)
    compare(lambda x, y: (x + y).t().relu(), x, y, units=64)


@pytest.mark.parametrize("dtype", [torch.bool, *DTYPES], ids=str)
def test_numbers_that_fill(dtype):
    """A half is True as a bool, and nothing as an integer."""
    for number in (0.5, 0.0, 1, True, 3.7, *([] if dtype == torch.uint8 else [-0.3, -2])):
        for where in (slice(None), slice(1, 3), torch.tensor([0, 2])):
            results = []
            for device in ("cpu", "cuda"):
                x = torch.zeros(4, dtype=dtype, device=device)
                x[where if isinstance(where, slice) else where.to(device)] = number
                results.append(x.tolist() + torch.full_like(x, number).tolist())
            assert results[0] == results[1], number


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_small_powers_are_exact(dtype):
    x = torch.arange(-50, 51, dtype=dtype)[torch.arange(101) != 50].cuda().requires_grad_()
    for exponent in (1, 2, 3):
        y = x**exponent
        (grad,) = torch.autograd.grad(y.sum(), x)
        assert y.tolist() == [v**exponent for v in x.tolist()]
        assert grad.tolist() == [exponent * v ** (exponent - 1) for v in x.tolist()]
    assert (x**-1).tolist() == (1 / x).tolist()
