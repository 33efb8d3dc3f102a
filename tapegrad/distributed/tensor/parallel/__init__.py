"""Layers that are divided between processes: `parallelize_module` and its styles."""

import contextlib
import fnmatch
import warnings
from collections.abc import Iterator
from typing import Any

from tapegrad.distributed.device_mesh import DeviceMesh
from tapegrad.distributed.tensor._rules_nn import losses_of_divided_classes
from tapegrad.distributed.tensor.parallel._style import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "loss_parallel",
    "parallelize_module",
]


def parallelize_module(
    module: Any,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Any:
    """Divide layers of a module between processes.

    Args:
        module: the module, which is changed.
        device_mesh: the processes, in one dimension; all if None.
        parallelize_plan: a style for the module, or styles for modules inside of it by name, in
            which ``*`` stands for any word.
        src_data_rank: whose parameters count; None takes each process's own.

    Returns:
        The module.
    """
    from tapegrad.distributed import get_world_size
    from tapegrad.distributed.device_mesh import init_device_mesh

    mesh = device_mesh or init_device_mesh("cpu", (get_world_size(),))
    if mesh.ndim != 1:
        raise ValueError(
            f"parallelize_module: expected a mesh of one dimension, got {mesh}; take one of its "
            'dimensions by name, as in mesh["tp"]'
        )
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, so "
            "this parallelize_module call will do nothing.",
            stacklevel=2,
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        found = _matching(module, path.split(".") if path else [])
        if not found:
            warnings.warn(
                f"Parallelize plan key '{path}' could not be resolved: no submodule matching it",
                stacklevel=2,
            )
        for part in found:
            parallelize_module(part, mesh, style, src_data_rank=src_data_rank)
    return module


def _matching(module: Any, words: list[str]) -> list[Any]:
    """Return the modules inside of a module that a path of patterns names."""
    if not words:
        return [module]
    return [
        found
        for name, child in module.named_children()
        if fnmatch.fnmatch(name, words[0])
        for found in _matching(child, words[1:])
    ]


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """Compute `cross_entropy` of scores that are divided by class, inside of a block, part by part.

    Without it the scores are gathered first. The scores have two dimensions, of which the last is
    divided; weights and label smoothing are refused.
    """
    token = losses_of_divided_classes.set(True)
    try:
        yield
    finally:
        losses_of_divided_classes.reset(token)
