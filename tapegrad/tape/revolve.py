"""Differentiate a long loop in few stored states: `revolve`.

The loop runs forward step by step, each with recording, and each record is dropped when the next
step has begun; states are stored where the plan says (`revolve_plan`). The record of the last step
is kept: backward begins with it. Then backward restores, advances and records single steps in the
plan's order, and sweeps through each record.

Tensors that steps use besides their state are found in the records of the forward: leaves that
require grad are inputs of the entry that the whole loop leaves on the tape, so that their
gradients, hooks and ``inputs=`` work as ever. In each sweep of a step, such a leaf begins with the
sum of its gradients so far. So they add up in the order in which the plain loop adds them, and the
bits are the same.
"""

from collections.abc import Callable, Iterator
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd.function import Function
from tapegrad.tape._arguments import expect_count, expect_type
from tapegrad.tape.revolve_plan import (
    OnlinePlaces,
    _expect_counts,
    places_on_disk,
    revolve_schedule,
)
from tapegrad.tape.revolve_store import Store, Stored
from tapegrad.utils._pytree import tree_flatten, tree_unflatten
from tapegrad.utils._replay import Randomness, Surroundings, has_tangents, lasting

__all__ = ["revolve"]


def _cut(state: Any) -> tuple[Any, list[Any]]:
    """Return a state without history that needs the gradients it did, and its leaves."""
    if isinstance(state, Tensor):
        leaf = lasting(state).detach().requires_grad_(state.requires_grad)
        return leaf, [leaf]
    leaves, structure = tree_flatten(state)
    cut: dict[int, Tensor] = {}  # a tensor that is there twice stays one
    for leaf in leaves:
        if isinstance(leaf, Tensor) and id(leaf) not in cut:
            cut[id(leaf)] = lasting(leaf).detach().requires_grad_(leaf.requires_grad)
    leaves = [cut.get(id(leaf), leaf) for leaf in leaves]
    return tree_unflatten(leaves, structure), leaves


def _leaves(state: Any) -> list[Any]:
    return [state] if isinstance(state, Tensor) else tree_flatten(state)[0]


def _needs_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


class _Outside:
    """Finds the leaves that steps use besides what they are given, in the steps' records."""

    def __init__(self, given: list[Any]) -> None:
        self.given = {id(each) for each in given}
        self.leaves: list[Tensor] = []
        self.numbers: dict[int, int] = {}  # of leaves, by id
        self.used: list[tuple[int, tuple[int, ...]]] = []  # from which step on which are used
        marker = _C.empty(0, requires_grad=True).clone().grad_fn
        assert marker is not None
        self.newest = marker._sequence_nr()  # older entries are not a step's own

    def note(self, position: int, inputs: list[Any], outputs: list[Any]) -> None:
        """Note which leaves the record of a step leads to."""
        own = {id(each) for each in inputs}
        found: set[int] = set()
        seen: set[Any] = set()
        waiting = []
        for output in outputs:
            if not isinstance(output, Tensor):
                continue
            if _C._tangent_levels(output):
                raise RuntimeError(
                    f"revolve: expected step {position} to use tensors with a tangent only "
                    "from its state and args, got another; pass it with args=(...)"
                )
            if output.grad_fn is not None:
                waiting.append(output.grad_fn)
            elif output.requires_grad and id(output) not in own:
                self._add(output, found)
        newest = self.newest
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if node.name() == "AccumulateGrad":
                if id(node.variable) not in own:
                    self._add(node.variable, found)
                continue
            number = node._sequence_nr()
            if number <= self.newest:
                self._refuse(position, node)
            newest = max(newest, number)
            waiting += [entry for entry, _ in node.next_functions if entry is not None]
        self.newest = newest
        used = tuple(sorted(found))
        if not self.used or self.used[-1][1] != used:
            self.used.append((position, used))

    def _add(self, leaf: Tensor, found: set[int]) -> None:
        if id(leaf) in self.given:
            return
        number = self.numbers.get(id(leaf))
        if number is None:
            number = self.numbers[id(leaf)] = len(self.leaves)
            self.leaves.append(leaf)
        found.add(number)

    @staticmethod
    def _refuse(position: int, node: Any) -> None:
        raise RuntimeError(
            f"revolve: expected step {position} to use nothing with a history but its state and "
            f"args, got the result of {node.name()}, recorded at {node.source_line}; pass that "
            "tensor with args=(...), make it part of the state, or compute it in step"
        )


class _Loop:
    """One call of `revolve`: what is needed to sweep back through it."""

    def __init__(
        self,
        step: Callable[..., Any],
        state: Any,
        args: tuple[Any, ...],
        slots: tuple[int, int, Any],
        preserve: bool,
    ) -> None:
        self.step = step
        self.surroundings = Surroundings(step, args, random=preserve)
        self.preserve = preserve
        self.state, self.first_leaves = _cut(state)
        self.args, self.arg_leaves = _cut(args)
        self.total = slots[0] + slots[1]
        self.disk_slots = slots[1]
        self.store = Store(*slots)
        self.outside = _Outside(self.arg_leaves)
        self.n = 0
        self.on_disk: set[int] = set()  # places in the stack
        self.last: Any = None  # what is left of the forward: (inputs, outputs) of the last step
        self.actions: Iterator[Any] = iter(())

    def _randomness(self) -> Randomness | None:
        return Randomness(self.surroundings.generators) if self.preserve else None

    # ---- forward

    def _record(self, state: Any, position: int) -> Any:
        """Take a step with recording, and hold on to its record."""
        state, inputs = _cut(state)
        result = self.step(state, position, *self.args)
        outputs = _leaves(result)
        self.outside.note(position, inputs, outputs)
        self.last = inputs, outputs
        return result

    def run(self, n: int) -> Any:
        """Run a loop of known length."""
        self.n = n
        self.on_disk = places_on_disk(n, self.total, self.disk_slots)
        self.actions = revolve_schedule(n, self.total)
        state = self.state
        for action in self.actions:
            kind = action[0]
            if kind == "advance":
                for position in range(action[1], action[2]):
                    state = self._record(state, position)
            elif kind == "store":
                self._put(action, state)
            else:
                state = self._record(state, action[1])
                break
        self._check()
        return state

    def run_until(self, until: Callable[[Any], Any], most: int | None) -> Any:
        """Run a loop until a condition holds."""
        places = OnlinePlaces(self.total)
        state, position = self.state, 0
        self.store.put(0, Stored.of(state, self.first_leaves, self._randomness()))
        before: Stored | None = None
        while (most is None or position < most) and not until(state):
            if before is not None:  # it was not the last step: its state may be worth a slot
                gone = places.place()
                if gone is not None:
                    self.store.drop(gone)
                self.store.put_newest(position - 1, before)
            before = None
            if places.wants(position):
                before = Stored.of(*_cut(state), self._randomness())
            state = self._record(state, position)
            position += 1
        self.n = position
        self.actions = places.unwind(position)
        self._check()
        return state

    def _check(self) -> None:
        for position, stored in self.store.memory.items():
            stored.check(position)

    def _put(self, action: Any, state: Any) -> None:
        _, position, place = action
        stored = Stored.of(*_cut(state), self._randomness())
        if self.on_disk or not self.disk_slots:
            self.store.put(position, stored, place in self.on_disk)
        else:  # of a loop whose length was unknown
            self.store.put_newest(position, stored)

    # ---- backward

    def sweep(self, adjoints: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the gradients of the first state's leaves, of args' and of the leaves outside."""
        sums = _Sums(self)
        last, self.last = self.last, None
        if last is None:  # swept before: nothing but the first state is left
            self.store.clear()
            self.actions = revolve_schedule(self.n, self.total)
        actions, self.actions = self.actions, iter(())
        with self.surroundings, sums.without_hooks():
            if last is not None:
                inputs, outputs = last
                adjoints = sums.sweep(self.n - 1, inputs, outputs, adjoints)
            last = inputs = outputs = None  # what is not needed goes at once
            state: Any = self.state
            for action in actions:
                kind = action[0]
                if kind == "reverse":
                    if all(each is None for each in adjoints):  # nothing before it matters
                        adjoints = [None] * len(self.first_leaves)
                        break
                    state, inputs = _cut(state)
                    outputs = _leaves(self.step(state, action[1], *self.args))
                    adjoints = sums.sweep(action[1], inputs, outputs, adjoints)
                    state = inputs = outputs = None
                elif kind == "advance":
                    state = self._advance(state, action[1], action[2])
                elif kind == "restore":
                    stored = self.store.get(action[1])
                    if stored.randomness is not None:
                        stored.randomness.bring_back()
                    state = stored.state
                elif kind == "store":
                    self._put(action, state)
                else:
                    self.store.drop(action[1])
        self.store.clear()
        return adjoints, sums.of_args, sums.of_outside

    def _advance(self, state: Any, start: int, stop: int) -> Any:
        step, args = self.step, self.args
        if isinstance(state, Tensor) and not args:
            for position in range(start, stop):
                if not isinstance(state, Tensor):
                    return self._advance(state, position, stop)
                state = step(state.detach().requires_grad_(state.requires_grad), position)
            return state
        for position in range(start, stop):
            state = step(_cut(state)[0], position, *args)
        return state


class _Sums:
    """The gradients of what all steps share, added up sweep by sweep."""

    def __init__(self, loop: _Loop) -> None:
        self.outside = loop.outside.leaves
        self.used = list(loop.outside.used)
        self.args = loop.arg_leaves
        self.of_outside: list[Any] = [None] * len(self.outside)
        self.of_args: list[Any] = [None] * len(self.args)
        self.wanted_args = [i for i, each in enumerate(self.args) if _needs_grad(each)]

    def sweep(
        self, position: int, inputs: list[Any], outputs: list[Any], adjoints: list[Any]
    ) -> list[Any]:
        """Sweep through the record of a step; return the gradients of its inputs."""
        if len(outputs) != len(adjoints):
            raise RuntimeError(
                f"revolve: step {position} returned {len(outputs)} values when it ran again, "
                f"expected {len(adjoints)} as before; step must do the same each time"
            )
        roots, grads = [], []
        for output, adjoint in zip(outputs, adjoints, strict=True):
            if adjoint is not None and _needs_grad(output):
                if output.shape != adjoint.shape:
                    raise RuntimeError(
                        f"revolve: step {position} returned a tensor of shape "
                        f"{tuple(output.shape)} when it ran again, expected "
                        f"{tuple(adjoint.shape)} as before; step must do the same each time"
                    )
                roots.append(output)
                grads.append(adjoint)
        if not roots:
            return [None] * len(inputs)
        while self.used[-1][0] > position:
            self.used.pop()
        wanted: list[Tensor] = []
        shared = [(self.outside, self.of_outside, number) for number in self.used[-1][1]]
        shared += [(self.args, self.of_args, number) for number in self.wanted_args]
        for tensors, sums, number in shared:
            wanted.append(tensors[number])
            if sums[number] is not None:
                roots.append(tensors[number])
                grads.append(sums[number])
        places = [i for i, each in enumerate(inputs) if _needs_grad(each)]
        wanted += [inputs[i] for i in places]
        if not wanted:
            return [None] * len(inputs)
        found = _C.run_backward(roots, grads, False, False, wanted, False)
        for (_, sums, number), grad in zip(shared, found, strict=False):
            sums[number] = grad
        result: list[Any] = [None] * len(inputs)
        for place, grad in zip(places, found[len(shared) :], strict=True):
            result[place] = grad
        return _once(inputs, result)

    def without_hooks(self) -> Any:
        """Return a context in which hooks of the leaves outside wait for the whole gradient."""
        return _WithoutHooks(self.outside)


def _once(inputs: list[Any], grads: list[Any]) -> list[Any]:
    """Leave the gradient of a tensor that is there twice in one place."""
    if len(inputs) < 2:
        return grads
    seen: set[int] = set()
    for place, each in enumerate(inputs):
        if grads[place] is not None and id(each) in seen:
            grads[place] = None
        seen.add(id(each))
    return grads


class _WithoutHooks:
    def __init__(self, tensors: list[Tensor]) -> None:
        self.tables = [_C._tensor_hooks(tensor) for tensor in tensors]

    def __enter__(self) -> None:
        self.kept = [dict(table) for table in self.tables]
        for table in self.tables:
            table.clear()

    def __exit__(self, *exception: object) -> None:
        for table, kept in zip(self.tables, self.kept, strict=True):
            table.update(kept)


class _Revolve(Function):
    """The entry that a whole loop leaves on the tape."""

    @staticmethod
    def forward(ctx: Any, loop: _Loop, places: Any, *tensors: Tensor) -> Any:  # type: ignore[override]
        _, outputs = loop.last
        ctx.loop = loop
        ctx.places = places
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        results = [each.detach() for each in outputs if isinstance(each, Tensor)]
        constant = [each for each in outputs if isinstance(each, Tensor)]
        ctx.mark_non_differentiable(
            *(new for new, old in zip(results, constant, strict=True) if not old.requires_grad)
        )
        ctx.tensor_places = [i for i, each in enumerate(outputs) if isinstance(each, Tensor)]
        ctx.count = len(outputs)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        tensors = ctx.saved_tensors  # read also for its checks: nobody wrote, nothing was freed
        adjoints: list[Any] = [None] * ctx.count
        for place, grad in zip(ctx.tensor_places, grads, strict=True):
            adjoints[place] = grad
        if _C.is_grad_enabled():
            return (None, None, *_recorded_sweep(ctx.loop, ctx.places, tensors, adjoints))
        state, args, outside = ctx.loop.sweep(adjoints)
        state_places, arg_places = ctx.places
        found = [state[i] for i in state_places] + [args[i] for i in arg_places] + outside
        return (None, None, *found)


class _Link(Function):
    """Passes a value on, and its gradient unless the link is open."""

    @staticmethod
    def forward(ctx: Any, switch: dict[str, bool], x: Tensor) -> Tensor:  # type: ignore[override]
        ctx.switch = switch
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        return None, None if ctx.switch["open"] else grad


def _recorded_sweep(loop: _Loop, places: Any, tensors: Any, adjoints: list[Any]) -> list[Any]:
    """Return gradients that can be differentiated again, from a record of the whole loop.

    The sweep must end at the loop's inputs, also where one of them was computed from another; what
    it records must lead on. So the inputs are links, open while it runs.
    """
    switch = {"open": True}
    count = len(tensors) - len(loop.outside.leaves)
    inputs = [_Link.apply(switch, each) for each in tensors[:count]]
    given = iter(inputs)
    trees = []
    for tree in (loop.state, loop.args):
        leaves, structure = tree_flatten(tree)
        trees.append(
            tree_unflatten(
                [next(given) if isinstance(each, Tensor) else each for each in leaves], structure
            )
        )
    state, args = trees
    inputs += loop.outside.leaves
    with loop.surroundings, _WithoutHooks(loop.outside.leaves):
        outputs = _leaves(_plain_loop(loop.step, state, loop.n, args, None))
        pairs = [
            (output, adjoint)
            for output, adjoint in zip(outputs, adjoints, strict=True)
            if adjoint is not None and _needs_grad(output)
        ]
        wanted = [i for i, each in enumerate(inputs) if each.requires_grad]
        found: list[Any] = [None] * len(inputs)
        if pairs and wanted:
            roots, grads = zip(*pairs, strict=True)
            targets = [inputs[i] for i in wanted]
            swept = _C.run_backward(roots, grads, True, True, targets, False)
            for i, grad in zip(wanted, swept, strict=True):
                found[i] = grad
    switch["open"] = False
    return found


def revolve(
    step: Callable[..., Any],
    state: Any,
    n: int | None,
    slots: int,
    *,
    args: tuple[Any, ...] = (),
    until: Callable[[Any], Any] | None = None,
    disk_slots: int = 0,
    folder: Any = None,
    preserve_rng_state: bool = True,
) -> Any:
    """Run ``for i in range(n): state = step(state, i)``, differentiable in few stored states.

    Backward computes states again from those that are stored, with the fewest steps that are
    possible: `revolve_cost` advances in all, and each step once with recording. Gradients are those
    of the plain loop, to the bit, as long as the tensors that the steps share are used in the loop
    alone. A backward with ``create_graph=True`` records the whole loop.

    Args:
        step: computes the next state from a state, the number of the step, and `args`. It must do
            the same each time it is called with the same, random numbers apart, which it sees
            again, and must not write to its state in place. Leaves that require grad, such as the
            parameters of a module, may be used without being passed; other tensors with a history
            belong into `args` or into the state.
        state: a tensor, or tensors and other values in tuples, lists and dicts.
        n: how many steps to take. None, or the most to take, if `until` is given.
        slots: how many states may be stored in memory, the first one among them.
        args: further arguments of step, the same for all steps.
        until: a function of the state: ends the loop before the first step for which it is true.
            The length is then unknown while states are stored, and a few more steps are computed;
            never more than ``r * n``, where r is the least number of times that some step must be
            advanced.
        disk_slots: how many more states may be stored in files.
        folder: where to make the folder for these files; it is removed when it is not needed.
        preserve_rng_state: whether steps see the same random numbers again.

    Returns:
        The last state.

    Example:
        >>> w = torch.tensor(0.5, requires_grad=True)
        >>> x = torch.tensor(1.0)
        >>> y = torch.tape.revolve(lambda x, i: torch.sin(x * w), x, 1000, 5)
        >>> y.backward()
        >>> w.grad
        tensor(...)
    """
    _expect_counts("revolve", 0 if n is None else n, slots)
    expect_count("revolve", "disk_slots", disk_slots, 0)
    expect_type("revolve", "args", args, (tuple, list), "a tuple")
    for name, function in (("step", step), ("until", until)):
        if not callable(function) and (name == "step" or function is not None):
            kind = type(function).__name__
            raise TypeError(f"revolve: expected {name} to be a function, got {kind}")
    if n is None and until is None:
        raise ValueError("revolve: expected the number of steps n, or a function until; got none")
    if not _C.is_grad_enabled() or has_tangents(state, args):
        return _plain_loop(step, state, n, args, until)
    loop = _Loop(step, state, tuple(args), (slots, disk_slots, folder), preserve_rng_state)
    try:
        result = loop.run(n or 0) if until is None else loop.run_until(until, n)
    except BaseException:
        loop.store.clear()
        raise
    if loop.last is None:  # no step was taken
        loop.store.clear()
        return state
    return _attach(loop, state, args, result)


def _plain_loop(step: Any, state: Any, n: int | None, args: tuple[Any, ...], until: Any) -> Any:
    position = 0
    while (n is None or position < n) and not (until is not None and until(state)):
        state = step(state, position, *args)
        position += 1
    return state


def _attach(loop: _Loop, state: Any, args: tuple[Any, ...], result: Any) -> Any:
    """Give the last state its history."""
    leaves, structure = tree_flatten(result)
    firsts, given = _leaves(state), tree_flatten(tuple(args))[0]
    state_places = [i for i, each in enumerate(firsts) if isinstance(each, Tensor)]
    arg_places = [i for i, each in enumerate(given) if isinstance(each, Tensor)]
    tensors = [firsts[i] for i in state_places] + [given[i] for i in arg_places]
    tensors += loop.outside.leaves
    if not any(each.requires_grad for each in tensors):
        loop.store.clear()
        return tree_unflatten(
            [each.detach() if isinstance(each, Tensor) else each for each in leaves], structure
        )
    outputs = iter(_Revolve.apply(loop, (state_places, arg_places), *tensors))
    return tree_unflatten(
        [next(outputs) if isinstance(each, Tensor) else each for each in leaves], structure
    )
