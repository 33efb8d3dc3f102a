"""A checkpoint as a folder: one file, in which names of nested state are joined by dots."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tapegrad import serialization
from tapegrad._C import Tensor

__all__ = ["CheckpointException", "Metadata", "flat", "read", "state_of", "write"]

FILE = "state.safetensors"


class CheckpointException(RuntimeError):
    """A checkpoint could not be written or read."""


@dataclass
class Metadata:
    """What a checkpoint holds.

    Args:
        state_dict_metadata: the shape and dtype of each tensor, and the type of other values, by
            name.
        planner_data: what a program keeps there, as the others.
        storage_data: the same.
        storage_meta: the same.
        version: the same.
    """

    state_dict_metadata: dict[str, Any]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: Any = None
    version: str | None = None


def described(values: dict[str, Any]) -> Metadata:
    """Return what these values are."""
    return Metadata({name: _fact(value) for name, value in values.items()})


def _fact(value: Any) -> Any:
    return (value.shape, value.dtype) if isinstance(value, Tensor) else type(value)


def state_of(value: Any) -> Any:
    """Return the state of an object that has one, and anything else as it is."""
    is_stateful = callable(getattr(value, "state_dict", None)) and not isinstance(value, Tensor)
    return value.state_dict() if is_stateful else value


def _items(value: dict[Any, Any] | list[Any], path: tuple[Any, ...]) -> Iterator[Any]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in pairs:
        yield (*path, key), value, key, each


def _is_deep(value: Any) -> bool:
    """Return whether a container is looked into: a dict, or a list that holds tensors or dicts."""
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, list) and any(isinstance(v, (Tensor, dict)) for v in value)


def flat(state: dict[str, Any]) -> dict[str, tuple[Any, Any, Any]]:
    """Return the values of nested dicts and lists by dotted name, with where each stands.

    Returns:
        For each name the container, the key there, and the value.
    """
    found: dict[str, tuple[Any, Any, Any]] = {}
    waiting = list(_items(state, ()))
    while waiting:
        path, owner, key, value = waiting.pop(0)
        if _is_deep(value):
            waiting = [*_items(value, path), *waiting]
            continue
        name = ".".join(map(str, path))
        if name in found:
            raise CheckpointException(f"save: two values of the state are named {name!r}")
        found[name] = (owner, key, value)
    return found


def write(path: str, values: dict[str, Any], overwrite: bool) -> None:
    """Write values to a folder."""
    file = os.path.join(path, FILE)
    if not overwrite and any(os.path.exists(os.path.join(path, f)) for f in (FILE, "index.json")):
        raise CheckpointException(f"save: {path} has a checkpoint, and overwrite=False was given")
    os.makedirs(path, exist_ok=True)
    serialization.save(values, file)
    _drop_parts(path)


def _drop_parts(path: str) -> None:
    """Remove a former checkpoint of several processes, which would be read first."""
    from tapegrad.distributed.checkpoint._sharded import INDEX, clean

    index = os.path.join(path, INDEX)
    if os.path.exists(index):
        os.unlink(index)
        clean(path, None)


def read(path: str) -> dict[str, Any]:
    """Return the values of a folder. Tensors lie on the mapped file until they are copied."""
    file = os.path.join(path, FILE)
    if not os.path.exists(file):
        if os.path.exists(os.path.join(path, ".metadata")):
            raise CheckpointException(
                f"load: {path} was written by PyTorch, whose folders hold pickles; convert it "
                "there with torch.distributed.checkpoint.format_utils.dcp_to_torch_save"
            )
        raise CheckpointException(f"load: {path} holds no checkpoint ({FILE} is missing)")
    return serialization.load(file, map_location="cpu", mmap=True)
