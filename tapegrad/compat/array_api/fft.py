"""The standard's extension ``fft``: Fourier transforms."""

from collections.abc import Callable, Sequence
from typing import Any

import tapegrad as torch
from tapegrad import Tensor

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]


def _along_one(name: str) -> Callable[..., Tensor]:
    op = getattr(torch.fft, name)

    def function(
        x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
    ) -> Tensor:
        return op(x, n, axis, norm)

    return _named(function, name, "along an axis")


def _along_many(name: str) -> Callable[..., Tensor]:
    op = getattr(torch.fft, name)

    def function(
        x: Tensor,
        /,
        *,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str = "backward",
    ) -> Tensor:
        return op(x, s, axes, norm)

    return _named(function, name, "along several axes, or all")


def _named(function: Any, name: str, where: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return the transform {name} of a tensor {where}."
    return function


fft = _along_one("fft")
ifft = _along_one("ifft")
rfft = _along_one("rfft")
irfft = _along_one("irfft")
hfft = _along_one("hfft")
ihfft = _along_one("ihfft")
fftn = _along_many("fftn")
ifftn = _along_many("ifftn")
rfftn = _along_many("rfftn")
irfftn = _along_many("irfftn")


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: torch.dtype | None = None, device: Any = None
) -> Tensor:
    """Return the frequencies of the elements of a transform."""
    return torch.fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: torch.dtype | None = None, device: Any = None
) -> Tensor:
    """Return the frequencies of the elements of a transform of real numbers."""
    return torch.fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Return a transform with the frequency zero in the middle."""
    return torch.fft.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Undo `fftshift`."""
    return torch.fft.ifftshift(x, axes)
