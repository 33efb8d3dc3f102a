"""A temporary file for saved bytes, and the list of its free regions."""

import bisect
import contextlib
import errno
import os
import tempfile
import zlib
from collections.abc import Sequence
from typing import Any

__all__ = ["MARK_BYTES", "SpillFile", "checksum"]

MARK_BYTES = 16
_MOST_BUFFERS = 512  # of one call to the system, well below any limit
_LANES = 1024


def checksum(buffer: Any) -> int:
    """Return a number by which a change of the bytes of a NumPy array is detected.

    Words of eight bytes are added up in lanes, each 8 KiB behind the last, and a CRC taken of the
    sums and of what is left over: that is as fast as memory is, and a CRC of all is not. A stretch
    of up to 8 KiB has at most one word in each lane, so that every change in it is detected.
    """
    import numpy as np

    data: Any = np.frombuffer(buffer, np.uint8) if len(buffer) else np.empty(0, np.uint8)
    whole = len(data) // (8 * _LANES) * (8 * _LANES)
    found = zlib.crc32(data[whole:])
    if whole:
        rows = data[:whole].view(np.uint64).reshape(-1, _LANES)
        found = zlib.crc32(np.add.reduce(rows, axis=0), found)
    return found


class SpillFile:
    """A file whose parts are written, read back and used again.

    Args:
        where: a folder, in which a file without a name is made, so that nothing is left of it
            however the process ends; or a file that does not exist, which `close` removes.

    Raises:
        OSError: it cannot be made; the text says what to do.
    """

    def __init__(self, where: str) -> None:
        if not hasattr(os, "pwritev"):
            raise NotImplementedError("offload: this system has no pwritev, which files need")
        self._named = not os.path.isdir(where)
        try:
            if self._named:
                self.path = where
                self._fd = os.open(where, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            else:
                self._fd, self.path = tempfile.mkstemp(prefix="tapegrad-offload-", dir=where)
                os.unlink(self.path)
        except OSError as error:
            raise _cannot_open(error, where) from None
        self._mark = os.urandom(MARK_BYTES)
        self._free: list[tuple[int, int]] = []  # (offset, size), sorted, never side by side
        self._end = 0
        self.used = 0
        self.size = 0  # the largest that the file has been

    def allocate(self, size: int) -> int:
        """Return the offset of a free place: the smallest that is large enough, or the end."""
        if size == 0:
            return 0
        self.used += size
        best = min(
            (place for place in self._free if place[1] >= size),
            key=lambda place: place[1],
            default=None,
        )
        if best is None:
            offset = self._end
            self._end += size
            self.size = max(self.size, self._end)
            return offset
        at = bisect.bisect_left(self._free, best)
        if best[1] == size:
            del self._free[at]
        else:
            self._free[at] = (best[0] + size, best[1] - size)
        return best[0]

    def free(self, offset: int, size: int) -> None:
        """Give a place back."""
        if size == 0:
            return
        self.used -= size
        at = bisect.bisect_left(self._free, (offset, 0))
        if at < len(self._free) and offset + size == self._free[at][0]:
            size += self._free.pop(at)[1]
        if at > 0 and sum(self._free[at - 1]) == offset:
            at -= 1
            before = self._free.pop(at)
            offset, size = before[0], before[1] + size
        if offset + size == self._end:
            self._end = offset
        else:
            self._free.insert(at, (offset, size))

    def write(self, buffers: Sequence[Any], offset: int) -> list[int]:
        """Write buffers one behind the other, each followed by a mark of `MARK_BYTES`.

        A file that is truncated and then grows again reads as zeros where it was truncated, which
        the mark behind a value reveals.

        Returns:
            The checksum of each, for `read`.
        """
        checksums = [checksum(buffer) for buffer in buffers]
        views = []
        for buffer in reversed(buffers):
            views.append(memoryview(self._mark))
            if len(buffer):
                views.append(memoryview(buffer).cast("B"))
        while views:
            count = os.pwritev(self._fd, views[: -_MOST_BUFFERS - 1 : -1], offset)
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            offset += count
            while views and count >= len(views[-1]):
                count -= len(views.pop())
            if count:
                views[-1] = views[-1][count:]
        return checksums

    def read(self, buffer: Any, offset: int, expected: int) -> None:
        """Fill a buffer with what was written at a place.

        Args:
            buffer: a NumPy array.
            offset: the place.
            expected: the checksum that `write` returned.

        Raises:
            EOFError: it is not there any more.
        """
        mark = bytearray(MARK_BYTES)
        views = [memoryview(mark)]
        if len(buffer):
            views.append(memoryview(buffer).cast("B"))
        while views:
            count = os.preadv(self._fd, views[::-1], offset)
            if count == 0:
                break
            offset += count
            while views and count >= len(views[-1]):
                count -= len(views.pop())
            if count:
                views[-1] = views[-1][count:]
        if mark != self._mark:
            raise EOFError("the bytes are missing: the file has been truncated or changed")
        if checksum(buffer) != expected:
            raise EOFError(
                "the bytes are not those that were written: the file has been changed, or the disk "
                "has failed"
            )

    def disown(self) -> None:
        """Leave the file's removal to another process."""
        self._named = False

    def close(self) -> None:
        """Close the file, and remove it."""
        os.close(self._fd)
        if self._named:
            with contextlib.suppress(OSError):
                os.unlink(self.path)


def _cannot_open(error: OSError, where: str) -> OSError:
    if isinstance(error, FileExistsError):
        text = (
            "offload: expected a folder, or a file that does not exist yet, because what is in it "
            "would be lost; name another"
        )
    elif isinstance(error, FileNotFoundError | NotADirectoryError):
        text = "offload: there is no such folder; make it first, or name another"
    else:
        text = f"offload: cannot make a file there ({error.strerror}); name another folder"
    return OSError(error.errno, text, where)
