"""Objects of any class, as PyTorch saves them: a pickle in a zip archive, and memory beside it.

`save` writes such a file where the state holds more than a document can, a whole module perhaps.
Names of tapegrad are written as PyTorch's, which can read the file too, and are read as our own.

Reading one runs what it says, so that is done only where the caller has said
``weights_only=False``. By default the machine of `_torch_zip` reads it, which makes objects only of
classes that the program has allowed.
"""

import contextlib
import importlib
import io
import pickle
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import Size, device, layout, strided
from tapegrad.nn.parameter import Parameter
from tapegrad.serialization._dtypes import BY_NAME
from tapegrad.serialization._errors import CheckpointError
from tapegrad.serialization._storage import memory_of
from tapegrad.serialization._zip import archive_chunks

__all__ = ["STORAGES", "Unpickler", "object_chunks"]

ROOT = "archive"
PROTOCOL = 2  # PyTorch's
# PyTorch's classes of storages, by the dtype of their elements; of others the elements are bytes.
STORAGES = {"Bool": "bool", "Byte": "uint8", "Char": "int8", "Short": "int16", "Int": "int32",
            "Long": "int64", "Half": "float16", "BFloat16": "bfloat16", "Float": "float32",
            "Double": "float64", "ComplexFloat": "complex64",
            "ComplexDouble": "complex128"}  # fmt: skip
_KINDS = {BY_NAME[dtype]: f"{kind}Storage" for kind, dtype in STORAGES.items()}


def object_chunks(root: Any) -> Callable[[], Iterator[memoryview]]:
    """Return what yields the bytes of a file that holds an object.

    Raises:
        Exception: whatever pickling raises: something in it cannot be pickled.
    """
    text = io.BytesIO()
    pickler = _Pickler(text)
    pickler.dump(root)
    members = [(f"{ROOT}/data.pkl", memoryview(text.getvalue()))]
    members.append((f"{ROOT}/byteorder", memoryview(sys.byteorder.encode("ascii"))))
    members += [(f"{ROOT}/data/{m.key}", m.data) for m in pickler.memories.values()]
    members.append((f"{ROOT}/version", memoryview(b"3\n")))
    return lambda: archive_chunks(members)


# ---- writing


class _Name(NamedTuple):
    """A function or class of PyTorch's that stands in the pickle under its name."""

    module: str
    name: str

    def __call__(self) -> None:
        raise TypeError(f"{self.module}.{self.name} is a name in a file")


class _Memory(NamedTuple):
    """The bytes under tensors, an entry of the archive."""

    key: str
    location: str
    data: memoryview
    owner: Tensor  # whose memory it is: no other tensor may take its place meanwhile


class _Reference(NamedTuple):
    """A memory as the pickle refers to it: with a class of storages."""

    memory: _Memory
    kind: str
    numel: int


_REBUILD = _Name("torch._utils", "_rebuild_tensor_v2")
_REBUILD_BYTES = _Name("torch._utils", "_rebuild_tensor_v3")
_REBUILD_PARAMETER = _Name("torch._utils", "_rebuild_parameter")
_REBUILD_PARAMETER_WITH_STATE = _Name("torch._utils", "_rebuild_parameter_with_state")
_REBUILD_FROM_TYPE = _Name("torch._tensor", "_rebuild_from_type_v2")
# Classes that PyTorch has in another module.
_PLACES: dict[Any, _Name] = {
    Tensor: _Name("torch", "Tensor"),
    Size: _Name("torch", "Size"),
    device: _Name("torch", "device"),
    layout: _Name("torch", "layout"),
    Parameter: _Name("torch.nn.parameter", "Parameter"),
}


# The one in Python, which can be asked how a name is written.
_Base: Any = pickle._Pickler  # type: ignore[attr-defined]


class _Pickler(_Base):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, PROTOCOL)
        self.memories: dict[int, _Memory] = {}

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is not _Reference:
            return None
        kind = _Name("torch.storage", obj.kind) if obj.kind == "UntypedStorage" else None
        kind = kind or _Name("torch", obj.kind)
        return "storage", kind, obj.memory.key, obj.memory.location, obj.numel

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, _C.dtype):
            return str(obj).removeprefix("torch.").removeprefix("tapegrad.")
        if isinstance(obj, Tensor) and obj.layout is strided:
            return self._reduce_tensor(obj)
        return NotImplemented

    def _reduce_tensor(self, x: Tensor) -> Any:
        kind, state = type(x), dict(x.__dict__)
        if kind is Parameter:
            given: tuple[Any, ...] = (x.detach(), x.requires_grad, OrderedDict())
            if state:
                return _REBUILD_PARAMETER_WITH_STATE, (*given, state)
            return _REBUILD_PARAMETER, given
        made = self._rebuilt(x)
        if kind is Tensor and not state:
            return made
        return _REBUILD_FROM_TYPE, (made[0], kind, made[1], state)

    def _rebuilt(self, x: Tensor) -> tuple[_Name, tuple[Any, ...]]:
        """Return what makes a plain tensor again, and of what."""
        batched = any(_C._is_batched_at(x, number) for number, _ in _C._running_vmaps())
        if x.device.type == "meta" or batched:
            kind = "on meta" if x.device.type == "meta" else "that stands for a batch"
            raise pickle.PicklingError(f"a tensor {kind} has no bytes of its own to save")
        memory = self._memory(x)
        place: tuple[Any, ...] = (
            x.storage_offset(),
            tuple(x.shape),
            x.stride(),
            x.requires_grad,
            OrderedDict(),
        )
        nbytes = memory.data.nbytes
        if x.dtype in _KINDS:
            reference = _Reference(memory, _KINDS[x.dtype], nbytes // x.dtype.itemsize)
            return _REBUILD, (reference, *place)
        return _REBUILD_BYTES, (_Reference(memory, "UntypedStorage", nbytes), *place, x.dtype)

    def _memory(self, x: Tensor) -> _Memory:
        identity = _C._storage_id(x)
        if identity not in self.memories:
            owner = x.detach()
            if x.device.type != "cpu":
                owner = x.untyped_storage()._elements(_C.uint8).cpu()
            self.memories[identity] = _Memory(
                str(len(self.memories)), str(x.device), memory_of(owner), x.detach()
            )
        return self.memories[identity]

    def save_global(self, obj: Any, name: str | None = None) -> None:
        place = _place_of(obj, name)
        if place is None:
            super().save_global(obj, name)
            return
        self.write(pickle.GLOBAL + f"{place.module}\n{place.name}\n".encode())
        self.memoize(obj)

    dispatch: ClassVar[dict[Any, Any]] = dict(_Base.dispatch)
    dispatch[types.FunctionType] = save_global
    dispatch[_Name] = save_global


def _place_of(obj: Any, name: str | None) -> _Name | None:
    """Return where PyTorch has what is ours; None for what is others'."""
    if type(obj) is _Name:
        return obj
    if isinstance(obj, type) and obj in _PLACES:
        return _PLACES[obj]
    if isinstance(obj, _C.dtype):
        return _Name("torch", str(name))
    module = getattr(obj, "__module__", None) or ""
    if module != "tapegrad" and not module.startswith("tapegrad."):
        return None
    name = name or getattr(obj, "__qualname__", obj.__name__)
    if _resolve(module, name) is not obj:
        raise pickle.PicklingError(f"{module}.{name} is not what it is called")
    return _Name("torch" + module.removeprefix("tapegrad"), name)


def _resolve(module: str, name: str) -> Any:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


# ---- reading


class Unpickler(pickle.Unpickler):
    """Reads the pickle of an archive as Python does: it runs what the pickle says.

    Args:
        data: the pickle.
        find_storage: returns a storage, as `_torch_zip` has them, for a reference.
        names: what names of PyTorch's functions and storages stand for.
    """

    def __init__(
        self, data: bytes, find_storage: Callable[[Any], Any], names: dict[str, Any]
    ) -> None:
        super().__init__(io.BytesIO(data))
        self._find_storage = find_storage
        self._names = names

    def persistent_load(self, pid: Any) -> Any:
        return self._find_storage(pid)

    def find_class(self, module_name: str, global_name: str) -> Any:
        full = f"{module_name}.{global_name}"
        if full in self._names:
            return self._names[full]
        if module_name == "torch" and global_name in BY_NAME:
            return BY_NAME[global_name]
        if module_name != "torch" and not module_name.startswith("torch."):
            return super().find_class(module_name, global_name)
        for module in _places_of(module_name):
            with contextlib.suppress(ImportError, AttributeError):
                return super().find_class(module, global_name)
        raise CheckpointError(f"{full}, which is not in tapegrad")


def _places_of(module_name: str) -> Iterator[str]:
    """Yield the modules of ours that may have what one of PyTorch's has: it, and those above it."""
    parts = module_name.split(".")
    for count in range(len(parts), 1, -1):
        yield ".".join(["tapegrad", *parts[1:count]])
    yield "tapegrad"
