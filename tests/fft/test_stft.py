"""Short-time Fourier transforms beside PyTorch's: every argument, errors, gradients, features."""

import itertools
import warnings

import numpy as np
import pytest
from library import torch

pytestmark = pytest.mark.filterwarnings("ignore:.*window was not provided", "ignore:.*deprecated")
DTYPES = ("float32", "float64", "complex64", "complex128")
FRAMES = ((8, None, None), (9, 3, None), (16, 4, 10), (7, 2, 5), (12, 12, 12), (6, 5, 6))
WINDOWS = (None, "real", "complex")


def signal(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if "complex" in dtype:
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def window_of(kind, length, dtype):
    if kind is None:
        return None
    wide = "128" in dtype or dtype == "float64"
    found = np.hanning(length + 2)[1:-1]
    if kind == "complex":
        found = found * np.exp(0.3j * np.arange(length))
        return found.astype("complex128" if wide else "complex64")
    return found.astype("float64" if wide else "float32")


def both(function, pytorch, *arrays, **kwargs):
    """Return what the two libraries give, or the errors that they raise."""
    found = []
    for library in (torch, pytorch):
        tensors = [None if x is None else library.from_numpy(x) for x in arrays]
        try:
            found.append(function(library, *tensors, **kwargs))
        except (RuntimeError, NotImplementedError) as error:
            found.append(error)
    return found


def expect_same(found, dtype, context):
    ours, theirs = found
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception), f"{context}: {theirs}"
        return False
    assert not isinstance(ours, Exception), f"{context}: {ours}"
    ours, theirs = ours.numpy(), theirs.resolve_conj().numpy()
    tolerance = 1e-10 if "64" in dtype.replace("complex64", "") or "128" in dtype else 2e-4
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance, err_msg=f"{context}")
    return True


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("frame", FRAMES)
def test_stft(frame, dtype, pytorch):
    n_fft, hop, win = frame
    compared = 0
    for shape, kind, center, normalized, onesided, complex_result in itertools.product(
        ((40,), (2, 41)), WINDOWS, (True, False), (False, True), (None, True, False), (True, None)
    ):
        options = {
            "hop_length": hop,
            "win_length": win,
            "center": center,
            "normalized": normalized,
            "onesided": onesided,
            "return_complex": complex_result,
        }
        found = both(
            lambda t, x, w, options=options: t.stft(x, n_fft, window=w, **options),
            pytorch,
            signal(shape, dtype),
            window_of(kind, win or n_fft, dtype),
        )
        compared += expect_same(found, dtype, options)
    assert compared > 20


@pytest.mark.parametrize("options", [
    {"pad_mode": "constant"},
    {"pad_mode": "replicate"},
    {"pad_mode": "circular"},
    {"center": False, "align_to_window": True},
    {"center": False, "align_to_window": False},
    {"return_complex": False},
    {"return_complex": False, "onesided": False},
])  # fmt: skip
def test_other_arguments(options, pytorch):
    options = {"return_complex": True} | options
    for n_fft, hop, win in FRAMES:
        found = both(
            lambda t, x, w, n_fft=n_fft, hop=hop, win=win: t.stft(x, n_fft, hop, win, w, **options),
            pytorch,
            signal((2, 33), "float64"),
            window_of("real", win or n_fft, "float64"),
        )
        assert expect_same(found, "float64", options)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("complex_signal", [False, True])
def test_istft(frame, complex_signal, pytorch):
    n_fft, hop, win = frame
    dtype = "complex128" if complex_signal else "float64"
    compared = 0
    for shape, kind, center, normalized, length, whole in itertools.product(
        ((40,), (2, 41)), WINDOWS, (True, False), (False, True), (None, 30, 60), (False, True)
    ):
        window = window_of(kind, win or n_fft, dtype)

        def call(t, x, w, center=center, normalized=normalized, length=length, whole=whole):
            common = {"hop_length": hop, "win_length": win, "window": w, "center": center}
            common["normalized"] = normalized
            spectra = t.stft(x, n_fft, return_complex=True, onesided=not whole, **common)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a length that is too large
                return t.istft(
                    spectra, n_fft, length=length, onesided=not whole,
                    return_complex=whole and complex_signal, **common,
                )  # fmt: skip

        compared += expect_same(
            both(call, pytorch, signal(shape, dtype), window), dtype, (kind, center, length)
        )
    assert compared > 8


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_there_and_back(dtype):
    x = torch.from_numpy(signal((2, 4000), dtype))
    window = torch.hann_window(256, dtype=x.dtype)
    spectra = x.stft(256, 64, window=window, return_complex=True)
    assert spectra.shape == (2, 129, 63)
    back = spectra.istft(256, 64, window=window, length=4000)
    assert (back - x).abs().max() < (1e-5 if dtype == "float32" else 1e-13)


STFT_REFUSED = {
    "choice": lambda t, x, w: t.stft(x, 8, window=w),
    "long frame": lambda t, x, w: t.stft(x, 50, center=False, return_complex=True),
    "no frame": lambda t, x, w: t.stft(x, 0, return_complex=True),
    "hop": lambda t, x, w: t.stft(x, 8, 0, window=w, return_complex=True),
    "window length": lambda t, x, w: t.stft(x, 8, 2, 10, return_complex=True),
    "window": lambda t, x, w: t.stft(x, 8, 2, 6, window=w, return_complex=True),
    "three dimensions": lambda t, x, w: t.stft(x.reshape(1, 2, 20), 4, return_complex=True),
    "integers": lambda t, x, w: t.stft(x.long(), 8, window=w, return_complex=True),
    "half": lambda t, x, w: t.stft(x.half(), 8, window=w.half(), return_complex=True),
    "one side": lambda t, x, w: t.stft(x + 0j, 8, window=w, onesided=True),
    "aligned": lambda t, x, w: t.stft(x, 8, window=w, align_to_window=True, return_complex=True),
    "padding": lambda t, x, w: t.stft(x, 8, window=w, pad_mode="none", return_complex=True),
    "short": lambda t, x, w: t.stft(x[:3], 8, window=w, return_complex=True),
    "real spectra": lambda t, x, w: t.istft(x.reshape(5, 8), 8, window=w),
    "rows": lambda t, x, w: t.istft(x.reshape(4, 10) + 0j, 8, window=w),
    "all rows": lambda t, x, w: t.istft(x.reshape(5, 8) + 0j, 8, window=w, onesided=False),
    "large hop": lambda t, x, w: t.istft(x.reshape(5, 8) + 0j, 8, 9, window=w),
    "long window": lambda t, x, w: t.istft(x.reshape(5, 8) + 0j, 8, 2, 9, window=w),
    "window size": lambda t, x, w: t.istft(x.reshape(5, 8) + 0j, 8, 2, window=w[:7]),
    "zeros": lambda t, x, w: t.istft(x.reshape(5, 8) + 0j, 8, 2, window=w * 0),
    "zeros at the ends": lambda t, x, w: t.istft(
        x.reshape(5, 8) + 0j, 8, 2, window=t.hann_window(8), center=False
    ),
    "complex from half": lambda t, x, w: t.istft(
        x.reshape(5, 8) + 0j, 8, 2, window=w, return_complex=True
    ),
    "complex window": lambda t, x, w: t.istft(x.reshape(5, 8) + 0j, 8, 2, window=w + 0j),
    "empty": lambda t, x, w: t.istft(x.reshape(5, 8)[:, :0] + 0j, 8, window=w),
    "dimensions": lambda t, x, w: t.istft(x.reshape(1, 1, 5, 8) + 0j, 8, window=w),
    "list": lambda t, x, w: t.stft(x, 8, window=[1.0] * 8, return_complex=True),
}


@pytest.mark.parametrize("name", STFT_REFUSED)
def test_both_refuse(name, pytorch):
    x, window = signal((40,), "float32"), np.ones(8, "float32")
    errors = []
    for library in (torch, pytorch):
        with pytest.raises(Exception) as caught:
            STFT_REFUSED[name](library, library.from_numpy(x), library.from_numpy(window))
        errors.append(caught.value)
    ours, theirs = errors
    assert isinstance(ours, type(theirs)) or isinstance(theirs, type(ours)), f"{ours!r} {theirs!r}"


def test_warnings():
    x = torch.arange(16.0)
    with pytest.warns(UserWarning, match="A window was not provided"):
        spectra = torch.stft(x, 4, return_complex=True)
    with pytest.warns(UserWarning, match="A window was not provided"):
        torch.istft(spectra, 4)
    window = torch.ones(4)
    with pytest.warns(UserWarning, match="return_complex=False is deprecated"):
        pairs = torch.stft(x, 4, window=window, return_complex=False)
    assert torch.equal(torch.view_as_complex(pairs), spectra)
    with pytest.warns(UserWarning, match="shorter than the length parameter"):
        assert torch.istft(spectra, 4, window=window, length=40)[-1] == 0


def test_derivatives():
    x = torch.from_numpy(signal((2, 20), "float64")).requires_grad_()
    window = torch.from_numpy(window_of("real", 6, "float64")).requires_grad_()

    def there(x, window):
        return torch.stft(x, 6, 2, window=window, return_complex=True)

    assert torch.autograd.gradcheck(there, (x, window), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(there, (x, window))
    spectra = there(x, window).detach().requires_grad_()

    def back(spectra, window):
        return torch.istft(spectra, 6, 2, window=window)

    assert torch.autograd.gradcheck(back, (spectra, window), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(back, (spectra, window))


def test_gradients_are_those_of_pytorch(pytorch):
    found = []
    for library in (torch, pytorch):
        x = library.from_numpy(signal((2, 50), "float64")).requires_grad_()
        window = library.hann_window(16, dtype=library.float64)
        spectra = library.stft(x, 16, 4, window=window, return_complex=True)
        y = library.istft(spectra * spectra.abs(), 16, 4, window=window)
        (y**3).sum().backward()
        found.append(x.grad.numpy())
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-7)


def test_features():
    window = torch.hann_window(8, dtype=torch.float64)

    def power(x):
        own = window.to(x.device)
        return torch.stft(x, 8, 2, window=own, return_complex=True).abs().square()

    def round_trip(x):
        own = window.to(x.device)
        spectra = torch.stft(x, 8, 2, window=own, return_complex=True)
        return torch.istft(spectra, 8, 2, window=own)

    x = torch.from_numpy(signal((3, 2, 40), "float64"))
    for function in (power, round_trip):
        together = torch.vmap(function)(x)
        assert torch.allclose(together, torch.stack([function(each) for each in x]))
        compiled = torch.compile(function)
        for each in x:
            assert torch.allclose(compiled(each), function(each))
        meta = function(x[0].to("meta"))
        assert meta.shape == function(x[0]).shape
        leaf = x[0].clone().requires_grad_()
        (direct,) = torch.autograd.grad(function(leaf).sum(), leaf)
        again = torch.utils.checkpoint.checkpoint(function, leaf, use_reentrant=False)
        assert torch.allclose(torch.autograd.grad(again.sum(), leaf)[0], direct)


def test_autocast_runs_stft_in_float32(pytorch):
    for library in (torch, pytorch):
        x = library.ones(16, dtype=library.bfloat16)
        with library.autocast("cpu", dtype=library.bfloat16):
            found = library.stft(x, 4, window=library.ones(4), return_complex=True)
        assert str(found.dtype) == "torch.complex64"
