"""The bytes under tensors, as such and as elements of one dtype.

Example:
    >>> torch.arange(3).untyped_storage().nbytes()
    24
"""
# mypy: disable-error-code="method-assign, attr-defined"

import copy
import operator
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor, UntypedStorage
from tapegrad._typed import DTYPES

__all__ = ["TypedStorage", "UntypedStorage", "storage_type"]


def _bytes(self: UntypedStorage) -> Tensor:
    return self._elements(_C.uint8)


def _of_bytes(data: Tensor) -> UntypedStorage:
    return data.contiguous().untyped_storage()


def _new_untyped(*args: Any, device: Any = None) -> UntypedStorage:
    """Make a storage of a number of bytes, which are not set, or of the bytes of a sequence."""
    if len(args) > 1:
        raise TypeError(f"UntypedStorage(): expected one size or sequence, got {len(args)}")
    if not args or not isinstance(args[0], Sequence):
        count = operator.index(args[0]) if args else 0
        return _C.empty(count, dtype=_C.uint8, device=device).untyped_storage()
    return _C.tensor(args[0], dtype=_C.uint8, device=device).untyped_storage()


def _repr(self: UntypedStorage) -> str:
    return _listing(self.tolist(), f"UntypedStorage(device={self.device}) of size {len(self)}")


def _listing(values: list[Any], description: str) -> str:
    shown = [f" {value}" for value in values[:1000]]
    more = [f" ... ({len(values) - 1000} more)"] if len(values) > 1000 else []
    return "\n".join([*shown, *more, f"[torch.storage.{description}]"])


def _getitem(self: UntypedStorage, index: Any) -> Any:
    if isinstance(index, slice):
        return _of_bytes(_bytes(self)[index].clone())
    return int(_bytes(self)[_position(index, len(self))].item())


def _setitem(self: UntypedStorage, index: Any, value: int) -> None:
    where = index if isinstance(index, slice) else _position(index, len(self))
    _bytes(self)[where] = value


def _position(index: Any, length: int) -> int:
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"index {index} out of range for storage of size {length}")
    return index


def _copy_(self: UntypedStorage, source: Any, non_blocking: bool = False) -> UntypedStorage:
    """Copy the bytes of another storage of the same size."""
    source = getattr(source, "_untyped_storage", source)
    if len(source) != len(self):
        raise RuntimeError(f"copy_: expected {len(self)} bytes, got {len(source)}")
    _bytes(self).copy_(_bytes(source), non_blocking)
    return self


def _fill_(self: UntypedStorage, value: int) -> UntypedStorage:
    """Set every byte."""
    _bytes(self).fill_(value)
    return self


def _resize_(self: UntypedStorage, size: int) -> UntypedStorage:
    """Refuse: what lies in a storage of another size is a new tensor here."""
    if size == len(self):
        return self
    raise RuntimeError(
        f"resize_: a storage keeps its {len(self)} bytes; use Tensor.resize_, or make a new one"
    )


def _get_device(self: Any) -> int | None:
    """Return the number of the device; None for the CPU."""
    return None if self.device.type == "cpu" else self.device.index or 0


def _is_shared(self: UntypedStorage) -> bool:
    """Return whether other processes see the memory; that of a GPU counts as such."""
    shared = sys.modules.get("tapegrad.multiprocessing.shared")  # without it nothing was shared
    return bool(shared.is_shared(self)) if shared is not None else self.device.type == "cuda"


def _share_memory_(self: Any) -> Any:
    """Return memory that is shared already; refuse to move it away from under its tensors."""
    if self.is_shared() or not len(self):
        return self
    raise RuntimeError(
        "share_memory_: a storage keeps its bytes; call Tensor.share_memory_ or "
        "Module.share_memory, which move a tensor to memory that is shared"
    )


def _new_shared(cls: Any, size: int, *, device: str = "cpu") -> UntypedStorage:
    """Return new bytes in memory that processes share."""
    from tapegrad.multiprocessing.shared import shared_storage

    if _C.empty(0, device=device).device.type != "cpu":
        raise RuntimeError(f"_new_shared: memory of the CPU is shared, not of {device}")
    return shared_storage(size)


def _from_file(filename: str, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
    """Return the bytes of a file, which are read when they are used.

    Args:
        filename: the file.
        shared: whether what is written goes to the file, which is made or made longer.
        nbytes: how many bytes.
    """
    from tapegrad._internal_names import from_file

    return from_file(filename, shared, nbytes, dtype=_C.uint8).untyped_storage()


def _from_buffer(
    buffer: Any, byte_order: str = "native", *, count: int = -1, offset: int = 0, dtype: Any = None
) -> UntypedStorage:
    if byte_order != "native":
        raise ValueError(f"from_buffer: expected byte_order 'native', got {byte_order!r}")
    kind = _C.uint8 if dtype is None else dtype
    return _of_bytes(_C.frombuffer(buffer, dtype=kind, count=count, offset=offset).clone())


def _deepcopy(self: UntypedStorage, memo: dict[Any, Any]) -> UntypedStorage:
    # As bytes of a tensor, so that tensors and storages that are copied together share again.
    return copy.deepcopy(_bytes(self), memo).untyped_storage()


def install() -> None:
    """Give the native class what is written in Python."""
    UntypedStorage.__repr__ = _repr
    UntypedStorage.__getitem__ = _getitem
    UntypedStorage.__setitem__ = _setitem
    UntypedStorage.__iter__ = lambda self: iter(self.tolist())
    UntypedStorage.tolist = lambda self: _bytes(self).tolist()
    UntypedStorage.clone = lambda self: _of_bytes(_bytes(self).clone())
    UntypedStorage.__copy__ = lambda self: self.clone()
    UntypedStorage.__deepcopy__ = _deepcopy
    UntypedStorage.copy_ = _copy_
    UntypedStorage.fill_ = _fill_
    UntypedStorage.resize_ = _resize_
    UntypedStorage.element_size = lambda self: 1
    UntypedStorage.get_device = _get_device
    UntypedStorage.untyped = lambda self: self
    UntypedStorage.is_shared = _is_shared
    UntypedStorage.share_memory_ = _share_memory_
    UntypedStorage._new_shared = classmethod(_new_shared)  # type: ignore[assignment]
    UntypedStorage.from_file = staticmethod(_from_file)
    UntypedStorage.new = lambda self: _new_untyped(0, device=self.device)
    UntypedStorage.from_buffer = staticmethod(_from_buffer)
    for word in DTYPES:
        method = word.lower()
        setattr(UntypedStorage, method, lambda self, word=word: _converted(self, word))


def _converted(storage: Any, word: str) -> "TypedStorage":
    return TypedStorage._of(storage._elements(_C.uint8).to(DTYPES[word]))


class _StorageType(type):
    """The class of `TypedStorage` and of `FloatStorage` and its relatives."""

    dtype: Any
    device_type: str | None

    def __instancecheck__(cls, instance: Any) -> bool:
        if not type.__instancecheck__(TypedStorage, instance):
            return False
        if cls is TypedStorage:
            return True
        return instance.dtype is cls.dtype and instance.device.type == cls.device_type

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is TypedStorage:
            return type.__call__(cls, *args, **kwargs)
        return TypedStorage(*args, dtype=cls.dtype, device=cls.device_type, **kwargs)


class TypedStorage(metaclass=_StorageType):
    """The memory of a tensor as a row of elements of its dtype.

    What it holds lies under tensors: to write here is to write there.

    Args:
        args: the number of elements, which are not set, or a sequence of values.
        wrap_storage: bytes to show, instead of both.
        dtype: the dtype of the elements; the default dtype if left out.
        device: where the elements lie.

    Example:
        >>> x = torch.zeros(2, 2)
        >>> x.storage()[3] = 5
        >>> x
        tensor([[0., 0.],
                [0., 5.]])
    """

    def __init__(
        self, *args: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None
    ) -> None:
        if len(args) > 1:
            raise TypeError(f"TypedStorage: expected one size or sequence, got {len(args)}")
        if wrap_storage is not None and (args or dtype is None):
            raise RuntimeError("TypedStorage: expected dtype, and no data, beside wrap_storage")
        self.dtype = _C.get_default_dtype() if dtype is None else dtype
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage
            return
        if args and isinstance(args[0], (TypedStorage, UntypedStorage)):
            raise TypeError("TypedStorage: expected a size or a sequence, or wrap_storage=")
        if args and isinstance(args[0], Sequence):
            elements = _C.tensor(args[0], dtype=self.dtype, device=device)
        else:
            elements = _C.empty(args[0] if args else 0, dtype=self.dtype, device=device)
        self._untyped_storage = elements.untyped_storage()

    @classmethod
    def _of(cls, elements: Tensor) -> "TypedStorage":
        elements = elements.detach().contiguous()
        return TypedStorage(wrap_storage=elements.untyped_storage(), dtype=elements.dtype)

    def _elements(self) -> Tensor:
        return self._untyped_storage._elements(self.dtype)

    @property
    def device(self) -> Any:
        """Where the elements lie."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """Whether they are on a GPU."""
        return bool(self._untyped_storage.is_cuda)

    is_sparse = False

    def untyped(self) -> UntypedStorage:
        """Return the bytes."""
        return self._untyped_storage

    def __len__(self) -> int:
        return self._elements().numel()

    def size(self) -> int:
        """Return the number of elements."""
        return len(self)

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return self._elements().element_size()

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self._untyped_storage.data_ptr()

    def get_device(self) -> int | None:
        """Return the number of the device; None for the CPU."""
        return _get_device(self)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._elements()[_position(index, len(self))].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        where = index if isinstance(index, slice) else _position(index, len(self))
        self._elements()[where] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        described = f"TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}"
        return _listing(self.tolist(), described)

    def tolist(self) -> list[Any]:
        """Return the elements as numbers."""
        return self._elements().tolist()

    def fill_(self, value: Any) -> "TypedStorage":
        """Set every element."""
        self._elements().fill_(value)
        return self

    def copy_(self, source: "TypedStorage", non_blocking: bool = False) -> "TypedStorage":
        """Copy the elements of another storage, converted to this dtype."""
        if len(source) != len(self):
            raise RuntimeError(f"copy_: expected {len(self)} elements, got {len(source)}")
        self._elements().copy_(source._elements(), non_blocking)
        return self

    def clone(self) -> "TypedStorage":
        """Return a copy."""
        return TypedStorage._of(self._elements().clone())

    def __copy__(self) -> "TypedStorage":
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> "TypedStorage":
        copied = copy.deepcopy(self._untyped_storage, memo)
        return TypedStorage(wrap_storage=copied, dtype=self.dtype)

    def to(self, *, device: Any, non_blocking: bool = False) -> "TypedStorage":
        """Return the elements on a device: these, or a copy."""
        moved = self._untyped_storage.to(device, non_blocking)
        return TypedStorage(wrap_storage=moved, dtype=self.dtype)

    def cpu(self) -> "TypedStorage":
        """Return the elements in memory of the CPU: these, or a copy."""
        return self.to(device="cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> "TypedStorage":
        """Return the elements on a GPU: these, or a copy."""
        return self.to(device="cuda" if device is None else device, non_blocking=non_blocking)

    def is_shared(self) -> bool:
        """Return whether other processes see the memory; that of a GPU counts as such."""
        return _is_shared(self._untyped_storage)

    def share_memory_(self) -> "TypedStorage":
        """Return memory that is shared already; refuse to move it away from under its tensors."""
        return _share_memory_(self)  # type: ignore[no-any-return]

    def _new_shared(self, size: int) -> "TypedStorage":
        """Return new elements of this dtype in memory that processes share."""
        new = _new_shared(UntypedStorage, size * self.element_size(), device=str(self.device))
        return TypedStorage(wrap_storage=new, dtype=self.dtype)

    def resize_(self, size: int) -> "TypedStorage":
        """Refuse another size: a storage keeps its bytes."""
        _resize_(self._untyped_storage, size * self.element_size())
        return self

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the name of the class for this dtype, or the elements in another dtype."""
        if dtype is None:
            return f"torch.{self.pickle_storage_type()}"
        if isinstance(dtype, _StorageType):
            dtype = dtype.dtype
        return TypedStorage._of(self._elements().to(dtype))

    def pickle_storage_type(self) -> str:
        """Return the name of the class for this dtype, such as ``FloatStorage``."""
        word = next(word for word, dtype in DTYPES.items() if dtype is self.dtype)
        return f"{word}Storage"

    @classmethod
    def from_buffer(cls, buffer: Any, **kwargs: Any) -> "TypedStorage":
        """Return a copy of the bytes of a buffer."""
        raise RuntimeError("from_buffer: only FloatStorage and its relatives know their dtype")


def _conversion(word: str) -> Any:
    def convert(self: TypedStorage) -> TypedStorage:
        return self if self.dtype is DTYPES[word] else self.type(DTYPES[word])

    convert.__name__ = word.lower()
    convert.__doc__ = f"Return the elements as {DTYPES[word]}: these, or a copy."
    return convert


for _word in DTYPES:
    setattr(TypedStorage, _word.lower(), _conversion(_word))

_TYPES: dict[tuple[str, str], _StorageType] = {}


def storage_type(name: str, device_type: str = "cpu") -> _StorageType:
    """Return the class of a name such as ``FloatStorage``; there is one of each."""
    key = (name, device_type)
    if key not in _TYPES:
        module = "torch" if device_type == "cpu" else f"torch.{device_type}"
        kind = _StorageType(name, (), {"__module__": module})
        kind.dtype, kind.device_type = DTYPES[name.removesuffix("Storage")], device_type
        _TYPES[key] = kind
    return _TYPES[key]


Storage = storage_type("FloatStorage")


def is_storage(obj: Any) -> bool:
    """Return whether an object is a storage.

    Example:
        >>> torch.is_storage(torch.ones(2).untyped_storage())
        True
    """
    return isinstance(obj, (TypedStorage, UntypedStorage))


def storage(self: Tensor) -> Any:
    """Return the memory under a tensor as elements of its dtype; `untyped_storage` has the bytes.

    Example:
        >>> torch.tensor([1.0, 2.0]).storage().tolist()
        [1.0, 2.0]
    """
    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


def tensor_storage_type(self: Tensor) -> Any:
    """Return the class of the storage of a tensor, such as `torch.FloatStorage`.

    Example:
        >>> torch.ones(2).storage_type()
        <class 'torch.FloatStorage'>
    """
    return storage_type(storage(self).pickle_storage_type(), self.device.type)


install()
