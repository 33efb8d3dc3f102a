"""From the JSON document and the entries back to the state."""

import base64
import math
import struct
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import device
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.nn.parameter import Parameter
from tapegrad.serialization._dtypes import BY_NAME, NUMPY_CODES, code_of, dtype_of_code
from tapegrad.serialization._errors import CheckpointError
from tapegrad.serialization._keys import KeyGuard, is_harmless
from tapegrad.serialization._safetensors import Entry, parse_json
from tapegrad.serialization._storage import Files, Storage
from tapegrad.serialization._structure import CONTAINERS, FACTORIES, MAPPINGS, VERSION

__all__ = ["Entries", "restore"]

# What Python raises over a document of the wrong form.
DAMAGE = (
    LookupError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError, struct.error,
)  # fmt: skip
DOUBLE = struct.Struct(">d")


class Entries:
    """The entries of a file, as storages and tensors."""

    def __init__(self, files: Files, entries: dict[str, Entry]) -> None:
        self.files = files
        self.entries = entries
        self._storages: dict[str, Storage] = {}
        self._copied: set[str] = set()

    def find(self, name: Any) -> Entry:
        """Return the entry of a name."""
        if type(name) is not str or name not in self.entries:
            raise self.files.fail(f"there is no entry {name!r:.80}")
        return self.entries[name]

    def join(self, names: Any) -> None:
        """Make one storage of entries that follow each other."""
        if type(names) is not list or not names:
            raise self.files.fail("a storage has no entries")
        found = [self.find(name) for name in names]
        for left, right in pairwise(found):
            if left.end != right.begin:
                raise self.files.fail(f"{right.name!r:.80} does not follow {left.name!r:.80}")
        storage = self._make(found[0], found[-1].end)
        for entry in found:
            if entry.name in self._storages:
                raise self.files.fail(f"{entry.name!r:.80} is part of two storages")
            self._storages[entry.name] = storage

    def storage(self, entry: Entry) -> Storage:
        """Return the storage that an entry is part of."""
        if entry.name not in self._storages:
            self._storages[entry.name] = self._make(entry, entry.end)
        return self._storages[entry.name]

    def _make(self, entry: Entry, end: int) -> Storage:
        return Storage(self.files, entry.begin, end - entry.begin, f"{entry.name!r:.80}")

    def whole(
        self,
        entry: Entry,
        dtype: _C.dtype | None = None,
        requires_grad: bool = False,
        cls: type = Tensor,
    ) -> Tensor:
        """Return an entry as a contiguous tensor."""
        natural = dtype_of_code(entry.code)
        dtype = dtype or natural
        shape = entry.shape
        if dtype is not natural and code_of(dtype).pairs and shape[-1:] == (2,):
            shape = shape[:-1]
        if math.prod(shape) * dtype.itemsize != entry.end - entry.begin:
            raise self.files.fail(f"{entry.name!r:.80}: its bytes are not those of {dtype}")
        storage = self.storage(entry)
        offset, rest = divmod(entry.begin - storage.offset, dtype.itemsize)
        if rest:
            raise self.files.fail(f"{entry.name!r:.80} lies between two elements of its storage")
        stride = contiguous_stride(shape)
        return storage.tensor(dtype, shape, stride, offset, requires_grad, cls)

    def copy_once(self, entry: Entry) -> None:
        """Note that an entry is copied. A second time would multiply the memory of the file."""
        if entry.name in self._copied:
            raise self.files.fail(f"{entry.name!r:.80} is used twice")
        self._copied.add(entry.name)

    def raw(self, entry: Entry) -> bytes:
        """Return the bytes of an entry."""
        self.copy_once(entry)
        return self.files.source.read(entry.begin, entry.end - entry.begin, entry.name)


def contiguous_stride(shape: tuple[int, ...]) -> list[int]:
    """Return the strides of a row-major tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


def restore(entries: Entries, text: bytes) -> Any:
    """Return the state that a document describes."""
    files = entries.files
    document = parse_json(files.source, text, "the document of the state")
    if document.get("version") != VERSION:
        raise files.fail(
            f"its document has version {document.get('version')!r:.40}, expected {VERSION}; it was "
            "written by another release of tapegrad"
        )
    try:
        return _Decoder(entries, document).run()
    except CheckpointError:
        raise
    except DAMAGE as error:
        raise files.fail(f"the document of the state is damaged: {error!s:.200}") from error


class _Decoder:
    def __init__(self, entries: Entries, document: dict[str, Any]) -> None:
        self.entries = entries
        self.fail = entries.files.fail
        self.nodes: list[Any] = []
        self.document = document
        self.tensors: dict[int, Tensor] = {}
        self.plain: dict[str, Callable[[Any], Any]] = {
            "@": self._node_of,
            "tensor": self._tensor,
            "int": lambda text: int(text, 16),
            "float": lambda text: DOUBLE.unpack(bytes.fromhex(text))[0],
            "complex": lambda parts: complex(*(self.plain["float"](part) for part in parts)),
            "bytes": lambda text: base64.b64decode(text, validate=True),
            "entry": lambda name: self.entries.raw(self.entries.find(name)),
            "dtype": lambda name: BY_NAME[name],
            "device": self._device,
            "numpy": self._numpy_scalar,
        }

    def run(self) -> Any:
        for names in self._list("storages"):
            self.entries.join(names)
        for node in self._list("nodes"):
            self.nodes.append(self._container(node))
        return self._value(self.document["root"])

    def _list(self, name: str) -> list[Any]:
        found = self.document.get(name, [])
        if type(found) is not list:
            raise ValueError(f"{name} is not a list")
        return found

    # ---- values

    def _value(self, value: Any) -> Any:
        if type(value) is not dict:
            if type(value) is list:
                raise ValueError("a list outside of a node")
            return value
        if len(value) != 1:
            raise ValueError(f"expected one name, got {list(value)!s:.80}")
        ((name, content),) = value.items()
        return self.plain[name](content)

    def _node_of(self, number: Any) -> Any:
        if type(number) is not int or not 0 <= number < len(self.nodes):
            raise ValueError(f"there is no node {number!r:.40} before it is asked for")
        return self.nodes[number]

    def _device(self, name: str) -> device:
        try:
            return device(name)
        except RuntimeError as error:
            raise ValueError(str(error)) from error

    # ---- containers

    def _container(self, node: dict[str, Any]) -> Any:
        kind = next(iter(node), "")
        content = node[kind]
        if kind == "ndarray":
            return self._array(*content)
        if kind == "bytearray":
            data = self._value(content)
            if type(data) is not bytes:
                raise ValueError("a bytearray is made of bytes")
            return bytearray(data)
        if kind == "sparse":
            from tapegrad.sparse._files import made_of

            return made_of(*(self._value(each) for each in content))
        made = CONTAINERS[kind]
        if type(content) is not list:
            raise ValueError(f"expected a list of what the {kind} holds")
        if kind in MAPPINGS:
            return self._mapping(kind, node, content)
        values = [self._value(each) for each in content]
        if kind in ("set", "frozenset"):
            _check_keys(values)
        if kind == "Size" and not all(type(value) is int for value in values):
            raise ValueError("a Size holds ints")
        return values if made is list else made(values)

    def _mapping(self, kind: str, node: dict[str, Any], content: list[Any]) -> Any:
        made: Any = MAPPINGS[kind]()
        if kind == "defaultdict":
            made.default_factory = FACTORIES[node["factory"]]
        guard = KeyGuard()
        for pair in content:
            first, second = pair
            key = self._value(first)
            if not is_harmless(key):
                guard.check(key)
            made[key] = self._value(second)
        if len(made) != len(content):
            raise ValueError("a key stands twice")
        if "metadata" in node and kind == "OrderedDict":
            made._metadata = self._value(node["metadata"])
        return made

    # ---- tensors

    def _tensor(self, number: Any) -> Tensor:
        if type(number) is not int or number < 0:
            raise ValueError(f"there is no tensor {number!r:.40}")
        if number not in self.tensors:
            self.tensors[number] = self._make_tensor(self._list("tensors")[number])
        return self.tensors[number]

    def _make_tensor(self, record: dict[str, Any]) -> Tensor:
        entry = self.entries.find(record["entry"])
        dtype = BY_NAME[record["dtype"]] if "dtype" in record else None
        requires_grad = record.get("requires_grad") is True
        cls = Parameter if record.get("parameter") is True else Tensor
        if "device" in record:
            self.entries.storage(entry).locate(record["device"])
        if "shape" in record:
            dtype = dtype or dtype_of_code(entry.code)
            shape, stride, offset = record["shape"], record["stride"], record["offset"]
            if type(shape) is not list or type(stride) is not list:
                raise ValueError(f"{entry.name!r:.80} is described incompletely")
            storage = self.entries.storage(entry)
            return storage.tensor(dtype, shape, stride, offset, requires_grad, cls)
        if "memory_stride" not in record:
            return self.entries.whole(entry, dtype, requires_grad, cls)
        self.entries.copy_once(entry)
        ordered = _reorder(self.entries.whole(entry, dtype), record["memory_stride"])
        made: Tensor = _C._make_subclass(cls, ordered, False)
        try:
            return made.requires_grad_() if requires_grad else made
        except RuntimeError as error:
            raise ValueError(str(error)) from error

    # ---- NumPy

    def _array(self, name: Any, dtype: str) -> Any:
        import numpy

        entry = self.entries.find(name)
        self.entries.copy_once(entry)
        code = NUMPY_CODES[dtype]
        shape = entry.shape[:-1] if code.pairs else entry.shape
        nbytes = entry.end - entry.begin
        if code.name != entry.code or math.prod(shape) * numpy.dtype(dtype).itemsize != nbytes:
            raise ValueError(f"{entry.name!r:.80} is no array of {dtype}")
        files = self.entries.files
        if files.mapping is not None and nbytes > 0:
            count = math.prod(shape)
            array = numpy.frombuffer(files.mapping, dtype, count, entry.begin).reshape(shape)
        else:
            files.source.check(entry.begin, nbytes, entry.name)
            array = numpy.empty(shape, dtype)
            if nbytes > 0:
                memory = array.reshape(-1).view(numpy.uint8).data
                files.source.read_into(entry.begin, memory, entry.name)
        if dtype == "bool" and nbytes > 0 and array.view(numpy.uint8).max() > 1:
            raise ValueError("a bool that is neither 0 nor 1")
        return array

    def _numpy_scalar(self, content: Any) -> Any:
        import numpy

        name, text = content
        data = base64.b64decode(text, validate=True)
        if name not in NUMPY_CODES or len(data) != numpy.dtype(name).itemsize:
            raise ValueError(f"no number of {name!r:.40}")
        if name == "bool" and data > b"\x01":
            raise ValueError("a bool that is neither 0 nor 1")
        return numpy.frombuffer(data, name)[0]


def _reorder(tensor: Tensor, stride: Any) -> Tensor:
    """Return a copy with the order of memory that the saved tensor had."""
    if type(stride) is not list or len(stride) != tensor.dim():
        raise ValueError("memory_stride does not fit the shape")
    expected = 1
    for step, size in sorted(zip(stride, tensor.shape, strict=True)):
        if type(step) is not int or (size != 1 and step != expected) or not 0 <= step < 1 << 62:
            raise ValueError("memory_stride leaves gaps")
        expected *= size
    with no_grad():
        return _C.empty_strided(
            tuple(tensor.shape), tuple(stride), dtype=tensor.dtype, device=tensor.device
        ).copy_(tensor)


def _check_keys(keys: list[Any]) -> None:
    guard = KeyGuard()
    for key in keys:
        guard.check(key)
