"""What the inputs and outputs of a program are called."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.nn.modules.module import Module
from tapegrad.optim.optimizer import Optimizer
from tapegrad.tape._arguments import expect_type
from tapegrad.tape.program import Argument, Operand

__all__ = ["named_inputs", "named_outputs"]


def named_inputs(
    program: Any,
    names: Mapping[str, Tensor],
    inputs: Sequence[Tensor],
    modules: Sequence[Module],
    optimizers: Sequence[Optimizer],
) -> tuple[Argument, ...]:
    """Give every value from outside a name, or several where tensors share memory.

    Args:
        program: the native one.
        names: those that the user gave.
        inputs: of the recorded block.
        modules: whose paths name parameters, buffers and what belongs to them.
        optimizers: whose state is named after its parameters.
    """
    values = program.values()
    numbers = _numbers(values)
    found: dict[str, Operand] = {}
    taken: set[Operand] = set()
    for name, tensor in names.items():
        expect_type("program", f"'{name}' of names", tensor, Tensor, "a tensor")
        number = numbers.get(_C._memory_id(tensor))
        if number is None or values[number][3]:
            raise ValueError(
                f"program: expected '{name}' to be a tensor that the block used and did not make"
            )
    known = [*names.items(), *((f"input{k}", each) for k, each in enumerate(inputs))]
    for name, tensor in [*known, *_of_models(modules, optimizers)]:
        number = numbers.get(_C._memory_id(tensor))
        if number is None or values[number][3]:
            continue
        place = _place(number, tensor)
        if place not in taken:
            taken.add(place)
            found[_free(name, found)] = place
    named = {place.value for place in found.values()}
    for number, place in _first_uses(program):
        if not values[number][3] and number not in named:
            named.add(number)
            found[_free(f"value{number}", found)] = place
    ordered = sorted(found.items(), key=lambda each: (each[1].value, each[1].offset))
    return tuple(Argument(name, place, *values[place.value][4:6]) for name, place in ordered)


def named_outputs(program: Any, outputs: Any, result: Tensor | None) -> tuple[Argument, ...]:
    """Return what a run is to give, by name."""
    if outputs is None:
        tensors: dict[str, Any] = {} if result is None else {"output": result}
    elif isinstance(outputs, Mapping):
        tensors = dict(outputs)
    elif isinstance(outputs, Sequence):
        tensors = {f"output{number}": each for number, each in enumerate(outputs)}
    else:
        tensors = {"output": outputs}
    values = program.values()
    numbers = _numbers(values)
    found = []
    for name, tensor in tensors.items():
        number = numbers.get(_C._memory_id(tensor)) if isinstance(tensor, Tensor) else None
        if number is None or not isinstance(name, str):
            raise ValueError(
                f"program: expected output {name!r} to be a tensor that the block computed"
            )
        found.append(Argument(name, _place(number, tensor), *values[number][4:6]))
    return tuple(found)


def _numbers(values: Sequence[Any]) -> dict[int, int]:
    """Return the numbers of values by their memory."""
    return {
        _C._memory_id(memory): number
        for number, (memory, *_) in enumerate(values)
        if memory is not None
    }


def _place(number: int, x: Tensor) -> Operand:
    return Operand(
        number, x.storage_offset(), tuple(x.shape), tuple(x.stride()), x.dtype, str(x.device)
    )


def _first_uses(program: Any) -> Iterator[tuple[int, Operand]]:
    """Yield each value with the first operand that shows it."""
    for _, inputs, _, outputs, _, _ in program.steps():
        for operand in (*inputs, *outputs):
            if isinstance(operand, tuple):
                yield operand[0], Operand(*operand)


def _of_models(
    modules: Sequence[Module], optimizers: Iterable[Optimizer]
) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters and buffers by their paths, their gradients, and the optimizers' state."""
    paths: dict[int, str] = {}
    for module in modules:
        prefix = "" if len(modules) == 1 else f"{type(module).__name__}."
        for path, tensor in (*module.named_parameters(), *module.named_buffers()):
            paths.setdefault(id(tensor), f"{prefix}{path}")
            yield paths[id(tensor)], tensor
            if tensor.grad is not None:
                yield f"{paths[id(tensor)]}.grad", tensor.grad
    unnamed = 0
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in paths:
                    paths[id(parameter)] = f"parameter{unnamed}"
                    unnamed += 1
                    yield paths[id(parameter)], parameter
                    if parameter.grad is not None:
                        yield f"{paths[id(parameter)]}.grad", parameter.grad
                for key, value in optimizer.state.get(parameter, {}).items():
                    if isinstance(value, Tensor):
                        yield f"{paths[id(parameter)]}.{key}", value


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """Return a name that nobody has."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}#{number}"
    return free
