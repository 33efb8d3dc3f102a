"""Plans of revolve: every step is reversed once, in the fewest advances, in the slots there are."""

import importlib.util
from functools import cache
from pathlib import Path

import pytest
from library import IS_TORCH

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

from tapegrad import tape
from tapegrad.tape.revolve_plan import OnlinePlaces, beta, places_on_disk, repetitions

LONGEST, MOST_SLOTS = 200, 20


@cache
def least(n, slots):
    """The optimum by dynamic programming: where to store next, over all choices."""
    if n <= 1:
        return 0
    if slots == 1:
        return n * (n - 1) // 2
    return min(m + least(m, slots) + least(n - m, slots - 1) for m in range(1, n))


class Machine:
    """Carries a plan out, and fails where it asks for what is not there.

    Args:
        n: the number of steps.
        slots: how many states may be stored.
        stored: the states that are stored to begin with: position by slot.
    """

    def __init__(self, n, slots, stored=None):
        self.end = n
        self.slots = slots
        self.stored = dict(stored or {})
        self.at = 0
        self.most = len(self.stored)
        self.advances = [0] * n

    def run(self, actions):
        for action in actions:
            getattr(self, action[0])(*action[1:])
            self.most = max(self.most, len(self.stored))
        assert self.end == 0, "every step is reversed"
        assert not self.stored, "every slot is free again"
        assert self.most <= self.slots
        return sum(self.advances)

    def store(self, position, slot):
        assert self.at == position
        assert slot not in self.stored and slot < self.slots
        self.stored[slot] = position

    def restore(self, position, slot):
        assert self.stored[slot] == position
        self.at = position

    def free(self, position, slot):
        assert self.stored.pop(slot) == position

    def advance(self, start, stop):
        assert self.at == start < stop <= self.end
        for position in range(start, stop):
            self.advances[position] += 1
        self.at = stop

    def reverse(self, position):
        assert self.at == position == self.end - 1
        self.end, self.at = position, None


@pytest.mark.parametrize("slots", range(1, MOST_SLOTS + 1))
def test_the_count_is_the_optimum(slots):
    """All lengths up to 200: the plan carried out, the formula, and dynamic programming."""
    for n in range(LONGEST + 1):
        machine = Machine(n, slots)
        count = machine.run(tape.revolve_schedule(n, slots))
        assert count == tape.revolve_cost(n, slots) == least(n, slots), f"n={n}"
        assert max(machine.advances, default=0) <= repetitions(n, slots)


def test_beta_is_how_far_slots_reach():
    for slots in range(1, 8):
        for times in range(1, 5):
            n = beta(slots, times)
            assert repetitions(n, slots) == times
            assert repetitions(n + 1, slots) == times + 1


def run_online(n, slots):
    """Return a machine that has run a loop whose length it did not know, forward and back."""
    places = OnlinePlaces(slots)
    stored = {0}
    machine = Machine(n, slots)
    for position in range(n):
        if position and places.wants(position - 1):  # once it is known not to be the last
            gone = places.place()
            if gone is not None:
                stored.remove(gone)
            stored.add(position - 1)
        assert len(stored) <= slots
        if position < n - 1:
            machine.advances[position] += 1
    machine.stored = dict(enumerate(sorted(stored)))
    assert list(machine.stored.values()) == places.stored
    machine.at, machine.end = None, n - 1  # the last step is reversed with the forward's record
    machine.run(places.unwind(n))
    return machine


@pytest.mark.parametrize("slots", range(1, MOST_SLOTS + 1))
def test_unknown_length_repeats_no_step_more_often_than_the_best_plan_must(slots):
    for n in range(1, LONGEST + 1):
        machine = run_online(n, slots)
        count, best, times = (
            sum(machine.advances),
            tape.revolve_cost(n, slots),
            repetitions(n, slots),
        )
        assert max(machine.advances) <= times, f"n={n}"
        assert best <= count <= times * n, f"n={n}"
        assert count < best + n, f"n={n}: less than one more run of the loop"
        if n == beta(slots, times) or times == 1 or slots == 1:
            assert count == best, f"n={n}"


def test_unknown_length_of_a_long_loop():
    n, slots = 20_000, 12
    machine = run_online(n, slots)
    assert max(machine.advances) <= repetitions(n, slots)
    assert sum(machine.advances) < tape.revolve_cost(n, slots) + n


def test_disk_gets_the_places_that_are_used_least():
    n, slots, disk = 500, 10, 6
    used = [0] * slots
    for action in tape.revolve_schedule(n, slots):
        if action[0] in ("store", "restore"):
            used[action[2]] += 1
    on_disk = places_on_disk(n, slots, disk)
    assert len(on_disk) == disk and 0 not in on_disk
    in_memory = set(range(1, slots)) - on_disk
    assert max(used[place] for place in on_disk) <= min(used[place] for place in in_memory)
    assert places_on_disk(n, slots, 0) == set()


def test_the_picture_is_that_of_the_plan():
    root = Path(__file__).parents[2]
    spec = importlib.util.spec_from_file_location("draw_revolve", root / "scripts/draw_revolve.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    picture = (root / "docs/tape/images/revolve.svg").read_text(encoding="utf-8")
    assert script.draw() == picture, "run scripts/draw_revolve.py docs/tape/images/revolve.svg"


def test_bad_arguments():
    for function in (tape.revolve_cost, tape.revolve_schedule):
        with pytest.raises(ValueError, match="slots to be at least 1, got 0"):
            function(3, 0)
        with pytest.raises(ValueError, match="n to be at least 0, got -1"):
            function(-1, 1)
        with pytest.raises(TypeError, match="n to be an int, got float"):
            function(3.0, 1)
    assert list(tape.revolve_schedule(0, 1)) == []
    assert tape.revolve_cost(0, 1) == tape.revolve_cost(1, 1) == 0
