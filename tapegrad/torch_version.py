"""Versions that compare with strings and tuples of numbers, as PyTorch's do."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from tapegrad._version import __version__ as _text

__all__ = ["TorchVersion"]

# PEP 440: epoch, release, and the parts before, after and beside a release.
_PATTERN = r"""
    v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)
    (?:[-_.]?(?P<pre>alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?P<pre_number>\d*))?
    (?P<post>-(?P<post_bare>\d+)|[-_.]?(?:post|rev|r)[-_.]?(?P<post_number>\d*))?
    (?P<dev>[-_.]?dev[-_.]?(?P<dev_number>\d*))?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?
"""
_PRE = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
_LEAST, _MOST = (-1,), (3,)


class _NoVersion(ValueError):
    """A text that is no version."""


@lru_cache
def _key(text: str) -> tuple[Any, ...]:
    """Return what versions are ordered by."""
    found = re.fullmatch(_PATTERN, text.strip(), re.VERBOSE | re.IGNORECASE)
    if found is None:
        raise _NoVersion(text)
    release = [int(part) for part in found["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    pre: tuple[int, ...] = _MOST
    if found["pre"]:
        pre = _PRE[found["pre"].lower()], int(found["pre_number"] or 0)
    elif found["dev"] and not found["post"]:
        pre = _LEAST
    post = int(found["post_bare"] or found["post_number"] or 0) if found["post"] else -1
    dev = int(found["dev_number"] or 0) if found["dev"] else float("inf")
    local: tuple[Any, ...] = ()
    if found["local"]:  # numbers come after words
        parts = re.split(r"[-_.]", found["local"].lower())
        local = tuple((1, int(p), "") if p.isdigit() else (0, 0, p) for p in parts)
    return int(found["epoch"] or 0), release, pre, post, dev, local


def _key_of(other: Any) -> tuple[Any, ...]:
    if isinstance(other, str):
        return _key(str(other))  # without its own way to compare
    if hasattr(other, "release") and hasattr(other, "public"):  # a Version of packaging
        return _key(str(other))
    if isinstance(other, Iterable):
        return _key(".".join(str(part) for part in other))
    raise _NoVersion(other)


def _comparison(name: str) -> Any:
    def compare(self: str, other: Any) -> Any:
        try:
            return getattr(_key(str(self)), name)(_key_of(other))
        except _NoVersion:  # then they compare as strings
            return getattr(str, name)(self, other)

    compare.__name__ = name
    return compare


class TorchVersion(str):
    """A version, which is a string, and compares with strings, tuples and versions by PEP 440.

    Example:
        >>> TorchVersion = torch.torch_version.TorchVersion
        >>> TorchVersion("2.13.0+cpu") > "2.9", TorchVersion("2.13.0") >= (2, 14)
        (True, False)
    """

    __slots__ = ()
    __hash__ = str.__hash__
    __eq__ = _comparison("__eq__")
    __ge__ = _comparison("__ge__")
    __gt__ = _comparison("__gt__")
    __le__ = _comparison("__le__")
    __lt__ = _comparison("__lt__")


__version__ = TorchVersion(_text)
