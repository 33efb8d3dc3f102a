"""What must be as it was when a function runs again: modes, random numbers, modules.

`Surroundings` notes it at a call and brings it back around a later one. The modules and generators
are those that the function is, is bound to, closes over, names as globals or is given, directly or
as part of a container or an object: see `parts_of`. What a function reaches in other ways is as it
is when it runs again.
"""

import functools
import types
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from tapegrad import _C
from tapegrad._C import Generator, Tensor
from tapegrad.autograd import forward_ad
from tapegrad.utils._pytree import tree_flatten

__all__ = ["Randomness", "Surroundings", "behind", "has_tangents", "lasting", "parts_of"]

_DEEPEST = 4  # an attribute of an object of a list that a function closes over
_MOST = 1000  # looking must not take longer than running


def behind(value: Any) -> Iterator[Any]:
    """Yield what a callable, a container or an object holds on to, so many at most."""
    return islice(_behind(value), _MOST)


def _behind(value: Any) -> Iterator[Any]:
    if isinstance(value, types.MethodType):
        yield value.__self__
        yield value.__func__
    elif isinstance(value, functools.partial):
        yield value.func
        yield from value.args
        yield from value.keywords.values()
    elif isinstance(value, types.FunctionType):
        for cell in value.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
        names = value.__globals__
        for name in value.__code__.co_names:
            if name in names and not isinstance(names[name], types.ModuleType):
                yield names[name]
        if hasattr(value, "__wrapped__"):
            yield value.__wrapped__
    elif isinstance(value, list | tuple | set):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()
    elif hasattr(value, "__dict__") and not isinstance(value, types.ModuleType | type):
        yield from vars(value).values()


def parts_of(function: Any, values: Iterable[Any] = ()) -> tuple[list[Any], list[Generator]]:
    """Return the modules and the random generators that a call is likely to use.

    Args:
        function: what is called.
        values: its arguments.
    """
    from tapegrad.nn import Module

    modules: dict[int, Any] = {}
    generators: dict[int, Generator] = {}
    seen: dict[int, Any] = {}  # what was seen lives on, or another would get its id
    waiting = [(value, 1) for value in values] + [(function, 0)]
    while waiting and len(seen) < _MOST:
        value, depth = waiting.pop()
        if isinstance(value, Tensor | str | int | float | None) or id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, Module):
            modules[id(value)] = value
        elif isinstance(value, Generator):
            generators[id(value)] = value
        elif depth < _DEEPEST:
            waiting += [(part, depth + 1) for part in behind(value)]
    roots = list(modules.values())
    for module in roots:  # grows as it goes
        for child in module._modules.values():
            if child is not None and id(child) not in modules:
                modules[id(child)] = child
                roots.append(child)
    return roots, list(generators.values())


def lasting(tensor: Tensor) -> Tensor:
    """Return a tensor to compute from later: a copy where memory may be written unseen.

    For example where NumPy shares it: no version counts what is written there.
    """
    return tensor.detach().clone() if _C._is_unguarded(tensor) else tensor


def has_tangents(*values: Any) -> bool:
    """Whether forward mode is at work on these values, or anywhere."""
    if forward_ad._running.numbers:
        return True
    leaves = tree_flatten(values)[0]
    return any(isinstance(each, Tensor) and bool(_C._tangent_levels(each)) for each in leaves)


def _device_generators() -> Iterable[Generator]:
    """Return the default generators of devices that may be in use."""
    if not _C._cuda_is_initialized():
        return ()
    return map(_C._cuda_generator, range(_C._cuda_device_count()))


class Randomness:
    """The states of the default generators and of others, noted when it is made.

    Args:
        generators: the others.
    """

    __slots__ = ("default", "others")

    def __init__(self, generators: Iterable[Generator] = ()) -> None:
        self.default = _C.get_rng_state()
        others = chain(_device_generators(), generators)
        self.others = [(each, each.get_state()) for each in others]

    def bring_back(self) -> None:
        """Set the generators to the states that were noted."""
        _C.set_rng_state(self.default)
        for generator, state in self.others:
            generator.set_state(state)


class Surroundings:
    """The modes of a call: a context that brings them back, and afterwards those that were.

    Gradient recording is on inside and inference mode off, as it was when the call was recorded.
    Running statistics of norms are written to copies, which are dropped: they count a call once.

    Args:
        function: what is called.
        values: its arguments.
        random: whether it shall see the same random numbers again.
    """

    def __init__(self, function: Any, values: Iterable[Any] = (), random: bool = True) -> None:
        modules, self.generators = parts_of(function, values)
        self.training = [(module, module.training) for module in modules]
        self.counting = [
            module
            for module, training in self.training
            if training and module.__dict__.get("track_running_stats")
        ]
        self.default_dtype = _C.get_default_dtype()
        self.autocast = _C._autocast_state()
        self.randomness = Randomness(self.generators) if random else None
        self._outside: list[tuple[Any, ...]] = []

    def __enter__(self) -> None:
        randomness = None if self.randomness is None else Randomness(self.generators)
        self._outside.append(
            (
                randomness,
                _C.get_default_dtype(),
                [(each, not mode) for each, mode in self.training if each.training is not mode],
                self._copy_statistics(),
                _C.is_grad_enabled(),
                _C._set_inference(False),
            )
        )
        _C._enter_autocast_state(self.autocast)
        self._set(self.randomness, self.default_dtype, self.training)
        _C.set_grad_enabled(True)

    def __exit__(self, *exception: object) -> None:
        *modes, statistics, recording, inference = self._outside.pop()
        _C._leave_autocast()
        for module, buffers in statistics:
            module._buffers.update(buffers)
        self._set(*modes)
        _C._set_inference(inference)
        _C.set_grad_enabled(recording)

    def _copy_statistics(self) -> list[tuple[Any, dict[str, Any]]]:
        """Let norms that keep running statistics write to copies; return the originals."""
        kept = []
        for module in self.counting:
            buffers = {name: each for name, each in module._buffers.items() if each is not None}
            kept.append((module, buffers))
            module._buffers.update({name: each.clone() for name, each in buffers.items()})
        return kept

    @staticmethod
    def _set(randomness: Any, dtype: Any, training: Any) -> None:
        if randomness is not None:
            randomness.bring_back()
        _C.set_default_dtype(dtype)
        for module, mode in training:
            if module.training is not mode:
                module.training = mode
