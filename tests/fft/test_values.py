"""Values of Fourier transforms, of many lengths, layouts and arguments, beside NumPy and PyTorch.

NumPy transforms in long double, so that the errors that are seen are the library's.
"""

import itertools

import numpy as np
import pytest
from library import torch

COMPLEX = {"float32": "complex64", "float64": "complex128"}
EPSILON = {"float32": 2.0**-24, "float64": 2.0**-53}
# Small ones, primes with a butterfly and without, squares of primes, products, powers.
LENGTHS = (
    *range(1, 41), 47, 49, 61, 64, 74, 97, 101, 121, 127, 128, 131, 169, 210, 243, 255, 256, 257,
    289, 360, 509, 512, 529, 1000, 1009, 1023, 1024, 1331, 2018, 2048, 2187, 3125, 4096, 4099, 5000,
    8192,
)  # fmt: skip
LONG = (9973, 16384, 30030, 44100, 65536, 65537, 65539, 99999, 131072)


def numbers(shape, dtype, seed=0):
    """Return real and complex numbers of a shape."""
    rng = np.random.default_rng(seed)
    real, imag = rng.standard_normal(shape), rng.standard_normal(shape)
    return real.astype(dtype), (real + 1j * imag).astype(COMPLEX[dtype])


def error(ours, wide):
    """Return the relative error in the mean, in units of the roundoff of the dtype."""
    found = ours.numpy()
    assert found.shape == wide.shape
    real = found.real.dtype.name
    difference = np.linalg.norm((found.astype(wide.dtype) - wide).ravel())
    return float(difference / max(np.linalg.norm(wide.ravel()), 1e-30)) / EPSILON[real]


def allowed(n):
    """Return how many units: errors grow with the number of passes."""
    return 2 + 0.6 * np.log2(n + 1)


def expect_close(ours, wide, n, name=""):
    assert error(ours, wide) < allowed(n), f"{name} of length {n}"


def wide(x):
    return x.astype(np.clongdouble if np.iscomplexobj(x) else np.longdouble)


def run_all(n, x, z, dim=-1):
    """Compare all six transforms along a dimension of a length."""
    half = np.take(z, range(n // 2 + 1), axis=dim)
    tx, tz, th = map(torch.from_numpy, (x, z, half))
    x, z, half = map(wide, (x, z, half))
    expect_close(torch.fft.fft(tz, dim=dim), np.fft.fft(z, axis=dim), n, "fft")
    expect_close(torch.fft.fft(tx, dim=dim), np.fft.fft(x, axis=dim), n, "fft of real numbers")
    expect_close(torch.fft.ifft(tz, dim=dim), np.fft.ifft(z, axis=dim), n, "ifft")
    expect_close(torch.fft.rfft(tx, dim=dim), np.fft.rfft(x, axis=dim), n, "rfft")
    expect_close(torch.fft.ihfft(tx, dim=dim), np.fft.ihfft(x, axis=dim), n, "ihfft")
    expect_close(torch.fft.irfft(th, n, dim), np.fft.irfft(half, n, axis=dim), n, "irfft")
    expect_close(torch.fft.hfft(th, n, dim), np.fft.hfft(half, n, axis=dim), n, "hfft")


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("n", LENGTHS)
def test_lengths(n, dtype):
    """One line, a few, more than a vector has lanes; along the last dimension and others."""
    for shape in ((n,), (3, n), (19, n)) if n < 3000 else ((n,), (2, n)):
        run_all(n, *numbers(shape, dtype))
    if n < 3000:
        for shape in ((n, 1), (n, 19), (2, n, 3)):
            run_all(n, *numbers(shape, dtype), dim=len(shape) - 2)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("n", LONG)
def test_long_lines(n, dtype):
    run_all(n, *numbers((n,), dtype))


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("n", [8, 37, 300, 1009])
def test_layouts(n, dtype):
    """Results do not depend on where elements lie."""
    x, z = numbers((4, 5, n), dtype)
    half = np.ascontiguousarray(z[..., : n // 2 + 1])
    for function, source in (("fft", x), ("fft", z), ("rfft", x), ("irfft", half), ("ihfft", x)):
        plain = torch.from_numpy(source)
        expected = getattr(torch.fft, function)(plain)
        stored = torch.stack([plain, plain * 0 + 7], -1)
        layouts = {
            "transposed": plain.permute(2, 0, 1).contiguous().permute(1, 2, 0),
            "strided": stored[..., 0],
            "swapped": plain.transpose(0, 1).contiguous().transpose(0, 1),
            "offset": torch.cat([plain[:1], plain])[1:],
            "flipped twice": plain.flip(0).flip(0),
        }
        for name, laid_out in layouts.items():
            found = getattr(torch.fft, function)(laid_out)
            assert error(found, wide(expected.numpy())) < 4, f"{function}, {name}"
    repeated = torch.from_numpy(z[:1]).expand(6, 5, n)
    expected = torch.fft.fft(torch.from_numpy(z[:1]))
    for each in torch.fft.fft(repeated):
        assert error(each, wide(expected[0].numpy())) < 4


@pytest.mark.parametrize("norm", [None, "forward", "backward", "ortho"])
@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "hfft", "ihfft", "ifft"])
def test_norms_and_sizes(name, norm, pytorch):
    x, z = numbers((3, 7), "float64")
    source = x if name in ("rfft", "ihfft") else z
    for n, dim in itertools.product((None, 1, 2, 3, 6, 7, 8, 20), (0, 1, -1)):
        if n is None and name in ("irfft", "hfft") and source.shape[dim] < 2:
            continue
        ours, theirs = (
            getattr(library.fft, name)(library.from_numpy(source), n, dim, norm)
            for library in (torch, pytorch)
        )
        theirs = theirs.resolve_conj()
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12, atol=1e-12)


MANY = ("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn")


@pytest.mark.parametrize("name", MANY)
def test_several_dimensions(name, pytorch):
    x, z = numbers((3, 4, 5, 6), "float64")
    is_real = name in ("rfftn", "ihfftn")
    sources = [x] if is_real else [z, x]
    orders = [
        None,
        *itertools.permutations(range(4), 2),
        (0, 1, 2),
        (3, 2, 1, 0),
        (-1,),
        (-2, 1, 0),
    ]
    for source, dims, norm in itertools.product(sources, orders, (None, "ortho", "forward")):
        for s in (None, [5] * len(dims or range(4)), [-1] * len(dims or range(4))):
            ours, theirs = (
                getattr(library.fft, name)(library.from_numpy(source), s=s, dim=dims, norm=norm)
                for library in (torch, pytorch)
            )
            theirs = theirs.resolve_conj().numpy()
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2"])
@pytest.mark.parametrize("dtype", COMPLEX)
def test_planes(name, dtype, pytorch):
    for shape in ((2, 2, 4), (2, 8, 8), (2, 30, 37), (64, 48)):
        x, z = numbers(shape, dtype)
        source = x if name in ("rfft2", "ihfft2") else z
        for dim in ((-2, -1), (0, -1), (-1, 0)):
            ours, theirs = (
                getattr(library.fft, name)(library.from_numpy(source), dim=dim, norm="ortho")
                for library in (torch, pytorch)
            )
            theirs = theirs.resolve_conj().numpy()
            assert ours.dtype == getattr(torch, theirs.dtype.name)
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_integers_are_promoted(dtype, pytorch):
    numbers_of = [1, 0, 3, 2]
    for name in ("fft", "rfft", "irfft", "hfft", "ihfft", "fftn", "rfft2"):
        ours, theirs = (
            getattr(library.fft, name)(
                library.tensor([numbers_of, numbers_of]).to(getattr(library, dtype))
            )
            for library in (torch, pytorch)
        )
        assert str(ours.dtype) == str(theirs.dtype)
        theirs = theirs.resolve_conj().numpy()
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6, atol=1e-6)


def test_empty_batches_give_empty_results():
    for shape in ((0, 5), (2, 0, 5)):
        assert torch.fft.fft(torch.empty(shape)).shape == shape
        assert torch.fft.rfft(torch.empty(shape)).shape == (*shape[:-1], 3)
        assert torch.fft.irfft(torch.empty(shape)).shape == (*shape[:-1], 8)
        assert torch.fft.fftn(torch.empty(shape), dim=(-1,)).shape == shape
    assert torch.fft.fft(torch.empty(0), n=3).tolist() == [0, 0, 0]


def test_no_dimensions_is_a_copy():
    x = torch.tensor([1.0, 2.0])
    y = torch.fft.fftn(x, dim=())
    assert y.tolist() == [1, 2] and y.dtype == torch.complex64
    z = torch.fft.fftn(y, dim=())
    assert z.data_ptr() != y.data_ptr()
    assert torch.fft.fftn(torch.tensor(3)).item() == 3


def test_infinities_and_nans_stay_in_their_line():
    z = torch.ones(5, 300, dtype=torch.complex64)
    z[2, 7] = float("nan")
    for n in (300, 16, 37):
        found = torch.fft.fft(z[:, :n])
        assert torch.isnan(found[2]).all()
        assert torch.isfinite(found[[0, 1, 3, 4]].abs()).all()


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shifts(name, pytorch):
    for shape in ((5,), (6,), (3, 4), (2, 3, 5), (1,), (0, 2)):
        x = np.arange(np.prod(shape)).reshape(shape)
        for dim in (None, 0, -1, (0,), tuple(range(len(shape)))):
            ours, theirs = (
                getattr(library.fft, name)(library.from_numpy(x), dim).tolist()
                for library in (torch, pytorch)
            )
            assert ours == theirs
    assert torch.fft.fftshift(torch.tensor([1 + 1j, 2])).tolist() == [2, 1 + 1j]


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies(name, pytorch):
    for n in (1, 2, 3, 4, 7, 10):
        for options in ({}, {"d": 0.25}, {"dtype": "float64"}, {"dtype": "float16"}, {"d": 0.0}):
            ours, theirs = (
                getattr(library.fft, name)(
                    n, **{k: getattr(library, v) if k == "dtype" else v for k, v in options.items()}
                )
                for library in (torch, pytorch)
            )
            assert str(ours.dtype) == str(theirs.dtype)
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-3)
    out = torch.empty(4, dtype=torch.float64)
    assert getattr(torch.fft, name)(6 if name == "rfftfreq" else 4, out=out) is out
    assert getattr(torch.fft, name)(4, requires_grad=True).requires_grad
