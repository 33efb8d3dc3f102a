"""Loading from a folder."""

import os
from typing import Any

import tapegrad
from tapegrad._C import Tensor
from tapegrad.distributed.checkpoint._folder import (
    CheckpointException,
    flat,
    one_process,
    read,
    state_of,
)
from tapegrad.distributed.checkpoint.filesystem import FileSystemReader

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
        process_group: the processes, of which there must be one.
        no_dist: accepted.
    """
    one_process("load", process_group)
    path = checkpoint_id
    if storage_reader is not None:
        if not isinstance(storage_reader, FileSystemReader):
            raise NotImplementedError(
                f"load: expected a FileSystemReader, got {type(storage_reader).__name__}"
            )
        path = storage_reader.path if checkpoint_id is None else checkpoint_id
    if path is None:
        raise RuntimeError("load: give checkpoint_id or storage_reader")
    values = read(os.fspath(path))
    state = {key: state_of(value) for key, value in state_dict.items()}
    places = flat(state)
    missing = [name for name in places if name not in values]
    if missing and not getattr(planner, "allow_partial_load", False):
        raise CheckpointException(f"load: Missing key in checkpoint state_dict: {missing[0]}.")
    for name, (_, _, value) in places.items():
        if name in values:
            _check_fits(name, value, values[name])
    with tapegrad.no_grad():
        for name, (owner, key, value) in places.items():
            if name not in values:
                continue
            if isinstance(value, Tensor):
                value.detach().copy_(values[name])
            else:
                owner[key] = values[name]
    for key, value in state_dict.items():
        if callable(getattr(value, "load_state_dict", None)):
            value.load_state_dict(state[key])
        elif not isinstance(value, Tensor):
            state_dict[key] = state[key]


def _check_fits(name: str, value: Any, saved: Any) -> None:
    """Refuse to put a value into a place of another kind."""
    if isinstance(value, Tensor) != isinstance(saved, Tensor):
        raise CheckpointException(
            f"load: {name} is {type(value).__name__} in the state and {type(saved).__name__} in "
            "the checkpoint"
        )
    if isinstance(value, Tensor) and value.shape != saved.shape:
        raise CheckpointException(
            f"load: Size mismatch between saved {tuple(saved.shape)} and current: "
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
        process_group: the processes, of which there must be one.
        coordinator_rank: accepted.
        no_dist: accepted.
        planner: a `DefaultLoadPlanner`, if something may be missing.
    """
    load(state_dict, storage_reader=storage_reader, planner=planner, process_group=process_group)
