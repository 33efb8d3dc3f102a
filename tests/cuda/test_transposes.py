"""Copies that exchange dimensions on a CUDA device, against the CPU."""

import pytest
from library import torch

DTYPES = [torch.uint8, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "sizes", [(16, 16), (64, 32), (68, 100), (65, 33), (130, 70), (17, 200)], ids=str
)
def test_matrices(sizes, dtype):
    x = (torch.randn(sizes) * 50).to(dtype)
    assert torch.equal(x.cuda().t().contiguous().cpu(), x.t().contiguous())
    wide = torch.zeros(sizes[0], sizes[1] + 8, dtype=dtype)
    wide[:, 4:-4] = x
    assert torch.equal(wide.cuda()[:, 4:-4].t().contiguous().cpu(), x.t().contiguous())
    assert torch.equal(wide.cuda()[:, 3:-5].t().contiguous().cpu(), wide[:, 3:-5].t().contiguous())


@pytest.mark.parametrize("dims", [(0, 2, 1), (2, 0, 1), (2, 1, 0), (1, 2, 0)])
def test_further_dimensions(dims):
    x = torch.randn(20, 36, 24)
    assert torch.equal(x.cuda().permute(dims).contiguous().cpu(), x.permute(dims).contiguous())
    y = torch.randn(3, 5, 20, 32).transpose(2, 3)
    assert torch.equal(y.cuda().transpose(0, 1).clone().cpu(), y.transpose(0, 1))
