"""Helpers of PyTorch's optimizers that optimizers of others call."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.nn.parameter import Parameter

__all__ = [
    "default_to_fused_or_foreach",
    "get_capturable_supported_devices",
    "group_tensors_by_device_and_dtype",
    "use_grad_for_differentiable",
]

_Lists = Sequence[Sequence[Tensor | None]]


def group_tensors_by_device_and_dtype(
    tensorlistlist: _Lists, with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Tensor | None]], list[int]]]:
    """Sort the tensors of several lists by the device and the dtype of the first list's.

    Args:
        tensorlistlist: lists of one length; those after the first may hold None.
        with_indices: whether the places of the tensors in the lists are wanted.

    Returns:
        For each device and dtype the lists, and the places.
    """
    groups: dict[tuple[Any, Any], tuple[list[list[Tensor | None]], list[int]]] = {}
    for place, row in enumerate(zip(*tensorlistlist, strict=True)):
        if row[0] is None:
            raise RuntimeError("_group_tensors_by_device_and_dtype: None in the first list")
        key = (row[0].device, row[0].dtype)
        lists, places = groups.setdefault(key, ([[] for _ in row], []))
        for each, tensor in zip(lists, row, strict=True):
            each.append(tensor)
        if with_indices:
            places.append(place)
    return groups


def default_to_fused_or_foreach(
    params: Sequence[Tensor | None], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Return whether PyTorch would update parameters in one kernel, or list by list.

    Args:
        params: the parameters.
        differentiable: whether the step is recorded, which needs neither.
        use_fused: whether one kernel is asked for.
    """
    if differentiable:
        return False, False
    known = [each for each in params if each is not None]
    plain = all(type(each) in (Tensor, Parameter) for each in known)
    fused = use_fused and plain and all(each.is_floating_point() for each in known)
    on_devices = plain and all(each.device.type == "cuda" for each in known)
    return fused, not fused and on_devices


def get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Return the types of devices on which a step can be captured as a graph.

    Args:
        supports_xla: accepted; there is no such device here.
    """
    return ["cuda"]


def use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """Record a step if the optimizer's option `differentiable` says so.

    Args:
        func: the method ``step``.
    """

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = _C.is_grad_enabled()
        _C.set_grad_enabled(bool(self.defaults.get("differentiable", False)))
        try:
            return func(self, *args, **kwargs)
        finally:
            _C.set_grad_enabled(before)

    return step
