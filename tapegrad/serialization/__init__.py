"""Checkpoints: `save` writes nested state to one file, `load` reads it back.

A file is a safetensors file: other libraries read its tensors, and `load` reads theirs. It reads
PyTorch's zip checkpoints too, and writes one where a state holds objects of other classes. No path
through `load` runs code from a file, unless the caller says ``weights_only=False``.
"""

import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any

from tapegrad._types import device
from tapegrad.serialization._allowed import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    get_unsafe_globals_in_checkpoint,
    safe_globals,
)
from tapegrad.serialization._atomic import write_file, write_stream
from tapegrad.serialization._dtypes import Code
from tapegrad.serialization._errors import (
    CheckpointError,
    OtherFileError,
    RefusedError,
    UnsupportedObjectError,
)
from tapegrad.serialization._layout import Layout
from tapegrad.serialization._location import FunctionError
from tapegrad.serialization._restore import Entries, restore
from tapegrad.serialization._safetensors import read_header, write_chunks
from tapegrad.serialization._source import Source, open_path, open_stream
from tapegrad.serialization._storage import Files
from tapegrad.serialization._structure import encode

__all__ = [
    "MAP_LOCATION",
    "CheckpointError",
    "OtherFileError",
    "RefusedError",
    "UnsupportedObjectError",
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "safe_globals",
    "save",
]

MAP_LOCATION = Callable[..., Any] | device | str | dict[str, str] | None  # what `load` takes

for _error in (CheckpointError, OtherFileError, RefusedError, UnsupportedObjectError):
    _error.__module__ = __name__  # Messages show the public name.

DOCUMENT = "tapegrad"
DOCUMENT_ENTRY = "tapegrad_entry"
LONG_DOCUMENT = 1 << 20
ZIP = b"PK\x03\x04"
LEGACY = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"  # PyTorch's before 1.6


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    *,
    format: str | None = None,
) -> None:
    """Write an object to a file that `load` and readers of safetensors understand.

    That holds for tensors and parameters, numbers, strings, bytes, None, dtypes, devices, NumPy
    arrays and numbers, in dicts, lists, tuples and sets. Where there is anything else, a module
    perhaps, the file is a zip archive with a pickle, as PyTorch writes it; `load` then wants to
    hear which classes are allowed, or ``weights_only=False``. Tensors that share memory share it
    after loading. A path is replaced in one step by the complete new file, on the disk when this
    returns; if anything fails, the former file stays.

    Args:
        obj: what to save, such as a state_dict.
        f: a path, or a file opened for writing bytes.
        pickle_module: accepted; it is never used.
        pickle_protocol: accepted; pickles have protocol 2.
        format: ``"torch"`` writes PyTorch's zip archive, which `torch.load` there reads as well;
            ``"safetensors"`` never does, and refuses what is no plain state. None writes
            safetensors where it can.

    Raises:
        ValueError: the format is another one.
        UnsupportedObjectError: a TypeError that says what cannot be saved and where in obj it is.
        OSError: the file cannot be written.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> torch.save({"weight": torch.ones(2), "epoch": 3}, file)
        >>> file.seek(0)
        0
        >>> torch.load(file)
        {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    is_path = isinstance(f, (str, os.PathLike))
    if not is_path and not hasattr(f, "write"):
        raise AttributeError(
            "save: expected f to be a path or a file with a 'write' attribute, got "
            f"{type(f).__name__}"
        )
    if format not in (None, "safetensors", "torch"):
        raise ValueError(f"save: expected format 'safetensors' or 'torch', got {format!r}")
    chunks = _object_chunks(obj) if format == "torch" else _plain_chunks(obj, format)
    if is_path:
        write_file(os.fsdecode(f), chunks)
    else:
        write_stream(f, chunks)


def _plain_chunks(obj: Any, format: str | None) -> Callable[[], Iterator[memoryview]]:
    """Return what writes plain state as safetensors, and other state, if that is allowed, not."""
    layout = Layout()
    try:
        document = encode(obj, layout)
    except UnsupportedObjectError as error:
        if format:
            raise
        return _object_chunks(obj, error)
    metadata = {"format": "pt"}
    if len(document) > LONG_DOCUMENT:  # Headers have a limit, and others read them whole.
        name = layout.add_bytes(Code("U8"), [len(document)], document, "tapegrad.document")
        metadata[DOCUMENT_ENTRY] = name
    else:
        metadata[DOCUMENT] = document.decode("ascii")
    pieces = layout.pieces()
    return lambda: write_chunks(pieces, metadata)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what `save` wrote, a plain safetensors file, or a zip checkpoint of PyTorch.

    Nothing in a file is run. A zip checkpoint may hold tensors and plain containers, and what
    `add_safe_globals` allows; anything else is refused by name, unless the caller trusts it.

    Args:
        f: a path, or a file opened for reading bytes that can seek.
        map_location: where tensors go that were saved from another device: a device or its name, a
            dict from names to names, or a function of a storage and a name.
        pickle_module: accepted; nothing is unpickled by a module.
        weights_only: False makes whatever objects the file says, by calling whatever it says: only
            for files from somebody you trust.
        mmap: whether tensors lie on the mapped file. Pages come in when they are touched, and what
            is written to them stays in this process.

    Raises:
        CheckpointError: a RuntimeError: the file is damaged or no checkpoint.
        RefusedError: a CheckpointError and pickle.UnpicklingError: the file asks for more.
        OSError: the file cannot be read.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> model = torch.nn.Linear(2, 1)
        >>> torch.save(model.state_dict(), path)
        >>> model.load_state_dict(torch.load(path))
        <All keys matched successfully>
    """
    if pickle_load_args:
        raise TypeError(f"load: got an unexpected argument {next(iter(pickle_load_args))!r}")
    is_path = isinstance(f, (str, os.PathLike))
    if mmap and not is_path:
        raise ValueError("load: f must be a string or os.PathLike object in order to use mmap")
    source = open_path(os.fsdecode(f)) if is_path else open_stream(f)
    try:
        files = Files(source, map_location, bool(mmap))
        return _load(source, files, to_the_end=is_path, trusted=weights_only is False)
    except FunctionError as failure:
        raise failure.error from None
    finally:
        if is_path:
            source.file.close()


def _object_chunks(obj: Any, refusal: UnsupportedObjectError | None = None) -> Any:
    """Return what writes any object as PyTorch does, or raise the error that says what cannot be.

    Args:
        obj: the object.
        refusal: the error of the other format, which says where in the object it is.
    """
    from tapegrad.serialization._objects import object_chunks

    try:
        return object_chunks(obj)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        if refusal is None:
            encode(obj, Layout())  # says where, unless plain state can hold what a pickle cannot
        raise refusal or UnsupportedObjectError(f"save: {error}") from error


def _load(source: Source, files: Files, to_the_end: bool, trusted: bool) -> Any:
    if source.size == 0:
        raise source.fail("the file is empty")
    beginning = source.read(0, min(source.size, 512), "the beginning")
    if beginning.startswith(ZIP):
        from tapegrad.serialization._torch_zip import load_zip

        return load_zip(files, trusted)
    if beginning.startswith(LEGACY) or beginning[257:262] == b"ustar":
        raise source.fail(
            "it has PyTorch's format from before release 1.6; load it in PyTorch and write it with "
            "torch.save(), which makes a zip archive"
        )
    if beginning[:1] == b"\x80" and beginning[8:9] != b"{":
        raise source.fail("a bare pickle, which could run code; save it with torch.save()")
    entries, metadata = read_header(source, to_the_end)
    found = Entries(files, entries)
    result = _restore(found, metadata)
    if not to_the_end:  # The next checkpoint in the stream begins here.
        end = max((entry.end for entry in entries.values()), default=None)
        source.file.seek(source.start + (_header_end(source) if end is None else end))
    return result


def _header_end(source: Source) -> int:
    return 8 + int.from_bytes(source.read(0, 8, "the length of the header"), "little")


def _restore(found: Entries, metadata: dict[str, str]) -> Any:
    if DOCUMENT in metadata:
        return restore(found, metadata[DOCUMENT].encode("utf-8", "surrogatepass"))
    if DOCUMENT_ENTRY in metadata:
        return restore(found, found.raw(found.find(metadata[DOCUMENT_ENTRY])))
    return {name: found.whole(entry) for name, entry in found.entries.items()}
