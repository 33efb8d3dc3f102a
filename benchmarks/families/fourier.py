"""Fourier transforms: complex and real, one line, batches and planes, easy and hard lengths."""

from __future__ import annotations

from benchmarks.case import Benchmark, Case

# Powers of two, a length of small primes, a prime, and one second of sound.
_LENGTHS = (64, 256, 1000, 1009, 1024, 4096, 44100, 65536, 1048576)
_ELEMENTS = 1 << 17  # of a batch
_STATEMENTS = {
    "fft": "torch.fft.fft(z)",
    "fft_real": "torch.fft.fft(x)",
    "rfft": "torch.fft.rfft(x)",
    "irfft": "torch.fft.irfft(h)",
}
_PLANES = {
    "fft2": "torch.fft.fft2(z)",
    "rfft2": "torch.fft.rfft2(x)",
    "irfft2": "torch.fft.irfft2(h)",
}


def _setup(shape: tuple[int, ...], dtype: str) -> str:
    half = (*shape[:-1], shape[-1] // 2 + 1)
    return (
        f"x = uniform(*{shape}, dtype='{dtype}')\n"
        "z = torch.complex(x, x.flip(-1))\n"
        f"h = torch.complex(uniform(*{half}, dtype='{dtype}'), uniform(*{half}, dtype='{dtype}'))\n"
    )


def _checked(statement: str) -> str:
    """Parts of the result: the workers compare real numbers."""
    return statement if "irfft" in statement else f"torch.view_as_real({statement})"


def cases(table: object) -> list[Benchmark]:
    found: list[Benchmark] = []

    def add(name: str, statement: str, shape: tuple[int, ...], dtype: str, quick: bool) -> None:
        suffix = "" if dtype == "float32" else ".float64"
        size = "x".join(map(str, shape))
        check = _checked(statement)
        label = f"{name}.{size}{suffix}"
        found.append(Case("fourier", label, statement, _setup(shape, dtype), check, quick=quick))

    for dtype in ("float32", "float64"):
        for n in _LENGTHS:
            shapes = [(n,), (_ELEMENTS // n, n)] if n < _ELEMENTS // 2 else [(n,)]
            for shape in shapes:
                for name, statement in _STATEMENTS.items():
                    add(name, statement, shape, dtype, dtype == "float32" and name != "irfft")
        for name, statement in _PLANES.items():
            add(name, statement, (512, 512), dtype, dtype == "float32")
    signal = "x = uniform(4, 44100, dtype='float32')\nw = torch.hann_window(1024)\n"
    statement = "torch.stft(x, 1024, 256, window=w, return_complex=True)"
    found.append(Case("fourier", "stft.4x44100", statement, signal, _checked(statement)))
    statement = "torch.istft(s, 1024, 256, window=w)"
    signal += "s = torch.stft(x, 1024, 256, window=w, return_complex=True)\n"
    found.append(Case("fourier", "istft.4x44100", statement, signal))
    return found
