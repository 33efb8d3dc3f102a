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
