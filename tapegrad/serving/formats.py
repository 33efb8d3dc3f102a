"""Bodies of requests as tensors, and results as bodies: JSON, .npy and safetensors."""

import io
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import tapegrad
from tapegrad._C import Tensor
from tapegrad.jit._method import Arguments, Template
from tapegrad.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

__all__ = ["JSON", "NPY", "SAFETENSORS", "BadBody", "leaf_names", "read", "write"]

JSON = "application/json"
NPY = "application/x-npy"
SAFETENSORS = "application/x-safetensors"

_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_LONGEST_HEADER = 10_000
_DEEPEST = 64


class BadBody(ValueError):
    """A body that is not what the program takes; the text is for who sent it."""


def leaf_names(names: Sequence[str], structure: TreeSpec) -> list[str]:
    """Return a name for each tensor: that of its argument, with its path in it."""
    return [
        path
        for name, part in zip(names, structure.children(), strict=True)
        for path in _paths(name, part)
    ]


def _paths(name: str, part: TreeSpec) -> Iterator[str]:
    if part.is_leaf():
        yield name
        return
    keys = range(part.num_children) if part.keys is None else part.keys
    for key, child in zip(keys, part.children(), strict=True):
        yield from _paths(f"{name}.{key}", child)


# ---- reading


def read(kind: str, body: bytes, arguments: Arguments, template: Template) -> list[Tensor]:
    """Return the tensors of a request in the order of the program's arguments.

    Args:
        kind: the media type of the body.
        body: of the request.
        arguments: how the program is called.
        template: what it takes.
    """
    if kind == JSON:
        return _read_json(body, arguments, template)
    names = leaf_names(arguments.names, arguments.structure)
    if kind == NPY:
        if len(names) != 1:
            raise BadBody(
                f"expected {len(names)} tensors, {', '.join(names)}, and an .npy body has one; "
                "send safetensors or JSON"
            )
        return [_read_npy(body)]
    if kind == SAFETENSORS:
        found = _read_safetensors(body)
        if found.keys() != set(names):
            raise BadBody(
                f"expected tensors named {', '.join(names)}, got {', '.join(found) or 'none'}"
            )
        return [found[name] for name in names]
    raise BadBody(f"expected a body of {JSON}, {NPY} or {SAFETENSORS}, got {kind}")


def _read_json(body: bytes, arguments: Arguments, template: Template) -> list[Tensor]:
    def refuse(text: str) -> Any:
        raise BadBody(f'expected JSON, in which {text} is the string "{text}"')

    try:
        document = json.loads(body, parse_constant=refuse)
    except RecursionError:
        raise BadBody("expected numbers in nested lists, got thousands of brackets") from None
    except BadBody:
        raise
    except ValueError as error:
        raise BadBody(f"expected JSON: {error!s:.200}") from None
    inputs = document.get("inputs") if isinstance(document, dict) else None
    names = arguments.names
    if isinstance(inputs, list) and len(inputs) == len(names):
        inputs = dict(zip(names, inputs, strict=True))
    if not isinstance(inputs, dict) or inputs.keys() != set(names):
        wanted = ", ".join(f'"{name}": ...' for name in names)
        raise BadBody(f'expected {{"inputs": {{{wanted}}}}}')
    leaves: list[tuple[str, Any]] = []
    for name, part in zip(names, arguments.structure.children(), strict=True):
        _match(name, part, inputs[name], leaves)
    return [
        _tensor(name, value, dtype, len(shape))
        for (name, value), dtype, shape in zip(
            leaves, template.dtypes, template.shapes, strict=True
        )
    ]


def _match(name: str, part: TreeSpec, value: Any, leaves: list[tuple[str, Any]]) -> None:
    if part.is_leaf():
        leaves.append((name, value))
        return
    count = part.num_children
    if part.keys is None:
        if not isinstance(value, list) or len(value) != count:
            raise BadBody(f"expected a list of {count} as {name}")
        pairs = list(enumerate(value))
    else:
        if not isinstance(value, dict) or value.keys() != set(part.keys):
            raise BadBody(f"expected an object with {', '.join(part.keys)} as {name}")
        pairs = [(key, value[key]) for key in part.keys]
    for (key, each), child in zip(pairs, part.children(), strict=True):
        _match(f"{name}.{key}", child, each, leaves)


def _tensor(name: str, value: Any, dtype: str, rank: int) -> Tensor:
    """Return nested lists of numbers as a tensor."""
    shape: list[int] = []
    inner = value
    while isinstance(inner, list):
        shape.append(len(inner))
        if len(shape) > _DEEPEST:
            raise BadBody(f"{name}: expected {rank} dimensions, got more than {_DEEPEST}")
        if not inner:
            break
        inner = inner[0]
    if len(shape) != rank:
        raise BadBody(f"{name}: expected {rank} dimensions, got {len(shape)}")
    numbers = list(_numbers(name, value, shape, 0, dtype))
    target = getattr(tapegrad, dtype)
    try:
        return tapegrad.tensor(numbers, dtype=target).reshape(shape)
    except (RuntimeError, OverflowError, TypeError, ValueError) as error:
        raise BadBody(f"{name}: {error!s:.200}") from None


def _numbers(name: str, value: Any, shape: list[int], depth: int, dtype: str) -> Iterator[Any]:
    if depth < len(shape):
        if not isinstance(value, list) or len(value) != shape[depth]:
            raise BadBody(f"{name}: expected lists of one length, got others at depth {depth}")
        for each in value:
            yield from _numbers(name, each, shape, depth + 1, dtype)
        return
    is_float = "float" in dtype
    if is_float and isinstance(value, str) and value in _SPECIAL:
        yield _SPECIAL[value]
    elif _fits(value, dtype, is_float):
        yield value
    else:
        raise BadBody(f"{name}: expected {dtype}, got {json.dumps(value)[:40]}")


def _fits(value: Any, dtype: str, is_float: bool) -> bool:
    if isinstance(value, bool) or dtype == "bool":
        return isinstance(value, bool) and dtype == "bool"
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 63
    return is_float and isinstance(value, float) and math.isfinite(value)


def _read_npy(body: bytes) -> Tensor:
    import numpy
    from numpy.lib import format as npy

    file = io.BytesIO(body)
    try:
        version = npy.read_magic(file)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        shape, is_fortran, dtype = readers[version](file, max_header_size=_LONGEST_HEADER)
    except Exception as error:  # whatever the reader meets
        raise BadBody(f"expected an .npy file: {error!s:.200}") from None
    if dtype.hasobject or dtype.kind not in "biuf":
        raise BadBody(f"expected an array of numbers, got {dtype!s:.40}")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise BadBody(f"expected sizes, got {shape!s:.80}")
    rest = len(body) - file.tell()
    if math.prod(shape) * dtype.itemsize != rest:
        raise BadBody(f"an array {dtype} of shape {shape!s:.80} does not take {rest} bytes")
    flat = numpy.frombuffer(body, dtype, offset=file.tell())
    array = flat.reshape(shape, order="F" if is_fortran else "C")
    array = array.astype(dtype.newbyteorder("="), order="C", copy=True)
    try:
        return tapegrad.from_numpy(array)
    except (TypeError, RuntimeError, ValueError) as error:
        raise BadBody(f"{error!s:.200}") from None


def _read_safetensors(body: bytes) -> dict[str, Tensor]:
    from tapegrad.serialization import CheckpointError
    from tapegrad.serialization._restore import Entries
    from tapegrad.serialization._safetensors import read_header
    from tapegrad.serialization._source import open_stream
    from tapegrad.serialization._storage import Files

    try:
        source = open_stream(io.BytesIO(body))
        entries, _ = read_header(source, True)
        found = Entries(Files(source, "cpu", False), entries)
        return {name: found.whole(entry) for name, entry in entries.items()}
    except (CheckpointError, ValueError, RuntimeError, TypeError) as error:
        raise BadBody(f"expected a safetensors file: {error!s:.200}") from None


# ---- writing


def write(kind: str, result: Any) -> bytes:
    """Return results as a body."""
    leaves, structure = tree_flatten(result)
    if kind == JSON:
        values = [_plain(x.tolist()) for x in leaves]
        nested = tree_unflatten(values, structure)
        return json.dumps({"outputs": nested}, allow_nan=False, separators=(",", ":")).encode()
    if kind == NPY:
        if len(leaves) != 1:
            raise BadBody(
                f"there are {len(leaves)} results, and an .npy body has one; accept {SAFETENSORS} "
                f"or {JSON}"
            )
        return _write_npy(leaves[0])
    file = io.BytesIO()
    names = _paths("output", structure)
    tapegrad.save({name: x.contiguous() for name, x in zip(names, leaves, strict=True)}, file)
    return file.getvalue()


def _write_npy(x: Tensor) -> bytes:
    import numpy

    if x.dtype == tapegrad.bfloat16:
        raise BadBody(f"an .npy body has no bfloat16; accept {SAFETENSORS} or {JSON}")
    file = io.BytesIO()
    numpy.save(file, x.numpy(), allow_pickle=False)
    return file.getvalue()


def _plain(value: Any) -> Any:
    """Return numbers as JSON has them: what is not finite becomes a string."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value
