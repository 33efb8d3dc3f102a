"""Folders that checkpoints are written to and read from."""

import os
from typing import Any

__all__ = ["FileSystemReader", "FileSystemWriter"]


class FileSystemWriter:
    """Writes to a folder.

    Args:
        path: the folder. It is made if it is not there.
        single_file_per_rank: accepted: there is one file for each process.
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
        import tapegrad
        from tapegrad.distributed.checkpoint._folder import Metadata, described, read
        from tapegrad.distributed.checkpoint._sharded import Saved, read_index

        index = read_index(self.path)
        if index is None:
            return described(read(self.path))
        saved = Saved(self.path, index)
        facts: dict[str, Any] = {}
        for name, entry in saved.entries.items():
            shape = saved.fact(name)
            if shape is None:
                facts[name] = type(saved.value(name))
            else:
                dtype = getattr(tapegrad, entry["dtype"].removeprefix("torch."))
                facts[name] = tapegrad.Size(shape), dtype
        return Metadata(facts)
