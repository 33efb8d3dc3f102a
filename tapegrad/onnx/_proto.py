"""Writing ONNX's files: protocol buffers, as far as a graph needs them.

A message is a row of fields: a key, which is the number of the field and the kind of what follows,
and a number or some bytes with their length. The numbers are those of onnx.proto3, which never
change.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

__all__ = [
    "DTYPES",
    "attribute",
    "graph",
    "model",
    "node",
    "tensor",
    "tensor_in_file",
    "value_info",
]

# What ONNX calls a dtype, by its name here.
DTYPES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
    "bfloat16": 16,
}
# The version of the format that came with a version of the set of ops.
_IR_VERSIONS = {18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}
_FLOAT, _INT, _STRING, _FLOATS, _INTS, _STRINGS = 1, 2, 3, 6, 7, 8


# ---- the wire


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1  # negative ones as their two's complement
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _bytes(field: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _float(field: int, number: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", number)


def _numbers(field: int, numbers: Iterable[int]) -> bytes:
    return b"".join(_number(field, each) for each in numbers)


# ---- messages


def attribute(name: str, value: Any) -> bytes:
    """Return an attribute of a node: a number, a text, or a row of them."""
    if isinstance(value, str):
        content, kind = _bytes(4, value), _STRING
    elif isinstance(value, float):
        content, kind = _float(2, value), _FLOAT
    elif isinstance(value, int):
        content, kind = _number(3, value), _INT
    elif value and isinstance(value[0], str):
        content, kind = b"".join(_bytes(9, each) for each in value), _STRINGS
    elif value and isinstance(value[0], float):
        content, kind = b"".join(_float(7, each) for each in value), _FLOATS
    else:
        content, kind = _numbers(8, value), _INTS
    return _bytes(1, name) + content + _number(20, kind)


def node(
    op: str, inputs: Sequence[str], outputs: Sequence[str], name: str, attributes: dict[str, Any]
) -> bytes:
    """Return a node. An input that is left out is an empty name."""
    parts = [_bytes(1, each) for each in inputs]
    parts += [_bytes(2, each) for each in outputs]
    parts += [_bytes(3, name), _bytes(4, op)]
    parts += [_bytes(5, attribute(key, value)) for key, value in attributes.items()]
    return b"".join(parts)


def tensor(name: str, dtype: str, shape: Sequence[int], content: bytes) -> bytes:
    """Return an initializer with its elements."""
    head = _numbers(1, shape) + _number(2, DTYPES[dtype]) + _bytes(8, name)
    return head + _bytes(9, content)


def tensor_in_file(
    name: str, dtype: str, shape: Sequence[int], file: str, offset: int, length: int
) -> bytes:
    """Return an initializer whose elements are in a file beside that of the model."""
    head = _numbers(1, shape) + _number(2, DTYPES[dtype]) + _bytes(8, name)
    entries = {"location": file, "offset": str(offset), "length": str(length)}
    for key, value in entries.items():
        head += _bytes(13, _bytes(1, key) + _bytes(2, value))
    return head + _number(14, 1)


def value_info(name: str, dtype: str, shape: Sequence[int | str]) -> bytes:
    """Return an input or output of a graph; a size that is a text is dynamic, and so called."""
    dims = b"".join(
        _bytes(1, _bytes(2, each) if isinstance(each, str) else _number(1, each)) for each in shape
    )
    kind = _bytes(1, _number(1, DTYPES[dtype]) + _bytes(2, dims))
    return _bytes(1, name) + _bytes(2, kind)


def graph(
    name: str,
    nodes: Iterable[bytes],
    initializers: Iterable[bytes],
    inputs: Iterable[bytes],
    outputs: Iterable[bytes],
) -> bytes:
    """Return a graph of messages that are ready."""
    parts = [_bytes(1, each) for each in nodes]
    parts.append(_bytes(2, name))
    for field, messages in ((5, initializers), (11, inputs), (12, outputs)):
        parts += [_bytes(field, each) for each in messages]
    return b"".join(parts)


def model(content: bytes, opset: int, producer: str, version: str) -> bytes:
    """Return a model, which is what a file holds."""
    return b"".join(
        (
            _number(1, _IR_VERSIONS[opset]),
            _bytes(2, producer),
            _bytes(3, version),
            _bytes(7, content),
            _bytes(8, _bytes(1, "") + _number(2, opset)),
        )
    )


def little_endian(array: np.ndarray) -> bytes:
    """Return the elements of an array as ONNX keeps them."""
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
