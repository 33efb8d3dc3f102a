"""Keys of dicts and members of sets that come from a file.

Python's hashes of strings are seeded, those of numbers and tuples are not: a file can be made in
which all keys have the same hash, or in which one key takes a lifetime to hash. Such keys are
refused before they are hashed.
"""

import sys
from typing import Any

from tapegrad import _C
from tapegrad._types import Size, device

__all__ = ["KeyGuard", "is_harmless"]

MOST_WEIGHT = 1000
MOST_OF_ONE_HASH = 100
_PLAIN = (str, bytes, bool, float, complex, device, _C.dtype)


def is_harmless(key: Any) -> bool:
    """Whether a key is one of those that are quick to hash and cannot be made to collide."""
    kind = type(key)
    if kind is int:
        return -(1 << 62) < key < 1 << 62
    return kind is str or kind is bytes or kind is bool or key is None


class KeyGuard:
    """Looks at the keys of one container as they come."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def check(self, key: Any) -> None:
        """Raise ValueError for a key that cannot be one, or that would take long."""
        if is_harmless(key):
            return
        _check_weight(key)
        number = hash(key)
        count = self._counts.get(number, 0) + 1
        if count > MOST_OF_ONE_HASH:
            raise ValueError("too many keys with the same hash")
        self._counts[number] = count


def _check_weight(key: Any) -> None:
    """Walk through a nested key without hashing it, no further than a key may reach."""
    weight, rest = 0, [key]
    while rest:
        value = rest.pop()
        kind = type(value)
        weight += 1
        if kind is tuple or kind is Size or kind is frozenset:
            weight += len(value)
            if weight <= MOST_WEIGHT:
                rest.extend(value)
        elif kind is int:
            weight += value.bit_length() // 8
        elif value is not None and kind not in _PLAIN and not _is_numpy_number(value):
            raise ValueError(f"a key of type {kind.__name__}")
        if weight > MOST_WEIGHT:
            raise ValueError("a key that is too large")


def _is_numpy_number(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.number, numpy.bool_))
