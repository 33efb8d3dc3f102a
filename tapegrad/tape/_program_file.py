"""The file of a program: `Program.save` and `load_program`.

Eight bytes with the length of a header, the header as JSON, the bytes of guards and constants, and
a SHA-256 of all that, which tells a damaged file from a whole one. The header has the values, the
steps with ops and attributes by name, and the inputs and outputs. An operand is a list: value,
offset, shape, strides, dtype; a number is itself, except for infinities, NaN and dtypes.

Whatever the file says is checked where the program is put together, in
csrc/intercept/program_run.cpp.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._version import __version__
from tapegrad.serialization import CheckpointError
from tapegrad.serialization._atomic import write_file

__all__ = ["build_program", "describe_program", "read_program", "write_program"]

FORMAT = "tapegrad program"
VERSION = 1
DIGEST = 32

Names = Mapping[str, tuple[str, ...]]


# ---- writing


def write_program(
    path: str,
    values: Iterable[Any],
    steps: Iterable[Any],
    inputs: Iterable[Any],
    outputs: Iterable[Any],
) -> None:
    """Write the parts of a program to a file."""
    parts, data = describe_program(values, steps, inputs, outputs)
    header = {"format": FORMAT, "version": VERSION, "written_by": __version__, **parts}
    text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode()
    body = len(text).to_bytes(8, "little") + text + data
    content = body + hashlib.sha256(body).digest()
    write_file(path, lambda: [memoryview(content)])


def describe_program(
    values: Iterable[Any], steps: Iterable[Any], inputs: Iterable[Any], outputs: Iterable[Any]
) -> tuple[dict[str, Any], bytes]:
    """Return the parts of a program as JSON has them, and the bytes of guards and constants."""
    data = bytearray()
    parts = {
        "values": [[nbytes, device, is_made] for _, nbytes, device, is_made, *_ in values],
        "steps": [_step_to_json(step, data) for step in steps],
        "inputs": [_argument_to_json(each) for each in inputs],
        "outputs": [_argument_to_json(each) for each in outputs],
    }
    return parts, bytes(data)


def _step_to_json(step: Any, data: bytearray) -> dict[str, Any]:
    if step.data is None:
        return {
            "op": step.op,
            "inputs": [_input_to_json(each) for each in step.inputs],
            "attributes": [[name, _number_to_json(value)] for name, value in step.attributes],
            "outputs": [_operand_to_json(each) for each in step.outputs],
        }
    start = len(data)
    data += step.data
    place = {"bytes": [start, len(data)]}
    if step.op == "read":
        return {"read": _operand_to_json(step.inputs[0]), "line": step.line, **place}
    return {"constant": _operand_to_json(step.outputs[0]), **place}


def _operand_to_json(operand: Any) -> list[Any]:
    value, offset, shape, stride, dtype, _ = operand
    if dtype.is_complex:
        raise NotImplementedError(
            f"programs with {_dtype_name(dtype)} tensors cannot be traced or saved; keep the parts "
            "in real tensors (torch.view_as_real)"
        )
    if _dtype_name(dtype) not in _DTYPES:
        raise NotImplementedError(
            f"programs with {_dtype_name(dtype)} tensors cannot be traced or saved; convert them "
            "outside"
        )
    return [value, offset, list(shape), list(stride), _dtype_name(dtype)]


def _input_to_json(operand: Any) -> Any:
    return _operand_to_json(operand) if isinstance(operand, tuple) else _number_to_json(operand)


def _number_to_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return {"each": [_number_to_json(each) for each in value]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value if isinstance(value, bool | int | float) else {"dtype": _dtype_name(value)}


def _argument_to_json(argument: Any) -> list[Any]:
    name, operand, is_read, is_written = argument
    return [name, _operand_to_json(operand), is_read, is_written]


def _dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


_DTYPES: dict[str, Any] = {
    _dtype_name(each): each
    for each in (
        *(_C.bool, _C.uint8, _C.int8, _C.int16, _C.int32, _C.int64),
        *(_C.float16, _C.bfloat16, _C.float32, _C.float64),
    )
}


# ---- reading


def read_program(path: str, names: Names) -> tuple[Any, list[Any], list[Any]]:
    """Return the native program of a file, and its inputs and outputs.

    Args:
        path: of the file.
        names: the attributes of every op.
    """
    with open(path, "rb") as file:
        content = file.read()
    try:
        return _parsed(content, names)
    except CheckpointError as error:
        raise CheckpointError(f"load_program: '{path}': {error}") from None
    except (
        *(ValueError, TypeError, KeyError, IndexError, AttributeError),
        *(OverflowError, RecursionError, RuntimeError),
    ) as error:
        reason = str(error).split("\n", 1)[0]
        raise CheckpointError(
            f"load_program: '{path}' has no program that could have been recorded: {reason}"
        ) from None


def _parsed(content: bytes, names: Names) -> tuple[Any, list[Any], list[Any]]:
    header, data = _split(content)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise CheckpointError("expected a program that Program.save wrote, got another file")
    if header.get("version") != VERSION:
        raise CheckpointError(
            f"expected a program of version {VERSION}, got version {header.get('version')}, "
            f"written by tapegrad {header.get('written_by')}; record and save it with this one"
        )
    return build_program(header, data, names)


def build_program(
    header: Mapping[str, Any], data: bytes, names: Names
) -> tuple[Any, list[Any], list[Any]]:
    """Return the native program of what `describe_program` gave, and its inputs and outputs."""
    native = _C.Program()
    devices: list[str] = []
    for nbytes, device, is_made in header["values"]:
        if device not in devices:
            _expect_device(device)
        native.add_value(_whole(nbytes), device, is_made)
        devices.append(device)
    for step in header["steps"]:
        _add_step(native, step, data, names, devices)
    inputs = [_argument(native, each, devices) for each in header["inputs"]]
    outputs = [_argument(native, each, devices) for each in header["outputs"]]
    _check_arguments(native, inputs, outputs)
    return native, inputs, outputs


def _expect_device(name: Any) -> None:
    """Refuse a CUDA device that is not there; what is no device at all is refused natively."""
    if not str(name).startswith("cuda:"):
        return
    try:
        _C.empty(0, device=name)
    except RuntimeError as error:
        raise CheckpointError(
            f"the program runs on device '{name}', which is not there: {error}; load it where it "
            "is, or record the program on a device of this machine"
        ) from None


def _split(content: bytes) -> tuple[Any, bytes]:
    """Return the header and the bytes behind it, after making sure that the file is whole."""
    length = int.from_bytes(content[:8], "little")
    end = len(content) - DIGEST
    if end < 8 or length > end - 8:
        raise CheckpointError("expected a program, got a file that is cut short or another one")
    if hashlib.sha256(memoryview(content)[:end]).digest() != content[end:]:
        raise CheckpointError("the file is damaged: its bytes are not those that were saved")
    return json.loads(content[8 : 8 + length], parse_constant=_refuse), content[8 + length : end]


def _refuse(text: str) -> Any:
    raise ValueError(f"expected numbers as Program.save writes them, got {text}")


def _add_step(
    native: Any, step: dict[str, Any], data: bytes, names: Names, devices: Sequence[str]
) -> None:
    if "op" in step:
        op = step["op"]
        if op not in names:
            raise CheckpointError(f"there is no op '{op}' in this build")
        inputs = [_input(each, devices) for each in step["inputs"]]
        outputs = [_operand(each, devices) for each in step["outputs"]]
        attributes = _attributes(op, step["attributes"], names[op])
        native.add_step(op, inputs, attributes, outputs, None, "")
        return
    start, end = map(_whole, step["bytes"])
    if not 0 <= start <= end <= len(data):
        raise ValueError(f"expected bytes among {len(data)}, got {start} to {end}")
    if "read" in step:
        seen = [_operand(step["read"], devices)]
        native.add_step("read", seen, [], [], data[start:end], str(step["line"]))
    else:
        made = [_operand(step["constant"], devices)]
        native.add_step("constant", [], [], made, data[start:end], "")


def _attributes(op: str, given: Sequence[Any], names: tuple[str, ...]) -> list[Any]:
    """Return the numbers of a call in order, by the names that the file has."""
    found = [name for name, _ in given]
    if found != [name.removesuffix("*") for name in names]:
        raise CheckpointError(
            f"expected attributes ({', '.join(names)}) of {op}, got ({', '.join(map(str, found))})"
        )
    numbers: list[Any] = []
    for name, (_, value) in zip(names, given, strict=True):
        is_list = isinstance(value, dict) and "each" in value
        if is_list != name.endswith("*"):
            raise ValueError(f"{op}: attribute '{name}' does not fit")
        numbers += [_number(each) for each in (value["each"] if is_list else [value])]
    return numbers


def _input(operand: Any, devices: Sequence[str]) -> Any:
    return _operand(operand, devices) if isinstance(operand, list) else _number(operand)


def _operand(operand: Sequence[Any], devices: Sequence[str]) -> tuple[Any, ...]:
    value, offset, shape, stride, dtype = operand
    sizes = tuple(map(_whole, shape)), tuple(map(_whole, stride))
    number = _whole(value)
    if not 0 <= number < len(devices):
        raise ValueError(f"expected one of {len(devices)} values, got {number}")
    return number, _whole(offset), *sizes, _DTYPES[dtype], devices[number]


def _number(value: Any) -> Any:
    if isinstance(value, dict):
        value = _DTYPES[value["dtype"]] if "dtype" in value else float(value["float"])
        return value
    if not isinstance(value, bool | int | float):
        raise TypeError(f"expected a number, got {type(value).__name__}")
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected a whole number, got {type(value).__name__}")
    return value


def _argument(native: Any, argument: Sequence[Any], devices: Sequence[str]) -> tuple[Any, ...]:
    name, operand, is_read, is_written = argument
    if not (isinstance(name, str) and isinstance(is_read, bool) and isinstance(is_written, bool)):
        raise TypeError("expected the name of an input and whether it is read and written")
    place = _operand(operand, devices)
    native.check_place(place)
    return name, place, is_read, is_written


def _check_arguments(native: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Make sure that everything that is read from outside has a name, and no name stands twice."""
    for listed in (inputs, outputs):
        if len({name for name, *_ in listed}) < len(listed):
            raise ValueError("two inputs or outputs have the same name")
    named = {place[0] for _, place, is_read, _ in inputs if is_read}
    values = native.values()
    for number, (_, _, _, is_made, is_read, _, _) in enumerate(values):
        if is_read and not is_made and number not in named:
            raise ValueError(f"value {number} is read and is no input")
    for name, place, *_ in outputs:
        _, _, _, is_made, _, is_written, _ = values[place[0]]
        if is_made and not is_written:
            raise ValueError(f"output '{name}' is never computed")
