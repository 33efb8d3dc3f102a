"""The names of element types: ours, those of a safetensors header, NumPy's.

An element type that the format lacks is stored as pairs of one that it has, in a last dimension of
two: complex128 as F64.
"""

from typing import NamedTuple

from tapegrad import _C

__all__ = ["BY_NAME", "CODES", "NUMPY_CODES", "Code", "code_of", "dtype_of_code", "itemsize"]


class Code(NamedTuple):
    """How an element type is written: the name in the header, and whether in pairs."""

    name: str
    pairs: bool = False


# The size in bytes of each type of the format that we can hold or pass on.
CODES = {"BOOL": 1, "U8": 1, "I8": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4, "I32": 4,
         "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8, "F8_E4M3": 1, "F8_E5M2": 1,
         "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1}  # fmt: skip

NUMPY_CODES = {
    "bool": Code("BOOL"), "uint8": Code("U8"), "int8": Code("I8"), "uint16": Code("U16"),
    "int16": Code("I16"), "float16": Code("F16"), "uint32": Code("U32"), "int32": Code("I32"),
    "float32": Code("F32"), "uint64": Code("U64"), "int64": Code("I64"), "float64": Code("F64"),
    "complex64": Code("C64"), "complex128": Code("F64", pairs=True),
}  # fmt: skip

# The dtypes that NumPy does not have.
_OTHER_CODES = {
    "bfloat16": Code("BF16"), "float8_e4m3fn": Code("F8_E4M3"), "float8_e5m2": Code("F8_E5M2"),
    "float8_e4m3fnuz": Code("F8_E4M3FNUZ"), "float8_e5m2fnuz": Code("F8_E5M2FNUZ"),
    "float8_e8m0fnu": Code("F8_E8M0"),
}  # fmt: skip

_CODES_BY_NAME = {**NUMPY_CODES, **_OTHER_CODES}
BY_NAME: dict[str, _C.dtype] = {name: getattr(_C, name) for name in _CODES_BY_NAME}
_CODE_OF = {dtype: _CODES_BY_NAME[name] for name, dtype in BY_NAME.items()}
_BY_CODE = {code.name: dtype for dtype, code in _CODE_OF.items() if not code.pairs}


def code_of(dtype: _C.dtype) -> Code:
    """Return how a dtype is written."""
    return _CODE_OF[dtype]


def dtype_of_code(name: str) -> _C.dtype:
    """Return the dtype of a name in a header, one of `CODES`."""
    return _BY_CODE[name]


def itemsize(dtype: _C.dtype) -> int:
    """Return the bytes of an element."""
    return dtype.itemsize
