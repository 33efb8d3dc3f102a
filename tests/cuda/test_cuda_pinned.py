"""Page-locked memory of the host."""

from typing import NamedTuple

import pytest
from library import torch

cuda = torch.cuda
COUNTS = ("live_bytes", "cached_bytes", "system_allocations")


def counts():
    return [torch._C._cuda_pinned_stats()[name] for name in COUNTS]


@pytest.fixture(autouse=True)
def nothing_is_kept(clean_device):
    cuda.synchronize()
    cuda.empty_cache()
    assert counts()[:2] == [0, 0]


def test_a_pinned_copy():
    x = torch.arange(6).view(2, 3).t()
    y = x.pin_memory()
    assert y.is_pinned() and not x.is_pinned() and y.device.type == "cpu"
    assert torch.equal(x, y) and y.is_contiguous() and y.data_ptr() != x.data_ptr()
    assert y.pin_memory() is y and y[1:].is_pinned()
    y[0] = 7
    assert x[0, 0] == 0 and y.tolist() == [[7, 7], [1, 4], [2, 5]]
    assert not torch.empty(3).is_pinned() and not torch.empty(0).pin_memory().is_pinned()


def test_it_is_no_part_of_the_graph():
    x = torch.ones(3, requires_grad=True)
    assert not x.pin_memory().requires_grad
    assert torch.ones(3, requires_grad=True, pin_memory=True).is_leaf


@pytest.mark.parametrize(
    "make",
    [
        lambda **options: torch.empty(3, **options),
        lambda **options: torch.zeros(3, **options),
        lambda **options: torch.tensor([1.0, 2.0], **options),
        lambda **options: torch.rand(3, **options),
        lambda **options: torch.arange(3.0, **options),
        lambda **options: torch.ones_like(torch.empty(3), **options),
        lambda **options: torch.empty(3).new_full((2,), 5.0, **options),
    ],
)
def test_pinned_from_the_beginning(make):
    torch.manual_seed(0)
    x = make(pin_memory=True, requires_grad=True)
    torch.manual_seed(0)
    plain = make()
    assert x.is_pinned() and x.requires_grad and not plain.is_pinned()
    if plain.abs().sum() > 0 and plain.isfinite().all():
        assert x.shape == plain.shape and x.dtype == plain.dtype


def test_values_are_kept():
    assert torch.tensor([1, 2], pin_memory=True).tolist() == [1, 2]
    torch.manual_seed(0)
    x = torch.rand(5, pin_memory=True)
    torch.manual_seed(0)
    assert torch.equal(x, torch.rand(5))


def test_only_the_memory_of_the_host():
    x = torch.empty(3, device="cuda")
    assert not x.is_pinned()
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        x.pin_memory()
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.empty(3, device="cuda", pin_memory=True)


def test_blocks_are_kept_by_powers_of_two():
    before = counts()[2]
    x = torch.ones(300, dtype=torch.uint8).pin_memory()
    assert counts() == [512, 0, before + 1]
    address = x.data_ptr()
    del x
    assert counts() == [0, 512, before + 1]
    x = torch.ones(512, dtype=torch.uint8).pin_memory()
    assert x.data_ptr() == address and counts() == [512, 0, before + 1]
    y = torch.ones(513, dtype=torch.uint8).pin_memory()
    assert counts() == [1536, 0, before + 2]
    del x, y
    cuda.empty_cache()
    assert counts()[:2] == [0, 0]


def test_large_blocks_waste_an_eighth_at_most():
    MIB = 1 << 20
    for nbytes, size in [(MIB, MIB), (MIB + 1, MIB + MIB // 8), (9 * MIB - 1, 9 * MIB)]:
        x = torch._C._cuda_pinned_bytes(nbytes)
        assert counts()[0] == size
        del x
    assert counts()[:2] == [0, MIB + MIB + MIB // 8 + 9 * MIB]
    x = torch._C._cuda_pinned_bytes(8 * MIB + 1)
    assert x.is_pinned() and counts()[0] == 9 * MIB  # the same block


def test_what_a_stream_uses_is_not_handed_out(emulator):
    s = cuda.Stream()
    x = torch.ones(100).pin_memory()
    address = x.data_ptr()
    torch._C._cuda_record_pinned(x, 0, s.cuda_stream)
    torch._C._cuda_record_pinned(x[10:], 0, s.cuda_stream)
    del x
    y = torch.ones(100).pin_memory()
    assert y.data_ptr() != address
    s.synchronize()
    z = torch.ones(100).pin_memory()
    assert z.data_ptr() == address
    torch._C._cuda_record_pinned(torch.ones(3), 0, s.cuda_stream)  # not pinned: nothing happens


def test_memory_for_a_stream_does_not_wait_for_others(emulator):
    """What a stream still reads is handed out, to a stream that waits for that."""
    reader, writer = cuda.Stream(), cuda.Stream()
    x = torch._C._cuda_pinned_bytes(512)
    x.fill_(3)
    there, back = (torch.empty(512, dtype=torch.uint8, device="cuda") for _ in range(2))
    back.fill_(5)
    address = x.data_ptr()
    torch._C._cuda_copy_aside(there, x, reader.cuda_stream, 0)
    del x
    y = torch._C._cuda_pinned_for(512, 0, writer.cuda_stream)
    assert y.data_ptr() == address
    torch._C._cuda_copy_aside(y, back, writer.cuda_stream, 0)
    writer.synchronize()
    assert set(y.tolist()) == {5}
    cuda.synchronize()
    assert set(there.tolist()) == {3}
    assert counts()[:2] == [512, 0]
    del y
    cuda.synchronize()
    assert counts()[:2] == [0, 512]


def test_packed_sequences():
    rnn = torch.nn.utils.rnn
    packed = rnn.pack_sequence([torch.ones(3, 2), torch.ones(1, 2)])
    pinned = packed.pin_memory()
    assert pinned.is_pinned() and not packed.is_pinned()
    assert torch.equal(pinned.data, packed.data) and pinned.batch_sizes.is_pinned()


class Sample(NamedTuple):
    x: torch.Tensor
    name: str


class Own:
    """Pins itself."""

    is_pinned = False

    def pin_memory(self):
        pinned = Own()
        pinned.is_pinned = True
        return pinned


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_of_a_loader(workers):
    rows = [{"x": torch.full((2,), float(i)), "y": (i, [i])} for i in range(4)]
    loader = torch.utils.data.DataLoader(rows, 2, num_workers=workers, pin_memory=True)
    batches = list(loader)
    assert [b["x"].tolist() for b in batches] == [[[0, 0], [1, 1]], [[2, 2], [3, 3]]]
    for batch in batches:
        assert batch["x"].is_pinned() and batch["y"][0].is_pinned() and batch["y"][1][0].is_pinned()
    plain = next(iter(torch.utils.data.DataLoader(rows, 2, num_workers=workers)))
    assert not plain["x"].is_pinned()


def test_batches_of_other_kinds():
    def collate(samples):
        return [Sample(samples[0], "a"), (samples[0], b"text"), {"own": Own(), "n": None}, range(2)]

    loader = torch.utils.data.DataLoader(torch.ones(1, 3), 1, pin_memory=True, collate_fn=collate)
    (batch,) = loader
    named, pair, mapping, numbers = batch
    assert named.x.is_pinned() and named.name == "a" and pair[0].is_pinned()
    assert pair[1] == b"text" and mapping["own"].is_pinned and mapping["n"] is None
    assert isinstance(named, Sample) and isinstance(pair, tuple) and list(numbers) == [0, 1]
