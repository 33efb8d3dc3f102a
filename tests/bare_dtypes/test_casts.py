"""Casts from and to bare dtypes, to the bit as PyTorch's."""

import warnings

import numpy as np
import pytest
from library import torch

from bare_dtypes.cases import (
    BARE,
    FLOAT8,
    OTHERS,
    UNSIGNED,
    assert_same,
    beside_pytorch,
    bits_of,
    dtype_of,
    each_dtype,
    each_float8,
    each_unsigned,
    pytorch,
)


def numbers_of_16_bits(name):
    bits = np.arange(1 << 16, dtype=np.uint16).view(np.int16)
    return (
        torch.from_numpy(bits.copy()).view(getattr(torch, name)),
        pytorch.from_numpy(bits.copy()).view(getattr(pytorch, name)),
    )


def many_floats(dtype):
    """Numbers of all magnitudes, among them those half-way between two of 8 bits."""
    rng = np.random.default_rng(0)
    spread = rng.standard_normal(200_000) * np.exp2(rng.integers(-24, 24, 200_000))
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 1e-300, 2.0**-127, 2.0**-128]
    with np.errstate(all="ignore"):
        ties = np.nextafter(halves, np.inf)
        return np.concatenate([spread, halves, ties, special]).astype(dtype)


@beside_pytorch
@each_float8
@pytest.mark.parametrize("source", ["float16", "bfloat16"])
def test_every_number_of_16_bits(name, source):
    ours, theirs = numbers_of_16_bits(source)
    np.testing.assert_array_equal(
        bits_of(ours.to(dtype_of(name))), bits_of(theirs.to(getattr(pytorch, name)))
    )


@beside_pytorch
@each_float8
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_many_wider_numbers(name, source):
    array = many_floats(source)
    ours = torch.from_numpy(array).to(dtype_of(name))
    theirs = pytorch.from_numpy(array).to(getattr(pytorch, name))
    np.testing.assert_array_equal(bits_of(ours), bits_of(theirs))


@beside_pytorch
@each_float8
@pytest.mark.parametrize("target", OTHERS + FLOAT8)
def test_every_number_of_8_bits(name, target):
    codes = np.arange(256, dtype=np.uint8)
    ours = torch.from_numpy(codes).view(dtype_of(name))
    theirs = pytorch.from_numpy(codes).view(getattr(pytorch, name))
    if target in ("uint8", "int8", "int16", "int32", "int64"):
        # What an integer cannot hold is undefined in C.
        most = torch.iinfo(dtype_of(target)).max if target != "int64" else 2**62
        kept = (theirs.float().abs() <= most) & ((theirs.float() >= 0) | (target != "uint8"))
        ours, theirs = ours[torch.from_numpy(kept.numpy())], theirs[kept]
    assert_same(ours.to(dtype_of(target)), theirs.to(getattr(pytorch, target)))


@beside_pytorch
@each_unsigned
@pytest.mark.parametrize("target", OTHERS + UNSIGNED + FLOAT8)
def test_from_unsigned(name, target):
    rng = np.random.default_rng(1)
    width = getattr(np, name)
    array = rng.integers(0, np.iinfo(width).max, 2000, dtype=width, endpoint=True)
    array[:4] = [0, 1, np.iinfo(width).max, np.iinfo(width).max // 2 + 1]
    ours, theirs = torch.from_numpy(array), pytorch.from_numpy(array)
    assert_same(ours.to(dtype_of(target)), theirs.to(getattr(pytorch, target)))


@beside_pytorch
@each_unsigned
@pytest.mark.parametrize("source", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_integers_to_unsigned(name, source):
    rng = np.random.default_rng(2)
    array = rng.integers(-(2**63), 2**63 - 1, 1000, dtype=np.int64).astype(getattr(np, source))
    assert_same(
        torch.from_numpy(array).to(dtype_of(name)),
        pytorch.from_numpy(array).to(getattr(pytorch, name)),
    )


@beside_pytorch
@each_unsigned
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
def test_floats_to_unsigned(name, source):
    most = {"uint16": 2.0**16, "uint32": 2.0**32, "uint64": 2.0**63}[name]
    array = np.linspace(-300, most * 0.999, 4001)
    if source == "float16":
        array = np.linspace(-300, 65000, 4001)
    ours = torch.from_numpy(array).to(getattr(torch, source))
    theirs = pytorch.from_numpy(array).to(getattr(pytorch, source))
    if source == "bfloat16" or name == "uint16":  # rounded up to what does not fit
        kept = theirs.double() < most
        ours, theirs = ours[torch.from_numpy(kept.numpy())], theirs[kept]
    assert_same(ours.to(dtype_of(name)), theirs.to(getattr(pytorch, name)))


@beside_pytorch
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_floats_that_do_not_fit(source):
    array = np.array([1e10, 2.0**64, 1e30, -1e30, np.inf, -np.inf, np.nan] * 8)
    for name in ("uint32", "uint64"):
        assert_same(
            torch.from_numpy(array).to(getattr(torch, source)).to(dtype_of(name)),
            pytorch.from_numpy(array).to(getattr(pytorch, source)).to(getattr(pytorch, name)),
        )


@each_dtype
def test_between_strides(name):
    """Every layout of a source and a target gives what contiguous ones give."""
    dtype = dtype_of(name)
    base = torch.arange(1200).reshape(30, 40) % 200 + 1
    dense = base.to(dtype)
    for other in (torch.float32, torch.int64, dtype):
        source = base.to(other).t()
        assert torch.equal(source.to(dtype).float(), dense.t().float())
        target = torch.empty(40, 60, dtype=dtype)[:, ::2]
        target.copy_(source)
        assert torch.equal(target.float(), dense.t().float())
        back = torch.empty(40, 30, dtype=other)
        back.copy_(dense.t())
        assert torch.equal(back.float(), dense.t().float())
    assert dense.expand(2, 30, 40).float().shape == (2, 30, 40)
    row = torch.empty(3, 1, dtype=dtype).fill_(4).expand(3, 5)
    assert row.float().tolist() == [[4.0] * 5] * 3


@each_float8
def test_bits_survive_copies(name):
    codes = torch.arange(256, dtype=torch.uint8)
    x = codes.view(dtype_of(name))
    strided = torch.empty(256, 2, dtype=x.dtype)[:, 1]
    strided.copy_(x)
    for copy in (x.clone(), strided.clone(), x.flip(0).flip(0), torch.cat([x, x])[:256]):
        assert torch.equal(copy.contiguous().view(torch.uint8), codes)


def test_complex():
    for name in BARE:
        x = torch.tensor([1.0, 4.0]).to(dtype_of(name))
        assert x.to(torch.complex64).tolist() == [1, 4]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the imaginary part is dropped
            assert torch.tensor([1 + 2j, 4]).to(x.dtype).tolist() == [1, 4]


def test_gradients_of_casts():
    x = torch.tensor([1.0, 2.3, 500.0], requires_grad=True)
    y = x.to(torch.float8_e4m3fn)
    assert y.requires_grad and y.dtype is torch.float8_e4m3fn
    (y.float() * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [1, 2, 3]
    assert not x.detach().requires_grad_().to(torch.uint32).requires_grad
    leaf = torch.zeros(2, dtype=torch.float8_e5m2, requires_grad=True)
    leaf.float().sum().backward()
    assert leaf.grad.dtype is torch.float8_e5m2 and leaf.grad.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="floating"):
        torch.zeros(2, dtype=torch.uint16, requires_grad=True)
