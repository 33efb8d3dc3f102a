"""Saved values of a GPU that wait on the host, or in a file."""

import contextlib
import gc
import threading
from functools import partial

import pytest
from library import torch

from tapegrad import tape
from tapegrad.tape import _offload_device
from tapegrad.tape._offload_device import DeviceStore
from tapegrad.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

cuda = torch.cuda
ROWS, WIDTH = 16, 32
VALUE = ROWS * WIDTH * 4


@pytest.fixture(autouse=True)
def nothing_stays(clean_device):
    """No value outlives its graph, neither on the device nor in page-locked memory."""
    yield
    gc.collect()
    cuda.synchronize()
    assert torch._C._cuda_pinned_stats()["live_bytes"] == 0


def network(layers=4):
    torch.manual_seed(3)
    parts = []
    for _ in range(layers):
        parts += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.LayerNorm(WIDTH)]
    return torch.nn.Sequential(*parts).cuda()


def batch():
    torch.manual_seed(5)
    return torch.randn(ROWS, WIDTH).cuda()


def chain(x, steps=12):
    for _ in range(steps):
        x = torch.tanh(x)
    return x


def gradients(block=None, forward=None):
    """Return the gradients of the network, computed inside a block."""
    model = network()
    with block or contextlib.nullcontext():
        y = forward(model, batch()) if forward else model(batch())
        loss = y.square().mean()
        del y
    loss.backward()
    return [parameter.grad.cpu() for parameter in model.parameters()]


def assert_same(found, expected):
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)


def leaf(seed=0):
    torch.manual_seed(seed)
    return torch.randn(ROWS, WIDTH).cuda().requires_grad_()


def plain_chain(steps=12):
    x = leaf()
    chain(x, steps).sum().backward()
    return x.grad.cpu()


@pytest.mark.parametrize("prefetch", [0, 1, 4])
@pytest.mark.parametrize("place", ["cpu", "folder"])
def test_gradients_are_bitwise_the_same(place, prefetch, tmp_path):
    where = "cpu" if place == "cpu" else tmp_path
    o = tape.offload(where, prefetch=prefetch, min_bytes=1)
    assert_same(gradients(o), gradients())
    assert o.copied_bytes > 6 * VALUE and o.returned_bytes == o.copied_bytes
    assert o.device_memory_now == 0 and o.peak_memory > 0 and "copied to the host" in o.summary()


def test_memory_of_the_device_is_given_back(monkeypatch):
    """Of a long chain only a few results are on the device at a time."""
    steps = 60
    side = 256 * 1024
    monkeypatch.setattr(_offload_device, "_MOST_WAITING", 0)
    monkeypatch.setattr(DeviceStore, "bytes_ahead", 0)

    def peak(block):
        cuda.reset_peak_memory_stats()
        x = torch.ones(side, device="cuda", requires_grad=True)
        before = cuda.memory_allocated()
        with block:
            y = chain(x, steps).sum()
        y.backward()
        return (cuda.max_memory_allocated() - before) // (4 * side)

    plain = peak(contextlib.nullcontext())
    assert plain >= steps
    o = tape.offload("cpu", prefetch=2)
    assert peak(o) <= 12
    assert o.peak_device_memory <= 12 * 4 * side and o.waits == 0
    stats = cuda.memory_stats()
    assert stats["active_bytes.all.peak"] <= 16 * 4 * side  # nor do blocks wait for copies


def test_the_host_does_not_wait():
    model, x = network(), batch()
    for _ in range(2):
        before = torch._C._cuda_unasked_waits()
        with tape.offload("cpu", min_bytes=1) as o:
            model(x).square().mean().backward()
        assert torch._C._cuda_unasked_waits() == before
    assert o.copied_bytes > 0 and o.waits == 0


def test_a_value_moves_once():
    x = leaf()
    with tape.offload("cpu", prefetch=0, min_bytes=1) as o:
        y = x.exp()
        z = y * y + y.sin() + y.t().reshape(-1).exp().sum()  # saves y four times, once as a view
        loss = z.sum()
        del y, z
        o.flush()
        assert o.device_memory_now == 0
        assert VALUE <= o.copied_bytes < 4 * VALUE
    loss.backward()
    assert o.returned_bytes == o.copied_bytes
    found = x.grad.cpu()
    w = leaf()
    y = w.exp()
    (y * y + y.sin() + y.t().reshape(-1).exp().sum()).sum().backward()
    assert torch.equal(found, w.grad.cpu())


def test_views_bring_back_their_part():
    x = leaf()
    with tape.offload("cpu", prefetch=0, min_bytes=1) as o:
        y = torch.tanh(x)[4:6]
        z = y.sin()
        loss = z.sum()
        del y, z
        o.flush()
    loss.backward()
    w = leaf()
    torch.tanh(w)[4:6].sin().sum().backward()
    assert torch.equal(x.grad.cpu(), w.grad.cpu())


def test_overwriting_is_told():
    x = leaf()
    with tape.offload("cpu", min_bytes=1):
        y = x.exp()
        z = y.sin()
        y.add_(1)
        del y
        z = chain(z, 12)
    with pytest.raises(RuntimeError, match="was overwritten by add_ at"):
        z.sum().backward()


def test_what_the_program_holds_stays():
    x = leaf()
    with tape.offload("cpu", prefetch=0, min_bytes=1) as o:
        held = [x]
        for _ in range(6):
            held.append(torch.tanh(held[-1]))
        o.flush()
        assert o.copied_bytes == 0 and o.device_memory_now == 6 * VALUE
        held[-1].sum().backward()
    assert torch.equal(x.grad.cpu(), plain_chain(6)) and o.returned_bytes == 0


def test_a_limit_of_the_host(tmp_path):
    limit = 3 * VALUE
    x = leaf()
    with tape.offload("cpu", prefetch=0, memory=limit, min_bytes=1) as o:
        y = chain(x).sum()
    assert o.peak_memory == o.copied_bytes == limit
    y.backward()
    assert torch.equal(x.grad.cpu(), plain_chain())
    assert o.memory_now == 0


def test_a_limit_of_the_host_and_a_file(tmp_path):
    limit = 4 * VALUE
    x = leaf()
    with tape.offload(tmp_path, prefetch=1, memory=limit, min_bytes=1) as o:
        y = chain(x, 40).sum()
    assert o.written_bytes > 20 * VALUE and o.peak_memory <= limit
    y.backward()
    assert torch.equal(x.grad.cpu(), plain_chain(40))
    assert o.read_bytes > 20 * VALUE and o.peak_memory <= limit


def test_values_of_both_places(tmp_path):
    x, w = leaf(), leaf().detach().cpu().requires_grad_()
    with tape.offload(tmp_path, min_bytes=1) as o:
        y = chain(x).sum().cpu() + chain(w).sum()
    o.flush()
    assert o.file_now > 10 * VALUE
    y.backward()
    assert torch.equal(x.grad.cpu(), plain_chain())
    v = leaf().detach().cpu().requires_grad_()
    chain(v).sum().backward()
    assert torch.equal(w.grad, v.grad)


@pytest.mark.parametrize("place", ["cpu", "folder"])
def test_several_sweeps(place, tmp_path, monkeypatch):
    """What one sweep was the last to use is dropped, and comes back for the next."""
    monkeypatch.setattr(DeviceStore, "bytes_ahead", 0)
    x = leaf()
    with tape.offload("cpu" if place == "cpu" else tmp_path, prefetch=1, min_bytes=1) as o:
        y = chain(x).sum()
    for _ in range(3):
        x.grad = None
        y.backward(retain_graph=True)
        assert torch.equal(x.grad.cpu(), plain_chain())
    assert o.copied_bytes > 0 and o.returned_bytes >= 2 * o.copied_bytes
    del y


@pytest.mark.parametrize(("least", "values"), [(0, 1), (3 * VALUE, 3), (1 << 20, 8)])
def test_small_values_come_back_together(least, values, monkeypatch):
    """As many as `prefetch` says, and more where they are small."""
    monkeypatch.setattr(DeviceStore, "bytes_ahead", least)
    x = leaf()
    with tape.offload("cpu", prefetch=1, min_bytes=1) as o:
        y = chain(x)
    assert o.copied_bytes == 8 * VALUE and o.returned_bytes == 0
    assert y.grad_fn._saved_result.shape == y.shape  # the last one, which is there
    assert o.returned_bytes == values * VALUE
    y.sum().backward()
    assert o.returned_bytes == 8 * VALUE and torch.equal(x.grad.cpu(), plain_chain())


def test_second_derivatives():
    def second(block):
        x = leaf()
        with block:
            (g,) = torch.autograd.grad(chain(x, 5).sum(), x, create_graph=True)
            (g.square().sum()).backward()
        return x.grad.cpu()

    with_offload = second(tape.offload("cpu", min_bytes=1, prefetch=1))
    assert torch.equal(with_offload, second(contextlib.nullcontext()))


def checkpointed(model, x):
    for part in model:
        x = checkpoint(part, x, use_reentrant=False)
    return x


def test_with_checkpoints():
    o = tape.offload("cpu", min_bytes=1, prefetch=1)
    assert_same(gradients(o, checkpointed), gradients())
    assert o.copied_bytes > 0


def selective(model, x):
    contexts = partial(create_selective_checkpoint_contexts, ["gelu"])
    return checkpoint(model, x, use_reentrant=False, context_fn=contexts)


def test_with_selective_checkpoints():
    o = tape.offload("cpu", min_bytes=1, prefetch=1)
    assert_same(gradients(o, selective), gradients())


def test_with_compression():
    """What one block codes or moves, the other leaves alone."""
    exact = gradients(tape.compress("exact"))
    with tape.compress("exact"):
        assert_same(gradients(tape.offload("cpu", min_bytes=1)), gradients())
    o = tape.offload("cpu", min_bytes=1)
    with o:
        assert_same(gradients(tape.compress("exact")), exact)


@pytest.mark.parametrize("outer", ["offload", "budget"])
def test_with_a_budget(outer):
    """Between them they keep the limit, and neither undoes what the other did."""
    o, b = tape.offload("cpu", min_bytes=1, prefetch=0), tape.budget(9 * VALUE)
    first, second = (o, b) if outer == "offload" else (b, o)
    x = leaf()
    with first, second:
        y = chain(x, 30).sum()
        y.backward()
    assert torch.equal(x.grad.cpu(), plain_chain(30))
    assert o.copied_bytes > 0 and b.peak <= 9 * VALUE


def test_on_another_stream():
    side = cuda.Stream()
    x = leaf()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side), tape.offload("cpu", min_bytes=1, prefetch=1) as o:
        y = chain(x).sum()
        y.backward()
    cuda.current_stream().wait_stream(side)
    assert torch.equal(x.grad.cpu(), plain_chain()) and o.copied_bytes > 0


def test_a_sweep_on_another_stream_than_the_forward():
    side = cuda.Stream()
    x = leaf()
    with tape.offload("cpu", min_bytes=1, prefetch=2):
        y = chain(x).sum()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        y.backward()
    cuda.current_stream().wait_stream(side)
    assert torch.equal(x.grad.cpu(), plain_chain())


def test_two_devices(two_devices):
    """Each has streams of its own, whichever is the current device."""
    x, w = leaf(), leaf().detach().to("cuda:1").requires_grad_()
    with tape.offload("cpu", min_bytes=1, prefetch=1) as o:
        y, z = chain(x).sum(), chain(w).sum()
        loss = y + z.to("cuda:0")
    assert o.copied_bytes > 12 * VALUE
    loss.backward()
    assert torch.equal(x.grad.cpu(), plain_chain()) and torch.equal(w.grad.cpu(), plain_chain())


def test_several_threads():
    found = [None] * 3
    o = tape.offload("cpu", min_bytes=1, prefetch=1)

    def run(place):
        x = leaf(place)
        for _ in range(3):
            x.grad = None
            with o:
                chain(x).sum().backward()
        found[place] = x.grad.cpu()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for place in range(3):
        x = leaf(place)
        chain(x).sum().backward()
        assert torch.equal(found[place], x.grad.cpu())


def test_a_graph_that_is_never_swept():
    x = leaf()
    with tape.offload("cpu", prefetch=1, min_bytes=1) as o:
        y = chain(x)
        z = chain(y).sum()
        torch.autograd.grad(z, y)  # brings values back that belong to the rest
        del y, z
    gc.collect()
    assert o.memory_now == 0 and o.device_memory_now == 0


def test_no_page_locked_memory_left(monkeypatch):
    x = leaf()

    def fail(nbytes, device, stream):
        raise torch.OutOfMemoryError("pin_memory: could not get it")

    o = tape.offload("cpu", prefetch=0, min_bytes=1)
    with o:
        y = chain(x, 2)
        with monkeypatch.context() as patch:
            patch.setattr(torch._C, "_cuda_pinned_for", fail)
            with pytest.raises(
                torch.OutOfMemoryError,
                match=r"no page-locked memory left for a saved value of 2.00 KiB.*memory=.*folder",
            ):
                chain(y, 3)
        y = chain(y, 10)
    assert o.copied_bytes > 0
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), plain_chain())


def test_a_value_that_is_written_to_after_it_came_back():
    """A function that spoils what it saved does so once, and not for others."""

    class Spoil(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            result = g * x
            x.zero_()
            return result

    x = leaf()
    with tape.offload("cpu", prefetch=0, min_bytes=1) as o:
        y = Spoil.apply(x.exp())
        loss = y.sum()
        del y
        o.flush()
    loss.backward(retain_graph=True)
    first, x.grad = x.grad.cpu(), None
    loss.backward()
    assert torch.equal(first, x.grad.cpu())


@pytest.mark.parametrize("pin_memory", [False, True])
def test_save_on_cpu(pin_memory):
    block = torch.autograd.graph.save_on_cpu(pin_memory=pin_memory)
    assert_same(gradients(block), gradients())
    x = leaf()
    with torch.autograd.graph.save_on_cpu(pin_memory=pin_memory):
        y = x.exp()
    packed = y.grad_fn._raw_saved_result
    del packed
    before = cuda.memory_allocated()
    z = y.sum()
    del y
    assert cuda.memory_allocated() <= before - VALUE + 512  # the tape holds nothing of it
    z.backward()
    assert torch.equal(x.grad, x.detach().exp())


def test_save_on_cpu_does_not_wait():
    before = torch._C._cuda_unasked_waits()
    x = leaf()
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = (x * x).t().exp()
        z = y[1:, ::2].sin().sum() + y[0].expand(3, -1).cos().sum()
    z.backward()
    assert torch._C._cuda_unasked_waits() == before
