"""Rows of Fourier transforms, as functions of real numbers: fft/ has what is complex alone."""

import dtypes as dt
import numpy as np

from op_db.row import Bad, Dtype, Op, Sample, Tolerance, Value
from op_db.sampler import Sampler

FLOATS = ("float32", "float64")
SUMS = Tolerance(relative=16, absolute=256)
WINDOW = Tolerance(relative=512, absolute=16, half=4)
SHAPES = ((1,), (2,), (5,), (8,), (3, 6), (2, 3, 7), (2, 37))
MISSING = {
    "zero_size": "PyTorch transforms no empty batches; fft/test_values.py",
    "zero_dim": "a transform runs along a dimension",
}
NO_TENSOR = dict.fromkeys(("zero_size", "zero_dim"), "there is no tensor among the arguments")
NUMBERS = Sampler("float32").value((4,))
NUMBER = Sampler("float32").value(())
HALVES = Sampler("float16").value((4,))
BAD = (
    Bad(NUMBERS, n=0, raises=RuntimeError, text="data points"),
    Bad(NUMBERS, n=-3, raises=RuntimeError, text="data points"),
    Bad(NUMBERS, dim=2, raises=IndexError, text="[Dd]imension"),
    Bad(NUMBERS, norm="none", raises=RuntimeError, text="normalization"),
    Bad(NUMBER, raises=IndexError, text="no dimensions"),
    Bad(HALVES, raises=RuntimeError, text="Half"),
    Bad("numbers", raises=TypeError, text="."),
)


def parts(z):
    return np.stack([z.real, z.imag], -1)


def of_parts(x):
    return x[..., 0] + 1j * x[..., 1]


def forward(name):
    """Return real and imaginary parts of the spectrum of real numbers."""
    return lambda library: (
        lambda x, **kwargs: library.view_as_real(
            getattr(library.fft, name)(x, **kwargs).resolve_conj()
        )
    )


def along(sampler):
    for shape in SHAPES:
        yield Sample(sampler.value(shape))
    for norm in ("ortho", "forward"):
        yield Sample(sampler.value((2, 6)), norm=norm)
    yield Sample(sampler.value((4, 3)), dim=0)
    yield Sample(sampler.value((2, 5)), n=3)
    yield Sample(sampler.value((2, 5)), n=8)


def back(sampler):
    for shape in SHAPES[1:]:
        yield Sample(sampler.value(shape))
    yield Sample(sampler.value((1, 4)), n=7, norm="ortho")
    yield Sample(sampler.value((4, 3)), dim=0, norm="forward")
    yield Sample(sampler.value((4, 3)), n=4)


def over(sampler):
    for shape in ((3, 4), (2, 3, 5), (2, 2, 3, 2)):
        yield Sample(sampler.value(shape))
    yield Sample(sampler.value((3, 4, 5)), dim=(0, 1), norm="ortho")
    yield Sample(sampler.value((3, 4, 5)), s=(4, 4), dim=(2, 0))


def frequencies(sampler):
    for n in (1, 2, 5, 8):
        yield Sample(n, dtype=Dtype(sampler.dtype))
    yield Sample(6, 0.25, dtype=Dtype(sampler.dtype))


def shifted(sampler):
    for shape in ((5,), (4,), (3, 4), (2, 3, 5), (0,), (2, 0)):
        if not (sampler.gradient and 0 in shape):
            yield Sample(sampler.value(shape))
    yield Sample(sampler.value((3, 4)), dim=1)
    yield Sample(sampler.value((3, 4)), (0, 1))


# ---- short-time transforms


def hann(n):
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)


def window_value(sampler, n):
    return Value(dt.cast(hann(n) + 0.125, sampler.dtype), sampler.dtype, differentiable=False)


def signals(sampler):
    for shape, n_fft, kwargs in (
        ((24,), 8, {}),
        ((2, 20), 6, {"hop_length": 2}),
        ((2, 20), 8, {"hop_length": 3, "center": False, "normalized": True}),
        ((17,), 5, {"hop_length": 2, "onesided": False, "pad_mode": "constant"}),
    ):
        window = window_value(sampler, n_fft)
        yield Sample(sampler.value(shape), n_fft, window=window, return_complex=True, **kwargs)


def stft(
    x, n_fft, window, return_complex=True, hop_length=None, center=True, normalized=False,
    onesided=True, pad_mode="reflect",
):  # fmt: skip
    hop = hop_length or n_fft // 4
    if center:
        widths = [(0, 0)] * (x.ndim - 1) + [(n_fft // 2, n_fft // 2)]
        x = np.pad(x, widths, mode=pad_mode)
    frames = np.lib.stride_tricks.sliding_window_view(x, n_fft, -1)[..., ::hop, :] * window
    spectra = (np.fft.rfft if onesided else np.fft.fft)(
        frames, norm="ortho" if normalized else None
    )
    return parts(spectra.swapaxes(-1, -2))


def pairs_of_stft(library):
    return lambda x, n_fft, **kwargs: library.view_as_real(library.stft(x, n_fft, **kwargs))


def bad_stft(n_fft, text, return_complex=True, **kwargs):
    return Bad(
        NUMBERS,
        n_fft,
        window=NUMBERS,
        return_complex=return_complex,
        raises=RuntimeError,
        text=text,
        **kwargs,
    )


def spectra(sampler):
    for shape, n_fft, kwargs in (
        ((5, 7, 2), 8, {}),
        ((2, 4, 6, 2), 6, {"hop_length": 2, "normalized": True}),
        ((4, 6, 2), 7, {"hop_length": 3, "center": False}),
    ):
        yield Sample(sampler.value(shape), n_fft, window=window_value(sampler, n_fft), **kwargs)


def istft(x, n_fft, window, hop_length=None, normalized=False, center=True):
    hop = hop_length or n_fft // 4
    spectra = of_parts(x).swapaxes(-1, -2)
    frames = np.fft.irfft(spectra, n_fft, norm="ortho" if normalized else None) * window
    count = frames.shape[-2]
    signal = np.zeros((*frames.shape[:-2], (count - 1) * hop + n_fft))
    weight = np.zeros(signal.shape[-1])
    for t in range(count):
        signal[..., t * hop : t * hop + n_fft] += frames[..., t, :]
        weight[t * hop : t * hop + n_fft] += window**2
    cut = slice(n_fft // 2, -(n_fft // 2)) if center else slice(None)
    return signal[..., cut] / weight[cut]


def istft_of_pairs(library):
    return lambda x, n_fft, **kwargs: library.istft(
        library.view_as_complex(x.contiguous()), n_fft, **kwargs
    )


# ---- windows


def windows(sampler):
    for n in (0, 1, 2, 5, 16):
        for periodic in (True, False):
            yield Sample(n, periodic, dtype=Dtype(sampler.dtype))


def cosines(*coefficients):
    def reference(n, periodic, dtype=None):
        if n < 2:
            return np.ones(n)
        turn = 2 * np.pi * np.arange(n) / (n if periodic else n - 1)
        return sum((-1) ** i * a * np.cos(i * turn) for i, a in enumerate(coefficients))

    return reference


def bartlett(n, periodic, dtype=None):
    return np.bartlett(n + 1)[:n] if periodic and n > 1 else np.bartlett(n)


def kaiser(n, periodic, dtype=None):
    return np.kaiser(n + 1, 12)[:n] if periodic and n > 1 else np.kaiser(n, 12)


BAD_WINDOWS = (
    Bad(-1, raises=RuntimeError, text="non-negative"),
    Bad(2.5, raises=TypeError, text="int"),
    Bad(4, dtype=Dtype("int64"), raises=RuntimeError, text="floating point"),
)


def row(name, wrapper, reference, samples, **kwargs):
    """Return the row of a transform; a wrapper makes real numbers of its result."""
    return Op(
        f"fft.{name}",
        reference,
        samples,
        path=f"fft.{name}",
        wrapper=wrapper,
        dtypes=FLOATS,
        tolerance=SUMS,
        missing=MISSING,
        **kwargs,
    )


def spectrum(name):
    function = getattr(np.fft, name, None)
    return lambda x, **kwargs: parts(function(x, **names(kwargs)))


def names(kwargs):
    """NumPy says axis, and axes."""
    renamed = dict(kwargs)
    if "dim" in renamed:
        dim = renamed.pop("dim")
        renamed["axes" if isinstance(dim, tuple) else "axis"] = dim
    return renamed


# Rows in which there are complex numbers on the way.
TRANSFORMS = (
    *(f"fft.{name}" for name in ("fft", "ifft", "rfft", "ihfft", "irfft", "hfft", "fftn", "rfftn")),
    *("fft.irfftn", "stft", "istft"),
)

ROWS = (
    *(
        row(name, forward(name), spectrum(name), along, bad=BAD)
        for name in ("fft", "ifft", "rfft", "ihfft")
    ),
    *(
        row(
            name,
            None,
            lambda x, name=name, **kwargs: getattr(np.fft, name)(x, **names(kwargs)),
            back,
            bad=(Bad(NUMBERS, n=0, raises=RuntimeError, text="data points"),),
        )
        for name in ("irfft", "hfft")
    ),
    *(
        row(
            name,
            forward(name),
            spectrum(name),
            over,
            bad=(
                Bad(NUMBERS, s=(2, 2), raises=RuntimeError, text="2 values"),
                Bad(NUMBERS, dim=(0, 0), raises=RuntimeError, text="unique"),
                Bad(NUMBERS, s=(2, 2), dim=(0,), raises=RuntimeError, text="same length"),
            ),
        )
        for name in ("fftn", "rfftn")
    ),
    row(
        "irfftn",
        None,
        lambda x, **kwargs: np.fft.irfftn(x, **names(kwargs)),
        over,
        bad=(Bad(NUMBERS, dim=(0, 0), raises=RuntimeError, text="unique"),),
    ),
    *(
        Op(
            f"fft.{name}",
            lambda n, d=1.0, dtype=None, name=name: getattr(np.fft, name)(n, d),
            frequencies,
            path=f"fft.{name}",
            dtypes=FLOATS,
            result="dtype",
            gradient_order=0,
            missing=NO_TENSOR,
            bad=(Bad(-4, raises=RuntimeError, text="negative|range|sign"),),
        )
        for name in ("fftfreq", "rfftfreq")
    ),
    *(
        Op(
            f"fft.{name}",
            lambda x, dim=None, name=name: getattr(np.fft, name)(x, dim),
            shifted,
            path=f"fft.{name}",
            result="same",
            native=True,
            missing={"zero_dim": "there is no dimension to roll"},
            bad=(Bad(NUMBERS, dim=3, raises=IndexError, text="[Dd]imension"),),
        )
        for name in ("fftshift", "ifftshift")
    ),
    Op(
        "stft",
        stft,
        signals,
        wrapper=pairs_of_stft,
        dtypes=FLOATS,
        tolerance=SUMS,
        missing={"zero_size": "frames are not empty", "zero_dim": "a signal has a dimension"},
        bad=(
            bad_stft(8, center=False, text="n_fft"),
            bad_stft(2, hop_length=0, text="hop"),
            bad_stft(2, hop_length=1, win_length=3, text="win_length"),
            bad_stft(2, return_complex=None, text="return_complex"),
        ),
    ),
    Op(
        "istft",
        istft,
        spectra,
        wrapper=istft_of_pairs,
        dtypes=FLOATS,
        tolerance=SUMS,
        missing={"zero_size": "PyTorch refuses it", "zero_dim": "a spectrum has two dimensions"},
        bad=(
            Bad(
                Sampler("float32").value((3, 4, 2)),
                8,
                window=NUMBERS,
                raises=RuntimeError,
                text="frequency",
            ),
        ),
    ),
    *(
        Op(
            f"{name}_window",
            reference,
            windows,
            path=f"{name}_window",
            dtypes=("float32", "float64", "float16", "bfloat16"),
            result="dtype",
            tolerance=WINDOW,
            gradient_order=0,
            missing=NO_TENSOR,
            bad=BAD_WINDOWS,
        )
        for name, reference in (
            ("bartlett", bartlett),
            ("blackman", cosines(0.42, 0.5, 0.08)),
            ("hamming", cosines(0.54, 0.46)),
            ("hann", cosines(0.5, 0.5)),
            ("kaiser", kaiser),
        )
    ),
)
