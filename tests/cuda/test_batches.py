"""vmap where memory is a device's: what the suite on a device does not see."""

import gc

import pytest
from library import torch


@pytest.mark.parametrize("op", ["add", "mul", "where", "fill"])
def test_numbers_of_the_cpu_that_differ_over_the_batch(op):
    """A 0-d tensor of the CPU counts as a number on a device; a batch of them is several."""
    x = torch.arange(3.0, device="cuda")

    def function(number):
        if op == "where":
            return torch.where(x > 1, x, number)
        if op == "fill":
            return torch.zeros_like(x).fill_(number)
        return getattr(torch, op)(x, number)

    numbers = torch.tensor([2.0, -1.0, 0.5])
    found = torch.vmap(function)(numbers)
    assert found.is_cuda and found.shape == (3, 3)
    for row, number in zip(found, numbers, strict=True):
        assert torch.equal(row, function(number))


def test_moving_inside():
    """Each element of the batch moves, there and back."""
    x = torch.arange(6.0).view(2, 3)
    assert torch.equal(torch.vmap(lambda row: (row.cuda() * 2).cpu())(x), x * 2)


def test_memory_goes_back():
    """What a batch has made of the memory of tensors born inside is freed with them."""
    x = torch.ones(8, 300, device="cuda")

    def function(row):
        kept = torch.zeros(300, device="cuda")
        kept += row  # which becomes a batch here
        return (kept * 2).sum()

    torch.vmap(function)(x)
    gc.collect()
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        assert torch.vmap(function)(x).tolist() == [600.0] * 8
        gc.collect()
        assert torch.cuda.memory_allocated() == before


def test_elements_of_a_batch_have_no_one_answer():
    x = torch.ones(2, 3, device="cuda")
    for read in (lambda row: row.sum().item(), lambda row: row.tolist(), lambda row: row.nonzero()):
        with pytest.raises(RuntimeError, match="differs over the batch"):
            torch.vmap(lambda row, read=read: torch.tensor(read(row)))(x)
