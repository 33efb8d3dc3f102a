"""Events of the engine: sweeps that begin and end, entries that run."""

import threading

import pytest
from library import torch

from tapegrad.tape.sweeps import SweepEvents


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


def names_of(function):
    """Return the names of the entries that run in a function."""
    found = []
    with SweepEvents(entry=lambda entry: found.append(entry.name())):
        function()
    return found


class Log:
    """A listener that notes what it hears."""

    def __init__(self):
        self.heard = []

    def begin(self, roots, retain_graph):
        self.heard.append(("begin", len(roots), retain_graph))
        return lambda: self.heard.append("end")

    def entry(self, entry):
        self.heard.append(entry.name())


def test_a_sweep_from_its_beginning_to_its_end():
    x, log = leaf(2.0), Log()
    y = (x * 3).exp()
    with SweepEvents(log.begin, log.entry):
        y.backward(retain_graph=True)
    y.backward()
    assert log.heard == [
        *(("begin", 1, True), "ExpBackward0", "MulBackward0", "AccumulateGrad", "end"),
    ]


def test_a_backward_that_was_bound_before():
    x, log = leaf(2.0), Log()
    run = (x * 3).backward
    with SweepEvents(log.begin):
        run()
    assert log.heard == [("begin", 1, False), "end"]


@pytest.mark.parametrize("targets", [False, True], ids=["all", "inputs"])
def test_only_entries_that_run_are_told_of(targets):
    x, y = leaf(2.0), leaf(3.0)
    z = x.exp() * y.sin()
    if targets:
        assert names_of(lambda: torch.autograd.grad(z, x)) == ["MulBackward0", "ExpBackward0"]
    else:
        ran = ["MulBackward0", "SinBackward0", "ExpBackward0", "AccumulateGrad", "AccumulateGrad"]
        assert sorted(names_of(z.backward)) == sorted(ran)


def test_entries_have_their_gradients_when_they_are_told_of():
    """A hook on the tensor has run, and the entry has not."""
    x, order = leaf(2.0), []
    y = x * 3
    y.register_hook(lambda grad: order.append("tensor hook"))
    y.grad_fn.register_hook(lambda *grads: order.append("entry hook"))
    with SweepEvents(entry=lambda entry: order.append(entry.name())):
        y.backward()
    assert order == ["tensor hook", "MulBackward0", "entry hook", "AccumulateGrad"]


def test_a_sweep_inside_another_is_a_part_of_it():
    x, log = leaf(2.0), Log()

    @torch.enable_grad()
    def inner(grad):
        leaf(1.0).sin().backward()

    y = x * 3
    y.register_hook(inner)
    with SweepEvents(log.begin, log.entry):
        y.backward()
    begun = [each for each in log.heard if isinstance(each, tuple)]
    assert begun == [("begin", 1, False)] and log.heard.count("end") == 1
    assert "SinBackward0" in log.heard


def test_forward_mode_begins_no_sweep():
    log = Log()
    forward_ad = torch.autograd.forward_ad
    with SweepEvents(log.begin), forward_ad.dual_level():
        dual = forward_ad.make_dual(leaf(2.0), torch.tensor([1.0]))
        assert forward_ad.unpack_dual(dual.exp()).tangent is not None
    assert log.heard == []


def test_the_end_is_told_of_a_sweep_that_fails():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise ZeroDivisionError

    x, log = leaf(2.0), Log()
    with SweepEvents(log.begin), pytest.raises(ZeroDivisionError):
        Fails.apply(x).backward()
    assert log.heard == [("begin", 1, False), "end"]


@pytest.mark.parametrize("place", ["begin", "end", "entry"])
def test_what_a_listener_raises(place):
    """It comes out of the backward; others hear of the end all the same."""

    def fail(*args):
        raise ZeroDivisionError

    x, log = leaf(2.0), Log()
    kinds = {"begin": (fail, None), "end": (lambda *args: fail, None), "entry": (None, fail)}
    failing = SweepEvents(*kinds[place])
    with SweepEvents(log.begin), failing, SweepEvents(log.begin), pytest.raises(ZeroDivisionError):
        (x * 3).backward()
    assert log.heard.count("end") == sum(isinstance(each, tuple) for each in log.heard) >= 1
    x.grad = None
    (x * 3).backward()
    assert x.grad.tolist() == [3.0]


def test_a_listener_that_starts_and_ends_others():
    x, log, inner = leaf(2.0), Log(), []

    def begin(roots, retain_graph):
        inner.append(SweepEvents(entry=log.entry).__enter__())
        return lambda: inner.pop().__exit__()

    with SweepEvents(begin):
        (x * 3).backward()
        (x * 3).backward()
    assert log.heard == ["MulBackward0", "AccumulateGrad"] * 2 and not inner


def test_all_threads_are_heard():
    log = Log()
    with SweepEvents(log.begin):
        thread = threading.Thread(target=lambda: (leaf(2.0) * 3).backward())
        thread.start()
        thread.join()
    assert log.heard == [("begin", 1, False), "end"]


def test_beside_a_profile():
    x, log = leaf(2.0), Log()
    with torch.profiler.profile() as profile, SweepEvents(log.begin, log.entry):
        (x * 3).backward()
    assert log.heard[1:-1] == ["MulBackward0", "AccumulateGrad"]
    assert "MulBackward0" in {event.name for event in profile.events()}


def test_a_rewind_tells_of_its_entries():
    from tapegrad import tape

    x = leaf(2.0)
    sweep = tape.of((x * 3).exp()).rewind()
    assert names_of(sweep.run) == ["ExpBackward0", "MulBackward0"]
