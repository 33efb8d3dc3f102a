"""The stored states of a loop: some in memory, others in files that go when they are not needed."""

import contextlib
import os
import shutil
import tempfile
import weakref
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.tape._spill_file import checksum
from tapegrad.utils._pytree import tree_flatten, tree_unflatten
from tapegrad.utils._replay import Randomness

__all__ = ["Store", "Stored"]

_INTEGERS = {1: _C.uint8, 2: _C.int16, 4: _C.int32, 8: _C.int64}


class Stored(NamedTuple):
    """A state and the random numbers that its step begins with."""

    state: Any
    versions: tuple[int, ...]
    randomness: Randomness | None

    @classmethod
    def of(cls, state: Any, leaves: list[Any], randomness: Randomness | None) -> "Stored":
        """Note a state that has no history."""
        versions = tuple(each._version for each in leaves if isinstance(each, Tensor))
        return cls(state, versions, randomness)

    def check(self, position: int) -> None:
        """Raise if somebody has written to the state."""
        tensors = [each for each in tree_flatten(self.state)[0] if isinstance(each, Tensor)]
        if tuple(each._version for each in tensors) != self.versions:
            raise RuntimeError(
                f"revolve: the state before step {position} was modified by an inplace operation; "
                "step must leave its state alone and return a new one: call .clone() first"
            )


class _Bytes(NamedTuple):
    """What is known of a tensor whose elements are in a file."""

    shape: Any
    strides: tuple[int, ...]
    dtype: Any
    device: Any
    needs_grad: bool
    nbytes: int
    checksum: int


class _Filed(NamedTuple):
    """A state in a file: the tensors among the leaves are there, the rest is here."""

    path: str
    leaves: list[Any]
    structure: Any
    randomness: Randomness | None


class Store:
    """The slots.

    Args:
        slots: how many states fit into memory.
        disk_slots: how many fit on disk.
        folder: where a folder for the files is made; None for the system's.
    """

    def __init__(self, slots: int, disk_slots: int = 0, folder: Any = None) -> None:
        self.slots = slots
        self.memory: dict[int, Stored] = {}
        self.disk: dict[int, _Filed] = {}
        self.folder = _make_folder(folder) if disk_slots else ""
        if self.folder:
            weakref.finalize(self, _remove, self.folder, os.getpid())

    def put(self, position: int, stored: Stored, on_disk: bool = False) -> None:
        """Store the state at a position."""
        if on_disk:
            self.disk[position] = self._write(position, stored)
        else:
            self.memory[position] = stored

    def put_newest(self, position: int, stored: Stored) -> None:
        """Store a state in memory; if it is full, the oldest one there goes to disk."""
        if len(self.memory) >= self.slots:
            oldest = min((each for each in self.memory if each > 0), default=None)
            if oldest is None:
                self.put(position, stored, on_disk=True)
                return
            self.disk[oldest] = self._write(oldest, self.memory[oldest])
            del self.memory[oldest]
        self.memory[position] = stored

    def get(self, position: int) -> Stored:
        """Return the state at a position, which stays stored."""
        stored = self.memory.get(position)
        if stored is None:
            return self._read(position, self.disk[position])
        stored.check(position)
        return stored

    def drop(self, position: int) -> None:
        """End the storage of a state."""
        if self.memory.pop(position, None) is None:
            _unlink(self.disk.pop(position).path)

    def clear(self) -> None:
        """End the storage of all states, and remove the folder; it is made again when needed."""
        self.memory.clear()
        self.disk.clear()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- files

    def _write(self, position: int, stored: Stored) -> _Filed:
        leaves, structure = tree_flatten(stored.state)
        path = os.path.join(self.folder, f"{position}.state")
        try:
            os.makedirs(self.folder, exist_ok=True)
            with open(path, "wb") as file:
                described = [
                    _dump(leaf, file) if isinstance(leaf, Tensor) else leaf for leaf in leaves
                ]
        except OSError as error:
            _unlink(path)
            raise _failed("write", position, path, error) from error
        return _Filed(path, described, structure, stored.randomness)

    def _read(self, position: int, filed: _Filed) -> Stored:
        try:
            with open(filed.path, "rb") as file:
                leaves = [
                    _load(leaf, file) if isinstance(leaf, _Bytes) else leaf for leaf in filed.leaves
                ]
        except OSError as error:
            raise _failed("read", position, filed.path, error) from error
        state = tree_unflatten(leaves, filed.structure)
        return Stored.of(state, leaves, filed.randomness)


def _make_folder(folder: Any) -> str:
    try:
        if folder is not None:
            os.makedirs(folder, exist_ok=True)
        return tempfile.mkdtemp(prefix="tapegrad-revolve-", dir=folder)
    except OSError as error:
        raise type(error)(
            error.errno,
            f"revolve: could not make a folder for states in {folder}: {error.strerror}; "
            "give a folder= that can be written to",
        ) from error


def _remove(folder: str, process: int) -> None:
    """Remove a folder, unless this is a fork of the process that made it and may need it yet."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):  # gone already: nothing is left behind
        os.unlink(path)


def _failed(what: str, position: int, path: str, error: OSError) -> OSError:
    remedy = (
        "free space there, or give another folder= or fewer disk_slots"
        if what == "write"
        else "the files must stay until backward is done; run the loop again"
    )
    text = f"revolve: could not {what} the state before step {position}: "
    return OSError(error.errno, f"{text}{path}: {error.strerror or error}; {remedy}")


def _dump(tensor: Tensor, file: Any) -> _Bytes:
    flat = tensor.detach().contiguous().reshape(-1)
    found = 0
    if flat.numel():  # as integers, because NumPy does not know all dtypes
        data = flat.view(_INTEGERS[flat.element_size()]).cpu().numpy()
        file.write(data)
        found = checksum(data)
    return _Bytes(
        tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad,
        flat.numel() * flat.element_size(), found,
    )  # fmt: skip


def _load(kept: _Bytes, file: Any) -> Tensor:
    data = bytearray(kept.nbytes)
    found = file.readinto(data)
    if found != kept.nbytes:
        raise OSError(None, f"expected {kept.nbytes} more bytes, found {found}")
    if data and checksum(data) != kept.checksum:
        raise OSError(None, "the bytes are not those that were written")
    if not data:
        return _C.empty(
            kept.shape, dtype=kept.dtype, device=kept.device, requires_grad=kept.needs_grad
        )
    tensor = _C.frombuffer(data, dtype=kept.dtype).reshape(kept.shape)
    if tensor.stride() != kept.strides and _is_dense(kept):  # ops may round by layout
        laid_out = _C.empty_strided(kept.shape, kept.strides, dtype=kept.dtype, device="cpu")
        tensor = laid_out.copy_(tensor)
    return tensor.to(kept.device).requires_grad_(kept.needs_grad)


def _is_dense(kept: _Bytes) -> bool:
    """Whether every element has a place of its own and there are no gaps."""
    expected = 1
    for stride, size in sorted(zip(kept.strides, kept.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True
