"""Folders that checkpoints are written to and read from."""

import os
from typing import Any

__all__ = ["FileSystemReader", "FileSystemWriter"]


class FileSystemWriter:
    """Writes to a folder.

    Args:
        path: the folder. It is made if it is not there.
        single_file_per_rank: accepted: there is one file.
        sync_files: accepted: files are on the disk when `save` returns.
        thread_count: accepted.
        per_thread_copy_ahead: accepted.
        cache_staged_state_dict: accepted.
        overwrite: whether a checkpoint that is there is replaced.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        _extensions: Any = None,
        serialization_format: Any = None,
    ) -> None:
        if _extensions is not None or serialization_format is not None:
            raise NotImplementedError(
                "FileSystemWriter: the format is safetensors; _extensions and serialization_format "
                "are not supported"
            )
        self.path = os.fspath(path)
        self.overwrite = overwrite


class FileSystemReader:
    """Reads from a folder.

    Args:
        path: the folder.
    """

    def __init__(self, path: str | os.PathLike[str], _extension_registry: Any = None) -> None:
        if _extension_registry is not None:
            raise NotImplementedError("FileSystemReader: _extension_registry is not supported")
        self.path = os.fspath(path)

    def read_metadata(self) -> Any:
        """Return the names that the checkpoint has, with what they stand for."""
        from tapegrad.distributed.checkpoint._folder import described, read

        return described(read(self.path))
