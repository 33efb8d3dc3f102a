"""`torch.PyTorchFileReader`: the records of a file that `torch.save` wrote, one by one."""

import zipfile
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["PyTorchFileReader"]


class PyTorchFileReader:
    """Reads records of a zip archive of PyTorch's by name, as programs do that load lazily.

    Args:
        file: its path, or an open file.

    Example:
        >>> import tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "state.pt")
        >>> torch.save(torch.nn.Linear(1, 1), path)
        >>> torch.PyTorchFileReader(path).has_record("data.pkl")
        True
    """

    def __init__(self, file: Any) -> None:
        try:
            self._archive = zipfile.ZipFile(file)
            names = self._archive.namelist()
        except zipfile.BadZipFile as error:
            raise RuntimeError(
                f"PytorchStreamReader: {file} is no zip archive: {error}; torch.load reads it, if "
                "torch.save wrote it"
            ) from None
        # All records lie in one folder, whose name is that of the file when it was written.
        self._folder = names[0].partition("/")[0] + "/" if names else ""

    def has_record(self, name: str) -> bool:
        """Return whether there is a record of a name."""
        return self._folder + name in self._archive.NameToInfo

    def get_all_records(self) -> list[str]:
        """Return the names of all records."""
        return [name.removeprefix(self._folder) for name in self._archive.namelist()]

    def get_record(self, name: str) -> bytes:
        """Return the bytes of a record."""
        if not self.has_record(name):
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found")
        return self._archive.read(self._folder + name)

    def get_record_size(self, name: str) -> int:
        """Return how many bytes a record has."""
        return len(self.get_record(name))

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Tensor:
        """Return a tensor whose storage has the bytes of a record.

        Args:
            name: of the record.
            numel: how many bytes.
            dtype: not used; programs give the class of the storage.
        """
        record = self.get_record(name)
        if len(record) != numel:
            raise RuntimeError(
                f"PytorchStreamReader: record {name} has {len(record)} bytes, not {numel}"
            )
        return _C.frombuffer(bytearray(record), dtype=_C.uint8)

    def serialization_id(self) -> str:
        """Return the number that the writer gave to the contents, as text."""
        name = ".data/serialization_id"
        return self.get_record(name).decode() if self.has_record(name) else ""
