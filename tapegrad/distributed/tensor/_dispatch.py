"""How a function of whole tensors becomes one of their parts.

A rule says, for one dimension of the mesh at a time, how the arguments must lie and how the result
lies then. Arguments are redistributed to that, the function runs on the parts, and its result is
wrapped. What the whole result would be (its shape, its dtype, its errors) the function itself says,
on the meta device. A function of tensors that are Replicate everywhere needs no rule; any other
without one is refused.

The gradient of an argument that is Replicate where the result is not is a sum over the processes,
which `summed_in_backward` takes. See `_redistribute` for how gradients lie.
"""

from collections.abc import Callable
from typing import Any

import tapegrad
from tapegrad._C import Tensor
from tapegrad.distributed.tensor._layout import Layout
from tapegrad.distributed.tensor._redistribute import redistributed, summed_in_backward
from tapegrad.distributed.tensor.placement_types import Placement, Replicate, Shard

__all__ = ["ADJUSTED", "RULES", "SPECIAL", "Call", "adjusts", "dispatch", "rule", "special"]

Rule = Callable[["Call", list[Placement]], tuple[list[Placement], Any]]

RULES: dict[str, Rule] = {}
# What makes arguments for the parts, where those of the whole do not fit: shapes, for one.
ADJUSTED: dict[str, Callable[["Call", Layout], tuple[tuple[Any, ...], dict[str, Any]]]] = {}
# Functions that are written with other functions of whole tensors.
SPECIAL: dict[str, Callable[..., Any]] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Make a function the rule of some functions."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def adjusts(*names: str) -> Callable[[Any], Any]:
    """Make a function the one that makes arguments for parts."""

    def register(function: Any) -> Any:
        ADJUSTED.update(dict.fromkeys(names, function))
        return function

    return register


def special(*names: str) -> Callable[[Any], Any]:
    """Make a function what is called in the place of some functions."""

    def register(function: Any) -> Any:
        SPECIAL.update(dict.fromkeys(names, function))
        return function

    return register


# Of what changes its argument, these change its shape.
_RESHAPE = frozenset(
    ("as_strided", "detach", "moveaxis", "movedim", "rename", "resize", "resize_as", "set",
     "squeeze", "swapaxes", "swapdims", "t", "transpose", "unsqueeze")
)  # fmt: skip


class Call:
    """A call with whole tensors.

    Attributes:
        name: of the function, without the ``_`` of one that writes its first argument.
        tensors: the arguments that lie on the mesh, in order.
        shapes: of these.
        outs: the shapes of the results.
        axis: the dimension of the mesh that is looked at.
    """

    def __init__(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        self.writes = name.endswith("_") and not name.endswith("__")
        self.name = name[:-1] if self.writes else name
        self.axis = 0
        self.tensors: list[Any] = []
        _replaced((args, kwargs), self._collect)
        self.mesh = self.tensors[0].device_mesh
        for other in self.tensors:
            if other.device_mesh != self.mesh:
                raise RuntimeError(
                    f"{self.name}: expected tensors on one mesh, got {self.mesh} and "
                    f"{other.device_mesh}"
                )
        self.shapes = [tuple(each.shape) for each in self.tensors]
        self.outs: list[tuple[int, ...]] = []

    def _collect(self, value: Any) -> Any:
        if is_dtensor(value):
            self.tensors.append(value)
        elif isinstance(value, Tensor) and value.dim():
            raise RuntimeError(
                f"{self.name}: got mixed torch.Tensor and DTensor, need to convert all "
                "torch.Tensor to DTensor before calling distributed operators; use "
                "distribute_tensor() or DTensor.from_local(), or to_local() of the others"
            )
        return value

    def get(self, index: int, name: str, default: Any = None) -> Any:
        """Return an argument by its place or its name."""
        if index < len(self.args):
            return self.args[index]
        return self.kwargs.get(name, default)

    def shards_on(self, tensor: int, dim: int) -> int:
        """Return into how many parts a tensor is divided along a dimension, by all of the mesh."""
        count = 1
        for axis, placement in enumerate(self.tensors[tensor].placements):
            count *= self.mesh.size(axis) if placement.is_shard(dim) else 1
        return count

    def leaves_some_empty(self, tensor: int, dim: int) -> bool:
        """Return whether a process has no elements of a tensor divided along a dimension."""
        parts = self.shards_on(tensor, dim)
        size, _ = Shard.local_shard_size_and_offset(self.shapes[tensor][dim], parts, parts - 1)
        return size == 0

    def refusal(self) -> Exception:
        """Return the error for placements that there is no rule for."""
        lies = ", ".join(str(each.placements) for each in self.tensors)
        return NotImplementedError(
            f"{self.name}: there is no rule for tensors with placements {lies}; call "
            "redistribute(placements=[Replicate(), ...]) first, or to_local() for the part of "
            "this process"
        )


def is_dtensor(value: Any) -> bool:
    """Return whether a value is a DTensor."""
    return hasattr(type(value), "_is_dtensor")


def _replaced(value: Any, replace: Callable[[Any], Any]) -> Any:
    """Return arguments with what they hold replaced."""
    if type(value) in (list, tuple):
        return type(value)(_replaced(each, replace) for each in value)
    if type(value) is dict:
        return {key: _replaced(each, replace) for key, each in value.items()}
    return replace(value)


def _whole_results(call: Call) -> Any:
    """Return what the function gives for whole tensors, on the meta device."""

    def whole(value: Any) -> Any:
        if is_dtensor(value):
            return tapegrad.empty(tuple(value.shape), dtype=value.dtype, device="meta")
        if isinstance(value, Tensor):
            return value.to("meta")
        return value

    try:
        with tapegrad.no_grad():
            return call.func(*_replaced(call.args, whole), **_replaced(call.kwargs, whole))
    except NotImplementedError as error:  # its shape depends on the elements
        raise call.refusal() from error


def _outs(result: Any) -> list[tuple[int, ...]]:
    several = result if isinstance(result, list | tuple) else [result]
    return [tuple(each.shape) for each in several if isinstance(each, Tensor)]


def _planned(call: Call, fixed: Rule | None) -> tuple[list[Any], Any]:
    """Return the placements of the arguments and of the results, for all dimensions of the mesh."""
    needed: list[list[Placement]] = [[] for _ in call.tensors]
    results: list[list[Placement]] = [[] for _ in call.outs]
    for axis in range(call.mesh.ndim):
        call.axis = axis
        given: list[Placement] = [each.placements[axis] for each in call.tensors]
        outs: Any = Replicate()
        if all(each.is_replicate() for each in given):
            inputs = given
        elif fixed is None:
            raise call.refusal()
        else:
            inputs, outs = fixed(call, given)
        for each, placement in zip(needed, inputs, strict=True):
            each.append(placement)
        outs = outs if isinstance(outs, list) else [outs] * len(results)
        for each, placement in zip(results, outs, strict=True):
            each.append(placement)
    return [tuple(each) for each in needed], [tuple(each) for each in results]


def _parts(call: Call, needed: list[Any], results: list[Any]) -> list[Tensor]:
    """Return this process's parts of the arguments, in the placements that they need."""
    found = []
    for number, (tensor, placements) in enumerate(zip(call.tensors, needed, strict=True)):
        if call.writes and number == 0 and placements != tensor.placements:
            raise RuntimeError(
                f"{call.name}_: expected a tensor with placements {placements}, got "
                f"{tensor.placements}; redistribute it first, or call {call.name} instead"
            )
        local = tensor._local_tensor
        if placements != tensor.placements:
            local = redistributed(local, tensor._layout, placements)
        if local.requires_grad and tapegrad.is_grad_enabled() and not (call.writes and not number):
            axes = [
                axis
                for axis, placement in enumerate(placements)
                if placement.is_replicate() and not all(r[axis].is_replicate() for r in results)
            ]
            layout = tensor._layout._replace(placements=placements)
            local = summed_in_backward(local, layout, axes)
        found.append(local)
    return found


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function with tensors of which some lie on a mesh.

    Args:
        func: a function or a method of tensors.
        args, kwargs: what it is called with.
    """
    name = func.__name__
    if name in SPECIAL:
        return SPECIAL[name](*args, **kwargs)
    if kwargs.get("out") is not None:
        raise NotImplementedError(f"{name}: out= is not supported with DTensors; use the result")
    call = Call(func, name, args, kwargs)
    if call.writes and call.name in _RESHAPE:
        raise NotImplementedError(
            f"{name}: the shape of a DTensor cannot be changed in place; call the function without "
            "the underscore"
        )
    whole = _whole_results(call)
    call.outs = _outs(whole)
    needed, results = _planned(call, RULES.get(call.name))
    locals_ = iter(_parts(call, needed, results))
    if call.name in ADJUSTED:
        layout = Layout(call.mesh, results[0], call.outs[0])
        args, kwargs = ADJUSTED[call.name](call, layout)

    def part(value: Any) -> Any:
        return next(locals_) if is_dtensor(value) else value

    made = call.func(*_replaced(args, part), **_replaced(kwargs, part))
    if call.writes:
        return args[0]
    return _wrapped(call, made, results)


def _wrapped(call: Call, made: Any, results: list[Any]) -> Any:
    cls = type(call.tensors[0])
    layouts = iter(
        Layout(call.mesh, placements, shape)
        for placements, shape in zip(results, call.outs, strict=True)
    )

    def wrap(value: Any) -> Any:
        return cls._of(value, next(layouts)) if isinstance(value, Tensor) else value

    if isinstance(made, list | tuple) and not isinstance(made, tapegrad.Size):
        wrapped = [wrap(each) for each in made]
        kind = type(made)
        return kind._make(wrapped) if hasattr(kind, "_make") else kind(wrapped)
    return wrap(made)
