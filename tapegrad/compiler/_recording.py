"""Running a function once while its calls are captured, and finding out what they depend on.

`record_call` runs the function eagerly, whatever comes of it: its result is what the caller gets.
Beside the result it returns a `Recording`, if all that happened can be told in terms that hold for
another call: which values of the captured program are arguments, parameters or gradients, which
tensors are left behind, what the result is made of. Where something cannot be told it returns a
`Refusal` instead, with the reason.
"""

import gc
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.compiler._made import maker_of
from tapegrad.compiler._walk import Change, Refusal, Walk
from tapegrad.nn.parameter import Buffer, Parameter
from tapegrad.optim.optimizer import printed

__all__ = ["Made", "Recording", "Source", "Value", "record_call"]

# The kinds of parts of a tree: those of csrc/python/trace.cpp.
TENSOR, ARGUMENT, VALUE, TUPLE, LIST, DICT, MADE = range(7)
Part = tuple[int, int, Any]
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
NO_HISTORY, LEAF, SPENT = range(3)


class Value(NamedTuple):
    """Some memory that the program names."""

    nbytes: int
    is_made: bool
    is_written: bool
    used: tuple[int, int]
    fixed: Tensor | None  # shows the memory of a lasting tensor
    device: str = "cpu"


class Source(NamedTuple):
    """Whose memory a value is: an argument's, or that of a gradient."""

    value: int
    is_argument: bool
    is_grad: bool
    number: int
    offset: int  # in bytes


class Made(NamedTuple):
    """A tensor that a call leaves behind."""

    value: int
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    history: int
    base: int


class Recording:
    """A captured call, in terms that hold for others."""

    def __init__(self, walk: Walk, environment: Any) -> None:
        self.walk = walk
        self.environment = environment
        self.seconds = 0.0  # that the call took, and what was found out about it
        self.arguments: list[Tensor] = []  # while the call runs
        self.argument_types: list[str] = []
        self.argument_parts: list[Part] = []
        self.argument_forms: list[tuple[Any, int, int]] = []
        self.lasting: list[tuple[Tensor, Any]] = []
        self.steps: list[tuple[Any, ...]] = []
        self.values: list[Value] = []
        self.sources: list[Source] = []
        self.made: list[Made] = []
        self.grads: list[tuple[bool, int, int]] = []
        self.results: list[Part] = []
        self.lifts: list[tuple[int, int, dict[str, Any]]] = []
        self.random: tuple[int, int, int] = (0, 0, 0)  # the seed, where it began, where it ended
        self.device = -1  # the CUDA device that it computes on, if it does
        self.device_random: tuple[int, int, int] = (0, 0, 0)  # the same of its generator
        self.differentiable: Any = None  # what else belongs to it, if its result has a history
        self._memory: dict[int, Tensor] = {}  # of made values, while the call is recorded

    def memory_of(self, value: int) -> Tensor:
        """Return a tensor that shows the memory of a made value."""
        return self._memory[value]

    def is_same(self, other: "Recording") -> bool:
        """Whether two calls did the same."""
        if (self.differentiable is None) != (other.differentiable is None):
            return False
        if self.differentiable is not None:
            if not self.differentiable.is_same(other.differentiable):
                return False
        elif not same_values(self.results, other.results):
            return False
        return self._described() == other._described()

    def guards(self) -> list[tuple[Any, ...]]:
        """Return the steps at which a value was looked at."""
        return [step for step in self.steps if step[0] == "read"]

    def first_difference(self, other: "Recording") -> tuple[int, str]:
        """Return number and name of the first step that another call did not take."""
        mine, others = self._described()[0], other._described()[0]
        for number, (one, two) in enumerate(zip(mine, others, strict=False)):
            if one != two:
                return number, f"{one[0]} here, {two[0]} now" if one[0] != two[0] else one[0]
        return min(len(mine), len(others)), "the end of one of them"

    def _random_start(self, step: tuple[Any, ...]) -> int:
        """Return where the generator was that a step draws from, if it draws."""
        on_device = bool(step[3]) and step[3][0][-1] != "cpu"
        return (self.device_random if on_device else self.random)[1]

    def _described(self) -> tuple[Any, ...]:
        lifted = {step for step, _, _ in self.lifts}
        starts = {source.value: source.offset for source in reversed(self.sources)}
        steps = [
            _without_numbers(_from_starts(step, starts), number in lifted, self._random_start(step))
            for number, step in enumerate(self.steps)
        ]
        values = [
            value._replace(fixed=None, nbytes=0, used=_moved(value.used, -starts[number]))
            if number in starts
            else value._replace(fixed=None)
            for number, value in enumerate(self.values)
        ]
        sources = [each._replace(offset=each.offset - starts[each.value]) for each in self.sources]
        fixed = [id(value.fixed) and _memory(value.fixed) for value in self.values]
        used = self.random[2] - self.random[1], self.device_random[2] - self.device_random[1]
        lifts = [(step, which) for step, which, _ in self.lifts]
        return steps, values, fixed, sources, self.made, self.grads, lifts, used


def _memory(tensor: Tensor | None) -> int:
    return 0 if tensor is None else int(_C._memory_id(tensor))


def _moved(span: tuple[int, int], by: int) -> tuple[int, int]:
    return span[0] + by, span[1] + by


def _from_starts(step: tuple[Any, ...], starts: dict[int, int]) -> tuple[Any, ...]:
    """Return a step whose operands in given memory lie where they do in what is given."""

    def moved(operand: Any) -> Any:
        if not isinstance(operand, tuple) or operand[0] not in starts:
            return operand
        value, offset, shape, strides, dtype, device = operand
        return value, offset * dtype.itemsize - starts[value], shape, strides, dtype, device

    name, inputs, attributes, outputs, data, line = step
    return name, tuple(map(moved, inputs)), attributes, tuple(map(moved, outputs)), data, line


def _without_numbers(step: tuple[Any, ...], is_lifted: bool, start: int) -> tuple[Any, ...]:
    """Return a step with what differs from call to call left out, and floats as their bits."""
    name, inputs, attributes, outputs, data, _ = step
    names = _C._op_attributes(name)
    if is_lifted:
        attributes = attributes[:2]
    elif "seed" in names:
        places = names.index("seed"), names.index("offset")
        attributes = tuple(
            0 if i == places[0] else each - start if i == places[1] else each
            for i, each in enumerate(attributes)
        )
    bits = tuple(each.hex() if isinstance(each, float) else each for each in attributes)
    inputs = tuple(each.hex() if isinstance(each, float) else each for each in inputs)
    kinds = tuple(type(each) for each in (*attributes, *inputs))
    return name, inputs, bits, outputs, data, kinds


def same_values(mine: list[Part], others: list[Part]) -> bool:
    if len(mine) != len(others):
        return False
    for (kind, number, value), (kind2, number2, value2) in zip(mine, others, strict=True):
        if (kind, number) != (kind2, number2):
            return False
        if value is not value2 and (type(value) is not type(value2) or repr(value) != repr(value2)):
            return False
    return True


def record_call(
    function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, "Recording | Refusal"]:
    """Run a function and record the call.

    Returns:
        What the function returned, and the recording, or why there is none.
    """
    start = time.perf_counter()
    try:
        call = _Call(function, name, args, kwargs)
    except Refusal as refusal:
        return function(*args, **kwargs), refusal
    result = call.run(function, args, kwargs)
    try:
        recording = call.settle(result, args, kwargs)
        recording.seconds = time.perf_counter() - start
        return result, recording
    except Refusal as refusal:
        return result, refusal


class Live(NamedTuple):
    """The differentiable results of a call, and what they are differentiated by."""

    function: Callable[..., Any]
    outputs: list[tuple[int, Tensor]]  # the numbers of made tensors
    inputs: list[tuple[bool, int]]  # arguments, or lasting tensors
    leaves: list[Tensor]


class _Call:
    """One call while it is recorded."""

    def __init__(
        self, function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        walk = Walk()
        self.function = function
        self.recording = Recording(walk, _C._Environment())
        objects: list[tuple[Any, str]] = []
        self._add_arguments(args, kwargs, objects)
        walk.follow([(function, name), *objects])
        if any(walk.has_reached(each) for each in self.containers.values()):
            # What the function finds by itself as well is compared as that.
            self.recording = Recording(walk, self.recording.environment)
            self._add_arguments(args, kwargs, [])
        recording = self.recording
        lasting = {}
        for number, (tensor, path) in enumerate(walk.tensors.values()):
            form = _form_of(tensor, path)
            if form.has_history:
                raise Refusal(f"{path} has a history of its own")
            recording.lasting.append((tensor, form))
            lasting[id(tensor)] = number
        seen: dict[int, int] = {}
        for number, tensor in enumerate(recording.arguments):
            same = seen.setdefault(id(tensor), number)
            form = _form_of(tensor, f"argument {number}")
            recording.argument_types.append(_type_of(tensor))
            recording.argument_forms.append(
                (form, same if same != number else -1, lasting.get(id(tensor), -1))
            )
        self.histories = [
            (number, tensor.grad_fn)
            for number, tensor in enumerate(recording.arguments)
            if not tensor.is_leaf
        ]
        if self.histories and "grad_fn" in walk._attributes:
            raise Refusal("it looks at the history of an argument")
        self.sweeps = _C._sweeps_begun()
        self.printed = printed[0]
        self.entry_grads = [_grad_of(tensor) for tensor in self._owners()]
        if walk.sees_gradients():
            known = {id(tensor) for tensor in self._owners()}
            if any(id(grad) in known for grad in self.entry_grads):
                raise Refusal(
                    "an argument, or a tensor that it reaches, is the gradient of another"
                )
        self.program = _C.Program()
        self.program.keep_lines()
        self.random_of: dict[int, tuple[int, int, int]] = {}  # by device

    def _owners(self) -> list[Tensor]:
        return [*self.recording.arguments, *(tensor for tensor, _ in self.recording.lasting)]

    def _add_arguments(self, args: Any, kwargs: Any, objects: list[tuple[Any, str]]) -> None:
        self.containers: dict[int, Any] = {}
        for each in (args, kwargs):
            self._add_argument(each, objects, is_outermost=True)

    def _add_argument(
        self, value: Any, objects: list[tuple[Any, str]], is_outermost: bool = False
    ) -> None:
        recording = self.recording
        if isinstance(value, Tensor):
            if type(value) not in (Tensor, Parameter, Buffer):
                raise Refusal(f"an argument is of a subclass of Tensor, {type(value).__name__}")
            if getattr(value, "__dict__", None):
                raise Refusal("an argument is a tensor with attributes")
            recording.argument_parts.append((TENSOR, len(recording.arguments), type(value)))
            recording.arguments.append(value)
        elif type(value) in (tuple, list, dict) and (
            is_outermost or type(value) is tuple or not recording.walk.has_reached(value)
        ):
            if not is_outermost and value != ():
                if id(value) in self.containers:
                    raise Refusal("a container is given twice")
                self.containers[id(value)] = value
            if type(value) is dict:
                objects += [(key, "a key of an argument") for key in value]
                recording.argument_parts.append((DICT, len(value), tuple(value)))
                children = list(value.values())
            else:
                recording.argument_parts.append(
                    (TUPLE if type(value) is tuple else LIST, len(value), None)
                )
                children = list(value)
            for child in children:
                self._add_argument(child, objects)
        else:
            recording.argument_parts.append((VALUE, 0, value))
            objects.append((value, "an argument"))

    # ---- running

    def run(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        seed, begin = _C._generator_state()
        before = _device_states()
        with self.program:
            result, self.steps = _C._with_optimizer_steps(lambda: function(*args, **kwargs))
        last_seed, end = _C._generator_state()
        self.recording.random = (seed, begin, end if last_seed == seed else -1)
        for number, state in _device_states().items():
            first = before.get(number, (0, -1))
            end = state[1] if state[0] == first[0] else -1
            self.random_of[number] = (*first, end)
        return result

    # ---- what it depends on and leaves behind

    def settle(self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Recording:
        recording, program = self.recording, self.program
        self._check_effects(args, kwargs)
        self._check_program()
        self._find_lifts()
        program.drop_temporaries()
        values = program.values()
        by_memory = {
            _C._memory_id(value[0]): n for n, value in enumerate(values) if value[0] is not None
        }
        self._find_sources(values, by_memory)
        live = self._find_made(result, by_memory, [value[3] for value in values])
        allowed = {each.value for each in recording.made}
        if live:
            allowed |= self._record_backward(live, values, by_memory)
        del values
        self._check_escapes(allowed)
        recording.steps = program.steps()
        _check_dtypes(recording.steps)
        recording.arguments = []
        for form, _, _ in recording.argument_forms:
            form.release()
        del self.program
        return recording

    def _check_effects(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        recording = self.recording
        walk = recording.walk
        if not recording.environment.is_same(_C._Environment()):
            raise Refusal(
                "it changes a mode (recording, autocast, default dtype, ...) for its caller"
            )
        if _C._is_observed():
            raise Refusal(
                "it begins to observe ops for its caller (anomaly mode, hooks, a profile)"
            )
        change = walk.watch.find_change()
        if change >= 0:
            raise Change(f"it changes {walk.names[change]}, which a trace does not repeat")
        for (tensor, form), (_, path) in zip(recording.lasting, walk.tensors.values(), strict=True):
            if not form.fits(tensor, True, False):
                raise Refusal(f"it gives {path} another shape, memory, history or requires_grad")
        for number, (form, _, _) in enumerate(recording.argument_forms):
            if not form.fits(recording.arguments[number], True, False):
                raise Refusal(
                    f"it gives argument {number} another shape, memory, history or requires_grad"
                )
        if self.histories and _C._sweeps_begun() != self.sweeps:
            raise Refusal("it goes backward, and an argument has a history of its own")
        for number, history in self.histories:
            if recording.arguments[number].grad_fn is not history:
                raise Refusal(f"it gives argument {number} another history")
        before = recording.argument_parts, recording.arguments
        after = _Call.__new__(_Call)
        after.recording = Recording(walk, None)
        after._add_arguments(args, kwargs, [])
        same_tensors = len(before[1]) == len(after.recording.arguments) and all(
            one is other for one, other in zip(before[1], after.recording.arguments, strict=True)
        )
        if not same_tensors or not _same_parts(before[0], after.recording.argument_parts):
            raise Refusal("it changes a container that is an argument")

    def _check_program(self) -> None:
        if self.program.refusal:
            raise Refusal(self.program.refusal)
        if self.recording.random[2] < self.recording.random[1]:
            raise Refusal("it seeds the generator")
        if any(is_written for _, is_written in self.program.foreign()):
            raise Refusal("another thread computed meanwhile")

    def _find_lifts(self) -> None:
        """Find the native steps whose numbers are read anew in each call."""
        walk, lifted = self.recording.walk, set()
        opened = {id(group): keys for group, keys in walk.groups}
        if self.printed != printed[0]:  # the numbers may be in a text
            opened = dict.fromkeys(opened, frozenset())
        for step, which, group in self.steps:
            if id(group) not in opened:
                raise Refusal(
                    "an optimizer takes a step that is reached in a way that is not followed"
                )
            if opened[id(group)] and not any(isinstance(each, Tensor) for each in _options(group)):
                self.recording.lifts.append((step, which, group))
                lifted.add(id(group))
        for group, keys in walk.groups:
            if keys and id(group) not in lifted:
                walk.watch.settle(group)

    def _find_sources(self, values: list[Any], by_memory: dict[int, int]) -> None:
        recording = self.recording
        fixed = {_C._memory_id(tensor): tensor for tensor, _ in recording.lasting}
        given: dict[int, list[tuple[bool, bool, int, Tensor]]] = {}
        for number, tensor in enumerate(recording.arguments):
            given.setdefault(_C._memory_id(tensor), []).append((True, False, number, tensor))
        count = len(recording.arguments)
        for number, grad in enumerate(self.entry_grads):
            if grad is not None and (number >= count or recording.argument_forms[number][2] < 0):
                place = number if number < count else number - count
                given.setdefault(_C._memory_id(grad), []).append(
                    (number < count, True, place, grad)
                )
        numbers = {number: memory for memory, number in by_memory.items()}
        for number, (memory, nbytes, device, is_made, _, is_written, used) in enumerate(values):
            if device != "cpu":
                self._check_device(device)
            key = numbers.get(number, 0)
            is_fixed = not is_made and key in fixed
            recording.values.append(
                Value(nbytes, is_made, is_written, used, memory if is_fixed else None, device)
            )
            if is_made or used[0] == used[1]:
                continue
            shown = given.get(key, [])
            if is_fixed:
                self._check_shared(number, shown, fixed[key])
                continue
            if not shown:
                raise Refusal("it uses a tensor that is reached in a way that is not followed")
            check_range(used, [each[-1] for each in shown])
            for is_argument, is_grad, place, tensor in shown:
                offset = tensor.storage_offset() * tensor.element_size()
                recording.sources.append(Source(number, is_argument, is_grad, place, offset))

    def _check_device(self, device: str) -> None:
        """Refuse programs that use several devices, or another one than the current."""
        recording = self.recording
        kind, _, index = device.partition(":")
        if kind != "cuda":
            raise Refusal(f"it computes on {device}; traces run on the CPU or a CUDA device")
        number = int(index or 0)
        if number != _C._cuda_current_device() or recording.device not in (-1, number):
            raise Refusal("it computes on several CUDA devices, or not on the current one")
        recording.device = number
        recording.device_random = self.random_of.get(number, (0, 0, -1))
        if recording.device_random[1] < 0:
            raise Refusal("it is the first to use the device")
        if recording.device_random[2] < recording.device_random[1]:
            raise Refusal("it seeds the generator of the device")

    def _check_shared(self, value: int, shown: list[Any], tensor: Tensor) -> None:
        """Refuse arguments that show a part of a tensor which the function finds by itself."""
        for is_argument, is_grad, place, _ in shown:
            if is_grad or not is_argument or self.recording.argument_forms[place][2] < 0:
                raise Refusal(
                    "an argument or gradient shares memory with a tensor that the function finds "
                    "by itself"
                )

    # ---- what is left behind

    def _record_backward(
        self, live: list[tuple[int, Tensor]], values: list[Any], by_memory: dict[int, int]
    ) -> set[int]:
        """Record the sweep from the results; return the values that their history keeps."""
        from tapegrad.compiler._differentiable import record_backward

        recording = self.recording
        if recording.device >= 0:
            raise Refusal(
                "it returns a tensor on a CUDA device that can be differentiated: compile the "
                "whole step, its backward included"
            )
        if recording.grads or any(
            each.is_written and not each.is_made and each.used[0] != each.used[1]
            for each in recording.values
        ):
            raise Refusal(
                "it returns a tensor that can be differentiated, and writes memory or gradients "
                "that existed before: compile the whole step, its backward included"
            )
        count = len(recording.arguments)
        inputs, leaves, seen = [], [], set()
        for number, tensor in enumerate(self._owners()):
            if tensor.requires_grad and id(tensor) not in seen:
                seen.add(id(tensor))
                inputs.append((number < count, number if number < count else number - count))
                leaves.append(tensor)
        made = {memory: number for memory, number in by_memory.items() if values[number][3]}
        recording._memory = {number: values[number][0] for number in made.values()}
        record_backward(recording, Live(self.function, live, inputs, leaves), made)
        recording._memory = {}
        kept = _C._saved_memory([tensor for _, tensor in live])
        return {by_memory[memory] for memory in kept if memory in by_memory}

    def _find_made(
        self, result: Any, by_memory: dict[int, int], is_made: list[bool]
    ) -> list[tuple[int, Tensor]]:
        recording = self.recording
        made = _MadeTensors(recording, by_memory, is_made)
        arguments = {id(tensor): n for n, tensor in reversed(list(enumerate(recording.arguments)))}
        lasting = {id(tensor) for tensor, _ in recording.lasting}
        seen = recording.walk._seen
        containers: dict[int, Any] = {}

        def add(value: Any) -> None:
            if isinstance(value, Tensor):
                if id(value) in arguments:
                    recording.results.append((ARGUMENT, arguments[id(value)], None))
                elif id(value) in lasting:
                    recording.results.append((VALUE, 0, value))
                else:
                    recording.results.append((TENSOR, made.number_of(value), None))
            elif isinstance(value, _PLAIN) or id(value) in seen:
                recording.results.append((VALUE, 0, value))
            elif type(value) in (tuple, list, dict):
                if type(value) is not tuple and id(value) in {**self.containers, **containers}:
                    raise Refusal("it returns a container that is an argument, or one twice")
                containers[id(value)] = value
                if type(value) is dict:
                    if not all(isinstance(key, _PLAIN) for key in value):
                        raise Refusal("it returns a dict whose keys are objects")
                    recording.results.append((DICT, len(value), tuple(value)))
                else:
                    recording.results.append(
                        (TUPLE if type(value) is tuple else LIST, len(value), None)
                    )
                for each in value.values() if type(value) is dict else value:
                    add(each)
            else:
                maker = maker_of(value)
                if maker is None or not all(isinstance(key, _PLAIN) for key in maker.keys):
                    raise Refusal(f"it returns a {type(value).__name__}, which a trace cannot make")
                if id(value) in {**self.containers, **containers}:
                    raise Refusal("it returns an object twice")
                containers[id(value)] = value
                parts = maker.parts_of(value)
                recording.results.append((MADE, len(parts), maker))
                for each in parts:
                    add(each)

        add(result)
        count = len(recording.arguments)
        for number, (tensor, before) in enumerate(
            zip(self._owners(), self.entry_grads, strict=True)
        ):
            is_argument = number < count
            grad = _grad_of(tensor)
            if grad is before or (is_argument and arguments[id(tensor)] != number):
                continue
            if is_argument and recording.argument_forms[number][2] >= 0:
                continue  # told of it as a lasting one
            place = -1 if grad is None else made.number_of(grad)
            recording.grads.append((is_argument, number if is_argument else number - count, place))
        self.entry_grads = []
        return made.live

    def _check_escapes(self, allowed: set[int]) -> None:
        """Refuse calls after which somebody else holds what they made."""
        for attempt in range(2):
            held = [
                number
                for number, value in enumerate(self.program.values())
                if value[0] is not None and value[3] and number not in allowed and value[1]
            ]
            if not held:
                return
            if attempt == 0:
                gc.collect()
                self.program.drop_temporaries()
        raise Refusal("a tensor that it made is kept by something other than its result or a .grad")


class _MadeTensors:
    """Numbers the tensors that a call leaves behind."""

    def __init__(
        self, recording: Recording, by_memory: dict[int, int], is_made: list[bool]
    ) -> None:
        self._made = recording.made
        self._by_memory = by_memory
        self._is_made = is_made
        self._numbers: dict[int, int] = {}
        self._keep: list[Tensor] = []
        self.live: list[tuple[int, Tensor]] = []  # those that can be differentiated

    def number_of(self, tensor: Tensor) -> int:
        if id(tensor) in self._numbers:
            return self._numbers[id(tensor)]
        value = self._by_memory.get(_C._memory_id(tensor))
        if value is None or not self._is_made[value]:
            raise Refusal(
                "it returns a view of memory that existed before, or of none that an op wrote"
            )
        if type(tensor) is not Tensor or getattr(tensor, "__dict__", None):
            raise Refusal("it returns a new tensor of a subclass, or with attributes")
        form = _C._Form(tensor)
        if form.has_grad or form.is_odd:
            raise Refusal("it returns a new tensor that has a gradient, hooks or a tangent")
        history = NO_HISTORY
        if tensor.requires_grad:
            history = LEAF if tensor.is_leaf else SPENT
            if history == SPENT and not _C._is_spent(tensor):
                history = NO_HISTORY
                self.live.append((len(self._made), tensor))
        base = -1
        if tensor._base is not None and tensor.requires_grad:
            raise Refusal("it returns a view with a history")
        if tensor._base is not None:
            base = self.number_of(tensor._base)
        place = Made(
            value,
            tensor.dtype,
            tuple(tensor.shape),
            tuple(tensor.stride()),
            tensor.storage_offset(),
            history,
            base,
        )
        self._made.append(place)
        self._keep.append(tensor)
        self._numbers[id(tensor)] = len(self._made) - 1
        return len(self._made) - 1


def _device_states() -> dict[int, tuple[int, int]]:
    """Return seed and offset of the current CUDA device's generator, if CUDA is in use."""
    import tapegrad

    if not tapegrad.cuda.is_initialized():
        return {}
    number = _C._cuda_current_device()
    return {number: _C._cuda_generator_state(number)}


def _grad_of(tensor: Tensor) -> Tensor | None:
    return tensor.grad if tensor.is_leaf else None


def _type_of(tensor: Tensor) -> str:
    """Return what a trace asks of an argument, as far as it can be said in a word."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    grad = ", requires_grad" if tensor.requires_grad else ""
    return f"{dtype}{list(shape)}, strides {list(strides)}{grad}"


def _form_of(tensor: Tensor, path: str) -> Any:
    form = _C._Form(tensor)
    if form.refusal:
        raise Refusal(f"{path} cannot be used by a trace: {form.refusal}")
    return form


def _options(group: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    for key, value in group.items():
        if key != "params":
            found += value if isinstance(value, tuple | list) else [value]
    return found


def _check_dtypes(steps: list[Any]) -> None:
    """Refuse complex numbers, which plans do not know."""
    for _, inputs, _, outputs, *_ in steps:
        for operand in (*inputs, *outputs):
            if isinstance(operand, tuple) and operand[4].is_complex:
                raise Refusal("it computes with complex numbers")


def _same_parts(before: list[Part], after: list[Part]) -> bool:
    return len(before) == len(after) and all(
        one[:2] == other[:2] and (one[2] is other[2] or one[2] == other[2])
        for one, other in zip(before, after, strict=True)
    )


def check_range(used: tuple[int, int], tensors: list[Tensor]) -> None:
    """Refuse a program that reaches further than the tensors that are given for a value."""
    begins, ends = [], []
    for tensor in tensors:
        if tensor.numel() == 0:
            continue
        item = tensor.element_size()
        begin = tensor.storage_offset() * item
        reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        begins.append(begin)
        ends.append(begin + (reach + 1) * item)
    if not begins or used[0] < min(begins) or used[1] > max(ends):
        raise Refusal("it uses more of the memory of an argument than the argument shows")
