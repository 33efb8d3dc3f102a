"""A checkpoint of several processes: a file for each, and an index that says which part is where.

The files go to a folder with a name of its own inside of the checkpoint's. When all are on the
disk, the first process writes the index over the former one, in one step: that is the moment at
which the new checkpoint is there, for all processes. What the index does not name is removed then,
or with the next save if this one is killed. A process that fails tells the others before, and all
raise.

    index.json              names, shapes, dtypes, and the parts of each tensor
    parts-1f0c.../0.safetensors ...
"""

import json
import os
import secrets
import shutil
from typing import Any

import tapegrad
from tapegrad import serialization
from tapegrad._C import Tensor
from tapegrad.distributed.checkpoint._folder import FILE, CheckpointException
from tapegrad.distributed.tensor import DTensor
from tapegrad.serialization._atomic import write_file

__all__ = ["INDEX", "Saved", "agree", "group_of", "read_index", "save_parts"]

INDEX = "index.json"
FOLDERS = "parts-"
FORMAT = "tapegrad-parts-1"


def group_of(process_group: Any, no_dist: bool = False) -> Any:
    """Return the group that saves or loads together; None for one process."""
    from tapegrad.distributed._groups import is_initialized, resolve

    if no_dist or not is_initialized():
        return None
    group = resolve(process_group)
    return group if group is not None and group.size() > 1 else None


def agree(group: Any, name: str, error: Exception | None) -> None:
    """Raise in all processes if one has an error."""
    if group is None:
        if error is not None:
            raise error
        return
    for rank, text in enumerate(_from_all(group, None if error is None else str(error))):
        if error is None and text is not None:
            raise CheckpointException(f"{name}: process {rank} failed: {text}")
    if error is not None:
        raise error


def _from_all(group: Any, value: Any) -> list[Any]:
    from tapegrad import distributed

    if group is None:
        return [value]
    found = [None] * group.size()
    distributed.all_gather_object(found, value, group)
    return found


def _from_first(group: Any, value: Any) -> Any:
    from tapegrad import distributed

    box = [value]
    if group is not None:
        distributed.broadcast_object_list(box, group=group, group_src=0)
    return box[0]


# ---- saving


def _described(value: Any) -> dict[str, Any]:
    """Return what this process has of a value, as the index says it."""
    if isinstance(value, DTensor):
        if any(placement.is_partial() for placement in value.placements):
            raise CheckpointException(
                "save: a tensor that is Partial cannot be saved; redistribute it first"
            )
        facts = {"shape": list(value.shape), "dtype": str(value.dtype), "divided": True}
        layout, place = value._layout, value.device_mesh.get_coordinate()
        if place is not None:
            copies = [i for i, way in enumerate(layout.placements) if way.is_replicate()]
            mine = not any(place[i] for i in copies) and value._local_tensor.numel() > 0
            if mine:
                facts |= {"start": list(layout.offsets()), "size": list(layout.local_shape())}
        return facts
    if isinstance(value, Tensor):
        start = [0] * value.dim()
        facts = {"shape": list(value.shape), "dtype": str(value.dtype), "divided": False}
        return facts | {"start": start, "size": list(value.shape)}
    return {"value": True}


def _merged(described: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the index of what all processes have."""
    found: dict[str, Any] = {}
    for rank, items in enumerate(described):
        for name, facts in items.items():
            entry = found.setdefault(
                name, {k: facts[k] for k in ("shape", "dtype", "divided", "value") if k in facts}
            )
            for key in ("shape", "dtype", "divided", "value"):
                if entry.get(key) != facts.get(key):
                    raise CheckpointException(
                        f"save: {name} has {key} {facts.get(key)} in process {rank} and "
                        f"{entry.get(key)} in another"
                    )
            parts = entry.setdefault("parts", [])
            # Of what all have alike the first process that has it writes it.
            if (facts.get("divided") and "start" in facts) or not (parts or facts.get("divided")):
                place = {key: facts[key] for key in ("start", "size") if key in facts}
                parts.append({"file": rank, **place})
    return found


def save_parts(path: str, values: dict[str, Any], group: Any, overwrite: bool) -> dict[str, Any]:
    """Write values of several processes to a folder; return the index's entries.

    Args:
        path: the folder, which all processes see.
        values: what this process has, by name. DTensors are written part by part; other values
            that several processes have are written by the first of them.
        group: the processes, or None for one.
        overwrite: whether a checkpoint that is there is replaced.
    """
    rank = 0 if group is None else group.rank()
    error: Exception | None = None
    described: dict[str, Any] = {}
    try:
        described = {name: _described(value) for name, value in values.items()}
        if not overwrite and any(os.path.exists(os.path.join(path, f)) for f in (INDEX, FILE)):
            raise CheckpointException(
                f"save: {path} has a checkpoint, and overwrite=False was given"
            )
    except CheckpointException as problem:
        error = problem
    agree(group, "save", error)
    entries = _merged(_from_all(group, described))
    folder = _from_first(group, FOLDERS + secrets.token_hex(8))
    try:
        os.makedirs(os.path.join(path, folder), exist_ok=True)
        _write_part(os.path.join(path, folder, f"{rank}.safetensors"), values, entries, rank)
    except OSError as problem:
        error = CheckpointException(f"save: {problem}")
    try:
        agree(group, "save", error)
    except Exception:
        if rank == 0:
            shutil.rmtree(os.path.join(path, folder), ignore_errors=True)
        raise
    try:
        if rank == 0:
            _commit(path, {"format": FORMAT, "folder": folder, "entries": entries})
    except OSError as problem:
        error = CheckpointException(f"save: {problem}")
    agree(group, "save", error)
    return entries


def _write_part(file: str, values: dict[str, Any], entries: dict[str, Any], rank: int) -> None:
    mine: dict[str, Any] = {}
    for name, value in values.items():
        if any(part["file"] == rank for part in entries[name]["parts"]):
            part = value._local_tensor if isinstance(value, DTensor) else value
            mine[name] = part.detach() if isinstance(part, Tensor) else part
    serialization.save(mine, file)


def _commit(path: str, index: dict[str, Any]) -> None:
    """Put the index in place, and remove what it does not name."""
    text = json.dumps(index).encode()
    write_file(os.path.join(path, INDEX), lambda: [memoryview(text)])
    clean(path, index["folder"])
    if os.path.exists(os.path.join(path, FILE)):
        os.unlink(os.path.join(path, FILE))


def clean(path: str, kept: str | None) -> None:
    """Remove the files of checkpoints that are no more, or never were."""
    for name in os.listdir(path):
        if name.startswith(FOLDERS) and name != kept:
            shutil.rmtree(os.path.join(path, name), ignore_errors=True)


# ---- loading


def read_index(path: str) -> dict[str, Any] | None:
    """Return the index of a folder, or None if it has none."""
    file = os.path.join(path, INDEX)
    try:
        with open(file, encoding="utf-8") as stream:
            index = json.load(stream)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise CheckpointException(f"load: {file} cannot be read: {error}") from error
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise CheckpointException(f"load: {file} is no index of a checkpoint of this library")
    return index


class Saved:
    """A checkpoint of several processes, read as its parts are asked for.

    Args:
        path: the folder.
        index: its index.
    """

    def __init__(self, path: str, index: dict[str, Any]) -> None:
        self.entries: dict[str, Any] = index["entries"]
        self._folder = os.path.join(path, index["folder"])
        self._files: dict[int, dict[str, Any]] = {}

    def _file(self, number: int) -> dict[str, Any]:
        if number not in self._files:
            file = os.path.join(self._folder, f"{number}.safetensors")
            try:
                self._files[number] = serialization.load(file, map_location="cpu", mmap=True)
            except OSError as error:
                raise CheckpointException(f"load: {error}") from error
        return self._files[number]

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def fact(self, name: str) -> Any:
        """Return the shape of a tensor, or None for another value."""
        entry = self.entries[name]
        return None if entry.get("value") else tuple(entry["shape"])

    def value(self, name: str) -> Any:
        """Return a value, which is a whole tensor if it is one."""
        entry = self.entries[name]
        if entry.get("value"):
            return self._file(entry["parts"][0]["file"])[name]
        shape = entry["shape"]
        return self.region(name, [0] * len(shape), shape)

    def region(self, name: str, start: Any, size: Any) -> Tensor:
        """Return a part of a tensor.

        Args:
            name: the tensor.
            start: where the part begins.
            size: its shape.
        """
        entry = self.entries[name]
        dtype = getattr(tapegrad, entry["dtype"].removeprefix("torch."))
        found = tapegrad.empty(tuple(size), dtype=dtype)
        filled = 0
        for part in entry["parts"]:
            spans = [
                (max(a, b), min(a + n, b + m))
                for a, n, b, m in zip(start, size, part["start"], part["size"], strict=True)
            ]
            if any(low >= high for low, high in spans):
                continue
            source, target = self._file(part["file"])[name], found
            for dim, (low, high) in enumerate(spans):
                source = source.narrow(dim, low - part["start"][dim], high - low)
                target = target.narrow(dim, low - start[dim], high - low)
            target.copy_(source)
            filled += target.numel()
        if filled != found.numel():
            raise CheckpointException(f"load: parts of {name} are missing in {self._folder}")
        return found
