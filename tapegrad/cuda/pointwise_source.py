"""The CUDA reader of the pointwise table: every line as CUDA C source for NVRTC.

A line of csrc/pointwise.def gives a kernel for its value and a fused kernel for each derivative
that computes something. The expressions are used as they stand; what their functions and operators
mean is told by ``prelude.cuh``.

A kernel is made for the dtypes of its operands and for how each of them is reached, which
csrc/cuda/pointwise.cpp finds out and describes. A thread takes several vectors of elements, which
are all loaded before the first is computed with, so that many loads are on their way at a time.

    >>> from tapegrad.cuda import pointwise_source
    >>> mul = pointwise_source.line("mul")
    >>> print(pointwise_source.kernel(pointwise_source.dense(mul, "float32", derivative=0)))
    // mul: g * b
    struct kernel_arguments {
      int64 count;
      float* out;
      const float* g;
      const float* b;
    };
    TAPEGRAD_KERNEL(kernel, kernel_arguments) {
      wait_for_earlier_work();
    ...
"""

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
    "Description",
    "Line",
    "Operand",
    "column_kernel",
    "dense",
    "described",
    "functions",
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


# ---- which kernel of a line


@dataclass(frozen=True)
class Operand:
    """An operand of a kernel, or its output.

    Attributes:
        name: as the expression has it, or ``"out"``.
        dtype: of its elements.
        access: ``"dense"``, ``"value"``, ``"single"``, ``"strided"`` or ``"repeated"``:
            csrc/cuda/pointwise.cpp.
        through: the dtype that its elements are rounded to on their way.
    """

    name: str
    dtype: str
    access: str
    through: str


@dataclass(frozen=True)
class Description:
    """A kernel of a line.

    Attributes:
        line: of the table.
        derivative: of which input; None for the value.
        dtype: that the line is read in.
        width: how many elements are loaded at a time; 0 where each thread takes one.
        rank: of the strided operands together; 0 where there are none.
        is_wide: whether there are more elements than 32 bits count.
        operands: the output first.
    """

    line: Line
    derivative: int | None
    dtype: str
    width: int
    rank: int
    is_wide: bool
    operands: tuple[Operand, ...]

    @property
    def text(self) -> str:
        """The expression."""
        if self.derivative is None:
            return self.line.value
        return self.line.derivatives[self.derivative]


# Lines that are not in the table: ops of their own, which only move elements.
_MOVES = {
    -1: Line("copy", "Any", ("x",), (), "x", ("none",)),
    -2: Line("fill", "Any", (), ("value",), "value", ()),
}


def described(text: str) -> Description:
    """Return what csrc/cuda/pointwise.cpp describes in words."""
    head, *rows = (row.split() for row in text.splitlines())
    number, derivative, dtype, width, rank, is_wide = head
    of = _MOVES.get(int(number)) or lines()[int(number)]
    names = of.operands
    if int(derivative) >= 0:
        names = ("g", *of.operands, *[""] * (3 - len(of.operands)), "y")
    operands = tuple(
        Operand("out" if int(slot) < 0 else names[int(slot)], *rest) for slot, *rest in rows
    )
    role = None if int(derivative) < 0 else int(derivative)
    return Description(of, role, dtype, int(width), int(rank), is_wide == "1", operands)


def dense(of: Line, dtype: str, derivative: int | None = None) -> Description:
    """Describe the kernel of a line whose operands are all dense and of one dtype."""
    if dtype not in kernel_dtypes(of, derivative):
        raise ValueError(f"{of.name}: expected one of {kernel_dtypes(of, derivative)}, got {dtype}")
    if derivative is not None and derivative not in of.kernel_derivatives():
        raise ValueError(f"{of.name}: derivative {derivative} is no kernel")
    text = of.value if derivative is None else of.derivatives[derivative]
    produced = "bool" if of.dtypes == "Test" else dtype
    operands = [Operand("out", produced, "dense", produced)]
    for name in ("g", *of.operands, "y"):
        if _mentions(text, name):
            stored = "bool" if of.name == "where" and name == "a" else dtype
            operands.append(Operand(name, stored, "dense", dtype))
    width = 16 // max(_ITEM_SIZES[each.dtype] for each in operands)
    return Description(of, derivative, dtype, min(width, 8), 0, False, tuple(operands))


# ---- the text of a kernel

_ITEM_SIZES = (
    {"float64": 8, "int64": 8, "float32": 4, "int32": 4}
    | dict.fromkeys(("float16", "bfloat16", "int16"), 2)
    | dict.fromkeys(("int8", "uint8", "bool"), 1)
)
_VECTORS = 4  # kVectorsPerThread in csrc/cuda/elements.h


def kernel(of: Description, name: str = "kernel") -> str:
    """Return the source of one kernel.

    Args:
        of: which one.
        name: what to call it.
    """
    loop = _strided_loop(of) if of.rank else _dense_loop(of) if of.width else _short_loop(of)
    return (
        f"// {of.line.name}: {of.text}\n"
        f"{_arguments(of, name)}"
        f"TAPEGRAD_KERNEL({name}, {name}_arguments) {{\n"
        "  wait_for_earlier_work();\n"
        f"{_constants(of)}{loop}"
        "}\n"
    )


def _arguments(of: Description, name: str) -> str:
    fields = ["int64 count"]
    if of.rank:
        kind = "WideGeometry" if of.is_wide else "NarrowGeometry"
        fields.append(f"{kind}<{of.rank}, {len(of.operands)}> geometry")
    computed = PARAMETER_TYPES[of.dtype]
    for each in of.operands:
        stored = DTYPES[each.dtype]
        if each.access == "value":
            fields.append(f"{computed} {each.name}")
        else:
            fields.append(f"{'' if each.name == 'out' else 'const '}{stored}* {each.name}")
    fields += [f"{computed} {param}" for param in of.line.params]
    body = "".join(f"  {field};\n" for field in fields)
    return f"struct {name}_arguments {{\n{body}}};\n"


def _constants(of: Description) -> str:
    """Return what is the same for all elements: parameters, numbers, single elements."""
    scalar = f"Num<{DTYPES[of.dtype]}>"
    known = [*of.line.params, *(each.name for each in of.operands if each.access == "value")]
    rows = [f"const {scalar} {name}(arguments.{name});" for name in known]
    for each in of.operands[1:]:
        if each.access == "single":
            rows.append(
                f"const {scalar} {each.name} = {_read(of, each, f'*arguments.{each.name}')};"
            )
    return "".join(f"  {row}\n" for row in rows)


def _read(of: Description, operand: Operand, element: str) -> str:
    return f"operand<{DTYPES[of.dtype]}, {DTYPES[operand.through]}>({element})"


def _result(of: Description) -> str:
    stored, scalar = DTYPES[of.operands[0].dtype], DTYPES[of.dtype]
    # The type is said, so that a condition cannot pass for a number, nor a number for a condition.
    value = f"Mask({of.text})" if of.line.dtypes == "Test" else f"Num<{scalar}>({of.text})"
    return f"result<{stored}, {scalar}>({value})"


def _inputs(of: Description, *access: str) -> list[Operand]:
    return [each for each in of.operands[1:] if each.access in access]


# The generator's own names end in an underscore, which no name of the table does.
def _dense_loop(of: Description) -> str:
    scalar, out = f"Num<{DTYPES[of.dtype]}>", DTYPES[of.operands[0].dtype]
    inputs = _inputs(of, "dense")
    place = "first_ + v_ * blockDim.x + threadIdx.x"
    vectors = "".join(
        f"    Vector<{DTYPES[each.dtype]}, kWidth_> {each.name}_[kVectors_];\n" for each in inputs
    )
    loads = "".join(
        f"      {each.name}_[v_] = reinterpret_cast<const Vector<{DTYPES[each.dtype]}, kWidth_>*>("
        f"arguments.{each.name})[{place}];\n"
        for each in inputs
    )
    elements = "".join(
        f"        const {scalar} {each.name} = "
        f"{_read(of, each, f'{each.name}_[v_].elements[k_]')};\n"
        for each in inputs
    )
    rest = "".join(
        f"      const {scalar} {each.name} = {_read(of, each, f'arguments.{each.name}[i_]')};\n"
        for each in inputs
    )
    loop = "#pragma unroll\n    for (int v_ = 0; v_ < kVectors_; ++v_) {\n"
    loading = f"{loop}{loads}    }}\n" if inputs else ""
    return f"""\
  constexpr int kWidth_ = {of.width}, kVectors_ = {_VECTORS};
  const int64 first_ = static_cast<int64>(blockIdx.x) * blockDim.x * kVectors_;
  const int64 begin_ = first_ * kWidth_;
  if (begin_ + static_cast<int64>(blockDim.x) * kVectors_ * kWidth_ <= arguments.count) {{
{vectors}{loading}#pragma unroll
    for (int v_ = 0; v_ < kVectors_; ++v_) {{
      Vector<{out}, kWidth_> out_;
#pragma unroll
      for (int k_ = 0; k_ < kWidth_; ++k_) {{
{elements}        out_.elements[k_] = {_result(of)};
      }}
      reinterpret_cast<Vector<{out}, kWidth_>*>(arguments.out)[{place}] = out_;
    }}
  }} else {{
#pragma unroll 1
    for (int64 i_ = begin_ + threadIdx.x; i_ < arguments.count; i_ += blockDim.x) {{
{rest}      arguments.out[i_] = {_result(of)};
    }}
  }}
"""


def _short_loop(of: Description) -> str:
    """Return the loop of a kernel with a thread for each element."""
    scalar = f"Num<{DTYPES[of.dtype]}>"
    loads = "".join(
        f"    const {scalar} {each.name} = {_read(of, each, f'arguments.{each.name}[i_]')};\n"
        for each in _inputs(of, "dense")
    )
    return f"""\
  const int64 i_ = threadIdx.x;
  if (i_ < arguments.count) {{
{loads}    arguments.out[i_] = {_result(of)};
  }}
"""


def _strided_loop(of: Description) -> str:
    if of.width > 1:
        return _strided_vectors(of)
    scalar = f"Num<{DTYPES[of.dtype]}>"
    place = {
        each.name: "i_" if each.access == "dense" else f"offsets_[{number}]"
        for number, each in enumerate(of.operands)
    }
    loads = "".join(
        f"      const {scalar} {each.name} = "
        f"{_read(of, each, f'arguments.{each.name}[{place[each.name]}]')};\n"
        for each in _inputs(of, "dense", "strided")
    )
    return f"""\
  constexpr int kVectors_ = {_VECTORS};
  const int64 begin_ = static_cast<int64>(blockIdx.x) * blockDim.x * kVectors_ + threadIdx.x;
#pragma unroll
  for (int v_ = 0; v_ < kVectors_; ++v_) {{
    const int64 i_ = begin_ + v_ * blockDim.x;
    if (i_ < arguments.count) {{
      int64 offsets_[{len(of.operands)}];
      arguments.geometry.find(i_, offsets_);
{loads}      arguments.out[{place["out"]}] = {_result(of)};
    }}
  }}
"""


def _strided_vectors(of: Description) -> str:
    """Return the loop of a kernel that finds vectors of neighbouring elements."""
    scalar, out = f"Num<{DTYPES[of.dtype]}>", DTYPES[of.operands[0].dtype]
    vectors, repeated = _inputs(of, "dense", "strided"), _inputs(of, "repeated")
    place = {each.name: f"offsets_[{number}]" for number, each in enumerate(of.operands)}

    def vector(each: Operand) -> str:
        return f"Vector<{DTYPES[each.dtype]}, kWidth_>"

    held = "".join(f"  {vector(each)} {each.name}_[kVectors_];\n" for each in vectors)
    held += "".join(f"  {DTYPES[each.dtype]} {each.name}_[kVectors_];\n" for each in repeated)
    loads = "".join(
        f"    {each.name}_[v_] = *reinterpret_cast<const {vector(each)}*>("
        f"arguments.{each.name} + {place[each.name]});\n"
        for each in vectors
    )
    loads += "".join(
        f"    {each.name}_[v_] = arguments.{each.name}[{place[each.name]}];\n" for each in repeated
    )
    elements = "".join(
        f"      const {scalar} {each.name} = "
        f"{_read(of, each, f'{each.name}_[v_]' + ('.elements[k_]' if each in vectors else ''))};\n"
        for each in (*vectors, *repeated)
    )
    return f"""\
  constexpr int kWidth_ = {of.width}, kVectors_ = {_VECTORS};
  const int64 begin_ = static_cast<int64>(blockIdx.x) * blockDim.x * kVectors_ + threadIdx.x;
  int64 to_[kVectors_];
{held}#pragma unroll
  for (int v_ = 0; v_ < kVectors_; ++v_) {{
    const int64 i_ = begin_ + v_ * blockDim.x;
    if (i_ >= arguments.count) break;
    int64 offsets_[{len(of.operands)}];
    arguments.geometry.find(i_, offsets_);
    to_[v_] = {place["out"]};
{loads}  }}
#pragma unroll
  for (int v_ = 0; v_ < kVectors_; ++v_) {{
    if (begin_ + v_ * blockDim.x >= arguments.count) break;
    Vector<{out}, kWidth_> out_;
#pragma unroll
    for (int k_ = 0; k_ < kWidth_; ++k_) {{
{elements}      out_.elements[k_] = {_result(of)};
    }}
    *reinterpret_cast<Vector<{out}, kWidth_>*>(arguments.out + to_[v_]) = out_;
  }}
"""


def column_kernel(of: Description, name: str = "kernel") -> str:
    """Return the source of a kernel that adds up the columns of its result, a matrix, as well.

    A thread takes a vector of columns through a group of rows. The sums of the groups are added up
    by another launch: csrc/cuda/pointwise.cpp.

    Args:
        of: which one; all of its operands are dense.
        name: what to call it.
    """
    scalar, out = f"Num<{DTYPES[of.dtype]}>", DTYPES[of.operands[0].dtype]
    inputs = _inputs(of, "dense")
    fields = ["int64 rows_", "int64 vectors_", "int64 strips_", "int64 groups_"]
    fields += [f"{out}* out", *(f"const {DTYPES[each.dtype]}* {each.name}" for each in inputs)]
    fields += [f"{PARAMETER_TYPES[of.dtype]} {param}" for param in of.line.params]
    fields.append("float* sums_")
    body = "".join(f"  {field};\n" for field in fields)
    vectors = "".join(
        f"    Vector<{DTYPES[each.dtype]}, kWidth_> {each.name}_[kVectors_];\n" for each in inputs
    )
    loads = "".join(
        f"        {each.name}_[v_] = "
        f"reinterpret_cast<const Vector<{DTYPES[each.dtype]}, kWidth_>*>("
        f"arguments.{each.name})[(row_ + v_) * arguments.vectors_ + column_];\n"
        for each in inputs
    )
    elements = "".join(
        f"        const {scalar} {each.name} = "
        f"{_read(of, each, f'{each.name}_[v_].elements[k_]')};\n"
        for each in inputs
    )
    return f"""\
// {of.line.name}: {of.text}
struct {name}_arguments {{
{body}}};
TAPEGRAD_KERNEL({name}, {name}_arguments) {{
  wait_for_earlier_work();
{_constants(of)}  constexpr int kWidth_ = {of.width}, kVectors_ = {_VECTORS};
  const int64 group_ = blockIdx.x / arguments.strips_;
  const int64 column_ = (blockIdx.x - group_ * arguments.strips_) * blockDim.x + threadIdx.x;
  if (column_ >= arguments.vectors_) return;
  const int64 begin_ = arguments.rows_ * group_ / arguments.groups_;
  const int64 end_ = arguments.rows_ * (group_ + 1) / arguments.groups_;
  Vector<float, kWidth_> sums_;
#pragma unroll
  for (int k_ = 0; k_ < kWidth_; ++k_) sums_.elements[k_] = 0;
  for (int64 row_ = begin_; row_ < end_; row_ += kVectors_) {{
{vectors}#pragma unroll
    for (int v_ = 0; v_ < kVectors_; ++v_)
      if (row_ + v_ < end_) {{
{loads}      }}
#pragma unroll
    for (int v_ = 0; v_ < kVectors_; ++v_) {{
      if (row_ + v_ >= end_) break;
      Vector<{out}, kWidth_> out_;
#pragma unroll
      for (int k_ = 0; k_ < kWidth_; ++k_) {{
{elements}        out_.elements[k_] = {_result(of)};
        sums_.elements[k_] += Storage<{out}>::load(out_.elements[k_]);
      }}
      reinterpret_cast<Vector<{out}, kWidth_>*>(
          arguments.out)[(row_ + v_) * arguments.vectors_ + column_] = out_;
    }}
  }}
  float* const to_ = arguments.sums_ + (group_ * arguments.vectors_ + column_) * kWidth_;
#pragma unroll
  for (int k_ = 0; k_ < kWidth_; ++k_) to_[k_] = sums_.elements[k_];
}}
"""


# ---- many kernels


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


# The functions that are put behind a kernel that calls them, by file: Note [Functions written once]
# in csrc/cpu/special.cpp.
_FUNCTIONS = {
    "airy": r"airy_ai(_prime)?",
    "bessel": r"(spherical_|scaled_modified_|modified_)?bessel_\w\d|[ij][01]e?",
    "gamma": r"igammac?|gamma_density",
    "normal": r"log_ndtr|ndtri?",
    "polynomial": r"(chebyshev|hermite)_polynomial_\w+|gegenbauer|laguerre",
}


def functions(text: str) -> str:
    """Return the functions that kernels call and the prelude only declares."""
    files = [name for name, calls in _FUNCTIONS.items() if re.search(rf"\b({calls})\(", text)]
    if not files:
        return ""
    parts = [_function_file(name) for name in ("device", *files)]
    return "\nnamespace math {\n" + "\n".join(parts) + "}\n"


@cache
def _function_file(name: str) -> str:
    folder = Path(__file__).parent / "functions"
    return (folder / f"{name}.cuh").read_text(encoding="utf-8")


def program(dtype: str, of: Sequence[Line] | None = None) -> str:
    """Return a program with all kernels of a dtype: of the whole table, or of some lines."""
    parts = [
        kernel(dense(each, dtype, role), kernel_name(each, dtype, role))
        for each, role in kernels(dtype, of)
    ]
    return "\n".join([prelude(), *parts]) + functions("".join(parts))
