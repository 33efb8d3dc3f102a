"""Where an op was called: noted in a fraction of a microsecond, put into words when asked.

A site is the code object and the instruction of the innermost Python function that called the op,
and of the innermost one outside of the library. The op's name is read off the instructions there:
``exp`` of ``x.exp()``, ``mul`` of ``a * b``, ``linear`` of a call inside of ``nn.Linear``.
"""

import sys
from os import path as _path
from types import CodeType
from typing import Any, NamedTuple

__all__ = ["Site", "here"]

_LIBRARY = _path.dirname(_path.dirname(_path.abspath(__file__))) + _path.sep
_OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "@": "matmul", "**": "pow", "%": "remainder",
    "//": "floor_divide", "UNARY_NEGATIVE": "neg", "BINARY_SUBSCR": "indexing", "[]": "indexing",
    "STORE_SUBSCR": "indexing",
}  # fmt: skip


class Site(NamedTuple):
    """Where an op was called."""

    inner: CodeType
    inner_instruction: int
    outer: CodeType
    outer_instruction: int

    @property
    def op(self) -> str:
        """The name of the op, as far as the instructions tell."""
        name = _op_at(self.inner, self.inner_instruction)
        if name in (None, "_record_function"):  # a custom function
            name = _op_at(self.outer, self.outer_instruction)
        return (name or "an op").lstrip("_")

    def __str__(self) -> str:
        code = self.outer
        line = _line_of(code, self.outer_instruction)
        return f"{self.op} at {code.co_filename}:{line} in {code.co_name}"


def here(depth: int) -> Site:
    """Return the site of the op on whose behalf this is called, from inside a hook of it.

    Args:
        depth: how many functions there are between this one and the one that called the op.
    """
    frame: Any = sys._getframe(depth + 1)
    inner, instruction = frame.f_code, frame.f_lasti
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARY):
        frame = frame.f_back
    return Site(inner, instruction, frame.f_code, frame.f_lasti)


def _line_of(code: CodeType, instruction: int) -> int:
    for start, stop, line in code.co_lines():
        if start <= instruction < stop and line is not None:
            return line
    return code.co_firstlineno


def _op_at(code: CodeType, instruction: int) -> str | None:
    """Return the name of what an instruction calls, or of its operator."""
    import dis

    before = [each for each in dis.get_instructions(code) if each.offset <= instruction]
    if not before:
        return None
    last = before[-1]
    if last.opname.startswith(("BINARY_OP", "BINARY_SUBSCR", "UNARY_", "STORE_", "INPLACE_")):
        return _OPERATORS.get(last.argrepr.rstrip("=") or last.opname, last.opname.lower())
    if last.opname.startswith("BINARY_"):  # before Python 3.11: one instruction for each
        return last.opname.removeprefix("BINARY_").lower()
    start = _start(last)
    loads = [
        each
        for each in before
        if each.opname.startswith("LOAD_")
        and isinstance(each.argval, str)
        and _start(each) == start
    ]
    # The call of x.sin().exp() begins where x does, and so do both names: the last one counts.
    return str(loads[-1].argval) if loads else None


def _start(instruction: Any) -> Any:
    place = getattr(instruction, "positions", None)
    return None if place is None else (place.lineno, place.col_offset)
