"""Names that are there to be imported and compared with, and refuse in words to be used."""

from collections.abc import Callable
from typing import Any

__all__ = ["Refused", "refused"]


def refused(name: str, why: str) -> Callable[..., Any]:
    """Return a function that refuses."""

    def function(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{name}: {why}")

    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"Refuses: {why}."
    return function


class Refused:
    """A class of which there are no objects."""

    _why = "not supported"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__}: {self._why}")
