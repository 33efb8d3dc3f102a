"""What the tests of bare dtypes share: the dtypes, and the same bytes here and in PyTorch."""

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
beside_pytorch = pytest.mark.skipif(
    pytorch is None or IS_TORCH, reason=REASON or "nothing to compare with"
)

UNSIGNED = ("uint16", "uint32", "uint64")
FLOAT8 = (
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
BARE = UNSIGNED + FLOAT8
OTHERS = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
each_dtype = pytest.mark.parametrize("name", BARE)
each_unsigned = pytest.mark.parametrize("name", UNSIGNED)
each_float8 = pytest.mark.parametrize("name", FLOAT8)


def dtype_of(name):
    return getattr(torch, name)


def bits_of(x):
    """The bytes of a tensor of either library, as a NumPy array."""
    library = torch if isinstance(x, torch.Tensor) else pytorch
    return x.contiguous().reshape(-1).view(library.uint8).numpy()


def assert_same(ours, theirs):
    """The same dtype, shape and bytes; any NaN is as good as another."""
    assert str(ours.dtype) == str(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)
    if ours.dtype.is_floating_point or ours.dtype.is_complex:
        wide = "complex128" if ours.dtype.is_complex else "float64"
        a = ours.detach().to(getattr(torch, wide)).numpy()
        b = theirs.detach().to(getattr(pytorch, wide)).numpy()
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a.real) & (a == 0), np.signbit(b.real) & (b == 0))
    else:
        np.testing.assert_array_equal(bits_of(ours), bits_of(theirs))


def both(array, name):
    """A NumPy array as a tensor of a dtype, here and in PyTorch."""
    return (
        torch.from_numpy(array.copy()).to(dtype_of(name)),
        pytorch.from_numpy(array.copy()).to(getattr(pytorch, name)),
    )
