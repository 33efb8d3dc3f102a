"""Where tensors go: to the device that they were saved from, or as `map_location` says."""

from typing import Any

from tapegrad import _C
from tapegrad._types import device
from tapegrad.serialization._errors import CheckpointError

__all__ = ["FunctionError", "Placement"]


class Placement:
    """Applies `map_location` to the devices that a file names.

    Args:
        map_location: None, a device or its name, a dict from names to names, or a function of a
            storage and a name that returns a storage, or None for the usual place.
    """

    def __init__(self, map_location: Any) -> None:
        if not (
            map_location is None
            or isinstance(map_location, (str, bytes, device, dict))
            or callable(map_location)
        ):
            raise TypeError(
                "load: expected map_location to be a device, a name, a dict or a function, got "
                f"{type(map_location).__name__}"
            )
        if isinstance(map_location, bytes):
            map_location = map_location.decode("ascii")
        self.rule = map_location
        self.is_function = callable(map_location)
        if isinstance(map_location, (str, device)):
            _find_device(str(map_location), RuntimeError)

    def target(self, location: str) -> device:
        """Return where the bytes of a location go, before they are read.

        That is the CPU where a function decides, which is given them there.
        """
        if self.is_function:
            return device("cpu")
        if isinstance(self.rule, dict):
            location = str(self.rule.get(location, location))
        elif self.rule is not None:
            location = str(self.rule)
        return _find_device(location, CheckpointError)

    def place(self, storage: _C.UntypedStorage, location: str) -> _C.UntypedStorage:
        """Return the storage that a function that was given as map_location chooses."""
        try:
            result = self.rule(storage, location)
        except Exception as error:
            raise FunctionError(error) from error
        if result is None:
            return storage.to(_find_device(location, CheckpointError))
        if type(result) is not _C.UntypedStorage or result.nbytes() != storage.nbytes():
            raise FunctionError(
                TypeError(
                    "load: expected map_location to return the storage it was given, the same "
                    f"bytes on another device, or None, got {type(result).__name__}"
                )
            )
        return result


class FunctionError(BaseException):
    """Carries an error of a user's function past the handlers of errors in the file."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def _find_device(location: str, error: type[RuntimeError]) -> device:
    kind, colon, number = location.partition(":")
    if kind != "cuda" or (colon and not number.isdecimal()):
        return _find_other_device(location, error)
    count = _C._cuda_device_count()
    if count == 0:
        raise error(
            "load: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() "
            "is False. If you are running on a CPU-only machine, please use torch.load with "
            "map_location=torch.device('cpu') to map your storages to the CPU."
        )
    index = int(number) if number else _C._cuda_current_device()
    if index >= count:
        raise error(
            f"load: Attempting to deserialize object on CUDA device {index} but "
            f"torch.cuda.device_count() is {count}. Please use torch.load with map_location to map "
            "your storages to an existing device."
        )
    return device("cuda", index)


def _find_other_device(location: str, error: type[RuntimeError]) -> device:
    try:
        found = device(location)
    except RuntimeError as cause:
        raise error(
            f"load: don't know how to restore data location {location!r:.60}; expected 'cpu' or "
            "'cuda'"
        ) from cause
    if found.type != "cpu":
        raise error(
            f"load: Attempting to deserialize object on a {found.type.upper()} device, which holds "
            "no values; pass map_location='cpu' to load it into the CPU's memory"
        )
    return found
