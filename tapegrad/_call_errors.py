"""Why a call of a native function was refused, in a line.

Where no form of a function fits, its binding lists them all, which says much and tells little. What
is told here is the one thing that is wrong with the form that fits best: an argument that is
missing, one too many, or one of a wrong type, and what to do about it.

The native module asks `explain` when a call has failed; nothing here costs a call that succeeds.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["explain"]

# Names of types as PyTorch's errors have them.
_WORDS = {
    "float": "Number",
    "complex": "Number",
    "dtype": "torch.dtype",
    "Sequence[int]": "tuple of ints",
    "Sequence[float]": "tuple of floats",
    "Sequence[bool]": "tuple of bools",
    "Sequence[Tensor]": "tuple of Tensors",
    "tuple[Tensor, Tensor]": "tuple of Tensors",
    "Generator": "torch.Generator",
}


class _Parameter(NamedTuple):
    name: str
    types: tuple[str, ...]
    required: bool
    positional: bool


class _Problem(NamedTuple):
    rank: tuple[int, int, int]  # the least says what the call means
    text: str
    argument: str | None = None  # of a wrong type
    types: tuple[str, ...] = ()


def explain(function: Any, message: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return the error of a refused call.

    Args:
        function: what was called.
        message: the error so far.
        args: the positional arguments, with self if it is a method.
        kwargs: the arguments by name.
    """
    name = function.__name__
    if not message.startswith(f"{name}(): incompatible function arguments"):
        if "incompatible function arguments" in message:  # of a call that this one made
            return message
        return f"{message}; use torch.from_numpy()"
    forms = [_parameters(signature[0]) for signature in function.__nb_signature__]
    is_method = bool(forms and forms[0] and forms[0][0].name == "self")
    found = [_problem(name, form, args, kwargs, is_method) for form in forms]
    problems = [problem for problem in found if problem]
    if len(problems) < len(forms):  # a form fits as far as can be told here
        return _combination(name, function, args, kwargs, is_method)
    best = min(problems, key=lambda problem: problem.rank)
    if best.argument is None:
        return best.text
    types = [
        each
        for problem in problems
        if problem.rank == best.rank and problem.argument == best.argument
        for each in problem.types
    ]
    value = _argument(best.argument, forms, args, kwargs)
    return best.text + _expected(types, value)


# ---- forms of a call


def _split(text: str, separator: str) -> list[str]:
    """Split at the separators that are in no brackets."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == separator and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [part for part in [*parts, text[start:].strip()] if part]


def _parameters(signature: str) -> list[_Parameter]:
    """Return the parameters of a signature such as ``def f(x: Tensor, *, dim: int = 0)``."""
    inside = signature.rpartition(" -> ")[0]
    inside = inside[inside.index("(") + 1 : inside.rindex(")")]
    found, positional = [], True
    for text in _split(inside, ","):
        if text == "/":
            continue
        if text.startswith("*"):
            positional = False
            if text != "*":
                found.append(_Parameter(text, (), False, False))
            continue
        head, equals, _ = text.partition(" = ")
        name, _, annotation = head.partition(":")
        annotation = re.sub(r"\b(tapegrad|collections\.abc|typing)\.(_C\.)?", "", annotation)
        types = tuple(dict.fromkeys(_split(annotation, "|")))
        found.append(_Parameter(name.strip(), types, not equals, positional))
    return found


def _problem(
    name: str,
    form: list[_Parameter],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    is_method: bool,
) -> _Problem | None:
    """Return what is wrong with a call as a use of one form, None if nothing can be seen."""
    places = [parameter for parameter in form if parameter.positional]
    known = {parameter.name: parameter for parameter in form}
    takes_any = any(parameter.name.startswith("*") for parameter in form)
    if len(args) > len(places) and not takes_any:
        most = len(places) - is_method
        taken = f"{most} positional argument{'s' * (most != 1)}"
        text = f"{name}() takes {taken} but {len(args) - is_method} were given"
        return _Problem((2, len(args) - len(places), 0), text)
    if unknown := [key for key in kwargs if key not in known and not takes_any]:
        text = f"{name}() got an unexpected keyword argument '{unknown[0]}'"
        taken = ", ".join(each.name.strip("*") for each in form if each.name != "self")
        return _Problem((3, len(unknown), 0), f"{text}; it takes {taken}" if taken else text)
    given = dict(zip((parameter.name for parameter in places), args, strict=False))
    if twice := [key for key in kwargs if key in given]:
        return _Problem((2, 0, 1), f"{name}() got multiple values for argument '{twice[0]}'")
    given |= kwargs
    wrong = [
        parameter
        for parameter in form
        if parameter.name in given and not _fits(given[parameter.name], parameter.types)
    ]
    missing = [each for each in form if each.required and each.name not in given]
    if wrong:
        first = wrong[0]
        at = [parameter.name for parameter in places].index(first.name) if first.positional else -1
        where = f" (position {at + 1 - is_method})" if 0 <= at < len(args) else ""
        text = f"{name}(): argument '{first.name}'{where} must be "
        return _Problem((1, len(wrong), len(missing)), text, first.name, first.types)
    if missing:
        text = f'{name}(): missing required argument "{missing[0].name}"'
        return _Problem((0, len(missing), 0), text)
    return None


def _argument(
    name: str, forms: list[list[_Parameter]], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    if name in kwargs:
        return kwargs[name]
    for form in forms:
        places = [parameter.name for parameter in form if parameter.positional]
        if name in places and places.index(name) < len(args):
            return args[places.index(name)]
    return None


# ---- types


def _fits(value: Any, types: tuple[str, ...]) -> bool:
    return not types or any(_is_a(value, each) for each in types)


def _is_a(value: Any, kind: str) -> bool:
    """Return whether a value is of a type, True for types that are not known here."""
    from tapegrad._C import Tensor, dtype

    if kind == "None":
        return value is None
    if kind == "Tensor":
        return isinstance(value, Tensor)
    if kind == "dtype":
        return isinstance(value, dtype)
    if kind == "str":
        return isinstance(value, str)
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "int":
        return hasattr(value, "__index__")
    if kind in ("float", "complex"):
        return hasattr(value, "__float__") and not isinstance(value, str)
    if items := re.fullmatch(r"Sequence\[(.*)\]", kind):
        types = tuple(_split(items[1], "|"))
        return isinstance(value, (list, tuple)) and all(_fits(each, types) for each in value)
    if kind.startswith("tuple["):
        return isinstance(value, (list, tuple))
    return True


def _expected(types: list[str], value: Any) -> str:
    """Return the end of a sentence on a wrong type: which ones are right, which one came."""
    words = list(dict.fromkeys(_WORDS.get(kind, kind) for kind in types if kind != "None"))
    if "Number" in words:
        words = [word for word in words if word not in ("int", "bool")]
    if "tuple of Tensors" in words and isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            if not _is_a(each, "Tensor"):
                return f"tuple of Tensors, but element {index} is {_type(each)}{_hint(words, each)}"
    if "tuple of ints" in words and isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            if not _is_a(each, "int"):
                return f"{' or '.join(words)}, but element {index} is {_type(each)}"
    return f"{' or '.join(words)}, not {_type(value)}{_hint(words, value)}"


def _type(value: Any) -> str:
    kind = type(value)
    if kind.__module__ == "tapegrad":
        return str(kind.__name__)
    own = kind.__module__ in ("builtins", "__main__")
    return kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"


def _hint(wanted: Any, value: Any) -> str:
    if not any("Tensor" in word for word in wanted):
        return ""
    if type(value).__module__ == "numpy" and hasattr(value, "__array__"):
        return (
            "; use torch.from_numpy()"
            if _type(value) == "numpy.ndarray"
            else "; use torch.tensor()"
        )
    return "; use torch.tensor()" if isinstance(value, (bool, int, float, list, tuple)) else ""


def _combination(
    name: str, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], is_method: bool
) -> str:
    """Return PyTorch's words for a call that no form takes, for no reason that can be seen here."""
    got = [_type(value) for value in args[is_method:]]
    got += [f"{key}={_type(value)}" for key, value in kwargs.items()]
    forms = "".join(
        f"\n * {re.sub(r'^def ', '', signature[0])}" for signature in function.__nb_signature__
    )
    return (
        f"{name}() received an invalid combination of arguments - got ({', '.join(got)}), but "
        f"expected one of:{forms}"
    )
