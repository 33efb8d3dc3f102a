"""Calls whose result can be differentiated: a trace forward, one backward, and an entry between.

When such a call is recorded, the sweep from its results is captured as well, beside the user's
own, from gradients of ones. What the sweep reads of the forward's values the forward trace hands
out, and the entry of the tape keeps it. A backward replays the second trace.

Where that is not enough, for a derivative of the derivative, for gradients that are missing or laid
out in another way, or where somebody observes ops, the function runs again with recording on and
its own tape is swept. It must find everything as it was; if not, the error says so.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd import Function, grad
from tapegrad.compiler._recording import (
    ARGUMENT,
    DICT,
    LIST,
    MADE,
    NO_HISTORY,
    TENSOR,
    TUPLE,
    VALUE,
    Made,
    Part,
    Recording,
    Source,
    Value,
    check_range,
    same_values,
)
from tapegrad.compiler._walk import Refusal, Walk

if TYPE_CHECKING:
    from tapegrad.compiler._recording import Live

__all__ = ["LEAST_BYTES", "Differentiable", "record_backward"]

# What a call must make at least: an entry written in Python, with all parameters as its inputs,
# takes longer than a small model takes eagerly.
LEAST_BYTES = 1 << 20


class Differentiable:
    """What is known of a differentiable trace besides its forward: the first part of its result."""

    def __init__(self, recording: Recording, live: "Live") -> None:
        self.walk = recording.walk
        self.parts = recording.argument_parts
        self.results = recording.results  # as the function gave them
        self.outputs = [number for number, _ in live.outputs]  # which of the made tensors
        self.made_count = 0  # of those that the function gave
        self.inputs: list[tuple[bool, int]] = live.inputs  # arguments or lasting tensors
        self.saved: list[tuple[bool, int]] = []  # those that the backward reads
        self.lasting = [tensor for tensor, _ in recording.lasting]
        self.backward: Recording | None = None
        self.trace: Any = None  # of the backward
        self.counters = 0  # of the generator, that a call uses
        self.function: Callable[..., Any] = live.function

    def is_same(self, other: "Differentiable") -> bool:
        """Whether another call is differentiated in the same way."""
        if (self.outputs, self.inputs, self.saved) != (other.outputs, other.inputs, other.saved):
            return False
        if self.backward is None or other.backward is None:
            return False
        return same_values(self.results, other.results) and self.backward.is_same(other.backward)

    def attach(self, result: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Give what a forward trace left behind its place in the graph."""
        given: list[Tensor] = []
        at = _gather(self.parts, 0, args, given)
        _gather(self.parts, at, kwargs, given)
        made = list(result[1 : 1 + self.made_count])
        call = _Replayed(self, args, kwargs, given)
        kept = result[1 + self.made_count :]
        inputs = [self._find(place, given) for place in self.inputs]
        saved = [self._find(place, given) for place in self.saved]
        outputs = Compiled.apply(call, [made[i] for i in self.outputs], (*kept, *saved), *inputs)
        for number, output in zip(self.outputs, outputs, strict=True):
            made[number] = output
        value, _ = _built(self.results, 0, made, given)
        return value

    def _find(self, place: tuple[bool, int], given: list[Tensor]) -> Tensor:
        is_argument, number = place
        return given[number] if is_argument else self.lasting[number]


class _Replayed:
    """One call: what is needed to sweep it, and to run it again."""

    def __init__(self, known: Differentiable, args: Any, kwargs: Any, given: list[Tensor]) -> None:
        self.known = known
        self.call = _copied((args, kwargs))  # as it is now, whatever becomes of lists and dicts
        self.given = given
        self.versions = [tensor._version for tensor in (*given, *known.lasting)]
        self.autocast = _C._autocast_state()
        # After the call: it is set back by what the call drew.
        self.random = _C.get_rng_state() if known.counters else None

    def sweep(self, saved: tuple[Tensor, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradients of all inputs."""
        known = self.known
        if not _C.is_grad_enabled() and all(each is not None for each in grads):
            arguments = tuple(each.detach() for each in (*grads, *saved))
            result = _C._run_in_sweep(known.trace, arguments)
            if result is None:  # perhaps they are only laid out in another way
                dense = tuple(each.contiguous() for each in arguments[: len(grads)])
                result = _C._run_in_sweep(known.trace, (*dense, *arguments[len(grads) :]))
            if result is not None:
                return tuple(result)
        return self._run_again(grads)

    def _run_again(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        known = self.known
        self._check_unchanged()
        creates = _C.is_grad_enabled()
        now = _C.get_rng_state()
        _C._enter_autocast_state(self.autocast)
        if self.random is not None:
            _C.set_rng_state(self.random)
            _C._rewind_generator(known.counters)
        _C.set_grad_enabled(True)
        try:
            result = known.function(*self.call[0], **self.call[1])
        finally:
            _C.set_grad_enabled(creates)
            _C.set_rng_state(now)
            _C._leave_autocast()
        made: dict[int, Tensor] = {}
        _collect(known.results, 0, result, made)
        pairs = [
            (made[number], each)
            for number, each in zip(known.outputs, grads, strict=True)
            if each is not None
        ]
        inputs = [known._find(place, self.given) for place in known.inputs]
        if not pairs:
            return (None,) * len(inputs)
        roots, seeds = zip(*pairs, strict=True)
        return grad(roots, inputs, seeds, create_graph=creates, allow_unused=True)

    def _check_unchanged(self) -> None:
        known = self.known
        versions = [tensor._version for tensor in (*self.given, *known.lasting)]
        if versions != self.versions:
            raise RuntimeError(
                "backward: a compiled function has to run again for this derivative, but one of "
                "the variables needed for gradient computation has been modified by an inplace "
                "operation since; do so after the backward"
            )
        change = known.walk.watch.find_change()
        if change >= 0:
            raise RuntimeError(
                "backward: a compiled function has to run again for this derivative, but "
                f"{known.walk.names[change]} has changed since; do so after the backward"
            )


class Compiled(Function):
    """The entry of a replayed call."""

    @staticmethod
    def forward(ctx: Any, call: _Replayed, outputs: list[Tensor], saved: Any, *_: Tensor) -> Any:
        ctx.set_materialize_grads(False)
        ctx.call = call
        ctx.save_for_backward(*saved)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, None, None, *ctx.call.sweep(ctx.saved_tensors, grads))


def _copied(value: Any) -> Any:
    """Return containers of one's own, with the same things in them."""
    if type(value) in (tuple, list):
        return type(value)(_copied(each) for each in value)
    if type(value) is dict:
        return {key: _copied(each) for key, each in value.items()}
    return value


def _gather(parts: list[Part], at: int, value: Any, given: list[Tensor]) -> int:
    """Add the tensors of arguments, in the order of a recording."""
    kind = parts[at][0]
    at += 1
    if kind == TENSOR:
        given.append(value)
    elif kind in (TUPLE, LIST, DICT):
        for each in value.values() if kind == DICT else value:
            at = _gather(parts, at, each, given)
    return at


def _built(parts: list[Part], at: int, made: list[Tensor], given: list[Tensor]) -> tuple[Any, int]:
    kind, number, value = parts[at]
    at += 1
    if kind == VALUE:
        return value, at
    if kind in (TENSOR, ARGUMENT):
        return (made if kind == TENSOR else given)[number], at
    children = []
    for _ in range(number):
        child, at = _built(parts, at, made, given)
        children.append(child)
    if kind == DICT:
        return dict(zip(value, children, strict=True)), at
    if kind == MADE:
        return value(*children), at
    return (tuple(children) if kind == TUPLE else children), at


def _collect(parts: list[Part], at: int, value: Any, made: dict[int, Tensor]) -> int:
    """Find the tensors of a result by the numbers that they had when it was recorded."""
    kind, number, maker = parts[at]
    at += 1
    if kind == TENSOR:
        made[number] = value
    if kind == MADE:
        value, kind = maker.parts_of(value), LIST
    if kind in (TUPLE, LIST, DICT):
        for child in value.values() if kind == DICT else value:
            at = _collect(parts, at, child, made)
    return at


# ---- recording


def record_backward(recording: Recording, live: "Live", made_values: dict[int, int]) -> None:
    """Capture the sweep from a call's results, and let the call hand out what it reads.

    Args:
        recording: the call.
        live: its differentiable results, and what they depend on.
        made_values: by memory, the values that the call made.
    """
    made_bytes = sum(value.nbytes for value in recording.values if value.is_made)
    if made_bytes < LEAST_BYTES:
        raise Refusal(
            "its result is differentiated outside, and it is so small that this takes longer than "
            "running it: compile the whole step"
        )
    known = Differentiable(recording, live)
    outputs = [tensor for _, tensor in live.outputs]
    if not _C._is_plain_graph(outputs, live.leaves):
        raise Refusal("its result depends on hooks, or on leaves that are not followed")
    before = _C._generator_state()
    seeds = [_C.ones_like(tensor).detach() for tensor in outputs]
    program = _C.Program()
    program.keep_lines()
    try:
        with program:
            found = grad(outputs, live.leaves, seeds, retain_graph=True, allow_unused=True)
            copies = [None if each is None else each.detach().clone() for each in found]
            del found
    except RuntimeError as error:
        raise Refusal(f"its backward fails: {error}") from error
    if _C._generator_state() != before:
        raise Refusal("its backward draws random numbers")
    _check_backward(recording, program)
    backward = _Backward(recording, known, seeds, made_values)
    known.backward = backward.settle(program, copies)
    known.made_count = len(recording.made)
    for value in backward.kept:
        nbytes = recording.values[value].nbytes
        recording.made.append(Made(value, _C.uint8, (nbytes,), (1,), 0, NO_HISTORY, -1))
    recording.differentiable = known
    parts: list[Part] = [(TUPLE, 1 + len(recording.made), None), (VALUE, 0, known)]
    recording.results = parts + [(TENSOR, number, None) for number in range(len(recording.made))]


def _check_backward(recording: Recording, program: Any) -> None:
    change = recording.walk.watch.find_change()
    if change >= 0:
        raise Refusal(f"its backward changes {recording.walk.names[change]}")
    if program.refusal or program.has_guards:
        raise Refusal(program.refusal or "its backward looks at values")
    for name, *_ in program.steps():
        if "seed" in _C._op_attributes(name):
            raise Refusal("its backward draws random numbers")


class _Backward:
    """The recording of a backward: all that it reads is given."""

    def __init__(
        self, recording: Recording, known: Differentiable, seeds: list[Tensor], made: dict[int, int]
    ) -> None:
        self.forward = recording
        self.known = known
        self.arguments = list(seeds)
        self.kept: list[int] = []
        self._made = made
        self._owners = [
            *((True, n, tensor) for n, tensor in enumerate(recording.arguments)),
            *((False, n, tensor) for n, (tensor, _) in enumerate(recording.lasting)),
        ]
        self._seeds = {_C._memory_id(each): n for n, each in enumerate(seeds)}

    def settle(self, program: Any, copies: list[Any]) -> Recording:
        backward = Recording(Walk(), self.forward.environment)
        program.drop_temporaries()
        values = program.values()
        by_memory = {}
        sources: list[tuple[int, str, Any]] = []
        for number, (memory, nbytes, device, is_made, _, is_written, used) in enumerate(values):
            if device != "cpu":
                raise Refusal(f"its backward computes on {device}")
            backward.values.append(Value(nbytes, is_made, is_written, used, None))
            key = None if memory is None else _C._memory_id(memory)
            by_memory[key] = number
            if is_made or used[0] == used[1]:
                continue
            if is_written:
                raise Refusal("its backward writes memory that existed before")
            self._add_source(sources, number, key, used)
        kept = [each for each in sources if each[1] == "kept"]
        saved = [each for each in sources if each[1] == "saved"]
        self.kept = [value for _, _, (value, _) in kept]
        for number, kind, found in (*kept, *saved):
            tensor = found[1]
            self.arguments.append(tensor)
            place = len(self.arguments) - 1
            offset = tensor.storage_offset() * tensor.element_size()
            backward.sources.append(Source(number, True, False, place, offset))
            if kind == "saved":
                self.known.saved.append(found[0])
        for number, kind, found in sources:
            if kind == "seed":
                backward.sources.append(Source(number, True, False, found, 0))
        self._describe(backward, copies, by_memory)
        backward.steps = program.steps()
        return backward

    def _add_source(self, sources: list[Any], number: int, key: Any, used: Any) -> None:
        if key in self._seeds:
            sources.append((number, "seed", self._seeds[key]))
            return
        if key in self._made:
            value = self._made[key]
            memory = self.forward.memory_of(value)
            sources.append((number, "kept", (value, memory)))
            return
        for is_argument, place, tensor in self._owners:
            if _C._memory_id(tensor) == key:
                check_range(used, [tensor])
                sources.append((number, "saved", ((is_argument, place), tensor.detach())))
                return
        raise Refusal("its backward uses a tensor that is reached in a way that is not followed")

    def _describe(self, backward: Recording, copies: list[Any], by_memory: Any) -> None:
        backward.argument_parts = [(TUPLE, len(self.arguments), None)]
        for number, tensor in enumerate(self.arguments):
            backward.argument_parts.append((TENSOR, number, Tensor))
            backward.argument_forms.append((_C._Form(tensor), -1, -1))
        for form, _, _ in backward.argument_forms:
            form.release()
        backward.argument_parts.append((DICT, 0, ()))
        backward.results = [(TUPLE, len(copies), None)]
        for each in copies:
            if each is None:
                backward.results.append((VALUE, 0, None))
                continue
            value = by_memory[_C._memory_id(each)]
            backward.results.append((TENSOR, len(backward.made), None))
            backward.made.append(
                Made(
                    value,
                    each.dtype,
                    tuple(each.shape),
                    tuple(each.stride()),
                    each.storage_offset(),
                    NO_HISTORY,
                    -1,
                )
            )
