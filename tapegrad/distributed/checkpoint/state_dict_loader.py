"""Loading from a folder."""

import os
from typing import Any

import tapegrad
from tapegrad._C import Tensor
from tapegrad.distributed.checkpoint._folder import (
    CheckpointException,
    flat,
    read,
    state_of,
)
from tapegrad.distributed.checkpoint._sharded import Saved, agree, group_of, read_index
from tapegrad.distributed.checkpoint.filesystem import FileSystemReader
from tapegrad.distributed.tensor import DTensor

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: FileSystemReader | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fill a state from a folder, in place.

    Tensors are written where they are, other values are replaced in their dicts, and objects that
    have a `load_state_dict` take over theirs. Everything is checked before anything is written.

    Args:
        state_dict: the state, of the structure of what was saved or a part of it.
        checkpoint_id: the folder.
        storage_reader: a `FileSystemReader`, in place of a folder.
        planner: a `DefaultLoadPlanner`, if something may be missing.
        process_group: the processes, which all call this. They may be others, and more or fewer,
            than those that saved: each reads the parts that it needs.
        no_dist: load without the others.
    """
    group = group_of(process_group, no_dist)
    path = checkpoint_id
    if storage_reader is not None:
        if not isinstance(storage_reader, FileSystemReader):
            raise NotImplementedError(
                f"load: expected a FileSystemReader, got {type(storage_reader).__name__}"
            )
        path = storage_reader.path if checkpoint_id is None else checkpoint_id
    if path is None:
        raise RuntimeError("load: give checkpoint_id or storage_reader")
    state = {key: state_of(value) for key, value in state_dict.items()}
    places = flat(state)
    error, found = None, {}
    try:
        found = _found(os.fspath(path), places, getattr(planner, "allow_partial_load", False))
    except CheckpointException as problem:
        error = problem
    agree(group, "load", error)
    with tapegrad.no_grad():
        for name, value in found.items():
            owner, key, target = places[name]
            if isinstance(target, DTensor):
                target._local_tensor.detach().copy_(value)
            elif isinstance(target, Tensor):
                target.detach().copy_(value)
            else:
                owner[key] = value
    for key, value in state_dict.items():
        if callable(getattr(value, "load_state_dict", None)):
            value.load_state_dict(state[key])
        elif not isinstance(value, Tensor):
            state_dict[key] = state[key]


def _found(path: str, places: dict[str, Any], partly: bool) -> dict[str, Any]:
    """Return what a folder has for a state, checked: for DTensors the parts of this process."""
    index = read_index(path)
    saved: Any = Whole(read(path)) if index is None else Saved(path, index)
    missing = [name for name in places if name not in saved]
    if missing and not partly:
        raise CheckpointException(f"load: Missing key in checkpoint state_dict: {missing[0]}.")
    wanted = {name: value for name, (_, _, value) in places.items() if name in saved}
    for name, value in wanted.items():
        _check_fits(name, value, saved)
    found = {}
    for name, value in wanted.items():
        if isinstance(value, DTensor):
            layout = value._layout
            found[name] = saved.region(name, layout.offsets(), layout.local_shape())
        else:
            found[name] = saved.value(name)
    return found


class Whole:
    """A checkpoint of one process, with the questions that one of several answers."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def fact(self, name: str) -> Any:
        """Return the shape of a tensor, or None for another value."""
        value = self.values[name]
        return tuple(value.shape) if isinstance(value, Tensor) else None

    def value(self, name: str) -> Any:
        """Return a value."""
        return self.values[name]

    def region(self, name: str, start: Any, size: Any) -> Tensor:
        """Return a part of a tensor."""
        part = self.values[name]
        for dim, (low, length) in enumerate(zip(start, size, strict=True)):
            part = part.narrow(dim, low, length)
        return part


def _check_fits(name: str, value: Any, saved: Any) -> None:
    """Refuse to put a value into a place of another kind."""
    shape = saved.fact(name)
    if isinstance(value, Tensor) != (shape is not None):
        kind = "Tensor" if shape is not None else type(saved.value(name)).__name__
        own = "Tensor" if isinstance(value, Tensor) else type(value).__name__
        raise CheckpointException(
            f"load: {name} is {own} in the state and {kind} in the checkpoint"
        )
    if isinstance(value, Tensor) and tuple(value.shape) != shape:
        raise CheckpointException(
            f"load: Size mismatch between saved {shape} and current: "
            f"{tuple(value.shape)} for {name}"
        )


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: FileSystemReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: Any = None,
) -> None:
    """Fill a state from a folder, in place; the old name of `load`.

    Args:
        state_dict: the state.
        storage_reader: a `FileSystemReader`.
        process_group: the processes.
        coordinator_rank: accepted.
        no_dist: as for `load`.
        planner: a `DefaultLoadPlanner`, if something may be missing.
    """
    load(
        state_dict, storage_reader=storage_reader, planner=planner, process_group=process_group,
        no_dist=no_dist,
    )  # fmt: skip
