"""Facts about dtypes that tests need: names, NumPy storage, precision and type promotion.

A dtype is a plain string here (``"float32"``), so that one sample serves tapegrad, PyTorch and
NumPy. NumPy has no bfloat16: its values are held in float32 arrays, rounded to what bfloat16 can
hold.
"""

import numpy as np

FLOATS = ("float32", "float64", "float16", "bfloat16")
SIGNED = ("int8", "int16", "int32", "int64")
INTS = (*SIGNED, "uint8")
INTEGRAL = (*INTS, "bool")
NUMBERS = FLOATS + INTS
ALL = (*NUMBERS, "bool")

DEFAULT_FLOAT = "float32"

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
TINIEST = {"float64": 2.0**-1074, "float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}
SMALLEST_NORMAL = {
    "float64": 2.0**-1022,
    "float32": 2.0**-126,
    "float16": 2.0**-14,
    "bfloat16": 2.0**-126,
}
LARGEST = {
    "float64": float(np.finfo(np.float64).max),
    "float32": float(np.finfo(np.float32).max),
    "float16": 65504.0,
    "bfloat16": 255.0 * 2.0**120,
}


def is_float(dtype):
    return dtype in FLOATS


def name_of(dtype):
    """Return ``"float32"`` for a library's dtype object ``torch.float32``."""
    return str(dtype).rsplit(".", maxsplit=1)[-1]


def storage(dtype):
    """Return the NumPy dtype in which tests hold values of a dtype."""
    return np.dtype("float32" if dtype == "bfloat16" else dtype)


def round_to_bfloat16(array):
    """Round to the nearest bfloat16, ties to even, and return the values as float32.

    Rounding float64 to float32 first could turn a near-tie into a tie, so that step rounds to odd.
    """
    wide = np.asarray(array, dtype=np.float64)
    with np.errstate(over="ignore"):
        single = wide.astype(np.float32)
    bits = single.view(np.uint32).copy()
    # Round to odd: where float32 was inexact, step back towards zero, then set the last bit.
    away = np.abs(single.astype(np.float64)) > np.abs(wide)
    bits = np.where(away, bits - 1, bits)
    inexact = (single.astype(np.float64) != wide) & np.isfinite(wide)
    bits = np.where(inexact, bits | 1, bits)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    rounded = np.where(np.isnan(single), np.uint32(0x7FC00000), rounded).astype(np.uint32)
    return rounded.view(np.float32).reshape(np.shape(array))


def cast(array, dtype):
    """Convert an array to the values that a dtype can hold, in that dtype's NumPy storage."""
    if dtype == "bfloat16":
        return round_to_bfloat16(array)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(array).astype(dtype)


def category(dtype):
    """Return 0 for bool, 1 for integers, 2 for floating dtypes: PyTorch's promotion categories."""
    if dtype == "bool":
        return 0
    return 2 if is_float(dtype) else 1


def promote_two(a, b):
    """Return the dtype that two operands of equal standing combine to."""
    if a == b:
        return a
    if category(a) != category(b):
        return a if category(a) > category(b) else b
    if category(a) == 2:
        # float16 and bfloat16 contain neither the other: their join is float32.
        widths = {"float16": 1, "bfloat16": 1, "float32": 2, "float64": 3}
        if widths[a] == widths[b]:
            return "float32"
        return a if widths[a] > widths[b] else b
    return str(np.promote_types(a, b))


def promote(operands):
    """Return the result dtype of operands given as ``(dtype, standing)`` pairs.

    Standing is 2 for a dimensioned tensor, 1 for a 0-d tensor, 0 for a Python number. Operands of
    lower standing matter only when their category is higher than everything above them.
    """
    result, seen = None, -1
    for standing in (2, 1, 0):
        group = [dtype for dtype, level in operands if level == standing]
        if not group:
            continue
        joined = group[0]
        for dtype in group[1:]:
            joined = promote_two(joined, dtype)
        if standing == 0 and category(joined) == 2 and seen < 2:
            joined = DEFAULT_FLOAT
        if category(joined) > seen:
            result = joined if result is None or category(joined) > category(result) else result
            seen = category(joined)
    return result
