"""Write tapegrad/_C.pyi: signatures and docstrings of the native module, for editors and mypy.

nanobind knows the signatures of what it binds. The ops of the pointwise table come from the table,
other functions from the first line of their docstring, the methods that the Python layer adds to
Tensor from their definitions, operators and properties from the lists below.

Usage: python scripts/make_stubs.py [--check]

With --check nothing is written, and the exit code is 1 when the file is out of date.
"""

import inspect
import keyword
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from generated import ROOT, write_or_check
from stub_types import PROPERTIES, SIGNATURES, result_type, with_parameters

sys.path.append(str(ROOT))  # the installed package if there is one, else a build in the tree

from tapegrad import _C

TARGET = ROOT / "tapegrad" / "_C.pyi"
HEADER = '''\
# Written by scripts/make_stubs.py; do not edit.
# fmt: off
# ruff: noqa
# mypy: disable-error-code="misc, override, overload-overlap, overload-cannot-match"
"""The native module: tensors, ops, the tape."""

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, overload

from numpy import ndarray

from tapegrad import return_types as _return_types
from tapegrad._types import Size, device, layout, memory_format
from tapegrad.storage import TypedStorage
from tapegrad.utils.hooks import RemovableHandle

_device: TypeAlias = device
_layout: TypeAlias = layout
_memory_format: TypeAlias = memory_format
Number: TypeAlias = builtins.int | builtins.float | builtins.bool
Device: TypeAlias = device | str | builtins.int | None
'''

# int, float and bool are dtypes of this module and methods of Tensor; `dtype` is a property.
SHADOWED = re.compile(r"(?<![\w.])(int|float|bool|complex)(?![\w(])")

# The types of arguments that a docstring's first line names.
ARGUMENT_TYPES = {
    "input": "Tensor",
    "other": "Tensor | Number",
    "out": "Tensor | None",
    "tensors": "Sequence[Tensor]",
    "dim": "builtins.int",
    "axis": "builtins.int",
    "dtype": "_dtype | None",
    "device": "Device",
    "layout": "_layout | None",
    "pin_memory": "builtins.bool",
    "requires_grad": "builtins.bool",
    "generator": "Generator | None",
}
OPERAND_TYPES = {"condition": "Tensor"}  # else a tensor or a number
# Keywords that choose another line of the table, see choose_variant in csrc/python/pointwise.cpp.
VARIANTS = {
    "add": "alpha: Number | builtins.complex = 1",
    "sub": "alpha: Number | builtins.complex = 1",
    "div": 'rounding_mode: Literal["trunc", "floor"] | None = None',
}
WRITABLE = {"data", "grad", "requires_grad"}
ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
BITS = ("lshift", "rshift", "and", "or", "xor")
COMPARISONS = ("lt", "le", "eq", "ne", "gt", "ge")
BINARY = [*COMPARISONS, *(prefix + name for prefix in ("", "r", "i") for name in ARITHMETIC + BITS)]
OPERATORS = {
    **{f"__{name}__": "(self, other: Any) -> Tensor" for name in BINARY},
    **{f"__{name}__": "(self) -> Tensor" for name in ("neg", "pos", "abs", "invert")},
    "__bool__": "(self) -> builtins.bool",
    "__int__": "(self) -> builtins.int",
    "__float__": "(self) -> builtins.float",
    "__index__": "(self) -> builtins.int",
    "__len__": "(self) -> builtins.int",
    "__hash__": "(self) -> builtins.int",
    "__getitem__": "(self, index: Any) -> Tensor",
    "__setitem__": "(self, index: Any, value: Any) -> None",
    "__init__": "(self, *args: Any, **kwargs: Any) -> None",
}
TABLE = {row["name"]: row for row in _C.pointwise_table()}


def indented(text: str) -> str:
    return textwrap.indent(text, "    ", lambda line: bool(line.strip()))


def qualified(annotation: str) -> str:
    """Return an annotation with the names that this module shadows spelled out."""
    annotation = re.sub(r"\btapegrad\.(_C\.|utils\.hooks\.|(?=Tensor\b))", "", annotation)
    annotation = re.sub(r"\bcollections\.abc\.|\btyping\.", "", annotation)
    annotation = re.sub(r"(?<![\w.])dtype(?!\w)", "_dtype", annotation)
    annotation = re.sub(r"(\| None)( \| None)+", r"\1", annotation)
    return with_parameters(SHADOWED.sub(r"builtins.\1", annotation))


def split_arguments(text: str) -> list[str]:
    """Split an argument list at its outer commas."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [part for part in [*parts, text[start:].strip()] if part]


def definition(head: str, doc: str | None = None) -> str:
    """Return a function with its docstring as body."""
    if not doc or not doc.strip():
        return f"{head}: ...\n"
    return f"{head}:\n{indented(docstring(doc))}"


def docstring(text: str) -> str:
    text = inspect.cleandoc(text).replace("\\", "\\\\").replace('"""', r"\"\"\"")
    return f'"""{text}"""\n' if "\n" not in text else f'"""{text}\n"""\n'


# ---- functions by where their signature comes from


def native_argument(argument: str, defaults: tuple[Any, ...]) -> str:
    """Return an argument of a nanobind signature, with its default filled in."""
    name, colon, rest = argument.partition(":")
    annotation, equals, default = rest.partition(" = ")
    if equals and default.startswith("\\"):
        value = defaults[int(default[1:])]
        default = repr(value) if value is None or isinstance(value, int | float | str) else "..."
    typed = f"{name}: {qualified(annotation.strip())}" if colon else name
    if name.startswith("*") and name != "*" and not colon:
        typed += ": Any"
    return f"{typed} = {default}" if equals else typed


def from_nanobind(name: str, function: Any) -> str:
    """Return the overloads of a function that nanobind bound."""
    found = []
    for signature, doc, defaults in function.__nb_signature__:
        arguments, _, result = signature.rpartition(" -> ")
        arguments = arguments[arguments.index("(") + 1 : arguments.rindex(")")]
        typed = [native_argument(a, defaults or ()) for a in split_arguments(arguments)]
        result = result_type(name, "Any" if result == "object" else qualified(result))
        found.append(definition(f"def {name}({', '.join(typed)}) -> {result}", doc))
    return overloads(found)


def overloads(texts: list[str]) -> str:
    return "".join(f"@overload\n{text}" for text in texts) if len(texts) > 1 else texts[0]


def first_line(doc: str) -> tuple[list[str], str, str]:
    """Return arguments and result that the first line of a docstring states, and the rest of it."""
    line, _, rest = doc.partition("\n")
    found = re.fullmatch(r"\w+\((.*)\)(?: -> (.+))?", line)
    if not found:
        return ["*args", "**kwargs"], "Any", doc
    return split_arguments(found[1]), found[2] or "Any", rest


def documented_argument(argument: str, types: dict[str, str]) -> str:
    name, equals, default = argument.partition("=")
    if name in "*/":
        return name
    annotation = types.get(name) or ARGUMENT_TYPES.get(name, "Any")
    if default == "None" and annotation != "Any" and "None" not in annotation:
        annotation += " | None"
    # uniform_(from=0) can be called with ** only; a stub has no better word for it.
    spelled = f"{name}_" if keyword.iskeyword(name) else name
    return f"{spelled}: {annotation}" + (f" = {default}" if equals else "")


def from_docstring(name: str, function: Any, is_method: bool) -> str:
    """Return a function whose docstring opens with its signature; a table op gets its types."""
    arguments, result, doc = first_line(function.__doc__ or "")
    first_name = function.__name__.removesuffix("_")  # `absolute` is `abs` by another name
    row = TABLE.get(first_name)
    types: dict[str, str] = {}
    if row:
        arity = len(row["derivatives"])
        defaults = dict(row["params"])
        for operand in arguments[:arity] if arity > 1 else ():
            types[operand] = OPERAND_TYPES.get(operand, "Tensor | Number")
        scaled = name.removesuffix("_") in ("addcmul", "addcdiv")
        types |= dict.fromkeys(defaults, "Number | builtins.complex" if scaled else "Number")
        arguments = [f"{a}={defaults[a]!r}" if a in defaults else a for a in arguments]
    typed = [documented_argument(argument, types) for argument in arguments]
    if is_method:  # the table's docstrings name all operands, most others leave self out
        typed[: 1 if row or arguments[:1] == ["input"] else 0] = ["self"]
    if row and (variant := VARIANTS.get(first_name)):
        typed += [variant] if "*" in typed else ["*", variant]
    result = result_type(name, qualified(result))
    heads = [f"def {name}({', '.join(form)}) -> {result}" for form in call_forms(typed)]
    texts = [definition(head, doc if head is heads[0] else None) for head in heads]
    return overloads(texts)


def call_forms(typed: list[str]) -> list[list[str]]:
    """Return the argument lists that a signature such as ``arange(start=0, end)`` stands for."""
    positional = typed[: typed.index("*")] if "*" in typed else typed
    required = [i for i, a in enumerate(positional) if " = " not in a and not a.startswith("*")]
    leading = [i for i, a in enumerate(positional) if " = " in a and i < max(required, default=-1)]
    if not leading:
        return [typed]
    without = [a for i, a in enumerate(typed) if i not in leading]
    with_all = [a.partition(" = ")[0] if i in leading else a for i, a in enumerate(typed)]
    return [without, with_all]


def from_python(name: str, function: Any) -> str:
    """Return a method that is written in Python."""
    signature = inspect.signature(function)
    typed = []
    for i, parameter in enumerate(signature.parameters.values()):
        if parameter.name == "out" and name.endswith("_"):
            continue  # of the operation that an in-place form wraps
        has_no_type = parameter.annotation is inspect.Parameter.empty
        text = str(parameter.replace(annotation=inspect.Parameter.empty, default=parameter.empty))
        if i > 0:
            annotation = "Any" if has_no_type else inspect.formatannotation(parameter.annotation)
            text += f": {qualified(annotation)}"
            if parameter.default is not inspect.Parameter.empty:
                text += f" = {parameter.default!r}"
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in "".join(typed):
            typed.append("*")
        typed.append("self" if i == 0 else text)
    result = inspect.formatannotation(signature.return_annotation).strip("'")
    result = re.sub(r"(tapegrad\._composed\.)?\breturn_types\.", "_return_types.", result)
    result = "Any" if signature.return_annotation is signature.empty else qualified(result)
    result = result_type(name, result)
    return definition(f"def {name}({', '.join(typed)}) -> {result}", inspect.getdoc(function))


def from_table(name: str, function: Any, signatures: list[str]) -> str:
    """Return the overloads of a function whose signatures are written in `stub_types`."""
    docs = [inspect.getdoc(function), *[None] * (len(signatures) - 1)]
    forms = zip(signatures, docs, strict=True)
    return overloads([definition(f"def {name}{text}", doc) for text, doc in forms])


def function_stub(name: str, function: Any, owner: str | None = None) -> str | None:
    """Return the stub of a function, or of a method of a class; None for what is neither."""
    if signatures := SIGNATURES.get(f"{owner}.{name}" if owner else name):
        return from_table(name, function, signatures)
    if hasattr(function, "__nb_signature__"):
        return from_nanobind(name, function)
    if inspect.isfunction(function):
        return from_python(name, function)
    if inspect.isbuiltin(function) or inspect.ismethoddescriptor(function):
        return from_docstring(name, function, owner is not None)
    return None


# ---- classes


def property_stub(name: str, value: Any) -> str:
    annotation, doc = PROPERTIES.get(name, "Any"), value.__doc__ or ""
    if signature := getattr(getattr(value, "fget", None), "__nb_signature__", None):
        stated = qualified(signature[0][0].rpartition(" -> ")[2])
        annotation = annotation if stated in ("Any", "object") else stated
    if doc.startswith("(self)"):  # nanobind's, when it was given none
        doc = ""
    text = f"@property\n{definition(f'def {name}(self) -> {annotation}', doc)}"
    if name in WRITABLE or getattr(value, "fset", None):
        text += f"@{name}.setter\ndef {name}(self, value: {annotation}) -> None: ...\n"
    return text


def member_stub(cls: type, name: str, value: Any) -> str | None:
    if name in OPERATORS and cls is _C.Tensor and type(value).__name__ == "wrapper_descriptor":
        return definition(f"def {name}{OPERATORS[name]}")
    is_dunder = name.startswith("__") and name.endswith("__")
    if isinstance(value, property) or inspect.isgetsetdescriptor(value):
        return None if is_dunder else property_stub(name, value)
    if isinstance(value, staticmethod):
        written = SIGNATURES.get(f"{cls.__name__}.{name}")
        known = from_table(name, value, written) if written else None
        general = definition(f"def {name}(*args: Any, **kwargs: Any) -> Any")
        return f"@staticmethod\n{known or general}"
    if isinstance(value, classmethod):
        return f"@classmethod\n{definition(f'def {name}(cls, *args: Any, **kwargs: Any) -> Any')}"
    if type(value).__name__ == "wrapper_descriptor":
        return None
    if name in ("__new__", "__dir__", "__reduce__", "__setstate__", "__getstate__"):
        return None
    return function_stub(name, value, cls.__name__)


def class_stub(name: str, cls: type) -> str:
    members = [member_stub(cls, member, value) for member, value in sorted(vars(cls).items())]
    doc = docstring(cls.__doc__) if cls.__doc__ else ""
    body = "\n".join([part for part in [doc, *members] if part]) or "...\n"
    base = f"({cls.__base__.__name__})" if issubclass(cls, BaseException) else ""
    return f"class {name}{base}:\n{indented(body)}"


# ---- the module


def parts() -> Iterator[str]:
    """Yield the pieces of the stub file."""
    public = {name: value for name, value in sorted(vars(_C).items()) if not name.startswith("__")}
    yield HEADER
    yield class_stub("dtype", _C.dtype)
    yield "_dtype: TypeAlias = dtype\n"
    for name, value in public.items():
        if isinstance(value, _C.dtype):
            yield f"{name}: _dtype\n"
    for name, value in public.items():
        if inspect.isclass(value) and value is not _C.dtype:
            yield class_stub(name, value)
    for name, value in public.items():
        if isinstance(value, _C.dtype) or inspect.isclass(value) or name == "_return_types":
            continue
        annotation = "Generator" if isinstance(value, _C.Generator) else "Any"
        yield function_stub(name, value) or f"{name}: {annotation}\n"


if __name__ == "__main__":
    sys.exit(write_or_check(TARGET, "\n".join(parts()), sys.argv[1:], "make_stubs.py"))
