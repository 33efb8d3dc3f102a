"""When to store, restore and recompute the states of a loop that is differentiated in few slots.

To differentiate step k of a loop, the state before it is needed. With one slot for each state
nothing is computed twice; with fewer, states are computed again from the nearest one stored before
them. Griewank and Walther (2000) showed how to do so with the fewest steps. Let
``beta(s, r) = C(s + r, s)``: so many steps can be differentiated with s slots if no step is
advanced more than r times. With the smallest r such that ``beta(s, r) >= n``, the least number of
advances is

    cost(n, s) = r * n - beta(s + 1, r - 1)

and it is reached by storing the next state m steps on, wherever

    beta(s, r-2) <= m <= beta(s, r-1)   and   beta(s-1, r-1) <= n - m <= beta(s-1, r).

The states in the slots form a stack: the newest is used until its part of the loop is done. So a
slot's number is a state's place in the stack, and the whole plan is one loop without recursion:
`_unwind`.

**Unknown length.** `OnlinePlaces` places states while the loop runs. After ``beta(s, r-1)``
steps, a new round begins: the stretch so far is what r-1 advances can redo with s slots, and all
its states but the first may go, one by one, as the slots are needed for the rest, which is placed
in the same way with one slot less. This is Wang, Moin and Iaccarino's idea (2009) with stretches as
long as they can be. No step is then advanced more than r times, r being what Revolve needs at best,
so the count is at most ``r * n``; it equals the optimum at each ``n = beta(s, r)`` and as long as r
is 1.

**Memory and disk.** The optimal plan for all slots together stays as it is; the places in the stack
that are written and read least go to disk (Stumm and Walther 2009).
"""

from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from math import comb
from typing import Any

from tapegrad.tape._arguments import expect_count

__all__ = ["OnlinePlaces", "beta", "places_on_disk", "repetitions", "revolve_cost",
           "revolve_schedule"]  # fmt: skip

Action = tuple[Any, ...]
_MOST_KNOWN = 1000


def beta(slots: int, times: int) -> int:
    """Return how many steps `slots` slots suffice for if none is advanced more than `times` times.

    Example:
        >>> from tapegrad.tape.revolve_plan import beta
        >>> beta(3, 2)
        10
    """
    return comb(slots + times, slots) if times >= 0 else 0


@lru_cache(1000)
def _betas(slots: int) -> list[int]:
    """The first values of beta(slots, 0), beta(slots, 1), ...; more of them as they are needed."""
    return [1]


def repetitions(n: int, slots: int) -> int:
    """Return how often a step of the best plan is advanced at most.

    Example:
        >>> from tapegrad.tape.revolve_plan import repetitions
        >>> repetitions(10, 3), repetitions(11, 3)
        (2, 3)
    """
    known = _betas(slots)
    while known[-1] < n and len(known) < _MOST_KNOWN:
        known.append(beta(slots, len(known)))
    if known[-1] >= n:
        return bisect_left(known, n)
    low = high = _MOST_KNOWN  # a long loop in very few slots
    while beta(slots, high) < n:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if beta(slots, middle) < n else (low, middle)
    return low


def _expect_counts(op: str, n: Any, slots: Any) -> None:
    expect_count(op, "n", n, 0)
    expect_count(op, "slots", slots, 1)


def revolve_cost(n: int, slots: int) -> int:
    """Return the least number of advances with which a loop can be differentiated.

    An advance is a step that is computed to reach a later state. The `n` computations that are
    recorded and swept, one for each step, come on top.

    Args:
        n: the length of the loop.
        slots: how many states may be stored, the first one among them.

    Example:
        >>> torch.tape.revolve_cost(10, 3)
        15
        >>> torch.tape.revolve_cost(100_000, 64)
        349884
    """
    _expect_counts("revolve_cost", n, slots)
    if n < 2:
        return 0
    times = repetitions(n, slots)
    return times * n - beta(slots + 1, times - 1)


def _first_stop(length: int, slots: int) -> int:
    """Return after how many steps to store the next state, with this many slots to the end."""
    times = repetitions(length, slots)
    return max(1, beta(slots, times - 2), length - beta(slots - 1, times))


def _unwind(stored: list[int], end: int, slots: int, at: int | None) -> Iterator[Action]:
    """Yield what reverses all steps before `end`.

    Args:
        stored: the positions of the stored states, rising from 0. Changed.
        end: the number of steps.
        slots: how many states may be stored.
        at: the position of the state at hand, if any.
    """
    while end > 0:
        start = stored[-1]
        place = len(stored) - 1
        if at != start:
            yield "restore", start, place
        length = end - start
        if length == 1:
            yield "reverse", start
            end = start
            stored.pop()
            yield "free", start, place
        else:
            free = slots - len(stored)
            ahead = _first_stop(length, free + 1) if free else length - 1
            at = start + ahead
            yield "advance", start, at
            if length - ahead == 1:  # used at once
                yield "reverse", at
                end = at
            else:
                yield "store", at, place + 1
                stored.append(at)
                continue
        at = None
    for place in reversed(range(len(stored))):  # of a loop of one step, reversed before
        yield "free", stored[place], place


def revolve_schedule(n: int, slots: int) -> Iterator[Action]:
    """Yield the actions that differentiate a loop of `n` steps with the fewest advances.

    The state at position k is the one before step k. The actions are tuples: ``("store", k, slot)``
    stores the state at hand, which is at position k; ``("restore", k, slot)`` makes it the one at
    hand again; ``("advance", k, m)`` takes steps k to m - 1; ``("reverse", k)`` takes step k with
    recording and sweeps back through it, after which no state is at hand; ``("free", k, slot)``
    ends the use of a stored state.

    Args:
        n: the length of the loop.
        slots: how many states may be stored, the first one among them.

    Example:
        >>> for action in torch.tape.revolve_schedule(3, 1):
        ...     print(action)
        ('store', 0, 0)
        ('advance', 0, 2)
        ('reverse', 2)
        ('restore', 0, 0)
        ('advance', 0, 1)
        ('reverse', 1)
        ('restore', 0, 0)
        ('reverse', 0)
        ('free', 0, 0)
    """
    _expect_counts("revolve_schedule", n, slots)
    return _schedule(n, slots)


def _schedule(n: int, slots: int) -> Iterator[Action]:
    if n > 0:
        yield "store", 0, 0
        yield from _unwind([0], n, slots, at=0)


class OnlinePlaces:
    """Decides which states of a loop of unknown length to store, while it runs.

    Args:
        slots: how many may be stored, the first one among them.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.stored = [0]
        # The stored states that the rest is built on: position, slots from there on, which round it
        # is in, and its last round (that of the one before it).
        self.rounds: list[list[Any]] = [[0, slots, 0, None]]
        self.next: int | None = 1 if slots > 1 else None

    def wants(self, position: int) -> bool:
        """Whether to store the state at a position. Ask for each in turn; then call `place`."""
        return position == self.next

    def place(self) -> int | None:
        """Store the state that is wanted; return the position of the one that goes, if one does."""
        position, rounds = self.next, self.rounds
        assert position is not None
        while rounds[-1][2] == rounds[-1][3]:
            rounds.pop()
        last = rounds[-1]
        last[2] += 1
        slots = last[1] - 1
        rounds.append([position, slots, 0 if slots > 1 else last[2], last[2]])
        self.next = position + beta(slots, rounds[-1][2])
        gone = None
        if len(self.stored) == self.slots:
            needed = {each[0] for each in rounds}
            gone = next(each for each in reversed(self.stored) if each not in needed)
            self.stored.remove(gone)
        self.stored.append(position)
        return gone

    def unwind(self, n: int) -> Iterator[Action]:
        """Yield the actions that reverse all steps of a loop of length n but the last."""
        return _unwind(list(self.stored), n - 1, self.slots, at=None)


def places_on_disk(n: int, slots: int, disk_slots: int) -> set[int]:
    """Return the places in the stack that are used least, so many as there are slots on disk.

    The first state is not among them: it is in memory anyway, being the loop's argument.

    Args:
        n: the length of the loop.
        slots: the number of slots in memory and on disk together.
        disk_slots: how many of them are on disk.
    """
    # More places than steps are never used, so they may as well be those on disk.
    unused = max(0, slots - n)
    slots, disk_slots = slots - unused, disk_slots - unused
    if disk_slots <= 0:
        return set()
    used = [0] * slots
    for action in _schedule(n, slots):
        if action[0] in ("store", "restore"):
            used[action[2]] += 1
    order = sorted(range(1, slots), key=lambda place: (used[place], place))
    return set(order[:disk_slots])
