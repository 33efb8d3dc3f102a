"""Fourier transforms, under the names of ``torch.fft``.

Of float32 and float64, real and complex, and of any length; integers are promoted to the default
dtype. They have gradients of any order, and work on batches: all dimensions that are not
transformed.

Example:
    >>> signal = torch.tensor([0.0, 1.0, 0.0, -1.0])
    >>> torch.fft.rfft(signal)
    tensor([0.+0.j, 0.-2.j, 0.+0.j])
    >>> torch.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tapegrad
from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._C import _fft_fft as fft
from tapegrad._C import _fft_fft2 as fft2
from tapegrad._C import _fft_fftn as fftn
from tapegrad._C import _fft_hfft as hfft
from tapegrad._C import _fft_hfft2 as hfft2
from tapegrad._C import _fft_hfftn as hfftn
from tapegrad._C import _fft_ifft as ifft
from tapegrad._C import _fft_ifft2 as ifft2
from tapegrad._C import _fft_ifftn as ifftn
from tapegrad._C import _fft_ihfft as ihfft
from tapegrad._C import _fft_ihfft2 as ihfft2
from tapegrad._C import _fft_ihfftn as ihfftn
from tapegrad._C import _fft_irfft as irfft
from tapegrad._C import _fft_irfft2 as irfft2
from tapegrad._C import _fft_irfftn as irfftn
from tapegrad._C import _fft_rfft as rfft
from tapegrad._C import _fft_rfft2 as rfft2
from tapegrad._C import _fft_rfftn as rfftn
from tapegrad._missing import names_of_torch as _names_of_torch

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


def _frequencies(
    name: str,
    numerators: Tensor,
    n: int,
    d: float,
    out: Tensor | None,
    requires_grad: bool,
) -> Tensor:
    """Divide by the time that n samples take."""
    duration = n * d
    result = numerators * (1.0 / duration if duration else float("inf"))
    if out is not None:
        result = _C._into_out(name, result, out)
    return result.requires_grad_() if requires_grad else result


def _numerators(
    name: str, n: int, start: int, end: int, out: Tensor | None, dtype: Any, device: Any
) -> Tensor:
    """Return start, start + 1, ..., end - 1 in the dtype of the frequencies."""
    if n < 0:
        raise RuntimeError(f"{name}: expected a number of samples that is not negative, got {n}")
    if dtype is None:
        dtype = tapegrad.get_default_dtype() if out is None else out.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name}: requires a floating point or complex dtype, got {dtype}")
    return _C.arange(start, end, dtype=dtype, device=device)


def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: _C.dtype | None = None,
    layout: Any = tapegrad.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the frequency of each element of a Fourier transform, in cycles per unit of `d`.

    Those from n / 2 on, rounded up, are the negative ones.

    Args:
        n: the length of the transform.
        d: the time from sample to sample.
        out: where to put the result.
        dtype: by default the default dtype.
        layout: must be `torch.strided`.
        device: where the result is made.
        requires_grad: whether gradients are asked for.

    Example:
        >>> torch.fft.fftfreq(4)
        tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    _check_layout("fftfreq", layout)
    middle = (n + 1) // 2
    numerators = _numerators("fftfreq", n, 0, middle, out, dtype, device)
    negative = _numerators("fftfreq", n, middle - n, 0, out, dtype, device)
    return _frequencies("fftfreq", _C.cat([numerators, negative]), n, d, out, requires_grad)


def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: _C.dtype | None = None,
    layout: Any = tapegrad.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the frequency of each element of `rfft`, in cycles per unit of `d`.

    Args:
        n: the length of the real signal.
        d: the time from sample to sample.
        out: where to put the result.
        dtype: by default the default dtype.
        layout: must be `torch.strided`.
        device: where the result is made.
        requires_grad: whether gradients are asked for.

    Example:
        >>> torch.fft.rfftfreq(4, d=0.5)
        tensor([0.0000, 0.5000, 1.0000])
    """
    _check_layout("rfftfreq", layout)
    numerators = _numerators("rfftfreq", n, 0, n // 2 + 1, out, dtype, device)
    return _frequencies("rfftfreq", numerators, n, d, out, requires_grad)


def _check_layout(name: str, layout: Any) -> None:
    if layout is not None and layout is not tapegrad.strided:
        raise RuntimeError(f"{name}: expected layout torch.strided, got {layout}")


def _shifted(name: str, input: Tensor, dim: int | Sequence[int] | None, sign: int) -> Tensor:
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}: expected input to be a Tensor, got {type(input).__name__}")
    if dim is None:
        dims: tuple[int, ...] = tuple(range(input.dim()))
    else:
        dims = (dim,) if isinstance(dim, int) else tuple(dim)
    rank = input.dim()
    for each in dims:
        if not -rank <= each < rank:
            raise IndexError(
                f"{name}: Dimension out of range (expected to be in range of [{-rank}, {rank - 1}],"
                f" but got {each})"
            )
    if not dims:
        raise RuntimeError(f"{name}: `shifts` required: the input has no dimensions to shift")
    shifts = [input.shape[each] // 2 if sign > 0 else -(input.shape[each] // 2) for each in dims]
    return _C.roll(input, shifts, dims)


def fftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Move the zero frequency to the middle: roll dimensions by half of their length.

    Args:
        input: a spectrum in the order of `fft`.
        dim: the dimensions that are rolled; by default all.

    Example:
        >>> torch.fft.fftshift(torch.fft.fftfreq(4))
        tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return _shifted("fftshift", input, dim, 1)


def ifftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Undo `fftshift`.

    Args:
        input: a spectrum whose zero frequency is in the middle.
        dim: the dimensions that are rolled; by default all.

    Example:
        >>> torch.fft.ifftshift(torch.tensor([-0.5, -0.25, 0.0, 0.25]))
        tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    return _shifted("ifftshift", input, dim, -1)


if not TYPE_CHECKING:
    __getattr__ = _names_of_torch(__name__)
