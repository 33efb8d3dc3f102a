"""Types of PyTorch's scripts, which packages write in annotations; they say nothing here."""

from typing import Any, Dict, List, Optional, Tuple  # noqa: F401, UP035

__all__: list[str] = []


class _BroadcastingList:
    """A list in whose place a script takes one element."""

    def __getitem__(self, types: Any) -> None:
        """Return None, as PyTorch's: the compiler of scripts alone reads it."""


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = _BroadcastingList()
