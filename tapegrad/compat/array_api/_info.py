"""What the standard lets programs ask of a namespace."""

from typing import Any

import tapegrad as torch
from tapegrad.compat.array_api._dtypes import COMPLEX_OF, isdtype

_NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8"),
    *("float32", "float64", "complex64", "complex128"),
)


class Info:
    """Devices, dtypes and what the namespace is able to do."""

    def capabilities(self) -> dict[str, Any]:
        """Return what can be done, by the standard's names."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> torch.device:
        """Return where new tensors are made."""
        return torch.get_default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, torch.dtype]:
        """Return the dtypes that new tensors have, by kind."""
        real = torch.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": COMPLEX_OF.get(real, torch.complex64),
            "integral": torch.int64,
            "indexing": torch.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, torch.dtype]:
        """Return the dtypes of a kind, or all, by name."""
        every = {name: getattr(torch, name) for name in _NAMES}
        if kind is None:
            return every
        return {name: dtype for name, dtype in every.items() if isdtype(dtype, kind)}

    def devices(self) -> list[torch.device]:
        """Return the devices that are there."""
        cuda = [torch.device("cuda", each) for each in range(torch.cuda.device_count())]
        return [torch.device("cpu"), *cuda, torch.device("meta")]


def __array_namespace_info__() -> Info:
    """Return an object that says what devices, dtypes and capabilities there are."""
    return Info()
