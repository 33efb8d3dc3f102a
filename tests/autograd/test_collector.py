"""What the collector of cycles is shown of the tape, and that it takes nothing in use."""

import gc
import subprocess
import sys
import textwrap
import weakref

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("what tapegrad shows the collector", allow_module_level=True)


class Token:
    pass


def test_the_collector_has_been_understood():
    assert torch._C._subtracting_visit_is_known()


def entry_before(tensor):
    return tensor.grad_fn.next_functions[0][0]


class Shared:
    """An entry that a tensor in a cycle shares with a tensor that lives on, and what it holds."""

    def __init__(self):
        x = torch.ones(2, requires_grad=True)
        y = x * 2
        # Made before the entry held anything of Python's: the collector does not track this one.
        self.kept = y + 1
        y.grad_fn.metadata["token"] = token = Token()
        y.me = y
        self.token = weakref.ref(token)
        self.cycle = weakref.ref(y)

    def held(self):
        return entry_before(self.kept).metadata["token"]


@pytest.fixture
def at_start():
    """Calls what is appended whenever a collection starts, after the library has been told."""
    install = torch.ones(2, requires_grad=True) * 2
    install.grad_fn.metadata["installs"] = "the library's callback"
    actions = []

    def callback(phase, info):
        if phase == "start":
            for action in actions:
                action()

    gc.callbacks.append(callback)
    yield actions
    gc.callbacks.remove(callback)


@pytest.mark.parametrize("generation", [0, 1, 2])
def test_what_a_live_entry_holds_survives_a_cycle_before_it(generation):
    shared = Shared()
    gc.collect(generation)
    assert shared.cycle() is None
    assert shared.held() is shared.token() is not None


@pytest.mark.parametrize("look", [gc.get_referents, gc.get_referrers], ids=lambda f: f.__name__)
@pytest.mark.parametrize("generation", [0, 1, 2])
def test_visits_of_other_callbacks_are_not_taken_for_the_collectors(at_start, look, generation):
    shared = Shared()
    young = shared.kept * 2
    young.me = young
    alive = weakref.ref(young)
    at_start.append(lambda: look(shared.kept))
    del young
    for _ in range(3):
        gc.collect(generation)
    assert shared.held() is shared.token() is not None
    at_start.clear()
    gc.collect()
    assert alive() is None


def test_cycles_through_entries_with_several_owners_are_freed_whatever_looks_at_them(at_start):
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.grad_fn.metadata["token"] = token = Token()
    z, w = y + 1, y - 1
    y.grad_fn.metadata["cycle"] = [z, w]
    alive = weakref.ref(token)
    probe = torch.ones(2, requires_grad=True) * 2
    probe.grad_fn.metadata["a"] = Token()
    probe.me = 1
    at_start.append(lambda: gc.get_referents(probe))
    del x, y, z, w, token
    gc.collect()
    assert alive() is None


def test_a_finalizer_that_looks_around_during_a_collection():
    shared = Shared()

    class Finalized:
        def __del__(self):
            gc.get_referents(shared.kept, shared.cycle())
            gc.get_referrers(shared.kept)

    finalized = Finalized()
    finalized.me = finalized
    del finalized
    gc.collect()
    assert shared.held() is shared.token() is not None


def test_a_finalizer_that_brings_an_entry_back():
    kept = []

    class Finalized:
        def __del__(self):
            kept.append(self.tensor * 2)

    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.grad_fn.metadata["token"] = Token()
    finalized = Finalized()
    finalized.tensor, y.owner = y, finalized
    del y, finalized
    gc.collect()
    alive = weakref.ref(entry_before(kept[0]).metadata["token"])
    assert isinstance(alive(), Token)
    kept[0].sum().backward()
    assert x.grad.tolist() == [4, 4]
    kept.clear()
    gc.collect()
    assert alive() is None


def run(script):
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
    )


def test_importing_during_a_collection_is_safe_and_keeps_shared_cycles():
    done = run("""
        import gc, weakref

        class ImportsWhenFinalized:
            def __del__(self):
                import tapegrad

        garbage = ImportsWhenFinalized()
        garbage.me = garbage
        del garbage
        gc.collect()

        import tapegrad as torch
        assert not torch._C._subtracting_visit_is_known()
        x = torch.ones(2, requires_grad=True)
        y = x * 2
        y.me = y
        alive = weakref.ref(y)
        y.grad_fn.metadata["token"] = token = []
        z = y + 1
        del y
        gc.collect()
        assert z.grad_fn.next_functions[0][0].metadata["token"] is token
        # A cycle of single owners is freed all the same.
        w = torch.ones(2, requires_grad=True) * 2
        w.me = w
        alive = weakref.ref(w)
        del w
        gc.collect()
        assert alive() is None
    """)
    assert (done.returncode, done.stderr) == (0, "")


def test_collections_at_exit_are_not_announced_and_free_nothing_in_use():
    done = run("""
        import tapegrad as torch

        class Uses:
            def __del__(self):
                assert self.tensor.grad_fn.next_functions[0][0].metadata["token"] == "alive"
                self.tensor.sum().backward()
                print("used")

        x = torch.ones(2, requires_grad=True)
        y = x * 2
        y.grad_fn.metadata["token"] = "alive"
        uses = Uses()
        uses.tensor = y + 1
        y.uses = uses
        uses.y = y
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "used\n", "")


def test_every_collection_that_a_program_asks_for_goes_through_entries_of_any_age():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.grad_fn.metadata["token"] = token = Token()
    z = y + 1
    y.grad_fn.metadata["cycle"] = z
    alive = weakref.ref(token)
    gc.collect()
    gc.collect()
    del x, y, z, token
    gc.collect()
    assert alive() is None
