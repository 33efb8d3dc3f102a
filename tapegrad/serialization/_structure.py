"""Nested state as a JSON document, beside the entries that hold its tensors.

The document has a list of nodes, one for each container, in which children come before parents. A
value inside a node is JSON's own null, true, number or string, or an object with one name that says
what it is: ``{"@": 3}`` is node 3, ``{"tensor": 0}`` the first tensor. So nothing is nested,
however deep the state is; a list that stands in two places is one list again after loading; and
neither writing nor reading recurses.

    {"version": 1, "root": {"@": 1},
     "nodes": [{"list": [1, {"float": "inf"}]}, {"dict": [["losses", {"@": 0}]]}],
     "tensors": []}
"""

import base64
import json
import struct
import sys
from collections import Counter, OrderedDict, defaultdict
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import Size, device
from tapegrad.nn.parameter import Parameter
from tapegrad.serialization._dtypes import NUMPY_CODES, Code
from tapegrad.serialization._errors import UnsupportedObjectError
from tapegrad.serialization._keys import KeyGuard
from tapegrad.serialization._layout import Layout

__all__ = ["CONTAINERS", "FACTORIES", "MAPPINGS", "VERSION", "encode"]

VERSION = 1
LARGE = 4096  # Longer bytes are entries of the file.
LONGEST_NAME = 1000
DOUBLE = struct.Struct(">d")
MAPPINGS = {"dict": dict, "OrderedDict": OrderedDict, "defaultdict": defaultdict,
            "Counter": Counter}  # fmt: skip
SEQUENCES = {"list": list, "tuple": tuple, "Size": Size, "set": set, "frozenset": frozenset}
CONTAINERS: dict[str, Any] = {**MAPPINGS, **SEQUENCES}
KINDS = {cls: name for name, cls in CONTAINERS.items()}
FACTORIES: dict[str, Any] = {"": None, "bool": bool, "dict": dict, "float": float, "int": int,
                             "list": list, "set": set, "str": str, "tuple": tuple}  # fmt: skip

HINTS = {
    "function": "it would have to run code from the file",
    "Generator": "save its get_state()",
    "Module": "save its state_dict()",
    "Optimizer": "save its state_dict()",
    "LRScheduler": "save its state_dict()",
    "namedtuple": "save its _asdict()",
    "PurePath": "save it as str",
    "Enum": "save its name or its value",
}


def encode(root: Any, layout: Layout) -> bytes:
    """Return the document of a state. Its tensors go to the layout.

    Args:
        root: the state.
        layout: takes in tensors, arrays and long bytes.
    """
    document = _Encoder(layout)
    value = document.run(root)
    layout.place_tensors()
    described: dict[str, Any] = {
        "version": VERSION,
        "root": value,
        "nodes": document.nodes,
        "tensors": layout.records,
    }
    if layout.storages:
        described["storages"] = layout.storages
    return json.dumps(described, separators=(",", ":"), allow_nan=False).encode("ascii")


class _Frame:
    """A container whose children are being written; the next child is number len(encoded)."""

    __slots__ = ("children", "container", "encoded", "kind")

    def __init__(self, container: Any, kind: str, children: list[Any]) -> None:
        self.container = container
        self.kind = kind
        self.children = children
        self.encoded: list[Any] = []


class _Encoder:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.nodes: list[dict[str, Any]] = []
        self._numbers: dict[int, int | None] = {}  # None: not complete yet
        self._kept: list[Any] = []
        self._frames: list[_Frame] = []

    def run(self, root: Any) -> Any:
        result = self._value(root)
        while self._frames:
            frame = self._frames[-1]
            while len(frame.encoded) < len(frame.children):
                child = self._value(frame.children[len(frame.encoded)])
                if child is _LATER:
                    break
                frame.encoded.append(child)
            else:
                result = self._close(frame)
                self._frames.pop()
                if self._frames:
                    self._frames[-1].encoded.append(result)
        return result

    # ---- values

    def _value(self, value: Any) -> Any:
        """Return what stands for a value, or _LATER after a frame was opened for it."""
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return value if -(1 << 63) <= value < 1 << 63 else {"int": hex(value)}
        if kind is float:
            return value if value - value == 0 else {"float": DOUBLE.pack(value).hex()}
        if isinstance(value, Tensor):
            return self._tensor(value)
        if kind in KINDS:
            return self._open(value, KINDS[kind])
        if kind in _SMALL:
            return _SMALL[kind](value)
        if kind is bytes:
            return self._bytes(value)
        if kind is bytearray:
            return self._node(value, {"bytearray": self._bytes(value)})
        return self._from_numpy(value)

    def _tensor(self, value: Tensor) -> Any:
        if isinstance(value, _C._SparseBase):
            return self._open_sparse(value)
        if type(value) is not Tensor and type(value) is not Parameter:
            raise self._fail(value, "save it as a plain tensor, with .detach().as_subclass(Tensor)")
        if any(_C._is_batched_at(value, number) for number, _ in _C._running_vmaps()):
            raise self._fail(value, "it is batched by vmap; save the result of vmap instead")
        return {"tensor": self.layout.add_tensor(value, self._name())}

    def _open_sparse(self, value: Any) -> Any:
        from tapegrad.sparse._files import described

        if id(value) in self._numbers:
            return {"@": self._numbers[id(value)]}
        self._numbers[id(value)] = None
        self._frames.append(_Frame(value, "sparse", described(value)))
        return _LATER

    def _bytes(self, value: bytes | bytearray) -> Any:
        if len(value) <= LARGE:
            return {"bytes": base64.b64encode(value).decode("ascii")}
        return {"entry": self.layout.add_bytes(Code("U8"), [len(value)], value, self._name())}

    def _from_numpy(self, value: Any) -> Any:
        numpy = sys.modules.get("numpy")
        kind = type(value)
        if numpy is None or not (kind is numpy.ndarray or isinstance(value, numpy.generic)):
            raise self._fail(value, _hint_for(value))
        name = value.dtype.name
        if name not in NUMPY_CODES or not value.dtype.isnative:
            raise self._fail(value, f"its dtype is {value.dtype}; expected numbers in native order")
        if kind is not numpy.ndarray:
            return {"numpy": [name, base64.b64encode(value.tobytes()).decode("ascii")]}
        if id(value) in self._numbers:
            return {"@": self._numbers[id(value)]}
        data = numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8)
        if value.size == 0:
            data = b""
        entry = self.layout.add_bytes(NUMPY_CODES[name], value.shape, data, self._name())
        return self._node(value, {"ndarray": [entry, name]})

    # ---- containers

    def _open(self, value: Any, kind: str) -> Any:
        number = self._numbers.get(id(value), _LATER)
        if number is None:
            raise self._fail(value, "it contains itself")
        if number is not _LATER:
            return {"@": number}
        self._check_keys(value, kind)
        children: list[Any] = []
        if kind in MAPPINGS:
            for item in value.items():
                children.extend(item)
            self._add_attributes(value, kind, children)
        else:
            children.extend(value)
        self._numbers[id(value)] = None
        self._frames.append(_Frame(value, kind, children))
        return _LATER

    def _add_attributes(self, value: Any, kind: str, children: list[Any]) -> None:
        """Take the note that a module leaves on its state dict."""
        attributes = getattr(value, "__dict__", {})
        if attributes.keys() - {"_metadata"} or (attributes and kind != "OrderedDict"):
            raise self._fail(value, f"it has attributes of its own, {sorted(attributes)}")
        children.extend(attributes.values())

    def _close(self, frame: _Frame) -> Any:
        kind, encoded = frame.kind, frame.encoded
        if kind not in MAPPINGS:
            return self._node(frame.container, {kind: encoded})
        count = 2 * len(frame.container)
        pairs = [list(pair) for pair in zip(encoded[0:count:2], encoded[1:count:2], strict=True)]
        node: dict[str, Any] = {kind: pairs}
        if len(encoded) > count:
            node["metadata"] = encoded[count]
        if kind == "defaultdict":
            node["factory"] = self._factory(frame.container)
        return self._node(frame.container, node)

    def _factory(self, value: Any) -> str:
        for name, factory in FACTORIES.items():
            if value.default_factory is factory:
                return name
        raise self._fail(value, "its default_factory is not one of Python's own classes")

    def _check_keys(self, value: Any, kind: str) -> None:
        """Refuse to write what loading would refuse."""
        guard = KeyGuard()
        try:
            for key in value if kind in MAPPINGS or "set" in kind else ():
                guard.check(key)
        except ValueError as error:
            raise self._fail(value, f"it has {error}") from None

    def _node(self, container: Any, node: dict[str, Any]) -> Any:
        self._numbers[id(container)] = len(self.nodes)
        self._kept.append(container)  # Its id stays its own.
        self.nodes.append(node)
        return {"@": len(self.nodes) - 1}

    # ---- where we are

    def _steps(self) -> list[Any]:
        """Return the way to the value that is being written: keys and positions."""
        steps: list[Any] = []
        for frame in self._frames:
            place = len(frame.encoded)
            if place >= len(frame.children):  # The container itself is meant.
                continue
            in_mapping = frame.kind in MAPPINGS and place < 2 * len(frame.container)
            steps.append(frame.children[place - place % 2] if in_mapping else place)
        return steps

    def _name(self) -> str:
        name = ".".join(str(step) for step in self._steps()) or "tensor"
        return name[-LONGEST_NAME:]

    def _fail(self, value: Any, reason: str) -> UnsupportedObjectError:
        steps = self._steps()
        shown = steps if len(steps) <= 20 else [*steps[:10], ..., *steps[-9:]]
        path = "".join(f"[{step!r:.60}]" for step in shown).replace("[Ellipsis]", "[...]")
        what = type(value).__name__
        article = "an" if what[:1].lower() in "aeiou" else "a"
        return UnsupportedObjectError(
            f"save: obj{path} is {article} {what}, which a checkpoint cannot hold: {reason}"
        )


class _Later:
    """Says that a value's children come first."""


_LATER = _Later()


def _complex(value: complex) -> Any:
    return {"complex": [DOUBLE.pack(value.real).hex(), DOUBLE.pack(value.imag).hex()]}


_SMALL: dict[type, Any] = {
    complex: _complex,
    _C.dtype: lambda value: {"dtype": str(value).removeprefix("torch.")},
    device: lambda value: {"device": str(value)},
}


def _hint_for(value: Any) -> str:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return HINTS["namedtuple"]
    for cls in type(value).__mro__:
        if cls.__name__ in HINTS:
            return HINTS[cls.__name__]
    for cls in type(value).__mro__[1:]:
        if cls in KINDS or cls in (int, float, str, bytes, complex):
            return f"convert it with {cls.__name__}(...)"
    if callable(value):
        return HINTS["function"]
    return "expected tensors, numbers, strings, bytes and plain containers of these"
