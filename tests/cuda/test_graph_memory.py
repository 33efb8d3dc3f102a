"""Memory of CUDA graphs: a pool of their own, which nobody else gets while they live."""

import gc

import pytest
from library import torch

from .test_graphs import capture

cuda = torch.cuda
MIB = 1 << 20


def private_bytes():
    return sum(
        segment["total_size"]
        for segment in cuda.memory_snapshot()
        if segment["segment_pool_id"] != (0, 0)
    )


def test_memory_that_was_freed_stays_with_the_graph():
    x = torch.ones(1000, device="cuda")

    def chain():
        y = x
        for _ in range(20):
            y = y + 1
        return y

    g, y = capture(chain)
    address = y.data_ptr()
    assert private_bytes() == 2 * MIB
    del y
    gc.collect()
    others = [torch.zeros(1000, device="cuda") for _ in range(100)]
    assert all(each.data_ptr() != address for each in others)
    cuda.empty_cache()
    assert private_bytes() == 2 * MIB
    for _ in range(3):
        g.replay()
    assert all(each.sum().item() == 0 for each in others), "a replay wrote to memory of others"
    g.reset()
    cuda.empty_cache()
    assert private_bytes() == 0


def test_temporary_memory_is_used_again_within_a_capture():
    x = torch.ones(MIB, device="cuda")  # 4 MiB

    def chain():
        y = x
        for _ in range(30):
            y = y + 1
        return y

    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    g, y = capture(chain)
    assert cuda.max_memory_allocated() - before <= 2 * 4 * MIB + 4096
    assert private_bytes() <= 22 * MIB
    g.replay()
    assert y[0].item() == 31


def test_graphs_that_share_a_pool():
    x = torch.ones(3 * MIB, device="cuda")  # 12 MiB: segments of their own

    def twice(a):
        return ((a + 1) * 2).sum()

    pool = cuda.graph_pool_handle()
    first, y = capture(lambda: twice(x), pool=pool)
    assert first.pool() == pool
    reserved = private_bytes()
    second, z = capture(lambda: twice(x), pool=first.pool())
    assert private_bytes() == reserved, "memory of the first was not used again"
    first.replay()
    second.replay()
    assert y.item() == z.item() == 4 * 3 * MIB
    del first, y
    gc.collect()
    cuda.empty_cache()
    assert private_bytes() == reserved
    second.replay()
    assert z.item() == 4 * 3 * MIB
    del second, z
    gc.collect()
    cuda.empty_cache()
    assert private_bytes() == 0


def test_tensors_that_outlive_their_graph():
    x = torch.ones(100, device="cuda")
    g, y = capture(lambda: x + 1)
    g.replay()
    del g
    gc.collect()
    cuda.empty_cache()
    others = [torch.zeros(100, device="cuda") for _ in range(50)]
    assert y.tolist() == [2.0] * 100 and others[-1].sum().item() == 0
    del y
    cuda.empty_cache()
    assert private_bytes() == 0


def test_statistics_count_private_pools():
    gc.collect()
    cuda.empty_cache()
    before = cuda.memory_stats()
    x = torch.ones(1000, device="cuda")
    g, y = capture(lambda: x + 1)
    after = cuda.memory_stats()
    assert after["segment.all.current"] - before["segment.all.current"] in (1, 2)
    grown = after["reserved_bytes.all.current"] - before["reserved_bytes.all.current"]
    assert grown >= private_bytes() == 2 * MIB
    # x, y and the state of the generator
    assert after["allocation.all.current"] - before["allocation.all.current"] == 3
    x = None
    del g, y
    gc.collect()
    cuda.empty_cache()
    assert cuda.memory_stats()["reserved_bytes.all.current"] == before["reserved_bytes.all.current"]
    assert "Segments" in cuda.memory_summary()


def test_out_of_memory_in_a_capture():
    total = cuda.get_device_properties().total_memory
    x = torch.ones(10, device="cuda")
    with pytest.raises(torch.OutOfMemoryError, match="cannot go back to the driver while a CUDA"):
        capture(lambda: x + torch.empty(total, device="cuda"))
    assert not cuda.is_current_stream_capturing()
    g, y = capture(lambda: x + 1)
    g.replay()
    assert y.tolist() == [2.0] * 10


def test_memory_that_other_captured_streams_use():
    """It is not handed out again in the capture, and events are recorded when that is over."""
    s = cuda.Stream()
    x = torch.arange(1000.0, device="cuda")

    def step():
        y = x * 2
        s.wait_stream(cuda.current_stream())
        with cuda.stream(s):
            y.record_stream(s)
            z = y + 1
        address = y.data_ptr()
        del y
        others = [x + k for k in range(4)]
        assert all(each.data_ptr() != address for each in others)
        cuda.current_stream().wait_stream(s)
        z.record_stream(cuda.current_stream())
        return z, others

    g, (z, others) = capture(step)
    for _ in range(2):
        g.replay()
        assert torch.equal(z, x * 2 + 1)
        assert torch.equal(others[3], x + 3)
    del g, z, others
    gc.collect()
    cuda.synchronize()
    cuda.empty_cache()
    cuda.empty_cache()  # an event has passed when it is asked for the second time, see streams.cpp
    assert private_bytes() == 0


def test_memory_of_before_that_is_freed_in_a_capture():
    s = cuda.Stream()
    x = torch.ones(1000, device="cuda")
    x.record_stream(s)
    w = torch.ones(10, device="cuda", requires_grad=True)
    w.grad = torch.ones(10, device="cuda")

    def step():
        nonlocal x
        del x
        w.grad = None
        (w * 3).sum().backward()
        return w.grad

    g, grad = capture(step)
    g.replay()
    assert grad.tolist() == [3.0] * 10
    cuda.empty_cache()
    g.replay()
    cuda.synchronize()


def test_page_locked_memory_of_a_graph():
    """A graph reads and writes it when it runs; it is kept although the program has freed it."""
    source, target = torch.zeros(100).pin_memory(), torch.zeros(100).pin_memory()
    x = torch.empty(100, device="cuda")

    def step():
        x.copy_(source, non_blocking=True)
        target.copy_(x * 2, non_blocking=True)

    g, _ = capture(step)
    for number in (1.0, 2.0):
        source.fill_(number)
        g.replay()
        cuda.synchronize()
        assert target.tolist() == [2 * number] * 100
    target = None
    others = [torch.zeros(100).pin_memory() for _ in range(3)]
    g.replay()
    cuda.synchronize()
    assert all(each.sum().item() == 0 for each in others)
    cached = torch._C._cuda_pinned_stats()["cached_bytes"]
    assert cached > 0
    g.reset()
    fresh = [torch.zeros(100).pin_memory() for _ in range(4)]
    assert torch._C._cuda_pinned_stats()["cached_bytes"] < cached and fresh


def test_offload_is_refused():
    w = torch.ones(4096, device="cuda", requires_grad=True)

    def step():
        with torch.tape.offload("cpu", prefetch=0, min_bytes=1):
            y = w
            for _ in range(8):
                y = y.sin()
        y.sum().backward()

    step()
    with pytest.raises(RuntimeError, match=r"tape\.offload: values cannot be moved"):
        capture(step)
    w.grad = None
    step()
    assert w.grad is not None
