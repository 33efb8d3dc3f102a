"""Source lines as people say them: the file's name, with folders only where two are alike."""

import re
from collections.abc import Iterable

__all__ = ["short_lines"]

_LINE = re.compile(r"(?P<file>.*):(?P<rest>\d+(?:, in .*)?)", re.DOTALL)


def short_lines(lines: Iterable[str]) -> dict[str, str]:
    """Return a short form of each line, such as ``train.py:12, in step``; no two become one.

    Example:
        >>> short_lines(["/a/b/train.py:3, in step", "/a/c/net.py:4", "/a/d/net.py:4"])
        {'/a/b/train.py:3, in step': 'train.py:3, in step', '/a/c/net.py:4': 'c/net.py:4',
         '/a/d/net.py:4': 'd/net.py:4'}
    """
    lines = list(dict.fromkeys(lines))
    found = {line: _LINE.fullmatch(line) for line in lines}
    names = _short_files({match["file"] for match in found.values() if match})
    return {
        line: line if match is None else f"{names[match['file']]}:{match['rest']}"
        for line, match in found.items()
    }


def _short_files(files: set[str]) -> dict[str, str]:
    """Return for each path its last part, and as many parts before as tell it from the others."""
    names: dict[str, str] = {}
    left, length = set(files), 1
    while left:
        ends: dict[str, list[str]] = {}
        for file in left:
            parts = re.split(r"[\\/]", file)
            whole = length >= len(parts)
            ends.setdefault(file if whole else "/".join(parts[-length:]), []).append(file)
        alone = {group[0]: end for end, group in ends.items() if len(group) == 1}
        names |= alone
        left -= alone.keys()
        length += 1
    return names
