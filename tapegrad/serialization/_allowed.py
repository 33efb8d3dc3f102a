"""The classes and functions of checkpoints that a program vouches for.

A name in a checkpoint of PyTorch that `load` does not know ends the load, unless the program has
said that what it stands for may be called with whatever the file says.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "add_safe_globals",
    "allowed_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "safe_globals",
]

_Global = Callable[..., Any] | tuple[Callable[..., Any], str]
_allowed: list[_Global] = []


def add_safe_globals(safe_globals: Sequence[_Global]) -> None:
    """Let `load` call classes and functions that checkpoints of PyTorch name.

    A class is made by ``__new__``, and gets the state in the file by ``__setstate__`` or as its
    attributes; a function is called with the arguments in the file. Allow nothing that does harm
    with arguments of somebody else's choice.

    Args:
        safe_globals: classes and functions, or pairs of one and the name that files have for it.

    Example:
        >>> import argparse
        >>> torch.serialization.add_safe_globals([argparse.Namespace])
        >>> torch.serialization.get_safe_globals()
        [<class 'argparse.Namespace'>]
        >>> torch.serialization.clear_safe_globals()
    """
    for each in safe_globals:
        _name_of(each)  # which refuses what is neither
    _allowed.extend(each for each in safe_globals if each not in _allowed)


def get_safe_globals() -> list[_Global]:
    """Return what `load` may call.

    Example:
        >>> torch.serialization.get_safe_globals()
        []
    """
    return list(_allowed)


def clear_safe_globals() -> None:
    """Take back all that `add_safe_globals` allowed.

    Example:
        >>> torch.serialization.clear_safe_globals()
    """
    _allowed.clear()


class safe_globals:
    """Let `load` call classes and functions for the length of a with block.

    Args:
        safe_globals: as for `add_safe_globals`.

    Example:
        >>> import argparse
        >>> with torch.serialization.safe_globals([argparse.Namespace]):
        ...     len(torch.serialization.get_safe_globals())
        1
    """

    def __init__(self, safe_globals: Sequence[_Global]) -> None:
        self.safe_globals = list(safe_globals)
        self._before: list[_Global] = []

    def __enter__(self) -> None:
        """Allow them."""
        self._before = get_safe_globals()
        add_safe_globals(self.safe_globals)

    def __exit__(self, *error: object) -> None:
        """Take them back."""
        _allowed[:] = self._before


def _name_of(entry: Any) -> str:
    if isinstance(entry, tuple):
        if len(entry) != 2 or not callable(entry[0]) or not isinstance(entry[1], str):
            raise ValueError(f"safe_globals: expected a pair of a callable and a name, got {entry}")
        return entry[1]
    if not callable(entry):
        raise TypeError(f"safe_globals: expected a class or a function, got {type(entry).__name__}")
    return f"{entry.__module__}.{entry.__qualname__}"


def allowed_globals() -> dict[str, Any]:
    """Return what is allowed, by the names that files have for it: of tapegrad's, PyTorch's too."""
    found: dict[str, Any] = {}
    for each in _allowed:
        name = _name_of(each)
        found[name] = each[0] if isinstance(each, tuple) else each
        if name.startswith("tapegrad."):
            found["torch" + name.removeprefix("tapegrad")] = found[name]
    return found


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str]) -> list[str]:
    """Return the names in a checkpoint of PyTorch that `load` would refuse.

    Args:
        f: the path.
    """
    from tapegrad.serialization._torch_zip import unknown_names

    return unknown_names(os.fsdecode(f))
