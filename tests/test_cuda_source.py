"""The CUDA reader of the pointwise table: all of it compiles, with no GPU in the machine."""

import ctypes
import dataclasses
import importlib.util
import os
import re
from pathlib import Path

import pytest
from library import IS_SANITIZED, IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the generator is tapegrad's own", allow_module_level=True)
if IS_SANITIZED:
    pytest.skip("NVRTC does not load beside a preloaded sanitizer", allow_module_level=True)

from tapegrad.cuda import pointwise_source as source

ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")
# Assembling takes three quarters of the time, and finds less than compiling does: each program is
# compiled for every architecture, and assembled for all of them in `make test-cuda` only.
ASSEMBLED = ARCHITECTURES if os.environ.get("TAPEGRAD_TEST_CUDA") == "all" else ("sm_90",)
SOURCE_NAME = "pointwise.cu"
FLOATING = ("float32", "float64", "float16", "bfloat16")


def find_nvrtc():
    """Return the path of the NVRTC library in NVIDIA's wheel, or None when it is not installed."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else ():
        found = sorted((Path(folder) / "cuda_nvrtc" / "lib").glob("libnvrtc.so.*"))
        if found:
            return found[0]
    return None


NVRTC = find_nvrtc()
needs_nvrtc = pytest.mark.skipif(
    NVRTC is None, reason="NVRTC is not installed; pip install nvidia-cuda-nvrtc-cu12"
)


def compile_program(text, architecture):
    """Compile a program with NVRTC; return whether it succeeded, and the log."""
    library = ctypes.CDLL(str(NVRTC))
    program = ctypes.c_void_p()
    created = library.nvrtcCreateProgram(
        ctypes.byref(program), text.encode(), SOURCE_NAME.encode(), 0, None, None
    )
    assert created == 0, f"nvrtcCreateProgram failed with {created}"
    try:
        if architecture not in ASSEMBLED:
            architecture = architecture.replace("sm_", "compute_")
        options = [f"--gpu-architecture={architecture}", *source.COMPILE_OPTIONS]
        array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        status = library.nvrtcCompileProgram(program, len(options), array)
        size = ctypes.c_size_t()
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        return status == 0, log.value.decode()
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def lines_in_log(text, log):
    """Return the table's lines to which the messages of a log refer, as "name: expression"."""
    rows = text.splitlines()
    found = {}
    for number in re.findall(rf"{re.escape(SOURCE_NAME)}\((\d+)\)", log):
        kernel = rows[: int(number)]
        titles = [row for row in kernel if re.match(r"// \w+: ", row)]
        found[titles[-1].removeprefix("// ") if titles else "the prelude"] = None
    return list(found)


def check_compiles(text, architecture):
    """Fail with NVRTC's log and the table's lines unless a program compiles without a warning."""
    compiled, log = compile_program(text, architecture)
    assert compiled and not log, f"{lines_in_log(text, log)}\n{log}"


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("dtype", source.DTYPES)
def test_table_compiles(dtype, architecture):
    check_compiles(source.program(dtype), architecture)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_columns_compile(dtype, architecture):
    kernels = [
        source.column_kernel(source.dense(source.line(name), dtype, role), f"{name}{role}")
        for name, role in (("gelu", 0), ("gelu_tanh", 0), ("relu", None), ("leaky_relu", 0))
    ]
    check_compiles("\n".join([source.prelude(), *kernels]), architecture)


@needs_nvrtc
@pytest.mark.parametrize(
    "broken",
    [
        {"value": "tanh(x"},
        {"value": "no_such_function(x)"},
        {"value": "x + z"},
        {"derivatives": ("g * (1 - q * y)",)},
        {"value": "x < 0"},  # a condition where the result is a number
    ],
    ids=lambda change: next(iter(change.values())),
)
def test_broken_expression_fails_to_compile(broken):
    line = dataclasses.replace(source.line("tanh"), **broken)
    text = source.program("float32", [line])
    compiled, log = compile_program(text, "sm_90")
    assert not compiled
    assert "error" in log
    assert lines_in_log(text, log)[0].startswith("tanh: ")
    with pytest.raises(AssertionError, match="tanh"):
        check_compiles(text, "sm_90")


def test_every_line_is_read():
    rows = torch._C.pointwise_table()
    assert len(rows) > 100
    assert [line.name for line in source.lines()] == [row["name"] for row in rows]


@pytest.mark.parametrize("row", torch._C.pointwise_table(), ids=lambda row: row["name"])
def test_every_line_has_its_kernels(row):
    """Its value for each dtype it computes in, and each derivative that is more than 0 or g."""
    line = source.line(row["name"])
    accepts_integers = row["dtypes"] in ("Any", "Number", "Integer", "Integral", "Test")
    accepts_floats = row["dtypes"] not in ("Integer", "Integral")
    for dtype in source.DTYPES:
        text = source.program(dtype, [line])
        expected = accepts_floats if dtype in FLOATING else accepts_integers
        if dtype == "bool" and row["dtypes"] in ("Number", "Integer"):
            expected = False
        value = f"TAPEGRAD_KERNEL({line.name}_{dtype},"
        assert text.count(value) == expected, f"{value} in {dtype}"
        for i, derivative in enumerate(row["derivatives"]):
            expected_derivative = dtype in FLOATING and derivative not in ("none", "0", "g")
            name = f"TAPEGRAD_KERNEL({line.name}_backward{i}_{dtype},"
            assert text.count(name) == (expected_derivative and accepts_floats), name


def test_accepted_dtypes_are_those_of_the_library():
    """A dtype has a kernel exactly if the op runs in it, giving that dtype, or bool for a test."""
    for name in ("neg", "add", "tanh", "bitwise_not", "bitwise_left_shift", "isnan", "floor"):
        line = source.line(name)
        for dtype in source.DTYPES:
            operands = [torch.ones(2, dtype=getattr(torch, dtype))] * len(line.operands)
            try:
                result = getattr(torch, name)(*operands).dtype
            except (RuntimeError, NotImplementedError):
                result = None
            runs = result == (torch.bool if line.dtypes == "Test" else getattr(torch, dtype))
            if name == "floor" and dtype not in FLOATING:
                runs = False  # returned unchanged, by a copy
            assert runs == (dtype in source.kernel_dtypes(line)), f"{name} in {dtype}"


def fields(name, dtype, derivative=None):
    """Return the arguments of a kernel, as one line."""
    text = source.kernel(source.dense(source.line(name), dtype, derivative))
    return " ".join(text.split("{")[1].split("}")[0].split())


def test_operands_that_are_not_mentioned_are_no_arguments():
    assert fields("exp", "float32", 0) == "int64 count; float* out; const float* g; const float* y;"
    pointers = "int64* out; const bool* a; const int64* b; const int64* c;"
    assert fields("where", "int64") == f"int64 count; {pointers}"
    assert fields("leaky_relu", "float16") == (
        "int64 count; Half* out; const Half* x; float negative_slope;"
    )
    assert "bool* out;" in fields("lt", "float64")


def description(*operands, number, derivative=-1, dtype="float32", width=1, rank=0, wide=0):
    rows = [f"{number} {derivative} {dtype} {width} {rank} {wide}", *operands]
    return source.described("\n".join(rows))


def test_a_description_is_read():
    number = [line.name for line in source.lines()].index("mul")
    found = description(
        "-1 float32 strided float32",
        "0 float16 strided float32",
        "1 int64 value float32",
        number=number,
        rank=2,
    )
    assert (found.line.name, found.derivative, found.rank, found.is_wide) == ("mul", None, 2, False)
    assert [each.name for each in found.operands] == ["out", "a", "b"]
    text = source.kernel(found)
    assert "NarrowGeometry<2, 3> geometry;" in text and "float b;" in text
    assert "operand<float, float>(arguments.a[offsets_[1]])" in text


ACCESSES = {
    "dense": {"width": 4},
    "few": {"width": 0},
    "strided": {"rank": 3},
    "wide": {"rank": 2, "wide": 1},
    "vectors": {"rank": 2, "width": 2},
}


@needs_nvrtc
@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("stored", source.DTYPES)
def test_operands_of_every_dtype_compile(stored, access):
    """A sum of mixed dtypes, a copy to each dtype, and a fill."""
    how = "dense" if access in ("dense", "few") else "strided"
    number = [line.name for line in source.lines()].index("add")
    texts = [source.prelude()]
    for k, other in enumerate(source.DTYPES):
        copied = description(
            f"-1 {other} {how} {other}",
            f"0 {stored} {how} {other}",
            number=-1,
            dtype=other,
            **ACCESSES[access],
        )
        texts.append(source.kernel(copied, f"copy{k}"))
    total = description(
        f"-1 float64 {how} float32",
        f"0 {stored} {'repeated' if access == 'vectors' else how} float32",
        "1 float32 single float32",
        number=number,
        **ACCESSES[access],
    )
    filled = description(f"-1 {stored} {how} {stored}", number=-2, dtype=stored, **ACCESSES[access])
    texts += [source.kernel(total, "add"), source.kernel(filled, "fill")]
    check_compiles("".join(texts), "sm_90")


def test_refusals_name_the_op():
    with pytest.raises(KeyError, match="no line 'tanhh'"):
        source.line("tanhh")
    with pytest.raises(ValueError, match=r"tanh: expected one of .*, got int32"):
        source.dense(source.line("tanh"), "int32")
    with pytest.raises(ValueError, match="add: derivative 0 is no kernel"):
        source.dense(source.line("add"), "float32", derivative=0)
