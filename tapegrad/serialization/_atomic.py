"""Writing a file so that its path always holds a whole one: the former, or the new.

The bytes go to a temporary in the same folder and to the disk; then the temporary takes the path's
place in one step, and the folder goes to the disk too. Where the system can, the temporary has no
name until it is complete: a process that is killed while it writes leaves nothing behind.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["write_file", "write_stream"]

CHUNK = 64 << 20
Chunks = Callable[[], Iterable[memoryview]]


def write_file(path: str, chunks: Chunks) -> None:
    """Write a file whole, or leave the path as it was and raise.

    Args:
        path: where; a symbolic link stays one, and its target is replaced.
        chunks: called for the bytes, perhaps a second time.
    """
    target = os.path.realpath(path)
    before = _stat(target)
    if path.endswith(os.sep) or (before and stat.S_ISDIR(before.st_mode)):
        raise IsADirectoryError(errno.EISDIR, "save: is a directory", path)
    if before and not stat.S_ISREG(before.st_mode):
        _write_in_place(target, chunks)  # A device or a pipe is written to, never replaced.
        return
    outcome = "; the former file is unchanged" if before else ""
    folder = None
    try:
        if before and not os.access(target, os.W_OK):  # To rename would not ask.
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        folder = _open_folder(os.path.dirname(target))
        _replace(target, folder, before, chunks)
        outcome = "; the new file is in place, but perhaps not on the disk"
        _sync_folder(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno or errno.EIO, f"save: {reason}{outcome}", path) from error
    finally:
        if folder is not None:
            os.close(folder)


def write_stream(file: Any, chunks: Chunks) -> None:
    """Write to an open file, from where it stands."""
    for chunk in chunks():
        for start in range(0, chunk.nbytes, CHUNK):
            # A copy: the file object may keep what it is given for any length of time.
            rest = bytes(chunk[start : start + CHUNK])
            while rest:
                count = file.write(rest)
                if count is None or count >= len(rest):
                    break
                rest = rest[count:]


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _write_in_place(path: str, chunks: Chunks) -> None:
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        _write_all(descriptor, chunks)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, chunks: Chunks) -> None:
    for chunk in chunks():
        while chunk.nbytes > 0:
            chunk = chunk[os.write(descriptor, chunk[:CHUNK]) :]


def _replace(
    target: str, folder: int | None, before: os.stat_result | None, chunks: Chunks
) -> None:
    name = os.path.join(os.path.dirname(target), f".{secrets.token_hex(8)}.tapegrad-saving")
    try:
        if folder is None or not _write_unnamed(folder, name, before, chunks):
            _write_named(name, before, chunks)
        os.replace(name, target)
    except BaseException:
        _unlink(name)
        raise


def _sync_folder(folder: int | None) -> None:
    try:
        if folder is not None:
            os.fsync(folder)
    except OSError as error:  # Some file systems know of no such thing.
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise


def _open_folder(folder: str) -> int | None:
    if not hasattr(os, "O_DIRECTORY"):
        return None
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:  # One may write to a folder that one may not list.
        return None


def _write_unnamed(folder: int, name: str, before: os.stat_result | None, chunks: Chunks) -> bool:
    """Write a file that has no name, then give it one; return False where that cannot be."""
    if not hasattr(os, "O_TMPFILE"):
        return False
    try:
        descriptor = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            return False
        raise
    try:
        path = f"/proc/self/fd/{descriptor}"
        if not os.path.exists(path):
            return False
        _write_durably(descriptor, before, chunks)
        try:
            # Only with a folder's descriptor does Python follow the link that path is.
            os.link(path, os.path.basename(name), dst_dir_fd=folder, follow_symlinks=True)
        except OSError:
            return False
        return True
    finally:
        os.close(descriptor)


def _write_named(name: str, before: os.stat_result | None, chunks: Chunks) -> None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(name, flags, 0o666)
    try:
        _write_durably(descriptor, before, chunks)
    finally:
        os.close(descriptor)


def _write_durably(descriptor: int, before: os.stat_result | None, chunks: Chunks) -> None:
    _write_all(descriptor, chunks)
    if before is not None and hasattr(os, "fchmod"):  # As if the former file had been written to.
        now = os.fstat(descriptor)
        if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
            _try_to_give(descriptor, before)
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
    os.fsync(descriptor)


def _try_to_give(descriptor: int, before: os.stat_result) -> None:
    try:
        os.fchown(descriptor, before.st_uid, before.st_gid)
    except PermissionError:  # Only root can give files away.
        return


def _unlink(name: str) -> None:
    try:
        os.unlink(name)
    except FileNotFoundError:
        return
