"""Pointwise ops: the text of the table as nodes.

The lines of csrc/pointwise.def keep to a syntax that Python shares, so that their expressions are
read by Python's own parser. Functions that ONNX has are one node; the others are expressions again,
below, and nobody lists ops. What an expression says twice is one node (`Graph`).
"""

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from tapegrad.cuda import pointwise_source
from tapegrad.onnx._graph import Graph, Value
from tapegrad.onnx._memory import CannotSay
from tapegrad.onnx._translate import EMITTERS, CallContext

__all__ = ["expression"]

# Functions that are nodes.
_NODES = {
    **{name: name.capitalize() for name in ("abs", "sign", "sqrt", "exp", "log", "floor", "ceil")},
    **{name: name.capitalize() for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh")},
    **{name: name.capitalize() for name in ("cosh", "tanh", "asinh", "acosh", "atanh", "erf")},
    **{"round": "Round", "sigmoid": "Sigmoid", "maximum": "Max", "minimum": "Min", "pow": "Pow"},
    "where": "Where",
}
# Functions that are expressions, of floats and, where a second one is given, of integers.
_EXPRESSIONS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "square": (("x",), "x * x", ""),
    "rsqrt": (("x",), "1 / sqrt(x)", ""),
    "trunc": (("x",), "sign(x) * floor(abs(x))", "x"),
    "exp2": (("x",), "pow(2, x)", ""),
    "expm1": (("x",), "tanh(x / 2) * (exp(x) + 1)", ""),
    "log1p": (
        ("x",),
        "where(1 + x == 1, x, where(x - x == 0, log(1 + x) * (x / ((1 + x) - 1)), log(x)))",
        "",
    ),
    "log2": (("x",), "log(x) / 0.6931471805599453", ""),
    "log10": (("x",), "log(x) / 2.302585092994046", ""),
    "sinc": (
        ("x",),
        "where(x == 0, 1, sin(3.141592653589793 * x) / (3.141592653589793 * x))",
        "",
    ),
    "erfc": (("x",), "1 - erf(x)", ""),
    "normal_cdf": (("x",), "0.5 * (1 + erf(x * 0.7071067811865476))", ""),
    "gelu": (("x",), "0.5 * x * (1 + erf(x * 0.7071067811865476))", ""),
    "normal_density": (("x",), "0.3989422804014327 * exp(-0.5 * x * x)", ""),
    "logaddexp": (
        ("a", "b"),
        "maximum(a, b) + where(a == b, 0.6931471805599453, log1p(exp(-abs(a - b))))",
        "",
    ),
    "logaddexp2": (
        ("a", "b"),
        "maximum(a, b) + where(a == b, 1, log1p(exp2(-abs(a - b))) / 0.6931471805599453)",
        "",
    ),
    "copysign": (
        ("a", "b"),
        "where((b < 0) | ((b == 0) & (1 / b < 0)), -abs(a), abs(a))",
        "where(b < 0, -abs(a), abs(a))",
    ),
    "atan2": (
        ("a", "b"),
        "where(b == 0, where(a == 0, where(1 / b < 0, copysign(3.141592653589793, a), a), "
        "copysign(1.5707963267948966, a)), "
        "atan(a / b) + where(b < 0, copysign(3.141592653589793, a), 0))",
        "",
    ),
    "hypot": (
        ("a", "b"),
        "where(maximum(abs(a), abs(b)) == 0, 0, maximum(abs(a), abs(b)) * "
        "sqrt(1 + square(minimum(abs(a), abs(b)) / maximum(abs(a), abs(b)))))",
        "",
    ),
    "remainder": (
        ("a", "b"),
        "where((fmod(a, b) != 0) & ((fmod(a, b) < 0) != (b < 0)), fmod(a, b) + b, fmod(a, b))",
        "python_mod(a, b)",
    ),
    "floor_divide": (
        ("a", "b"),
        "where(b == 0, a / b, round((a - remainder(a, b)) / b))",
        "(a - remainder(a, b)) / b",
    ),
    "div_trunc": (("a", "b"), "trunc(a / b)", "a / b"),
    "left_shift": (("a", "b"), "", "where((b >= 0) & (b < 31), a * pow(2, b), 0)"),
    "right_shift": (
        ("a", "b"),
        "",
        "where((b >= 0) & (b < 31), floor_divide(a, pow(2, minimum(b, 30))), where(a < 0, -1, 0))",
    ),
}
# Expressions of whole lines that runtimes know under a name, and fuse: the name, its attributes, or
# the parameters that they are, and the opset that it came with.
_WHOLE: dict[str, tuple[str, dict[str, str], int]] = {
    "where(x <= 0, 0, x)": ("Relu", {}, 18),
    "where(x > 0, x, x * negative_slope)": ("LeakyRelu", {"alpha": "negative_slope"}, 18),
    "gelu(x)": ("Gelu", {}, 20),
    "0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))": (
        "Gelu",
        {"approximate": "tanh"},
        20,
    ),
}
_COMPARISONS: dict[type, str] = {
    ast.Eq: "Equal",
    ast.Lt: "Less",
    ast.LtE: "LessOrEqual",
    ast.Gt: "Greater",
    ast.GtE: "GreaterOrEqual",
}
_ARITHMETIC: dict[type, str] = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div"}
_BITS: dict[type, str] = {ast.BitAnd: "And", ast.BitOr: "Or", ast.BitXor: "Xor"}


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


class _Reader:
    """Reads an expression; names are values, and numbers are of one dtype."""

    def __init__(self, graph: Graph, names: Mapping[str, Value], dtype: str) -> None:
        self.graph = graph
        self.names = names
        self.dtype = dtype

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith("float")

    def read(self, node: ast.expr) -> Value:
        """Return the value of an expression."""
        if isinstance(node, ast.Constant):
            return self.graph.number(node.value, self.dtype)
        if isinstance(node, ast.Name):
            return self.names[node.id]
        if isinstance(node, ast.UnaryOp):
            return self._unary(node.op, self.read(node.operand))
        if isinstance(node, ast.BinOp):
            return self._binary(type(node.op), self.read(node.left), self.read(node.right))
        if isinstance(node, ast.Compare):
            return self._compare(type(node.ops[0]), node.left, node.comparators[0])
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        return self._call(node.func.id, [self.read(each) for each in node.args])

    def _unary(self, op: ast.unaryop, x: Value) -> Value:
        if isinstance(op, ast.USub):
            return self.graph.add("Neg", x)
        return self.graph.add("Not" if x.dtype == "bool" else "BitwiseNot", x)

    def _binary(self, op: type, a: Value, b: Value) -> Value:
        if op in _ARITHMETIC:
            return self.graph.add(_ARITHMETIC[op], a, b)
        return self.graph.add(_BITS[op] if a.dtype == "bool" else f"Bitwise{_BITS[op]}", a, b)

    def _compare(self, op: type, left: ast.expr, right: ast.expr) -> Value:
        a, b = self.read(left), self.read(right)
        if op is ast.NotEq:
            is_zero = isinstance(right, ast.Constant) and right.value == 0
            source = self.graph.casts.get(a.name)
            if is_zero and source is not None and source.dtype == "bool":
                return source
            return self.graph.add("Not", self.graph.add("Equal", a, b, dtype="bool"))
        return self.graph.add(_COMPARISONS[op], a, b, dtype="bool")

    def _call(self, name: str, arguments: list[Value]) -> Value:
        add = self.graph.add
        if name in ("fmod", "python_mod"):
            return add("Mod", *arguments, fmod=int(name == "fmod"))
        if name in _NODES:
            return add(_NODES[name], *arguments, dtype=self.dtype)
        if name not in _EXPRESSIONS:
            raise CannotSay(f"ONNX has no function {name}, nor ops that make it")
        names, of_floats, of_integers = _EXPRESSIONS[name]
        text = of_floats if self.is_float or not of_integers else of_integers
        inner = _Reader(self.graph, dict(zip(names, arguments, strict=True)), self.dtype)
        return inner.read(_parsed(text))


def expression(graph: Graph, text: str, dtype: str, **names: Value) -> Value:
    """Return the value of an expression of the table's kind."""
    return _Reader(graph, names, dtype).read(_parsed(text))


# ---- lines as ops


def computed_in(dtype: str) -> str:
    """Return the dtype in which calls of a dtype are computed."""
    if dtype in ("float16", "bfloat16"):
        return "float32"
    return dtype if dtype in ("float32", "float64", "int64") else "int32"


def _emit(
    line: pointwise_source.Line, text: str, operands: Sequence[str]
) -> Callable[[CallContext], None]:
    """Return what tells an expression of a line; `operands` are those that it is called with."""

    def emit(context: CallContext) -> None:
        dtype = str(context["dtype"]).removeprefix("torch.")
        compute = computed_in(dtype)
        if line.name == "bitwise_not" and dtype == "bool":
            compute = "bool"
        names = {}
        for number, name in enumerate(operands):
            names[name] = _operand(context, number, dtype, compute)
        for name in line.params:
            value = context[name]
            if compute != "bool":
                names[name] = context.literal(_in_range(value, compute), compute)
        value = _whole(context, text, names, compute)
        if value is None:
            value = expression(context.graph, text, compute, **names)
        wanted = context.out_place()
        if dtype not in ("bool", compute) and value.dtype != "bool":
            value = context.cast(value, dtype)  # integers wrap there, halves round
        value = context.cast(value, wanted.dtype)
        context.write(_spread(context, value))

    return emit


def _operand(context: CallContext, number: int, dtype: str, compute: str) -> Value:
    if not context.is_tensor(number):
        return context.read(number, compute)
    value = context.read_unexpanded(number)
    if value.dtype != dtype and compute.startswith("float") and dtype != compute:
        value = context.cast(value, dtype)
    return context.cast(value, compute)


def _in_range(value: Any, compute: str) -> Any:
    if compute.startswith("float") or not isinstance(value, float):
        return value
    bits = 31 if compute == "int32" else 63
    if math.isfinite(value):
        return int(value)
    return 0 if math.isnan(value) else -(2**bits) if value < 0 else 2**bits - 1


def _whole(
    context: CallContext, text: str, names: Mapping[str, Value], compute: str
) -> Value | None:
    if text not in _WHOLE or compute != "float32":
        return None
    op, attributes, opset = _WHOLE[text]
    if context.graph.opset < opset:
        return None
    given = {
        key: float(context.number(name)) if name in names else name
        for key, name in attributes.items()
    }
    return context.add(op, names["x"], **given)


def _spread(context: CallContext, value: Value) -> Value:
    """Repeat a result along axes that all operands repeat."""
    graph, wanted = context.graph, context.out_place().sizes
    one = graph.size_of(1)
    reached = [one] * len(wanted)
    for number in range(context.count):
        if not context.is_tensor(number):
            continue
        place = context.place(number)
        for i, (size, stride) in enumerate(zip(place.sizes, place.strides, strict=True)):
            axis = len(wanted) - len(place.sizes) + i
            if size != 1 and stride != 0:
                reached[axis] = wanted[axis]
    ranks = [len(context.sizes(i)) for i in range(context.count)]
    if max(ranks, default=0) < len(wanted):
        return context.spread(value, wanted)
    return context.expand(value, reached, wanted)


def _emitters() -> Iterator[tuple[str, Callable[[CallContext], None]]]:
    for line in pointwise_source.lines():
        yield line.name, _emit(line, line.value, line.operands)
        for i in line.kernel_derivatives():
            # A fused derivative: it is called with the operands that it mentions.
            text = line.derivatives[i]
            suffix = f"_{line.operands[i]}" if len(line.operands) > 1 else ""
            known = {node.id for node in ast.walk(_parsed(text)) if isinstance(node, ast.Name)}
            operands = [each for each in ("g", *line.operands, "y") if each in known]
            yield f"{line.name}_backward{suffix}", _emit(line, text, operands)


EMITTERS.update(_emitters())
