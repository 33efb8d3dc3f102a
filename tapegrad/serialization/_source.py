"""A file that is read: at given places, and never beyond its end, whatever it says of itself."""

import io
import mmap
import os
import stat
import sys
from typing import Any

from tapegrad.serialization._errors import CheckpointError

__all__ = ["Source", "open_path", "open_stream"]

CHUNK = 16 << 20


class Source:
    """Bytes from a start to an end of a file.

    Args:
        file: an open binary file that can seek.
        name: what messages call it.
        start: where the checkpoint begins.
        size: how many bytes there are from there to the end.
    """

    def __init__(self, file: Any, name: str, start: int, size: int) -> None:
        self.file = file
        self.name = name
        self.start = start
        self.size = size

    def fail(self, text: str) -> CheckpointError:
        """Return an error that names the file."""
        return CheckpointError(f"load: {self.name}: {text}")

    def check(self, offset: int, count: int, what: str) -> None:
        """Refuse a range that does not lie in the file, before anything is allocated for it."""
        if offset < 0 or count < 0 or offset + count > self.size:
            raise self.fail(
                f"{what} should be {count} bytes at {offset}, but the file has {self.size}; it is "
                "damaged or cut short"
            )

    def read(self, offset: int, count: int, what: str) -> bytes:
        """Return bytes of the file."""
        self.check(offset, count, what)
        memory = bytearray(count)
        self.read_into(offset, memoryview(memory), what)
        return bytes(memory)

    def read_into(self, offset: int, memory: memoryview, what: str) -> None:
        """Fill memory with bytes of the file."""
        self.check(offset, memory.nbytes, what)
        self.file.seek(self.start + offset)
        while memory.nbytes > 0:
            got = self._read_some(memory)
            if got == 0:
                raise self.fail(f"the file ended within {what}; it was cut while it was read")
            memory = memory[got:]

    def _read_some(self, memory: memoryview) -> int:
        if hasattr(self.file, "readinto"):
            return self.file.readinto(memory[:CHUNK]) or 0
        data = self.file.read(min(memory.nbytes, CHUNK))
        if not isinstance(data, bytes):
            raise TypeError(f"load: {self.name}: expected a file opened in binary mode")
        memory[: len(data)] = data
        return len(data)

    def map(self) -> mmap.mmap:
        """Return the file mapped, privately: what is written there stays in this process."""
        if not hasattr(mmap, "MAP_PRIVATE"):
            return mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_COPY)
        options: Any = {
            # Without a reservation, a file larger than the memory can be mapped too.
            "flags": mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0),
            "prot": mmap.PROT_READ | mmap.PROT_WRITE,
        }
        if sys.version_info >= (3, 13):
            options["trackfd"] = False  # The file need not stay open.
        return mmap.mmap(self.file.fileno(), 0, **options)


def open_path(path: str) -> Source:
    """Open a file of the file system. The caller closes its `file`."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise CheckpointError(  # To open a pipe would wait for its writer.
            f"load: {path}: not a regular file; read it into an io.BytesIO and load that"
        )
    file = open(path, "rb", buffering=0)  # noqa: SIM115
    return Source(file, path, 0, os.fstat(file.fileno()).st_size)


def open_stream(file: Any) -> Source:
    """Take an open file as it stands: the checkpoint begins where it would be read next."""
    for method in ("read", "seek", "tell"):
        if not hasattr(file, method):
            raise AttributeError(
                f"load: expected a path or a binary file that can seek, got "
                f"{type(file).__name__!r} object, which has no attribute {method!r}; read it into "
                "an io.BytesIO and load that"
            )
    if isinstance(file, io.TextIOBase):
        raise TypeError("load: expected a file opened in binary mode; open it with 'rb'")
    start = file.tell()
    end = file.seek(0, os.SEEK_END)
    end = file.tell() if end is None else end
    file.seek(start)
    name = getattr(file, "name", None)
    return Source(file, str(name) if name else type(file).__name__, start, max(end - start, 0))
