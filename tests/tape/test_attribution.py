"""Every byte that the tape keeps is charged to exactly one entry: the sums are the allocator's."""

import gc
import sys

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

from tapegrad import tape

from .models import MODELS


def saved_bytes():
    return torch.memory_stats()["saved_bytes"] - BEFORE


BEFORE = 0


@pytest.fixture(autouse=True)
def note_what_was_saved_before():
    """The graph of a test that failed lives on in its report; what counts is what comes after."""
    global BEFORE
    for name in ("last_exc", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    gc.collect()
    BEFORE = torch.memory_stats()["saved_bytes"]


# What these keep beside the entries that gradients flow through.
KEPT_ELSEWHERE = {"checkpointed": "the inputs of the recomputation, by an entry of their own"}


def test_there_are_enough_models():
    assert len(MODELS) - len(KEPT_ELSEWHERE) >= 20


@pytest.mark.parametrize("name", MODELS)
def test_entries_sum_to_what_the_allocator_counts(name):
    loss = MODELS[name]()
    gc.collect()  # cycles of a forward pass are no part of its graph
    t = tape.of(loss)
    if name in KEPT_ELSEWHERE:
        assert 0 < t.total_bytes < saved_bytes()
    else:
        assert t.total_bytes == saved_bytes() > 0
    assert tape.live().total_bytes == tape.live().memory["saved_bytes"] == saved_bytes() + BEFORE
    for entry in t:
        assert entry.bytes == sum(value.bytes for value in entry.saved)
        for value in entry.saved:
            assert value.bytes == 0 or value.state == "held"


@pytest.mark.parametrize("name", MODELS)
def test_a_recorded_block_has_the_same_bytes(name):
    with tape.record() as t:
        loss = MODELS[name]()
    gc.collect()
    of = tape.of(loss)
    behind = {entry.sequence: entry for entry in of}
    recorded = {entry.sequence: entry for entry in t}
    assert recorded.keys() >= behind.keys()
    for sequence, entry in behind.items():
        assert recorded[sequence].name == entry.name
    # Entries beside the loss's graph may be the first to save a value, and be charged for it.
    assert t.total_bytes >= of.total_bytes


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_left_after_backward(name):
    loss = MODELS[name]()
    gc.collect()
    t = tape.of(loss)
    loss.backward()
    gc.collect()
    after = tape.of(loss)
    assert after.total_bytes == saved_bytes() < t.total_bytes
    left = [value for entry in after for value in entry.saved if value.bytes]
    assert all(value.role == "number" for value in left), left


def test_each_storage_is_charged_to_the_first_entry_that_saves_it():
    x = torch.randn(8, requires_grad=True)
    y = x.exp()
    loss = (y.sin() + y.cos()).sum()
    t = tape.of(loss)
    exp, sin, cos = (t.filter(op=op)[0] for op in ("exp", "sin", "cos"))
    assert [entry.bytes for entry in (exp, sin, cos)] == [32, 0, 0]
    assert sin.saved[0].state == cos.saved[0].state == "shared"
    assert exp.saved[0].storage == sin.saved[0].storage == cos.saved[0].storage


def test_a_view_is_charged_with_its_whole_storage():
    x = torch.randn(4, 100, requires_grad=True)
    y = (x * 1)[0].exp()
    z = (x * 1)[0].sin()
    t = tape.of([y.sum(), z.sum()])
    assert t.filter(op="sin")[0].bytes == 1600, "sin keeps a row, and with it the matrix"
    assert t.filter(op="exp")[0].bytes == 400
    assert t.total_bytes == saved_bytes()


def test_leaves_are_not_charged():
    x = torch.randn(1000, requires_grad=True)
    y = x.sin().sum()
    t = tape.of(y)
    (value,) = t.filter(op="sin")[0].saved
    assert (value.state, value.bytes, value.nbytes) == ("leaf", 0, 4000)
    assert t.total_bytes == saved_bytes() == 0


def test_numbers_count():
    x = torch.randn(3, requires_grad=True)
    y = (x * 2.5).sum()
    (value,) = tape.of(y).filter(op="mul")[0].saved
    assert (value.role, value.bytes) == ("number", 8)
    assert tape.of(y).total_bytes == saved_bytes() == 8


def test_packed_values_are_listed_and_not_charged():
    with torch.autograd.graph.saved_tensors_hooks(lambda x: None, lambda x: torch.ones(3)):
        y = torch.randn(3, requires_grad=True).exp().sum()
    (value,) = tape.of(y).filter(op="exp")[0].saved
    assert (value.state, value.bytes, value.shape) == ("packed", 0, None)
    assert tape.of(y).total_bytes == saved_bytes()


def test_two_graphs():
    """The live entries have all bytes, and each graph its own."""
    x = torch.randn(10, requires_grad=True)
    first, second = x.exp().sum(), x.tanh().sum()
    assert tape.of(first).total_bytes == 40
    assert tape.of([first, second]).total_bytes == 80
    assert tape.live().total_bytes - BEFORE == saved_bytes() == 80


def test_evicted_values_are_listed_and_not_charged():
    with tape.budget(120_000):
        x = torch.randn(64, 64, requires_grad=True)
        y = x
        for _ in range(6):
            y = (y.sin() * y.cos()).tanh()
        loss = y.sum()
        t = tape.of(loss)
        states = [value.state for entry in t for value in entry.saved]
        assert "evicted" in states and "held" in states
        assert t.total_bytes == saved_bytes() <= 120_000
        grads, stepped = t.vjp(), t.rewind().run()
        loss.backward()
        assert torch.equal(grads[x], x.grad) and torch.equal(stepped[x], x.grad)


def test_graphs_that_wait_for_the_collector_count():
    def make_cycle():
        y = torch.randn(100, requires_grad=True).exp()
        z = y.sin()
        y.register_hook(lambda grad: z)

    gc.disable()
    try:
        make_cycle()
        t = tape.live()
        assert t.total_bytes == t.memory["saved_bytes"] == saved_bytes() + BEFORE >= 400
        t.release()
    finally:
        gc.enable()
    gc.collect()
    assert saved_bytes() == 0
