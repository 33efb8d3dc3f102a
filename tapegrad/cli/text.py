"""The text: where it comes from, and how it is read a block at a time, however long it is."""

import codecs
import gzip
import hashlib
import io
from collections.abc import Iterator
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import BinaryIO

from tapegrad.cli.errors import UserError

__all__ = ["BLOCK", "Text", "read_text"]

BLOCK = 1 << 20  # bytes that are read at a time


class Text:
    """A text on disk or in memory, and the hash by which a resumed run knows it again.

    Args:
        name: a short one.
        path: of its file, or None.
        content: its bytes, where it is no file.
    """

    def __init__(self, name: str, path: Path | None = None, content: bytes = b"") -> None:
        self.name, self.path, self._content = name, path, content

    @cached_property
    def size(self) -> int:
        """How many bytes there are."""
        return len(self._content) if self.path is None else self.path.stat().st_size

    @cached_property
    def sha256(self) -> str:
        """The hash of all bytes, in hexadecimal digits."""
        found = hashlib.sha256()
        for block in self.blocks():
            found.update(block)
        return found.hexdigest()

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes, some at a time."""
        try:
            with self._open() as file:
                while block := file.read(BLOCK):
                    yield block
        except OSError as error:
            raise UserError(
                f"cannot read the text {self.path}: {error.strerror}; say where it is with --text"
            ) from error

    def characters(self) -> Iterator[str]:
        """Yield the text of UTF-8 bytes without a mark in front; others are refused."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        read = 0
        for block in self.blocks():
            begun = decoder.getstate()[0]  # the first bytes of a character that the block ends
            try:
                shown = decoder.decode(block)
            except UnicodeDecodeError as error:
                place = error.start
                raise _not_utf8((begun + block)[place], read - len(begun) + place) from error
            yield shown.removeprefix("\ufeff") if read == 0 else shown
            read += len(block)
        begun = decoder.getstate()[0]
        if begun:
            raise _not_utf8(begun[0], read - len(begun))

    def any_characters(self) -> Iterator[str]:
        """Yield the text of any bytes; those that are no UTF-8 are lone surrogates in it.

        ``encode("utf-8", "surrogateescape")`` gives the bytes back.
        """
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        for block in self.blocks():
            yield decoder.decode(block)
        yield decoder.decode(b"", final=True)

    def _open(self) -> BinaryIO:
        return io.BytesIO(self._content) if self.path is None else self.path.open("rb")


def read_text(path: str | None) -> Text:
    """Return the text of a file, or the one that comes with the package if the path is None."""
    if path is None:
        packed = (files("tapegrad.cli") / "texts" / "books.txt.gz").read_bytes()
        return Text("books", content=gzip.decompress(packed))
    return Text(Path(path).stem, Path(path))


def _not_utf8(byte: int, position: int) -> UserError:
    return UserError(
        f"the text is not UTF-8: byte {byte:#04x} at position {position}; "
        "convert it (iconv -t UTF-8), or train on --tokens bytes"
    )
