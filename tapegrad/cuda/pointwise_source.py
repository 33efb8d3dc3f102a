"""The CUDA reader of the pointwise table: every line as CUDA C source for NVRTC.

A line of csrc/pointwise.def gives a kernel for its value and a fused kernel for each derivative that
computes something, for each dtype that kernels of the line see. The expressions are used as they
stand; what their functions and operators mean is told by ``prelude.cuh``.

A kernel loops over contiguous operands with a grid-stride loop, which is not unrolled: most threads
run it once, and unrolling makes compiling twice as long. Its arguments are

    the operands that its text mentions, in the order g, x (or a, b, c), y
    the output, which may be one of the operands
    the number of elements, as a 64-bit integer
    the parameters, in the type computed with (`PARAMETER_TYPES`)

    >>> from tapegrad.cuda import pointwise_source
    >>> mul = pointwise_source.line("mul")
    >>> print(pointwise_source.kernel(mul, "float32", derivative=0))
    // mul: g * b
    extern "C" __global__ void mul_backward0_float32(const float* g_, const float* b_, float* out_, int64 count_) {
      #pragma unroll 1
      for (int64 i_ = first_index(); i_ < count_; i_ += index_step()) {
        const Num<float> g = load(g_, i_);
        const Num<float> b = load(b_, i_);
        store(out_, i_, g * b);
      }
    }
"""  # noqa: E501

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tapegrad import _C

__all__ = [
    "COMPILE_OPTIONS",
    "DTYPES",
    "PARAMETER_TYPES",
    "Line",
    "kernel",
    "kernel_dtypes",
    "kernel_name",
    "kernels",
    "line",
    "lines",
    "prelude",
    "program",
]

# Contraction to multiply-add is off so that a line rounds as it does on the CPU; these kernels wait
# for memory, not for arithmetic. The math library's own multiply-adds are not affected.
COMPILE_OPTIONS = ("--std=c++20", "--fmad=false")

# The dtypes and the C types that store them.
DTYPES = {
    "float32": "float",
    "float64": "double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "int64",
    "uint8": "unsigned char",
    "bool": "bool",
}
_FLOATING = ("float32", "float64", "float16", "bfloat16")
_INTEGRAL = ("int8", "int16", "int32", "int64", "uint8", "bool")  # bool last

# The C type in which a kernel of a dtype takes its parameters, and computes.
PARAMETER_TYPES = dict.fromkeys(DTYPES, "int") | {
    "float32": "float",
    "float64": "double",
    "float16": "float",
    "bfloat16": "float",
    "int64": "int64",
}

# What reaches a kernel, by the dtype class of the line. Integers are promoted to a floating dtype
# before a Real line runs, and a Rounding line returns them unchanged: no kernel sees them.
_KERNEL_DTYPES = {
    "Real": _FLOATING,
    "Floating": _FLOATING,
    "Rounding": _FLOATING,
    "Any": _FLOATING + _INTEGRAL,
    "Test": _FLOATING + _INTEGRAL,
    "Number": _FLOATING + _INTEGRAL[:-1],
    "Integer": _INTEGRAL[:-1],
    "Integral": _INTEGRAL,
}
_OPERANDS = {"unary": ("x",), "binary": ("a", "b"), "ternary": ("a", "b", "c")}
# Derivatives that ask for no kernel: refused, zero, the incoming gradient itself.
_TRIVIAL = ("none", "0", "g")


@dataclass(frozen=True)
class Line:
    """A line of the table.

    Attributes:
        name: the op.
        dtypes: the class of dtypes it accepts, such as ``"Real"``.
        operands: the names of its inputs in the expressions.
        params: the names of its parameters.
        value: the expression of its value.
        derivatives: one expression per input.
    """

    name: str
    dtypes: str
    operands: tuple[str, ...]
    params: tuple[str, ...]
    value: str
    derivatives: tuple[str, ...]

    def kernel_derivatives(self) -> list[int]:
        """Return the inputs whose derivative is a kernel."""
        return [i for i, text in enumerate(self.derivatives) if text not in _TRIVIAL]


@cache
def lines() -> tuple[Line, ...]:
    """Return all lines of the table, in its order."""
    return tuple(
        Line(
            name=row["name"],
            dtypes=row["dtypes"],
            operands=_OPERANDS[row["kind"]],
            params=tuple(name for name, _ in row["params"]),
            value=row["value"],
            derivatives=tuple(row["derivatives"]),
        )
        for row in _C.pointwise_table()
    )


def line(name: str) -> Line:
    """Return the line of an op."""
    for candidate in lines():
        if candidate.name == name:
            return candidate
    raise KeyError(f"pointwise_source.line: the table has no line '{name}'")


def kernel_dtypes(of: Line, derivative: int | None = None) -> tuple[str, ...]:
    """Return the dtypes for which a line's value, or one of its derivatives, has a kernel."""
    accepted = _KERNEL_DTYPES[of.dtypes]
    if derivative is None:
        return accepted
    return tuple(dtype for dtype in accepted if dtype in _FLOATING)


def kernel_name(of: Line, dtype: str, derivative: int | None = None) -> str:
    """Return the name of a kernel, such as ``mul_float32`` or ``mul_backward0_float32``."""
    role = "" if derivative is None else f"_backward{derivative}"
    return f"{of.name}{role}_{dtype}"


def _mentions(text: str, word: str) -> bool:
    return re.search(rf"\b{word}\b", text) is not None


def kernel(of: Line, dtype: str, derivative: int | None = None) -> str:
    """Return the source of one kernel.

    Args:
        of: the line.
        dtype: the dtype of operands and result; one of `kernel_dtypes`.
        derivative: of which input to take the derivative; None for the value.
    """
    if dtype not in kernel_dtypes(of, derivative):
        raise ValueError(f"{of.name}: expected one of {kernel_dtypes(of, derivative)}, got {dtype}")
    if derivative is not None and derivative not in of.kernel_derivatives():
        raise ValueError(f"{of.name}: derivative {derivative} is no kernel")
    text = of.value if derivative is None else of.derivatives[derivative]
    # The generator's own names end in an underscore, which no name of the table does.
    element = DTYPES[dtype]
    arguments, loads = [], []
    for operand in ("g", *of.operands, "y"):
        if not _mentions(text, operand):
            continue
        is_condition = of.name == "where" and operand == "a"
        pointer = "unsigned char" if is_condition else element
        load = f"load_condition<{element}>" if is_condition else "load"
        arguments.append(f"const {pointer}* {operand}_")
        loads.append(f"    const Num<{element}> {operand} = {load}({operand}_, i_);\n")
    arguments.append(f"{'bool' if of.dtypes == 'Test' else element}* out_")
    arguments.append("int64 count_")
    arguments += [f"{PARAMETER_TYPES[dtype]} {param}_" for param in of.params]
    constants = [f"  const Num<{element}> {param}({param}_);\n" for param in of.params]
    return (
        f"// {of.name}: {text}\n"
        f'extern "C" __global__ void {kernel_name(of, dtype, derivative)}'
        f"({', '.join(arguments)}) {{\n"
        f"{''.join(constants)}"
        "  #pragma unroll 1\n"
        "  for (int64 i_ = first_index(); i_ < count_; i_ += index_step()) {\n"
        f"{''.join(loads)}"
        f"    store(out_, i_, {text});\n"
        "  }\n"
        "}\n"
    )


def kernels(dtype: str, of: Sequence[Line] | None = None) -> Iterator[tuple[Line, int | None]]:
    """Yield every kernel of a dtype as line and derivative, None standing for the value."""
    for each in lines() if of is None else of:
        roles: list[int | None] = [None, *each.kernel_derivatives()]
        for role in roles:
            if dtype in kernel_dtypes(each, role):
                yield each, role


@cache
def prelude() -> str:
    """Return the text that precedes the kernels."""
    return (Path(__file__).parent / "prelude.cuh").read_text(encoding="utf-8")


def program(dtype: str, of: Sequence[Line] | None = None) -> str:
    """Return a program with all kernels of a dtype: of the whole table, or of some lines."""
    parts = [kernel(each, dtype, role) for each, role in kernels(dtype, of)]
    return "\n".join([prelude(), *parts])
