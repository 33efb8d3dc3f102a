"""PyTorch's checkpoints: a zip archive with a pickle of the state and one entry for each storage.

The pickle is run by our own machine, which knows the names below and no others; where the caller
trusts the file and it asks for more, by Python's (`_objects`).
"""

import pickletools
import struct
from collections import Counter, OrderedDict, defaultdict
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad import _types as types
from tapegrad._C import Tensor
from tapegrad._types import Size, device
from tapegrad.nn.parameter import Parameter
from tapegrad.serialization._allowed import allowed_globals
from tapegrad.serialization._dtypes import BY_NAME
from tapegrad.serialization._errors import CheckpointError, RefusedError
from tapegrad.serialization._objects import STORAGES, Unpickler
from tapegrad.serialization._pickle_machine import Function, Machine
from tapegrad.serialization._source import open_path
from tapegrad.serialization._storage import Files, Storage
from tapegrad.serialization._zip import Archive

__all__ = ["load_zip", "unknown_names"]

# What Python raises over a pickle of the wrong form.
DAMAGE = (
    LookupError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError, struct.error,
)  # fmt: skip


class _StorageType(NamedTuple):
    """A class of storages; without a dtype, its elements are bytes."""

    dtype: _C.dtype | None


class _StorageOf(NamedTuple):
    """A storage of the archive, as a pickle sees it."""

    storage: Storage
    dtype: _C.dtype | None


class _TensorType(NamedTuple):
    """A class of tensors that a pickle may name."""

    cls: type


def load_zip(files: Files, trusted: bool = False) -> Any:
    """Return the state in an archive.

    Args:
        files: the file.
        trusted: whether it may call whatever it names.
    """
    checkpoint = _Checkpoint(files)
    if not trusted:
        return checkpoint.run()
    try:
        return checkpoint.run()
    except RefusedError:
        return checkpoint.run_as_python()


class _Checkpoint:
    def __init__(self, files: Files) -> None:
        self.files = files
        self.archive = Archive(files.source)
        members = self.archive.members
        roots = [name[: -len("data.pkl")] for name in members if name.endswith("/data.pkl")]
        roots = [root for root in roots if root.count("/") == 1]
        if len(roots) != 1:
            raise files.fail("a zip archive, but not a checkpoint: there is no data.pkl in it")
        self.root = roots[0]
        if f"{self.root}constants.pkl" in members:
            raise RefusedError(
                f"load: {files.source.name}: a TorchScript archive, which holds code; save the "
                "state_dict() of the module with torch.save()"
            )
        self.swapped = self._byte_order() == b"big"
        self.storages: dict[str, Storage] = {}
        self.allowed = allowed_globals()

    def _byte_order(self) -> bytes:
        member = self.archive.members.get(f"{self.root}byteorder")
        order = b"little" if member is None or member.nbytes > 16 else self.archive.read(member)
        if order not in (b"little", b"big"):
            raise self.files.fail(f"unknown byte order {order!r}")
        return order

    def run(self) -> Any:
        data = self.archive.read(self.archive.members[f"{self.root}data.pkl"])
        machine = Machine(data, self._find, self._find_storage, self.allowed.values())
        name = self.files.source.name
        try:
            result = machine.run()
            _check_result([result, *machine.attached])
            return result
        except RefusedError as error:
            if str(error).startswith("load: "):
                raise
            raise RefusedError(
                f"load: {name}: refused {error}; a checkpoint may hold tensors, numbers, strings "
                "and plain containers: save a state_dict(), allow what you trust with "
                "torch.serialization.add_safe_globals(), or pass weights_only=False, which runs "
                "whatever the file says"
            ) from None
        except CheckpointError:
            raise
        except DAMAGE as error:
            raise self.files.fail(
                f"its data.pkl is damaged at byte {machine.place}: {error!s:.200}"
            ) from error

    def run_as_python(self) -> Any:
        """Run the pickle as Python does, with whatever it calls."""
        data = self.archive.read(self.archive.members[f"{self.root}data.pkl"])
        try:
            return Unpickler(data, self._find_storage, TRUSTED_NAMES).load()
        except CheckpointError as error:
            if str(error).startswith("load: "):
                raise
            raise self.files.fail(f"it names {error}") from error.__cause__

    def _find(self, name: str) -> Any:
        if name.startswith("__builtin__."):  # the name of builtins in Python 2
            name = "builtins." + name.removeprefix("__builtin__.")
        if name in self.allowed:
            return self.allowed[name]
        if name in NAMES:
            return NAMES[name]
        if name.removeprefix("torch.") in BY_NAME:
            return BY_NAME[name.removeprefix("torch.")]
        raise RefusedError(name[:200])

    def _find_storage(self, identifier: Any) -> _StorageOf:
        if type(identifier) is not tuple or len(identifier) != 5 or identifier[0] != "storage":
            raise ValueError("a reference to something that is no storage")
        _, kind, key, location, count = identifier
        if type(kind) is not _StorageType or type(key) is not str or type(location) is not str:
            raise ValueError("a reference to a storage of no known type")
        size = 1 if kind.dtype is None else kind.dtype.itemsize
        if key not in self.storages:
            name = f"{self.root}data/{key}"
            if name not in self.archive.members:
                raise self.files.fail(f"there is no entry {name!r:.80}")
            member = self.archive.members[name]
            place = self.archive.place(member)
            self.storages[key] = Storage(
                self.files, place, member.nbytes, f"storage {key!r:.80}", location, self.swapped
            )
        storage = self.storages[key]
        if type(count) is not int or count != storage.nbytes // size:
            raise self.files.fail(
                f"storage {key!r:.80} should have {count!r:.40} elements of {size} bytes, but has "
                f"{storage.nbytes} bytes"
            )
        return _StorageOf(storage, kind.dtype)


def unknown_names(path: str) -> list[str]:
    """Return the names in an archive's pickle that would be refused."""
    source = open_path(path)
    try:
        checkpoint = _Checkpoint(Files(source, None, False))
        archive = checkpoint.archive
        data = archive.read(archive.members[f"{checkpoint.root}data.pkl"])
    finally:
        source.file.close()
    found: list[str] = []
    memo: dict[Any, str] = {}
    texts, last = ["", ""], ""
    for code, given, _ in pickletools.genops(data):
        argument: Any = given
        if code.name == "GLOBAL":
            found.append(argument.replace(" ", "."))
        elif code.name == "STACK_GLOBAL":
            found.append(".".join(texts))
        elif code.name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            memo[len(memo) if argument is None else argument] = last
        elif isinstance(argument, str) or code.name in ("BINGET", "LONG_BINGET"):
            last = argument if isinstance(argument, str) else memo.get(argument, "")
            texts = [texts[1], last]
    refused = []
    for name in dict.fromkeys(found):
        try:
            checkpoint._find(name)
        except RefusedError:
            refused.append(name)
    return refused


def _check_result(root: Any) -> None:
    """Refuse a state in which names or bare storages are left."""
    seen: set[int] = set()
    rest = [root]
    while rest:
        value = rest.pop()
        kind = type(value)
        if kind in (Function, _StorageType, _TensorType):
            raise RefusedError(f"{value.name if kind is Function else 'a class'} as a value")
        if kind is _StorageOf:
            raise RefusedError("a storage without a tensor")
        if kind not in CONTAINERS or id(value) in seen:
            continue
        seen.add(id(value))
        if issubclass(kind, dict):
            rest.extend(value.values())  # Keys are known to be plain.
            rest.append(getattr(value, "_metadata", None))
        else:
            rest.extend(value)


CONTAINERS = (dict, OrderedDict, defaultdict, Counter, list, tuple, set, frozenset)


# ---- what the names stand for


def _rebuild_tensor(
    machine: Machine,
    storage: Any,
    offset: Any,
    shape: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    metadata: Any = None,
) -> Tensor:
    if type(storage) is not _StorageOf or storage.dtype is None:
        raise ValueError("a tensor over something that is no typed storage")
    return _make(storage.storage, storage.dtype, offset, shape, stride, requires_grad, metadata)


def _rebuild_tensor_v3(
    machine: Machine,
    storage: Any,
    offset: Any,
    shape: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    if type(storage) is not _StorageOf or type(dtype) is not _C.dtype:
        raise ValueError("a tensor over something that is no storage, or without a dtype")
    return _make(storage.storage, dtype, offset, shape, stride, requires_grad, metadata)


def _make(
    storage: Storage,
    dtype: _C.dtype,
    offset: Any,
    shape: Any,
    stride: Any,
    requires_grad: Any,
    metadata: Any,
) -> Tensor:
    if type(shape) not in (tuple, Size) or type(stride) is not tuple or metadata:
        raise ValueError("a tensor with sizes, strides or marks of an unknown kind")
    return storage.tensor(dtype, shape, stride, offset, requires_grad is True)


def _rebuild_parameter(
    machine: Machine, data: Any, requires_grad: Any, hooks: Any, state: Any = None
) -> Tensor:
    if type(data) is not Tensor:
        raise ValueError("a parameter of something that is no tensor")
    made: Tensor = _C._make_subclass(Parameter, data.detach(), requires_grad is True)
    return _set_attributes(machine, made, state)


def _rebuild_from_type(machine: Machine, function: Any, kind: Any, args: Any, state: Any) -> Any:
    is_own = id(kind) in machine.allowed and isinstance(kind, type) and issubclass(kind, Tensor)
    known = is_own or type(kind) is _TensorType
    if type(function) is not Function or not known or type(args) is not tuple:
        raise ValueError("a tensor of an unknown class")
    made = function.call(machine, *args)
    if is_own:
        if not isinstance(made, Tensor):
            raise ValueError("a tensor of another class than it says")
        return _set_attributes(machine, made.as_subclass(kind), state)
    if not isinstance(made, kind.cls):
        raise ValueError("a tensor of another class than it says")
    return _set_attributes(machine, made, state)


def _set_attributes(machine: Machine, tensor: Any, state: Any) -> Tensor:
    """Give a tensor the attributes that its owner had set."""
    if type(state) is tuple and len(state) == 2 and not state[1]:  # (attributes, slots)
        state = state[0]
    if not state:
        return tensor
    if type(state) is not dict:
        raise RefusedError("a tensor with state of its own")
    for name, value in machine.pay(state).items():
        if type(name) is not str or hasattr(type(tensor), name):
            raise RefusedError(f"attribute {name!r:.80} of a tensor")
        machine.attached.append(value)
        setattr(tensor, name, value)
    return tensor


def _ordered_dict(machine: Machine, items: Any = ()) -> OrderedDict[Any, Any]:
    made: OrderedDict[Any, Any] = OrderedDict()
    machine.set_items(made, _flat(machine, items))
    return made


def _counter(machine: Machine, items: Any = None) -> Counter[Any]:
    made: Counter[Any] = Counter()
    machine.set_items(made, _flat(machine, items if items is not None else {}))
    return made


def _flat(machine: Machine, items: Any) -> list[Any]:
    """Return keys and values in turn, of a dict or of a list of pairs."""
    pairs = list(items.items()) if type(items) is dict else items
    if type(pairs) not in (list, tuple):
        raise ValueError("expected pairs")
    for pair in machine.pay(pairs):
        if type(pair) not in (list, tuple) or len(pair) != 2:
            raise ValueError("expected pairs")
    return [each for pair in pairs for each in pair]


def _default_dict(machine: Machine, factory: Any = None) -> Any:
    if factory is not None and (type(factory) is not Function or factory.name not in FACTORIES):
        raise RefusedError("a defaultdict that makes its values with a function")
    return defaultdict(None if factory is None else FACTORIES[factory.name])


def _set(machine: Machine, items: Any = ()) -> set[Any]:
    if type(items) not in (list, tuple):
        raise ValueError("expected members of a set")
    made: set[Any] = set()
    machine.add_members(made, machine.pay(items))
    return made


def _size(machine: Machine, sizes: Any = ()) -> Size:
    if type(sizes) not in (tuple, list) or not all(type(size) is int for size in sizes):
        raise ValueError("expected sizes")
    return Size(machine.pay(sizes))


def _encode(machine: Machine, text: Any, encoding: Any) -> bytes:
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise ValueError("expected a text to encode as latin1")
    return machine.pay(text).encode("latin1")


def _bytearray(machine: Machine, data: Any = b"") -> bytearray:
    if type(data) is not bytes:
        raise ValueError("expected bytes")
    return bytearray(machine.pay(data))


def _complex(machine: Machine, real: Any, imaginary: Any) -> complex:
    if type(real) is not float or type(imaginary) is not float:
        raise ValueError("expected two floats")
    return complex(real, imaginary)


def _device(machine: Machine, kind: Any, index: Any = None) -> device:
    if type(kind) is not str or not (index is None or type(index) is int):
        raise ValueError("expected a device")
    return device(kind, index)


def _layout(machine: Machine, name: Any) -> Any:
    names = ("strided", "sparse_coo", "sparse_csr", "sparse_csc")
    if type(name) is not str or name.removeprefix("torch.") not in names:
        raise RefusedError(f"layout {name!r:.40}")
    return getattr(types, name.removeprefix("torch."))


def _rebuild_sparse(machine: Machine, layout: Any, data: Any) -> Any:
    from tapegrad.sparse._files import made_of

    if type(data) is not tuple or not isinstance(layout, types.layout):
        raise ValueError("a sparse tensor of an unknown kind")
    if layout is types.sparse_coo and len(data) in (3, 4):
        indices, values, size = data[:3]
        coalesced = data[3] if len(data) == 4 else False
        return made_of(str(layout), coalesced is True, False, tuple(size), indices, values)
    if layout not in (types.sparse_csr, types.sparse_csc) or len(data) != 4:
        raise RefusedError(f"a tensor of layout {layout}")
    starts, plain, values, size = data
    return made_of(str(layout), True, False, tuple(size), starts, plain, values)


def _factory(machine: Machine, *args: Any) -> Any:
    raise RefusedError("a call of a class of Python's")


FACTORIES: dict[str, Any] = {
    f"builtins.{cls.__name__}": cls for cls in (bool, dict, float, int, list, set, str, tuple)
}
_FUNCTIONS: dict[str, Any] = {
    **dict.fromkeys(FACTORIES, _factory),
    "_codecs.encode": _encode,
    "builtins.bytearray": _bytearray,
    "builtins.bytes": lambda machine: b"",  # Others are texts to encode.
    "builtins.complex": _complex,
    "builtins.frozenset": lambda machine, items=(): frozenset(_set(machine, items)),
    "builtins.set": _set,
    "collections.Counter": _counter,
    "collections.OrderedDict": _ordered_dict,
    "collections.defaultdict": _default_dict,
    "torch.Size": _size,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter,
    "torch._utils._rebuild_sparse_tensor": _rebuild_sparse,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
    "torch.device": _device,
    "torch.serialization._get_layout": _layout,
}
_STORAGE_TYPES: dict[str, Any] = {
    **{f"torch.{name}Storage": _StorageType(BY_NAME[dtype]) for name, dtype in STORAGES.items()},
    "torch.storage.UntypedStorage": _StorageType(None),
}
NAMES: dict[str, Any] = {
    **{name: Function(name, call) for name, call in _FUNCTIONS.items()},
    **_STORAGE_TYPES,
    "torch.Tensor": _TensorType(Tensor),
    "torch.nn.parameter.Parameter": _TensorType(Parameter),
}


# ---- the same for a trusted file, which Python's unpickler calls them for


class _Anything:
    """In the machine's place: it trusts, and nothing is paid for."""

    attached: list[Any] = []  # noqa: RUF012  # written to, never read

    def pay(self, value: Any) -> Any:
        return value


def _as_python(function: Any) -> Any:
    return lambda *args: function(_Anything(), *args)


def _from_type(function: Any, kind: type, args: Any, state: Any) -> Any:
    made = function(*args)
    if type(made) is not kind:
        made = made.as_subclass(kind)
    if hasattr(kind, "__setstate__"):
        made.__setstate__(state)
        return made
    attributes, slots = state if type(state) is tuple else (state, {})
    made.__dict__.update(attributes or {})
    for name, value in (slots or {}).items():
        setattr(made, name, value)
    return made


def _parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any = None) -> Any:
    made = _rebuild_parameter(_Anything(), data, requires_grad, hooks)  # type: ignore[arg-type]
    made.__dict__.update((state[0] if type(state) is tuple else state) or {})
    return made


TRUSTED_NAMES: dict[str, Any] = {
    **_STORAGE_TYPES,
    **{
        name: _as_python(_FUNCTIONS[name])
        for name in (
            "torch._utils._rebuild_sparse_tensor",
            "torch._utils._rebuild_tensor_v2",
            "torch._utils._rebuild_tensor_v3",
            "torch.serialization._get_layout",
        )
    },
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch._utils._rebuild_parameter": _parameter_with_state,
    "torch._utils._rebuild_parameter_with_state": _parameter_with_state,
    "torch.Size": Size,
    "torch.Tensor": Tensor,
    "torch.device": device,
    "torch.layout": types.layout,
    "torch.nn.parameter.Parameter": Parameter,
}
