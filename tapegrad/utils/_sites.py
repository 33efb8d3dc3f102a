"""Where an op was called: noted in a fraction of a microsecond, put into words when asked.

A site is the op, by its name on the tape, with the code object and the instruction of the innermost
Python function outside of the library that called it.
"""

import sys
from os import path as _path
from types import CodeType
from typing import Any, NamedTuple

from tapegrad import _C

__all__ = ["Site", "here"]

_LIBRARY = _path.dirname(_path.dirname(_path.abspath(__file__))) + _path.sep


class Site(NamedTuple):
    """Where an op was called."""

    op: str
    code: CodeType
    instruction: int

    def __str__(self) -> str:
        line = _line_of(self.code, self.instruction)
        return f"{self.op} at {self.code.co_filename}:{line} in {self.code.co_name}"


def here(depth: int) -> Site:
    """Return the site of the op on whose behalf this is called, from inside a pack hook of it.

    Args:
        depth: how many functions there are between this one and the one that called the op.
    """
    frame: Any = sys._getframe(depth + 1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARY):
        frame = frame.f_back
    return Site(_C._packing_op(), frame.f_code, frame.f_lasti)


def _line_of(code: CodeType, instruction: int) -> int:
    for start, stop, line in code.co_lines():
        if start <= instruction < stop and line is not None:
            return line
    return code.co_firstlineno
