"""Memory that processes share: tensors in it are sent to other processes without a copy.

A `Region` is one piece of it: an anonymous file in memory, or, by the strategy ``file_system``, one
with a name, that every process maps. `share` moves the bytes of a tensor to a region of their own;
a forked process maps it from the start, and a message to another process holds the descriptor or
the name of the file instead of the bytes.

The kernel frees an anonymous file with its last descriptor or mapping. A file with a name is
removed when the process that made it drops it or ends; when it is killed, Python's resource tracker
removes it.
"""

import contextlib
import ctypes
import functools
import mmap
import os
import secrets
import weakref
from multiprocessing import reduction, resource_tracker
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor, UntypedStorage

__all__ = [
    "Region",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "is_shared",
    "map_shared",
    "region_of",
    "set_sharing_strategy",
    "share",
    "shared_storage",
]

FOLDER = "/dev/shm"  # where the system keeps files in memory, by name
STRATEGIES = {"file_descriptor", "file_system"}
_strategy = "file_descriptor"

# By address; those whose memory is mapped here.
_regions: "weakref.WeakValueDictionary[int, Region]" = weakref.WeakValueDictionary()


def get_all_sharing_strategies() -> set[str]:
    """Return the ways to send shared memory to another process.

    Example:
        >>> sorted(torch.multiprocessing.get_all_sharing_strategies())
        ['file_descriptor', 'file_system']
    """
    return set(STRATEGIES)


def get_sharing_strategy() -> str:
    """Return the way in which memory that is shared from now on is sent to other processes.

    Example:
        >>> torch.multiprocessing.get_sharing_strategy()
        'file_descriptor'
    """
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Set the way in which memory that is shared from now on is sent to other processes.

    Args:
        new_strategy: ``"file_descriptor"``, which leaves nothing behind however processes end, and
            keeps a file open for each tensor; or ``"file_system"``, which opens none, and needs a
            folder ``/dev/shm``.

    Example:
        >>> torch.multiprocessing.set_sharing_strategy("file_descriptor")
    """
    global _strategy
    if new_strategy not in STRATEGIES:
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, expected one of {sorted(STRATEGIES)}"
        )
    _strategy = new_strategy


# ---- mappings


@functools.cache
def _system() -> ctypes.CDLL:
    """Return the C library, with the types of the two functions that are called."""
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


def map_shared(descriptor: int, size: int, *, at_once: bool = False) -> Any:
    """Return the memory of a file, mapped until the last reference to it goes; None if it fails.

    Python's own mmap would keep a descriptor of the file open.

    Args:
        descriptor: of the file, which may be closed afterwards.
        size: the number of bytes.
        at_once: whether to read all pages now.
    """
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    flags = mmap.MAP_SHARED | (getattr(mmap, "MAP_POPULATE", 0) if at_once else 0)
    address = _system().mmap(None, size, protection, flags, descriptor, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        return None
    memory = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(memory, _system().munmap, address, size).atexit = False
    return memory


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tapegrad-shared")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _remove(path: str, maker: int) -> None:
    """Remove a file with a name, in the process that made it."""
    if os.getpid() == maker:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        resource_tracker.unregister(f"/{os.path.basename(path)}", "shared_memory")


class Region:
    """A piece of memory that processes share.

    Attributes:
        nbytes: its size.
        descriptor: of the file it lies in, which is open while this object lives; or None.
        path: the name of the file; or None.
    """

    def __init__(self, nbytes: int, descriptor: int | None, path: str | None) -> None:
        self.nbytes = nbytes
        self.descriptor = descriptor
        self.path = path
        self._memory: Any = None
        if descriptor is not None:
            weakref.finalize(self, os.close, descriptor).atexit = False

    @classmethod
    def make(cls, nbytes: int) -> "Region":
        """Return a new one, of bytes that are zero."""
        if _strategy == "file_descriptor":
            region = cls(nbytes, _anonymous_file(), None)
            _lengthen(region.descriptor, nbytes)
            return region
        name = f"tapegrad-{os.getpid()}-{secrets.token_hex(8)}"
        path = f"{FOLDER}/{name}"
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise RuntimeError(
                f"share_memory_: unable to make {path!r}: {error.strerror}; call "
                "torch.multiprocessing.set_sharing_strategy('file_descriptor')"
            ) from error
        resource_tracker.register(f"/{name}", "shared_memory")
        region = cls(nbytes, None, path)
        weakref.finalize(region, _remove, path, os.getpid())
        try:
            _lengthen(file, nbytes)
        finally:
            os.close(file)
        return region

    @property
    def is_mapped(self) -> bool:
        """Whether its memory is in use in this process."""
        return self._memory is not None and self._memory() is not None

    def bytes(self) -> Tensor:
        """Return the memory as a tensor of bytes."""
        memory = self._memory and self._memory()
        if memory is None:
            memory = self._map()
            memory.region = self  # which so lives as long as a tensor shows the memory
            self._memory = weakref.ref(memory)
            _regions[ctypes.addressof(memory)] = self
        return _C.frombuffer(memory, dtype=_C.uint8)

    def _map(self) -> Any:
        file = self.descriptor if self.path is None else _open(self.path)
        try:
            memory = map_shared(file, self.nbytes)  # type: ignore[arg-type]
        finally:
            if self.path is not None:
                os.close(file)  # type: ignore[arg-type]
        if memory is None:
            raise RuntimeError(
                f"share_memory_: the system maps no further {self.nbytes} bytes; there is no "
                "memory left, or the process has too many mappings (vm.max_map_count)"
            )
        return memory

    def __reduce__(self) -> Any:
        if self.path is not None:
            return Region, (self.nbytes, None, self.path)
        sent = reduction.DupFd(self.descriptor)  # type: ignore[attr-defined, arg-type]
        return _received, (self.nbytes, sent)


def _received(nbytes: int, descriptor: Any) -> Region:
    return Region(nbytes, descriptor.detach(), None)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR)
    except FileNotFoundError as error:
        raise RuntimeError(
            f"shared memory {path!r} is gone: the process that made it has ended or dropped it "
            "before this one asked for it"
        ) from error


def _lengthen(descriptor: int | None, nbytes: int) -> None:
    """Give a file its size. Without memory this raises; a store would kill."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, nbytes)  # type: ignore[arg-type]
    else:
        os.ftruncate(descriptor, nbytes)  # type: ignore[arg-type]


# ---- tensors


def region_of(storage: UntypedStorage) -> Region | None:
    """Return the region that a storage of the CPU lies in, if it does in one."""
    if storage.device.type != "cpu" or storage.nbytes() == 0:
        return None
    found = _regions.get(storage._address())
    return found if found is not None and found.is_mapped else None


def is_shared(storage: UntypedStorage) -> bool:
    """Return whether other processes see the memory, or would: that of GPUs counts as such."""
    return storage.device.type == "cuda" or region_of(storage) is not None


def shared_storage(nbytes: int) -> UntypedStorage:
    """Return new memory that is shared."""
    if nbytes == 0:
        return _C.empty(0, dtype=_C.uint8, device="cpu").untyped_storage()
    return Region.make(nbytes).bytes().untyped_storage()


def share(tensor: Tensor) -> Tensor:
    """Move the memory of a tensor to where processes share it.

    Args:
        tensor: the only one that shows its memory: others would go on to show the old one.
    """
    if tensor.device.type == "cuda" or tensor.numel() == 0:
        return tensor
    if tensor.device.type != "cpu":
        raise RuntimeError(f"share_memory_: only available on CPU, got {tensor.device}")
    storage = tensor.untyped_storage()
    if region_of(storage) is not None:
        return tensor
    if _C._storage_uses(_C._storage_id(tensor)) > 2:  # the tensor, and `storage`
        raise RuntimeError(
            "share_memory_: other tensors, or values saved for backward, show the memory of this "
            "one, and would not move with it; share it before there are views of it, or share its "
            ".clone()"
        )
    moved = shared_storage(storage.nbytes())
    moved._elements(_C.uint8).copy_(storage._elements(_C.uint8))
    place = tensor.stride(), tensor.storage_offset()
    tensor.data = moved._elements(tensor.dtype).as_strided(tensor.shape, *place)
    return tensor


def _reduce_tensor(tensor: Tensor) -> Any:
    """Pickle a tensor for another process: its place in shared memory, or else its values."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries.  If you just want to transfer the data, "
            "call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )
    region = None if tensor.layout is not _STRIDED else region_of(tensor.untyped_storage())
    if region is None:
        return tensor.__reduce_ex__(2)
    place = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
    made = _rebuild_tensor, (region, tensor.dtype, *place, tensor.requires_grad)
    return (*made, tensor.__dict__) if tensor.__dict__ else made


def _rebuild_tensor(
    region: Region, dtype: Any, shape: Any, strides: Any, offset: int, requires_grad: bool
) -> Tensor:
    elements = region.bytes().untyped_storage()._elements(dtype)
    return elements.as_strided(shape, strides, offset).requires_grad_(requires_grad)


def _reduce_storage(storage: UntypedStorage) -> Any:
    region = region_of(storage)
    if region is None:
        return _rebuild_bytes, (storage._elements(_C.uint8),)
    return _rebuild_storage, (region,)


def _rebuild_storage(region: Region) -> UntypedStorage:
    return region.bytes().untyped_storage()


def _rebuild_bytes(data: Tensor) -> UntypedStorage:
    return data.untyped_storage()


_STRIDED = _C.empty(0, device="cpu").layout
reduction.ForkingPickler.register(Tensor, _reduce_tensor)
reduction.ForkingPickler.register(UntypedStorage, _reduce_storage)
