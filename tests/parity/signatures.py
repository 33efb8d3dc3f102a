"""Parameters of functions, methods and constructors: names, order, kinds and defaults.

Python functions tell theirs by `inspect`; native functions of both libraries by the stubs of the
packages, one entry for each overload. A signature of PyTorch's is met if some signature here takes
every call of it: its parameters stand at the same positions under the same names, may be left out
where PyTorch's may, and then are the same values.
"""

import ast
import inspect
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from library import torch

from parity.pytorch_ops import pytorch
from tapegrad.compat import coverage

REQUIRED = "required"
ANY = "any"  # a default that is not a plain value


@dataclass(frozen=True)
class Parameter:
    """One parameter: its name, whether it is positional, and its default as a text."""

    name: str
    kind: str  # "positional", "keyword", "*" or "**"
    default: str

    def __str__(self):
        stars = self.kind if self.kind in ("*", "**") else ""
        default = "" if self.default == REQUIRED else f"={self.default}"
        return f"{stars}{self.name}{'' if stars else default}"


def text_of(signature):
    """Return a signature as it is written."""
    parts, keyword = [], False
    for p in signature:
        if p.kind == "keyword" and not keyword and not any(q.kind == "*" for q in signature):
            parts.append("*")
        keyword |= p.kind == "keyword"
        parts.append(str(p))
    return f"({', '.join(parts)})"


# ---- where signatures are told -----------------------------------------------------------------


def default_text(value):
    """Return a default as a text that both libraries share, or ANY."""
    if isinstance(value, bool | int | float | str | type(None)):
        return repr(float(value)) if isinstance(value, int | float) and not isinstance(
            value, bool) else repr(value)  # fmt: skip
    if isinstance(value, tuple | list):
        return f"({', '.join(map(default_text, value))})"
    return ANY


KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "unnamed",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def by_inspection(function):
    """Return the signature of a Python callable, or None."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return None
    found = [
        Parameter(
            p.name, KINDS[p.kind], REQUIRED if p.default is p.empty else default_text(p.default)
        )
        for p in signature.parameters.values()
    ]
    if getattr(function, "takes_out", False):  # which `_composed.arguments.takes_out` adds
        found.append(Parameter("out", "keyword", "None"))
    return tuple(found)


def literal(node):
    try:
        return default_text(ast.literal_eval(node))
    except ValueError:
        return ANY


def of_stub(node):
    """Return the signature of a stub's entry."""
    a = node.args
    plain = a.posonlyargs + a.args
    missing = len(plain) - len(a.defaults)
    found = [
        Parameter(
            p.arg, "positional", REQUIRED if i < missing else literal(a.defaults[i - missing])
        )
        for i, p in enumerate(plain)
    ]
    if a.vararg:
        found.append(Parameter(a.vararg.arg, "*", REQUIRED))
    for p, default in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        found.append(Parameter(p.arg, "keyword", REQUIRED if default is None else literal(default)))
    if a.kwarg:
        found.append(Parameter(a.kwarg.arg, "**", REQUIRED))
    return tuple(found)


def of_text(text):
    """Return the signature of an argument list."""
    return of_stub(ast.parse(f"def f({text}): pass").body[0])


@cache
def stubs(path, owner=""):
    """Return the signatures in a stub file, or in one of its classes, by name."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    body = tree.body
    if owner:
        body = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == owner).body
    found = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(of_stub(node))
    return found


def native_of_pytorch(path):
    """Return the overloads of a native function of PyTorch, in the words of its stubs."""
    folder = Path(pytorch.__file__).parent / "_C"
    owner, _, name = path.rpartition(".")
    if owner == "torch.Tensor":
        return stubs(str(folder / "__init__.pyi"), "TensorBase").get(name, [])
    if owner == "torch":
        found = stubs(str(folder / "_VariableFunctions.pyi")).get(name, [])
        return found or stubs(str(folder / "__init__.pyi")).get(name, [])
    if owner == "torch.nn.functional":
        found = stubs(str(folder / "_nn.pyi")).get(name, [])
        return found or stubs(str(folder / "_VariableFunctions.pyi")).get(name, [])
    return from_docstring(path)


def from_docstring(path):
    """Return the signature that a docstring begins with, `name(a, b=1, *, out=None)`."""
    text = (inspect.getdoc(coverage.find(path, pytorch)) or "").strip().split("\n")[0]
    name = path.rpartition(".")[2]
    head = text.split(" -> ")[0].rpartition(".")[2] if "(" not in text else text
    start = head.find(f"{name}(")
    if start < 0:
        return []
    call = head[start:].split(" -> ")[0].strip()
    try:
        node = ast.parse(f"def {call}: pass").body[0]
    except SyntaxError:
        return []
    return [of_stub(node)]


def native_here(path):
    """Return the overloads of a native function of this library."""
    stub = str(Path(torch.__file__).parent / "_C.pyi")
    owner, _, name = path.rpartition(".")
    if owner == "torch.Tensor":
        return stubs(stub, "Tensor").get(name, [])
    found = coverage.find(path, torch)
    native = getattr(found, "__name__", name)
    return stubs(stub).get(native, []) or stubs(stub).get(name, [])


def signatures(path, library):
    """Return the signatures under which a name is called."""
    found = coverage.find(path, library)
    if path.startswith("torch.return_types."):
        return []  # made by functions, not by their callers
    if inspect.isclass(found):
        plain = by_inspection(found)
        return [plain] if plain is not None else []
    if not callable(found):
        return []
    native = native_here(path) if library is torch else native_of_pytorch(path)
    python = by_inspection(found)
    if inspect.isfunction(found) and python is not None:
        return [python]
    return native or ([python] if python is not None else [])


# ---- the comparison -----------------------------------------------------------------------------


def problem(theirs, ours):
    """Return why a signature does not take every call of another one, or an empty text."""
    mine = [p for p in ours if p.kind in ("positional", "unnamed")]
    named = {p.name: p for p in ours if p.kind in ("positional", "keyword")}
    kinds = {p.kind for p in ours}
    index = 0
    for p in theirs:
        if p.kind in ("*", "**"):
            if p.kind not in kinds and p.name not in named:
                return f"no {p}"
            continue
        if p.kind in ("positional", "unnamed") and "*" not in kinds:
            if index >= len(mine):
                return f"no positional {p.name}"
            if p.kind == "positional" and p.name != "self" and mine[index].name != p.name:
                return f"{mine[index].name} stands where {p.name} does"
            other = mine[index]
        else:
            other = named.get(p.name)
            if (
                other is None
                and "**" not in kinds
                and not (p.kind == "positional" and "*" in kinds)
            ):
                return f"no {p.name}"
        index += p.kind in ("positional", "unnamed")
        if other is not None and p.default != REQUIRED:
            if other.default == REQUIRED:
                return f"{p.name} is required"
            if ANY not in (p.default, other.default) and not alike(other.default, p.default):
                return f"{p.name} is {other.default} by default, not {p.default}"
    known = {p.name for p in theirs} | {"self"}
    for place, p in enumerate(ours):
        unseen = p.kind == "keyword" or (p.kind == "positional" and place >= index)
        if unseen and p.default == REQUIRED and p.name not in known:
            return "more parameters are required"
    return ""


def alike(one, other):
    """Whether two defaults mean the same: nothing is None, or an empty list."""
    return one == other or {one, other} <= {"None", "()"}


def is_former(signature):
    """Whether an overload is one that PyTorch keeps for programs of long ago: `add(x, 2, y)`."""
    names = [p.name for p in signature]
    if names[:1] in (["alpha"], ["beta"]) or names[1:2] == ["beta"]:
        return True
    return names[:2] in (["self", "alpha"], ["self", "value"])


def is_callable(path):
    """Whether a name of both libraries can be called."""
    try:
        return all(callable(coverage.find(path, library)) for library in (torch, pytorch))
    except LookupError:
        return False


def compared(path):
    """Return (their signature, ours, problem) for each signature of a name that is not met."""
    theirs, ours = signatures(path, pytorch), signatures(path, torch)
    if not theirs or not ours:
        return []
    found = []
    for one in theirs:
        if is_former(one) or [p.kind for p in one] == ["*", "**"]:
            continue  # or one that says nothing: of a function that chooses another by a flag
        problems = [problem(one, other) for other in ours]
        if all(problems):
            best = min(range(len(ours)), key=lambda i: -common(one, ours[i]))
            found.append((text_of(one), text_of(ours[best]), problems[best]))
    return found


def common(one, other):
    return len({p.name for p in one} & {p.name for p in other})
