"""Saving to a folder."""

import os
from typing import Any

from tapegrad.distributed.checkpoint._folder import (
    CheckpointException,
    Metadata,
    described,
    flat,
    state_of,
    write,
)
from tapegrad.distributed.checkpoint._sharded import group_of, save_parts
from tapegrad.distributed.checkpoint.filesystem import FileSystemWriter
from tapegrad.distributed.tensor import DTensor
from tapegrad.futures import Future

__all__ = ["async_save", "save", "save_state_dict"]


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Write nested state to a folder. Whatever happens, it holds the former one, or the new, whole.

    Several processes write their parts of DTensors each; what several have alike, the first does.

    Args:
        state_dict: the state. Objects in it that have a `state_dict` are asked for it.
        checkpoint_id: the folder.
        storage_writer: a `FileSystemWriter`, in place of a folder.
        planner: accepted: everything is saved.
        process_group: the processes, which all call this and see the folder.
        no_dist: save what this process has, without the others.
        use_collectives: accepted.

    Returns:
        What was written, by name.

    Example:
        >>> import tempfile
        >>> dcp = torch.distributed.checkpoint
        >>> folder = tempfile.mkdtemp()
        >>> _ = dcp.save({"model": {"w": torch.ones(2)}, "step": 3}, checkpoint_id=folder)
        >>> state = {"model": {"w": torch.zeros(2)}, "step": 0}
        >>> dcp.load(state, checkpoint_id=folder)
        >>> state
        {'model': {'w': tensor([1., 1.])}, 'step': 3}
    """
    group = group_of(process_group, no_dist)
    path, overwrite = checkpoint_id, True
    if storage_writer is not None:
        if not isinstance(storage_writer, FileSystemWriter):
            raise NotImplementedError(
                f"save: expected a FileSystemWriter, got {type(storage_writer).__name__}"
            )
        path = storage_writer.path if checkpoint_id is None else checkpoint_id
        overwrite = storage_writer.overwrite
    if path is None:
        raise RuntimeError("save: give checkpoint_id or storage_writer")
    state = {key: state_of(value) for key, value in state_dict.items()}
    values = {name: value for name, (_, _, value) in flat(state).items()}
    try:
        if group is not None or any(isinstance(value, DTensor) for value in values.values()):
            save_parts(os.fspath(path), values, group, overwrite)
        else:
            write(os.fspath(path), values, overwrite)
    except OSError as error:
        raise CheckpointException(f"save: {error}") from error
    return described(values)


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: FileSystemWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: Any = None,
) -> Metadata:
    """Write nested state to a folder; the old name of `save`.

    Args:
        state_dict: the state.
        storage_writer: a `FileSystemWriter`.
        process_group: the processes.
        coordinator_rank: accepted.
        no_dist: as for `save`.
        planner: accepted.
    """
    return save(
        state_dict, storage_writer=storage_writer, process_group=process_group, no_dist=no_dist
    )


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: Any = None,
    process_group: Any = None,
    **kwargs: Any,
) -> Future[Any]:
    """Write nested state to a folder, at once, and return a future that is done.

    Args:
        state_dict: the state.
        checkpoint_id: the folder.
        storage_writer: a `FileSystemWriter`, in place of a folder.
        planner: accepted.
        process_group: the processes.
        **kwargs: accepted: how PyTorch would save in the background.
    """
    future: Future[Any] = Future()
    found = save(
        state_dict,
        checkpoint_id=checkpoint_id,
        storage_writer=storage_writer,
        process_group=process_group,
    )
    future.set_result(found)
    return future
