"""Where an op was called: noted in a fraction of a microsecond, put into words when asked.

A site is the code object and the instruction of the innermost Python function that called the op,
and of the innermost one outside of the library. The op's name is read off the source text there:
``exp`` of ``x.exp()``, ``mul`` of ``a * b``, ``linear`` of a call inside of ``nn.Linear``.
"""

import sys
from os import path as _path
from types import CodeType
from typing import Any, NamedTuple

__all__ = ["Site", "here"]

_LIBRARY = _path.dirname(_path.dirname(_path.abspath(__file__))) + _path.sep
_OPERATORS = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "div", "MatMult": "matmul", "Pow": "pow",
    "Mod": "remainder", "FloorDiv": "floor_divide", "USub": "neg", "Invert": "bitwise_not",
}  # fmt: skip
_LONGEST = 60


class Site(NamedTuple):
    """Where an op was called."""

    inner: CodeType
    inner_instruction: int
    outer: CodeType
    outer_instruction: int

    @property
    def op(self) -> str:
        """The name of the op, as far as the source tells."""
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


def _text_at(code: CodeType, instruction: int) -> str | None:
    """Return the source of the expression that an instruction belongs to."""
    import linecache

    if not hasattr(code, "co_positions"):  # before Python 3.11: the line
        return linecache.getline(code.co_filename, _line_of(code, instruction)).strip() or None
    first, last, start, stop = list(code.co_positions())[instruction // 2]
    if first is None or last is None or start is None or stop is None:
        return None
    lines = [linecache.getline(code.co_filename, number) for number in range(first, last + 1)]
    if not all(lines):
        return None
    raw = [line.encode() for line in lines]  # columns count bytes
    raw[-1] = raw[-1][:stop]
    raw[0] = raw[0][start:]
    return b"".join(raw).decode(errors="replace")


def _op_at(code: CodeType, instruction: int) -> str | None:
    import ast

    text = _text_at(code, instruction)
    if text is None:
        return None
    try:
        tree: Any = ast.parse(f"({text}\n)", mode="eval").body
    except SyntaxError:  # part of a statement, such as the target of an assignment
        return " ".join(text.split())[:_LONGEST]
    if isinstance(tree, ast.Call):
        called = tree.func
        if isinstance(called, ast.Attribute):
            return called.attr
        if isinstance(called, ast.Name):
            return called.id
    if isinstance(tree, ast.BinOp | ast.UnaryOp):
        return _OPERATORS.get(type(tree.op).__name__, type(tree.op).__name__.lower())
    return " ".join(text.split())[:_LONGEST]
