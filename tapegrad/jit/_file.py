"""The file of a traced module: `save` and `load`.

It is a checkpoint (docs/checkpoints.md), and so a safetensors file, whose tensors other readers
find under the names of the ``state_dict`` behind ``parameters.`` and ``buffers.``. Beside them are
the calls, as JSON with the version of this format, and a SHA-256 of what is run. There is no code.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from tapegrad._C import Tensor
from tapegrad._version import __version__
from tapegrad.jit._method import Arguments, Template
from tapegrad.jit._modules import FrozenModule, LoadedModule, ScriptFunction, ScriptModule
from tapegrad.jit._record import structure_from_json, structure_to_json
from tapegrad.jit._traced import LoadedMethod
from tapegrad.nn.parameter import Parameter
from tapegrad.serialization import CheckpointError
from tapegrad.serialization import load as load_checkpoint
from tapegrad.serialization import save as save_checkpoint

__all__ = ["load", "save"]

FORMAT = "tapegrad traced module"
VERSION = 1


def save(m: Any, f: Any, _extra_files: Mapping[str, Any] | None = None) -> None:
    """Write a traced module or function to a file for `load`.

    The file has the calls, the parameters and buffers, and no code: `load` reads it in a process
    that has never seen the model's source. Where the first axis of the arguments may vary, the
    function is run several times, with other sizes of it, and what it is then in a mode for.

    Args:
        m: what `trace` gave.
        f: a path, or a file opened for writing bytes.
        _extra_files: strings or bytes by name, to be stored with it.

    Example:
        >>> import io
        >>> double = torch.jit.trace(lambda x: x * 2, torch.zeros(3))
        >>> file = io.BytesIO()
        >>> torch.jit.save(double, file)
        >>> file.seek(0)
        0
        >>> torch.jit.load(file)(torch.ones(5)).sum()
        tensor(10.)
    """
    if not hasattr(m, "save"):
        raise AttributeError(f"'{type(m).__name__}' object has no attribute 'save'")
    if not isinstance(m, ScriptModule | ScriptFunction) or not hasattr(m, "__dict__"):
        raise TypeError(f"save: expected what trace() gave, got {type(m).__name__}")
    if isinstance(m, ScriptFunction) and type(m) is not ScriptFunction:
        m.save(f, _extra_files)  # a scripted function
        return
    document = _document(m)
    document["extra_files"] = {
        name: each.encode() if isinstance(each, str) else bytes(each)
        for name, each in (_extra_files or {}).items()
    }
    save_checkpoint(document, f)


def _document(m: Any) -> dict[str, Any]:
    constants: dict[str, dict[str, Tensor]] = {}
    if isinstance(m, LoadedModule):
        parts = {}
        for name, known in m._loaded_methods().items():
            parts[name] = known.arguments, known.template
            constants[name] = known._constants
        parameters, buffers = _held(m)
    else:
        methods = {"forward": m._method} if isinstance(m, ScriptFunction) else m._traced_methods()
        parts = {}
        for name, method in methods.items():
            template, constants[name] = method.template()
            parts[name] = method.arguments, template
        source = m.__dict__["_traced"] if isinstance(m, FrozenModule) else m
        parameters, buffers = _held(source) if isinstance(source, ScriptModule) else ({}, {})
    if isinstance(m, FrozenModule):
        for name, (_, template) in parts.items():
            wanted = {each[0] for each in template.document["inputs"]}
            held = {f"state.{path}": x.detach() for path, x in {**parameters, **buffers}.items()}
            constants[name] |= {key: x for key, x in held.items() if key in wanted}
        parameters, buffers = {}, {}
    program = {name: _method_to_json(*each) for name, each in parts.items()}
    text = json.dumps(program, allow_nan=False, separators=(",", ":")).encode()
    data = {name: template.data for name, (_, template) in parts.items()}
    return {
        "format": FORMAT,
        "version": VERSION,
        "written_by": __version__,
        "name": m.original_name if isinstance(m, ScriptModule) else m.name,
        "training": isinstance(m, ScriptModule) and m.training,
        "program": text,
        "data": data,
        "sha256": _digest(text, data),
        "parameters": parameters,
        "buffers": buffers,
        "constants": constants,
    }


def _held(module: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    parameters = dict(module.named_parameters(remove_duplicate=False))
    return parameters, dict(module.named_buffers(remove_duplicate=False))


def _digest(text: bytes, data: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(text)
    for name in sorted(data):
        digest.update(name.encode() + b"\0" + len(data[name]).to_bytes(8, "little") + data[name])
    return digest.hexdigest()


def _method_to_json(arguments: Arguments, template: Template) -> dict[str, Any]:
    return {
        "name": arguments.name,
        "arguments": arguments.names,
        "structure": structure_to_json(arguments.structure),
        "shapes": template.shapes,
        "dtypes": template.dtypes,
        "axes": template.axes,
        "is_batch": template.is_batch,
        "reason": template.reason,
        "calls": template.document,
    }


# ---- loading


def load(
    f: Any,
    map_location: Any = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
) -> Any:
    """Read what `save` wrote. No code of the model is needed, and none is run.

    Args:
        f: a path, or a file opened for reading bytes that can seek.
        map_location: where tensors go, and so where the calls run: a device or its name, or what
            `torch.load` takes.
        _extra_files: a dict whose values are replaced by the file's strings of these names.
        _restore_shapes: not used.

    Returns:
        A `ScriptModule` with the parameters, buffers and methods of the traced one. It computes
        values; a backward through it is refused.

    Raises:
        RuntimeError: the file is damaged, of another version, or no traced module. The text says
            why.
    """
    if isinstance(f, str | os.PathLike):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {os.fspath(f)} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {os.fspath(f)} is a directory")
        _refuse_torchscript(f)
    name = os.fspath(f) if isinstance(f, str | os.PathLike) else type(f).__name__
    document = load_checkpoint(f, map_location)
    try:
        return _module(document, _extra_files)
    except CheckpointError as error:
        raise CheckpointError(f"load: {name}: {error}") from None
    except (
        *(ValueError, TypeError, KeyError, IndexError, AttributeError),
        *(OverflowError, RecursionError, RuntimeError, ZeroDivisionError),
    ) as error:
        reason = str(error).split("\n", 1)[0]
        raise CheckpointError(
            f"load: {name} has no program that could have been traced: {reason}"
        ) from None


def _refuse_torchscript(path: Any) -> None:
    import zipfile

    with open(path, "rb") as file:
        if file.read(2) != b"PK":
            return
        try:
            names = zipfile.ZipFile(file).namelist()
        except (zipfile.BadZipFile, OSError, ValueError):
            return
    if any("/code/" in each or each.endswith("constants.pkl") for each in names):
        raise CheckpointError(
            f"load: {os.fspath(path)} is a TorchScript archive, which holds code of PyTorch's; "
            "save the model's state_dict() in PyTorch, load that, and trace the model here"
        )


def _module(document: Any, extra_files: dict[str, Any] | None) -> LoadedModule:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise CheckpointError(
            "expected what torch.jit.save wrote, got another file; torch.load reads checkpoints, "
            "tape.load_program programs"
        )
    if document.get("version") != VERSION:
        raise CheckpointError(
            f"expected version {VERSION}, got version {document.get('version')!s:.40}, written by "
            f"tapegrad {document.get('written_by')!s:.40}; trace and save the model with this one"
        )
    text, data = document["program"], document["data"]
    if _digest(text, data) != document["sha256"]:
        raise CheckpointError("the file is damaged: its calls are not those that were saved")
    made = LoadedModule(str(document["name"]), bool(document["training"]))
    state = {}
    for kind in ("parameters", "buffers"):
        for path, tensor in document[kind].items():
            is_parameter = kind == "parameters"
            if is_parameter and not isinstance(tensor, Parameter):
                tensor = Parameter(tensor, tensor.requires_grad)
            state[f"state.{path}"] = made._hold(path, tensor, is_parameter)
    for name, part in json.loads(text).items():
        made.__dict__["_methods"][name] = _method(
            part, data[name], state, document["constants"][name]
        )
        if name != "forward":
            made.__dict__[name] = made.__dict__["_methods"][name]
    for name in extra_files or ():
        if name in document["extra_files"]:
            assert extra_files is not None
            extra_files[name] = document["extra_files"][name]
    return made


def _method(
    part: dict[str, Any], data: bytes, state: dict[str, Any], constants: dict[str, Tensor]
) -> LoadedMethod:
    arguments = Arguments(
        str(part["name"]), list(map(str, part["arguments"])), structure_from_json(part["structure"])
    )
    count = len(part["shapes"])
    if arguments.structure.num_leaves != count or len(part["dtypes"]) != count:
        raise ValueError("its arguments do not fit one another")
    axes = [each for shape in part["shapes"] for each in shape if isinstance(each, str)]
    if set(axes) != set(part["axes"]):
        raise ValueError("its axes do not fit its arguments")
    template = Template(
        part["calls"], data, part["shapes"], part["dtypes"], part["axes"], part["is_batch"] is True
    )
    template.reason = str(part["reason"])
    known = {f"input.{i}" for i in range(count)} | state.keys() | constants.keys()
    for name, *_ in part["calls"]["inputs"]:
        if name not in known:
            raise ValueError(f"there is no '{name}'")
    method = LoadedMethod(arguments, template, state, constants)
    template.build([2] * len(template.axes), {})  # refuses what no trace gives
    return method
