"""What a backward is about to sweep is described before the sweep, and nothing more is kept."""

import gc
import threading

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

from tapegrad.tape import timing
from tapegrad.tape.last_backward import LastBackward


def ops(document):
    return [entry["op"] for entry in document["entries"] if entry["leaf"] is None]


@pytest.fixture
def x():
    return torch.ones(3, requires_grad=True)


def test_the_last_one_is_kept(x):
    with LastBackward() as last:
        x.exp().sum().backward()
        torch.autograd.backward([x.sin().sum(), x.tanh().sum()])
        torch.autograd.backward(tensors=x.cos().sum())
    assert (last.count, last.number) == (3, 3)
    assert ops(last.document) == ["cos", "sum"]
    assert last.place.rpartition(":")[0] == __file__
    assert torch.allclose(x.grad, x.exp() + x.cos() + 1 - x.tanh() ** 2 - x.sin())


def test_several_roots(x):
    with LastBackward() as last:
        torch.autograd.backward([x.sin().sum(), x.tanh().sum()])
    assert sorted(ops(last.document)) == ["sin", "sum", "sum", "tanh"]


def test_one_alone_is_described(x):
    with LastBackward(only=2) as last:
        for op in (torch.exp, torch.sin, torch.cos):
            op(x).sum().backward()
    assert (last.count, last.number) == (3, 2)
    assert ops(last.document) == ["sin", "sum"]


def test_it_sees_what_is_saved_and_keeps_no_graph(x):
    gc.collect()
    before = torch._C.live_counts()
    with LastBackward() as last:
        x.exp().sum().backward()
    assert last.document["total_bytes"] == 12
    x.grad = None
    assert torch._C.live_counts() == before


def test_a_backward_inside_another_belongs_to_it(x):
    def inner(grad):
        with torch.enable_grad():
            torch.ones(2, requires_grad=True).tanh().sum().backward()

    y = x.exp()
    y.register_hook(inner)
    with LastBackward() as last:
        y.sum().backward()
    assert last.count == 1 and ops(last.document) == ["exp", "sum"]


def test_times(x):
    with LastBackward(profile=True) as last:
        x.exp().sum().backward()
        y = x.sin()
        x.cos().sum().backward()  # in between
        y.sum().backward()
    entries = [entry for entry in last.document["entries"] if entry["leaf"] is None]
    assert [entry["op"] for entry in entries] == ["sin", "sum"]
    assert all(entry["forward_us"] > 0 and entry["backward_us"] > 0 for entry in entries)
    assert not torch._C._is_profiling()
    with LastBackward() as last:
        x.exp().sum().backward()
    assert {entry["forward_us"] for entry in last.document["entries"]} == {None}


def test_times_of_a_backward_that_fails(x):
    def fail(grad):
        raise ZeroDivisionError

    with LastBackward(profile=True) as last, pytest.raises(ZeroDivisionError):
        y = x.exp()
        y.register_hook(fail)
        y.sum().backward()
    exp, total = (entry for entry in last.document["entries"] if entry["leaf"] is None)
    assert exp["forward_us"] > 0 and exp["backward_us"] == 0
    assert total["backward_us"] > 0


def test_another_thread_has_no_times(x):
    with LastBackward(profile=True) as last:
        thread = threading.Thread(target=lambda: x.exp().sum().backward())
        thread.start()
        thread.join()
    assert {entry["forward_us"] for entry in last.document["entries"]} == {None}


def test_a_profile_that_cannot_start_leaves_nothing_behind(x):
    backward = torch.Tensor.backward
    with LastBackward(profile=True):
        with pytest.raises(RuntimeError, match="already running"), LastBackward(profile=True):
            pass
        assert torch._C._is_profiling()
    assert not torch._C._is_profiling() and torch.Tensor.backward is backward


def test_times_of_entries_that_are_gone_are_forgotten(x, monkeypatch):
    monkeypatch.setattr(timing, "_MANY", 100)
    with LastBackward(profile=True) as last:
        for _ in range(100):
            x.exp().sum().backward()
        assert len(last._times._forward) < 150
    assert all(e["forward_us"] > 0 for e in last.document["entries"] if e["leaf"] is None)


def test_errors_are_the_backwards_own(x):
    with LastBackward() as last:
        with pytest.raises(RuntimeError, match="does not require grad"):
            torch.ones(1).backward()
        with pytest.raises(RuntimeError):
            x.exp().backward()
        with pytest.raises(TypeError):
            torch.autograd.backward(3)
        x.sum().backward()
    assert ops(last.document) == ["sum"]


def test_nobody_listens_after_an_error(x):
    last = LastBackward()
    with pytest.raises(ZeroDivisionError), last:
        x.sum().backward()
        raise ZeroDivisionError
    x.sum().backward()
    assert last.count == 1
