"""The namespace of the Python array API standard, version 2024.12, for tensors.

    xp = tensor.__array_namespace__()
    xp.concat([x, y], axis=0), xp.sum(x, axis=(0, 1)), xp.unique_values(x)

Code that is written for the standard finds its names, keyword arguments and promotion here, while
the functions of `tapegrad` itself keep PyTorch's. They are made of tapegrad's ops, so gradients,
`vmap` and capture work through them.

What follows PyTorch and not the standard, because tensors are PyTorch's: ``x.size`` is a method,
operators let 0-d tensors give way in promotion, and ``uint16``, ``uint32`` and ``uint64``, which
are stored and moved only, are not among the dtypes. Sums of ``uint8`` are ``int64`` therefore.

Example:
    >>> import tapegrad as torch
    >>> x = torch.tensor([3, 1, 3])
    >>> xp = x.__array_namespace__()
    >>> xp.unique_counts(x).counts
    tensor([1, 2])
    >>> xp.cumulative_sum(x, include_initial=True)
    tensor([0, 3, 4, 7])
"""
# ruff: noqa: F401

# The standard's names are what this module is for, those of builtins among them.
from math import e, inf, nan, pi

from tapegrad import (
    bool,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from tapegrad.compat.array_api import fft, linalg
from tapegrad.compat.array_api._creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from tapegrad.compat.array_api._dtypes import astype, can_cast, finfo, iinfo, isdtype, result_type
from tapegrad.compat.array_api._elementwise import (
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    clip,
    conj,
    copysign,
    cos,
    cosh,
    divide,
    equal,
    exp,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    imag,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    not_equal,
    positive,
    pow,
    real,
    reciprocal,
    remainder,
    round,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
)
from tapegrad.compat.array_api._info import __array_namespace_info__
from tapegrad.compat.array_api._manipulation import (
    broadcast_arrays,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    take,
    take_along_axis,
    tile,
    unstack,
)
from tapegrad.compat.array_api._products import matmul, matrix_transpose, tensordot, vecdot
from tapegrad.compat.array_api._reductions import (
    all,
    any,
    argmax,
    argmin,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    diff,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)
from tapegrad.compat.array_api._searching import (
    UniqueAll,
    UniqueCounts,
    UniqueInverse,
    argsort,
    nonzero,
    searchsorted,
    sort,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    where,
)

__array_api_version__ = "2024.12"
newaxis = None
