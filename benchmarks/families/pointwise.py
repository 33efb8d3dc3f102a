"""Every op of the library's own pointwise table on 1M and 16M floats, value and derivative.

The list of ops comes from the table (`_C.pointwise_table()`): a new line there is a new case here.
What this file adds is what the table cannot know: a range of inputs where the op is defined, and
the spelling of the few ops that are not simply called by their name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.case import Benchmark, Case

_SIZES = {"1M": 1 << 20, "16M": 1 << 24}

_POSITIVE = (0.05, 8.0)
_INSIDE_UNIT = (-0.99, 0.99)
_ABOVE_ONE = (1.01, 8.0)
_EVERYWHERE = (-4.0, 4.0)

_RANGES = {
    **dict.fromkeys(
        ("log", "log2", "log10", "sqrt", "rsqrt", "pow", "xlogy", "digamma", "lgamma"), _POSITIVE
    ),
    **dict.fromkeys(("asin", "acos", "atanh", "erfinv"), _INSIDE_UNIT),
    **dict.fromkeys(("acosh",), _ABOVE_ONE),
    **dict.fromkeys(("log1p",), (-0.9, 8.0)),
}

# Divisors stay away from zero: the speed of dividing by it is of no interest.
_DIVIDING = frozenset(
    {
        "div",
        "div_floor",
        "div_trunc",
        "floor_divide",
        "remainder",
        "fmod",
        "true_divide",
        "addcdiv",
        "reciprocal",
    }
)

# Integer ops, with the range of the second operand.
_INTEGER = {
    "bitwise_and": 1 << 16,
    "bitwise_or": 1 << 16,
    "bitwise_xor": 1 << 16,
    "bitwise_not": 1 << 16,
    "bitwise_left_shift": 8,
    "bitwise_right_shift": 8,
    "gcd": 1 << 16,
    "lcm": 1 << 16,
}

# Spellings of what is not `name(inputs...)`; `f` is what `find(name)` gives where it is used.
_SPELLINGS = {
    "clamp": "f(x, -1.0, 1.0)",
    "clamp_min": "f(x, -1.0)",
    "clamp_max": "f(x, 1.0)",
    "div_floor": "torch.div(a, b, rounding_mode='floor')",
    "div_trunc": "torch.div(a, b, rounding_mode='trunc')",
    "gelu_tanh": "find('gelu')(x, approximate='tanh')",
    "where": "torch.where(c, a, b)",
    "masked_fill": "a.masked_fill(c, 0.5)",
    "threshold": "f(x, 0.5, 0.1)",
}

_CALLS = {"unary": "f(x)", "binary": "f(a, b)", "ternary": "f(a, b, c)"}
_OPERANDS = {"unary": ("x",), "binary": ("a", "b"), "ternary": ("a", "b", "c")}
_CONDITIONED = {"where": ("a", "b"), "masked_fill": ("a",)}

# Stands in for the table when neither side has one (PyTorch against itself).
_SAMPLE_TABLE: Sequence[dict[str, Any]] = (
    *(
        {"name": name, "kind": "unary", "differentiable": True}
        for name in ("neg", "exp", "log", "sin", "tanh", "sigmoid", "relu", "gelu", "erf", "acosh")
    ),
    *(
        {"name": name, "kind": "binary", "differentiable": True}
        for name in ("add", "mul", "div", "pow", "atan2")
    ),
    {"name": "eq", "kind": "binary", "differentiable": False},
    {"name": "bitwise_and", "kind": "binary", "differentiable": False},
    *(
        {"name": name, "kind": "ternary", "differentiable": True}
        for name in ("where", "lerp", "addcmul")
    ),
)


def cases(table: Sequence[dict[str, Any]] | None) -> list[Benchmark]:
    found: list[Benchmark] = []
    for label, numel in _SIZES.items():
        for entry in table or _SAMPLE_TABLE:
            found.extend(_entry_cases(entry, label, numel))
    return found


def _entry_cases(entry: dict[str, Any], label: str, numel: int) -> list[Case]:
    name, kind = str(entry["name"]), str(entry["kind"])
    small = label == "1M"
    common: dict[str, Any] = {"budget": 0.5 if small else 0.8, "quick": small}
    setup, call = _inputs(name, kind, numel), _spelling(name, kind)
    value = Case("pointwise", f"{name}.{label}.value", call, setup, **common)
    if not entry.get("differentiable"):
        return [value]
    leaves = ", ".join(_CONDITIONED.get(name, _OPERANDS[kind]))
    recorded = (
        f"leaves = [leaf.requires_grad_() for leaf in ({leaves},)]\n"
        f"y = {call}\n"
        f"g = uniform({numel})\n"
    )
    sweep = "torch.autograd.grad(y, leaves, g, retain_graph=True)"
    return [value, Case("pointwise", f"{name}.{label}.grad", sweep, setup + recorded, **common)]


def _spelling(name: str, kind: str) -> str:
    return _SPELLINGS.get(name, _CALLS[kind])


def _inputs(name: str, kind: str, numel: int) -> str:
    lines = []
    if "f(" in _spelling(name, kind):
        lines.append(f"f = find({name!r})")
    if name in _INTEGER:
        high = {"x": 1 << 16, "a": 1 << 16, "b": _INTEGER[name]}
        lines += [
            f"{operand} = integers({numel}, high={high[operand]}, dtype='int32')"
            for operand in _OPERANDS[kind]
        ]
        return "\n".join(lines) + "\n"
    low, high_bound = _RANGES.get(name, _EVERYWHERE)
    operands = (*_CONDITIONED[name], "c") if name in _CONDITIONED else _OPERANDS[kind]
    for operand in operands:
        bounds = (0.5, 8.0) if name in _DIVIDING and operand != "a" else (low, high_bound)
        lines.append(f"{operand} = uniform({numel}, low={bounds[0]}, high={bounds[1]})")
    if name in _CONDITIONED:
        lines.append("c = c > 0")
    return "\n".join(lines) + "\n"
