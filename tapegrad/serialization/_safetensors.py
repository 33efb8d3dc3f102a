"""The container: a safetensors file.

Eight bytes with the length of the header, the header in JSON, the data. The header gives each entry
its type, its shape and its place in the data; entries follow each other without gaps. Strings of
the writer's own stand under ``__metadata__``.
"""

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tapegrad.serialization._dtypes import CODES
from tapegrad.serialization._errors import OtherFileError, UnsupportedObjectError
from tapegrad.serialization._source import Source

__all__ = ["METADATA", "Entry", "Piece", "parse_json", "read_header", "write_chunks"]

METADATA = "__metadata__"
LENGTH = struct.Struct("<Q")
MOST_HEADER = 100_000_000  # Other readers refuse longer ones.
ALIGNMENT = 64


class Entry(NamedTuple):
    """An entry that was read: begin and end count from the start of the file."""

    name: str
    code: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Piece(NamedTuple):
    """An entry to be written, with a function that returns its bytes."""

    name: str
    code: str
    shape: tuple[int, ...]
    nbytes: int
    data: Callable[[], Any]


# ---- writing


def write_chunks(pieces: Iterable[Piece], metadata: dict[str, str]) -> Iterator[memoryview]:
    """Yield the bytes of a file. The memory of a piece is asked for when its turn comes."""
    pieces = list(pieces)
    header: dict[str, Any] = {METADATA: metadata}
    place = 0
    for piece in pieces:
        header[piece.name] = {
            "dtype": piece.code,
            "shape": list(piece.shape),
            "data_offsets": [place, place + piece.nbytes],
        }
        place += piece.nbytes
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-(LENGTH.size + len(text)) % ALIGNMENT)
    if len(text) > MOST_HEADER:
        raise UnsupportedObjectError(
            f"save: the names and shapes of {len(pieces)} tensors take {len(text)} bytes, more "
            f"than the {MOST_HEADER} that a safetensors file may have; save it in parts"
        )
    yield memoryview(LENGTH.pack(len(text)) + text)
    for piece in pieces:
        if piece.nbytes > 0:
            yield piece.data()


# ---- reading


def _other_file(source: Source, otherwise: str) -> OtherFileError:
    """Return the error for a file that is no checkpoint, with what it is where that can be told."""
    begin = source.read(0, min(source.size, 512), "the first bytes").lstrip(b"\xef\xbb\xbf \r\n\t")
    lower = begin.lower()
    if lower.startswith((b"<!doctype", b"<html", b"<?xml", b"<head", b"<!--")):
        what = "an HTML page, saved in place of a file; download the file itself, by its raw link"
    elif lower.startswith(b"version https://git-lfs"):
        what = "a pointer of Git LFS to the file; run `git lfs pull` to get the file itself"
    elif lower.startswith((b'{"', b"{'", b"[")):
        what = "text in JSON, perhaps the error of a server; look into it"
    elif begin.startswith(b"\x1f\x8b"):
        what = "a gzip archive; unpack it first"
    elif begin.startswith(b"\x89HDF"):
        what = "an HDF5 file, such as Keras writes"
    else:
        what = otherwise
    return OtherFileError(f"load: {source.name}: not a checkpoint: {what}")


def read_header(source: Source, to_the_end: bool) -> tuple[dict[str, Entry], dict[str, str]]:
    """Return the entries in the order of the header, and the metadata.

    Args:
        source: the file.
        to_the_end: whether the data must end where the file does.
    """
    (length,) = LENGTH.unpack(source.read(0, LENGTH.size, "the length of the header"))
    if length > MOST_HEADER or length < 2:
        raise _other_file(source, f"its header would take {length} bytes")
    if source.size > LENGTH.size and source.read(LENGTH.size, 1, "the header") != b"{":
        raise _other_file(source, "it begins neither as safetensors nor as a zip archive")
    text = source.read(LENGTH.size, length, "the header")
    header = parse_json(source, text, "the header")
    metadata = header.pop(METADATA, {})
    if not _is_metadata(metadata):
        raise source.fail(f"the header's {METADATA} is not a dict of strings")
    start = LENGTH.size + length
    entries = {name: _entry(source, name, value, start) for name, value in header.items()}
    _check_places(source, entries, start, to_the_end)
    return entries, metadata


def parse_json(source: Source, text: bytes, what: str) -> dict[str, Any]:
    """Return the object that a JSON text describes; a name that stands twice is refused."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name stands twice")
        return found

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=unique, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise source.fail(f"{what} is damaged: {error!s:.200}") from error
    if type(value) is not dict:
        raise source.fail(f"{what} is damaged: expected an object, got {type(value).__name__}")
    return value


def _is_metadata(value: Any) -> bool:
    return type(value) is dict and all(type(each) is str for each in value.values())


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _entry(source: Source, name: str, value: Any, start: int) -> Entry:
    def fail(text: str) -> Exception:
        return source.fail(f"the header is damaged: {name!r:.80}: {text}")

    if type(value) is not dict or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise fail("expected dtype, shape and data_offsets")
    code, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if type(code) is not str or type(shape) is not list or not all(map(_is_count, shape)):
        raise fail("expected a name as dtype and sizes as shape")
    if type(offsets) is not list or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise fail("expected two numbers as data_offsets")
    if code not in CODES:
        raise source.fail(f"{name!r:.80} has elements of type {code!r:.20}, which tensors lack")
    nbytes = CODES[code]
    for size in shape:
        nbytes *= size
        if nbytes >= 1 << 62:
            raise fail(f"shape {shape!s:.200} is too large")
    if offsets[0] + nbytes != offsets[1]:
        raise fail(f"{code} of shape {shape!s:.200} takes {nbytes} bytes, not those of {offsets}")
    return Entry(name, code, tuple(shape), start + offsets[0], start + offsets[1])


def _check_places(source: Source, entries: dict[str, Entry], start: int, to_the_end: bool) -> None:
    place = start
    for entry in sorted(entries.values(), key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != place:
            raise source.fail(f"the header is damaged: {entry.name!r:.80} overlaps or leaves a gap")
        place = entry.end
    if place > source.size or (to_the_end and place != source.size):
        raise source.fail(
            f"the header and its data should take {place} bytes, but the file has {source.size}; "
            "it is damaged or cut short"
        )
