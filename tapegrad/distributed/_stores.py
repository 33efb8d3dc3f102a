"""Stores: keys and values that the processes of a world share to find each other.

`Store` says everything in terms of `_update`, which changes one value atomically, and `_read`. One
process needs no server, so `TCPStore` keeps its values in memory and opens no port; `FileStore`
is shared between processes through a locked file.
"""

import contextlib
import fcntl
import os
import struct
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from tapegrad.distributed._errors import DistStoreError, QueueEmptyError

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

Update = Callable[[bytes | None], bytes | None]  # None stands for a key that is not there

DEFAULT_TIMEOUT = timedelta(minutes=5)


def _key(name: str, key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{name}: expected a key of type str, got {type(key).__name__}")
    return key


def _value(name: str, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes):
        raise TypeError(f"{name}: expected a str or bytes, got {type(value).__name__}")
    return value


def _keys(name: str, keys: Any) -> list[str]:
    if not isinstance(keys, (list, tuple)):
        raise TypeError(f"{name}: expected a list of keys, got {type(keys).__name__}")
    return [_key(name, key) for key in keys]


class Store:
    """The base class of all stores."""

    def __init__(self) -> None:
        self._timeout = DEFAULT_TIMEOUT

    # ---- what a store defines

    def _update(self, key: str, function: Update) -> bytes | None:
        """Replace a value by what a function makes of it, atomically; return the new one."""
        raise NotImplementedError(f"{type(self).__name__}: this store keeps no values")

    def _read(self) -> dict[str, bytes]:
        """Return all that is there."""
        raise NotImplementedError(f"{type(self).__name__}: this store keeps no values")

    def _until(self, is_there: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition holds; return whether it came to that."""
        end = time.monotonic() + seconds
        while not is_there():
            if time.monotonic() >= end:
                return False
            time.sleep(0.005)
        return True

    # ---- what follows from it

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long `get` and `wait` wait.

        Args:
            timeout: the time.
        """
        self._timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Set the value of a key."""
        new = _value("Store.set", value)
        self._update(_key("Store.set", key), lambda old: new)

    def get(self, key: str) -> bytes:
        """Return the value of a key, after waiting for it."""
        self.wait([_key("Store.get", key)])
        return self._read()[key]

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, which begins at zero, and return it."""
        if not isinstance(amount, int):
            raise TypeError(f"Store.add: expected an int, got {type(amount).__name__}")
        new = self._update(_key("Store.add", key), lambda old: b"%d" % (int(old or b"0") + amount))
        return int(new or b"0")

    def append(self, key: str, value: str | bytes) -> None:
        """Add to the end of a value."""
        more = _value("Store.append", value)
        self._update(_key("Store.append", key), lambda old: (old or b"") + more)

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes
    ) -> bytes:
        """Set a value if the old one is as expected, or if none was there nor expected."""
        expected = _value("Store.compare_set", expected_value)
        desired = _value("Store.compare_set", desired_value)

        def change(old: bytes | None) -> bytes | None:
            is_expected = not expected if old is None else old == expected
            return desired if is_expected else old

        new = self._update(_key("Store.compare_set", key), change)
        return expected if new is None else new

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys are there."""
        return self._read().keys() >= set(_keys("Store.check", keys))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there.

        Args:
            keys: a list of keys.
            timeout: the most to wait.
        """
        wanted = set(_keys("Store.wait", keys))
        limit = self.timeout if timeout is None else timeout
        if not self._until(lambda: self._read().keys() >= wanted, limit.total_seconds()):
            missing = sorted(wanted - self._read().keys())
            raise DistStoreError(f"Store.wait: {missing} did not come within {limit}")

    def delete_key(self, key: str) -> bool:
        """Remove a key and return whether it was there."""
        was_there = []

        def change(old: bytes | None) -> None:
            was_there.append(old is not None)

        self._update(_key("Store.delete_key", key), change)
        return was_there[0]

    def num_keys(self) -> int:
        """Return the number of keys."""
        return len(self._read())

    def list_keys(self) -> list[str]:
        """Return the keys."""
        return list(self._read())

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return several values, after waiting for them."""
        return [self.get(key) for key in _keys("Store.multi_get", keys)]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Set several values."""
        if len(keys) != len(values):
            raise ValueError(f"Store.multi_set: got {len(keys)} keys and {len(values)} values")
        for key, value in zip(_keys("Store.multi_set", keys), values, strict=True):
            self.set(key, value)

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until as many have called this with the same key."""
        if self.add(f"{key}/count", 1) >= world_size:
            self.set(f"{key}/all", b"1")
        self.wait([f"{key}/all"], timeout)

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Add a value to a queue."""
        raise NotImplementedError(f"{type(self).__name__}: queues are not supported")

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value from a queue."""
        raise NotImplementedError(f"{type(self).__name__}: queues are not supported")

    def queue_len(self, key: str) -> int:
        """Return the length of a queue."""
        raise NotImplementedError(f"{type(self).__name__}: queues are not supported")

    def has_extended_api(self) -> bool:
        """Return whether `append` and reading and setting several values are there."""
        return True

    def clone(self) -> "Store":
        """Return a store of the same values."""
        return self


class HashStore(Store):
    """A store in the memory of this process, shared by its threads.

    Example:
        >>> store = torch.distributed.HashStore()
        >>> store.add("ready", 1)
        1
        >>> store.get("ready")
        b'1'
    """

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[str, bytes] = {}
        self._queues: dict[str, deque[bytes]] = {}
        self._changed = threading.Condition(threading.RLock())

    def _update(self, key: str, function: Update) -> bytes | None:
        with self._changed:
            new = function(self._values.get(key))
            if new is None:
                self._values.pop(key, None)
            else:
                self._values[key] = new
            self._changed.notify_all()
            return new

    def _read(self) -> dict[str, bytes]:
        with self._changed:
            return dict(self._values)

    def _until(self, is_there: Callable[[], bool], seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(is_there, seconds)

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Add a value to a queue."""
        with self._changed:
            self._queues.setdefault(key, deque()).append(_value("Store.queue_push", value))
            self._changed.notify_all()

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value from a queue."""
        with self._changed:
            if not block and not self._queues.get(key):
                raise QueueEmptyError(f"Store.queue_pop: the queue {key!r} is empty")
            if not self._until(lambda: bool(self._queues.get(key)), self.timeout.total_seconds()):
                raise DistStoreError(f"Store.queue_pop: nothing came within {self.timeout}")
            return self._queues[key].popleft()

    def queue_len(self, key: str) -> int:
        """Return the length of a queue."""
        with self._changed:
            return len(self._queues.get(key, ()))


class TCPStore(HashStore):
    """A store under an address. It serves one process, and opens no port.

    Args:
        host_name: the address of the process that serves the store.
        port: its port.
        world_size: the number of processes; more than one are refused.
        is_master: whether this process serves the store; that another one does is refused.
        timeout: how long `get` and `wait` wait.
        wait_for_workers: accepted: there is nobody to wait for.
        multi_tenant: accepted.
        master_listen_fd: refused: nothing listens.
        use_libuv: accepted.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        if not is_master:
            raise RuntimeError(
                f"TCPStore: {host_name}:{port} would be served by another process, and nothing is "
                "sent over the network; use a FileStore, or MPI without a store"
            )
        if world_size is not None and world_size > 1:
            raise RuntimeError(
                f"TCPStore: the processes of a world of {world_size} cannot share it: nothing is "
                "sent over the network; use a FileStore, or MPI without a store"
            )
        if master_listen_fd is not None:
            raise RuntimeError("TCPStore: master_listen_fd is not supported: nothing listens here")
        self.host, self.port = host_name, port
        self.set_timeout(timeout)

    def __repr__(self) -> str:
        return f"TCPStore({self.host}:{self.port}, in the memory of this process)"


_RECORD = struct.Struct("<II")
_GONE = 0xFFFFFFFF


class FileStore(Store):
    """A store in a file, which processes with the same file system share.

    Args:
        file_name: the file. It is made when a value is first set.
        world_size: how many processes use it. With one, the file is removed with the store.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = os.fspath(file_name)
        self.world_size = world_size
        if world_size == 1:
            weakref.finalize(self, _remove, self.path)

    def _update(self, key: str, function: Update) -> bytes | None:
        with open(self.path, "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            new = function(_records(file).get(key))
            name = key.encode()
            size = _GONE if new is None else len(new)
            file.write(_RECORD.pack(len(name), size) + name + (new or b""))
            return new

    def _read(self) -> dict[str, bytes]:
        try:
            with open(self.path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH)
                return _records(file)
        except FileNotFoundError:
            return {}

    def has_extended_api(self) -> bool:
        """Return False, as PyTorch's does."""
        return False


def _records(file: Any) -> dict[str, bytes]:
    """Return what a log of changes comes to."""
    file.seek(0)
    text, place = file.read(), 0
    found: dict[str, bytes] = {}
    while place < len(text):
        key_size, size = _RECORD.unpack_from(text, place)
        place += _RECORD.size
        key = text[place : place + key_size].decode()
        place += key_size
        if size == _GONE:
            found.pop(key, None)
        else:
            found[key] = text[place : place + size]
            place += size
    return found


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):  # it was never made, or somebody else removed it
        os.unlink(path)


class PrefixStore(Store):
    """A part of another store: all keys get a prefix there.

    Args:
        prefix: the prefix.
        store: the other store.

    Example:
        >>> whole = torch.distributed.HashStore()
        >>> torch.distributed.PrefixStore("mine", whole).set("key", "value")
        >>> whole.list_keys()
        ['mine/key']
    """

    def __init__(self, prefix: str, store: Store) -> None:
        if not isinstance(store, Store):
            raise TypeError(f"PrefixStore: expected a Store, got {type(store).__name__}")
        self.prefix = _key("PrefixStore", prefix)
        self.underlying_store = store

    def _name(self, key: Any) -> str:
        return f"{self.prefix}/{_key('PrefixStore', key)}"

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait."""
        return self.underlying_store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long `get` and `wait` of the other store wait."""
        self.underlying_store.set_timeout(timeout)

    def set(self, key: str, value: str | bytes) -> None:
        """Set the value of a key."""
        self.underlying_store.set(self._name(key), value)

    def get(self, key: str) -> bytes:
        """Return the value of a key, after waiting for it."""
        return self.underlying_store.get(self._name(key))

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, which begins at zero, and return it."""
        return self.underlying_store.add(self._name(key), amount)

    def append(self, key: str, value: str | bytes) -> None:
        """Add to the end of a value."""
        self.underlying_store.append(self._name(key), value)

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes
    ) -> bytes:
        """Set a value if the old one is as expected, or if none was there nor expected."""
        name = self._name(key)
        return self.underlying_store.compare_set(name, expected_value, desired_value)

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys are there."""
        return self.underlying_store.check([self._name(key) for key in keys])

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there."""
        names = [self._name(key) for key in _keys("Store.wait", keys)]
        if timeout is None:
            self.underlying_store.wait(names)
        else:
            self.underlying_store.wait(names, timeout)

    def delete_key(self, key: str) -> bool:
        """Remove a key and return whether it was there."""
        return self.underlying_store.delete_key(self._name(key))

    def num_keys(self) -> int:
        """Return the number of keys of the whole other store, as PyTorch does."""
        return self.underlying_store.num_keys()

    def list_keys(self) -> list[str]:
        """Return the keys of this part."""
        start = f"{self.prefix}/"
        keys = self.underlying_store.list_keys()
        return [key.removeprefix(start) for key in keys if key.startswith(start)]

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Add a value to a queue."""
        self.underlying_store.queue_push(self._name(key), value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value from a queue."""
        return self.underlying_store.queue_pop(self._name(key), block)

    def queue_len(self, key: str) -> int:
        """Return the length of a queue."""
        return self.underlying_store.queue_len(self._name(key))

    def has_extended_api(self) -> bool:
        """Return what the other store does."""
        return self.underlying_store.has_extended_api()
