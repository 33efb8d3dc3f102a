"""Where tensors go that another machine had elsewhere: `map_location`."""

from typing import Any

from tapegrad._types import device
from tapegrad.serialization._errors import CheckpointError

__all__ = ["FunctionError", "Placement"]


class Placement:
    """Applies `map_location` to the devices that a file names.

    Args:
        map_location: None, a device or its name, a dict from names to names, or a function of a
            storage and a name that returns the storage, or None for the usual place.
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
            _check_device(str(map_location), RuntimeError)

    def check(self, location: str) -> None:
        """Refuse a place that there is not, before bytes are read for it."""
        if self.is_function:
            return
        if isinstance(self.rule, dict):
            location = str(self.rule.get(location, location))
        elif self.rule is not None:
            location = str(self.rule)
        _check_device(location, CheckpointError)

    def place(self, storage: Any, location: str) -> None:
        """Let a function that was given as map_location decide."""
        if not self.is_function:
            return
        try:
            result = self.rule(storage, location)
        except Exception as error:
            raise FunctionError(error) from error
        if result is None:
            _check_device(location, CheckpointError)
        elif result is not storage:
            raise FunctionError(
                TypeError(
                    "load: expected map_location to return the storage it was given, or None, got "
                    f"{type(result).__name__}"
                )
            )


class FunctionError(BaseException):
    """Carries an error of a user's function past the handlers of errors in the file."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def _check_device(location: str, error: type[RuntimeError]) -> None:
    try:
        found = device(location)
    except RuntimeError as cause:
        raise error(
            f"load: don't know how to restore data location {location!r:.60}; expected 'cpu'"
        ) from cause
    if found.type != "cpu":
        raise error(
            f"load: attempting to deserialize object on a {found.type.upper()} device, but there "
            "is none; pass map_location='cpu' to load it into the CPU's memory"
        )
