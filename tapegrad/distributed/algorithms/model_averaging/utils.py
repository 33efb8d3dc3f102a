"""Averages of parameters over processes."""

from collections.abc import Iterable, Iterator
from typing import Any

import tapegrad
from tapegrad.distributed._collectives import all_reduce
from tapegrad.distributed._groups import resolve
from tapegrad.distributed._reduce_op import ReduceOp

__all__ = ["average_parameters", "average_parameters_or_parameter_groups"]


def average_parameters(params: Iterator[Any], process_group: Any) -> None:
    """Replace parameters by their averages over processes.

    Args:
        params: the parameters.
        process_group: the processes; the world if None.
    """
    group = resolve(process_group)
    if group is None:
        return
    with tapegrad.no_grad():
        for param in params:
            all_reduce(param.detach(), ReduceOp.AVG, group)


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: Any) -> None:
    """Replace parameters that have a gradient by their averages over processes.

    Args:
        params: parameters, or groups of an optimizer.
        process_group: the processes; the world if None.
    """
    listed = list(params)
    if not listed:
        raise ValueError("average_parameters: expected at least one parameter")
    flat = [p for each in listed for p in (each["params"] if isinstance(each, dict) else [each])]
    average_parameters(iter([p for p in flat if p.grad is not None]), process_group)
