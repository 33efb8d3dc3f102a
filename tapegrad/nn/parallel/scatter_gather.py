"""Tensors cut along a dimension and moved to several devices, and put together again."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad._C import Tensor, cat, stack
from tapegrad._types import device
from tapegrad.utils._pytree import is_namedtuple_instance

__all__ = ["gather", "scatter", "scatter_kwargs"]

Device = int | str | device


def scatter(inputs: Any, target_gpus: Sequence[Device], dim: int = 0) -> Any:
    """Cut the tensors in `inputs` into as many parts as there are devices, and move these there.

    Args:
        inputs: a tensor, or containers of tensors and other objects; others go to each device.
        target_gpus: the devices.
        dim: along which tensors are cut.

    Returns:
        A tuple of parts for a tensor, a list of containers for a container, one for each device;
        fewer where a tensor has too few elements along the dimension.
    """
    if isinstance(inputs, Tensor):
        parts = inputs.chunk(len(target_gpus), dim)
        return tuple(p.to(d) for p, d in zip(parts, target_gpus, strict=False))

    def each(children: Any) -> Any:
        return zip(*(scatter(child, target_gpus, dim) for child in children), strict=False)

    if is_namedtuple_instance(inputs):
        return [type(inputs)(*children) for children in each(inputs)]
    if isinstance(inputs, tuple) and inputs:
        return list(each(inputs))
    if isinstance(inputs, list) and inputs:
        return [list(children) for children in each(inputs)]
    if isinstance(inputs, dict) and inputs:
        # A key may be a tuple, which is an object of its own here.
        values = each(inputs.values())
        return [type(inputs)(zip(inputs, children, strict=True)) for children in values]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    target_gpus: Sequence[Device],
    dim: int = 0,
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Scatter the arguments of a call, those by position and those by name.

    Args:
        inputs: arguments by position.
        kwargs: arguments by name.
        target_gpus: the devices.
        dim: along which tensors are cut.
    """
    places = list(scatter(inputs, target_gpus, dim)) if inputs else []
    names = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    places.extend(() for _ in range(len(names) - len(places)))
    names.extend({} for _ in range(len(places) - len(names)))
    return tuple(places), tuple(names)


def gather(outputs: Any, target_device: Device, dim: int = 0) -> Any:
    """Put what `scatter` cut together again, on one device.

    Args:
        outputs: one object for each device: tensors, or containers of them that are alike.
        target_device: where the result goes; -1 is the CPU.
        dim: along which tensors are put together; numbers make a vector.
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        target = "cpu" if isinstance(target_device, int) and target_device < 0 else target_device
        parts = [x.to(target) for x in outputs]
        if dim == 0 and all(x.ndim == 0 for x in parts):
            warnings.warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will "
                "instead unsqueeze and return a vector.",
                stacklevel=2,
            )
            return stack(parts)
        return cat(parts, dim)
    if first is None:
        return None

    def each(columns: Any) -> Any:
        return (gather(column, target_device, dim) for column in columns)

    if isinstance(first, dict):
        if any(len(x) != len(first) for x in outputs):
            raise ValueError("All dicts must have the same number of keys")
        columns = ([x[key] for x in outputs] for key in first)
        return type(first)(zip(first, each(columns), strict=True))
    make: Callable[..., Any] = type(first)._make if is_namedtuple_instance(first) else type(first)
    return make(each(zip(*outputs, strict=True)))
