"""Window functions, under the names of ``torch.signal.windows``.

A window is computed in float64 and rounded once to the dtype that is asked for. Symmetric windows
are for the design of filters. Periodic ones, with ``sym=False``, are for spectra: they are the
first M elements of the symmetric window of M + 1.

Example:
    >>> torch.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    >>> torch.signal.windows.hann(4, sym=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
"""

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

import tapegrad
from tapegrad import _C
from tapegrad._C import Tensor

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _check(name: str, M: int, dtype: _C.dtype, layout: Any) -> int:
    """Refuse what PyTorch does; return the length as an int."""
    try:
        length = operator.index(M)
    except TypeError:
        raise TypeError(f"{name}: expected M to be an int, got {type(M).__name__}") from None
    if length < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not tapegrad.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (_C.float32, _C.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return length


def _window(
    name: str,
    values: Callable[[Tensor, float], Tensor],
    M: int,
    sym: bool,
    dtype: _C.dtype | None,
    layout: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    """Return a window: a function of the places 0, 1, ... and of the last one or the period."""
    dtype = tapegrad.get_default_dtype() if dtype is None else dtype
    length = _check(name, M, dtype, layout)
    places = _C.arange(length, dtype=_C.float64, device=device)
    if length:
        places = values(places, length if not sym and length > 1 else length - 1)
    window = places.to(dtype)
    return window.requires_grad_() if requires_grad else window


def _cosines(coefficients: Iterable[float]) -> Callable[[Tensor, float], Tensor]:
    """Return a sum of cosines with alternating signs, of which each turns once more."""

    def values(places: Tensor, period: float) -> Tensor:
        if period == 0:
            return _C.ones_like(places)
        turn = places * (2 * math.pi / period)
        total = _C.zeros_like(places)
        for i, coefficient in enumerate(coefficients):
            total = total + (-1) ** i * coefficient * (turn * i).cos()
        return total

    return values


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: Any = tapegrad.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A Bartlett window: a triangle between two zeros.

    Args:
        M: the number of elements.
        sym: whether the window is symmetric; otherwise it is periodic.
        dtype: float32 or float64; by default the default dtype.
        layout: must be `torch.strided`.
        device: where the window is made.
        requires_grad: whether gradients are asked for.

    Example:
        >>> torch.signal.windows.bartlett(5)
        tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """

    def values(places: Tensor, period: float) -> Tensor:
        if period == 0:
            return _C.ones_like(places)
        return 1 - (places * (2 / period) - 1).abs()

    return _window("bartlett", values, M, sym, dtype, layout, device, requires_grad)


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: Any = tapegrad.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A Blackman window: three cosines.

    Args:
        M: the number of elements.
        sym: whether the window is symmetric; otherwise it is periodic.
        dtype: float32 or float64; by default the default dtype.
        layout: must be `torch.strided`.
        device: where the window is made.
        requires_grad: whether gradients are asked for.

    Example:
        >>> torch.signal.windows.blackman(5, sym=False)[1:]
        tensor([0.2008, 0.8492, 0.8492, 0.2008])
    """
    return _window(
        "blackman", _cosines([0.42, 0.5, 0.08]), M, sym, dtype, layout, device, requires_grad
    )


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: Any = tapegrad.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Half a period of a sine, between its zeros.

    Args:
        M: the number of elements.
        sym: whether the window is symmetric; otherwise it is periodic.
        dtype: float32 or float64; by default the default dtype.
        layout: must be `torch.strided`.
        device: where the window is made.
        requires_grad: whether gradients are asked for.

    Example:
        >>> torch.signal.windows.cosine(3)
        tensor([0.5000, 1.0000, 0.5000])
    """

    def values(places: Tensor, period: float) -> Tensor:
        return ((places + 0.5) * (math.pi / (period + 1))).sin()

    return _window("cosine", values, M, sym, dtype, layout, device, requires_grad)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: Any = tapegrad.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """An exponential window, also called Poisson window: exp(-|n - center| / tau).

    Args:
        M: the number of elements.
        center: where it is 1, in a periodic window: by default the middle.
        tau: how far from there it is 1 / e.
        sym: whether the window is symmetric; otherwise it is periodic.
        dtype: float32 or float64; by default the default dtype.
        layout: must be `torch.strided`.
        device: where the window is made.
        requires_grad: whether gradients are asked for.

    Example:
        >>> torch.signal.windows.exponential(3)
        tensor([0.3679, 1.0000, 0.3679])
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")

    def values(places: Tensor, period: float) -> Tensor:
        middle = period / 2 if center is None else center
        return (-(places - middle).abs() / tau).exp()

    return _window("exponential", values, M, sym, dtype, layout, device, requires_grad)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: Any = tapegrad.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A Gaussian window.

    Args:
        M: the number of elements.
        std: the standard deviation, in places.
        sym: whether the window is symmetric; otherwise it is periodic.
        dtype: float32 or float64; by default the default dtype.
        layout: must be `torch.strided`.
        device: where the window is made.
        requires_grad: whether gradients are asked for.

    Example:
        >>> torch.signal.windows.gaussian(3)
        tensor([0.6065, 1.0000, 0.6065])
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")

    def values(places: Tensor, period: float) -> Tensor:
        return (-0.5 * ((places - period / 2) / std) ** 2).exp()

    return _window("gaussian", values, M, sym, dtype, layout, device, requires_grad)


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: Any = tapegrad.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A sum of cosines, with signs that alternate: a[0] - a[1] cos(x) + a[2] cos(2 x) - ...

    Args:
        M: the number of elements.
        a: the coefficients.
        sym: whether the window is symmetric; otherwise it is periodic.
        dtype: float32 or float64; by default the default dtype.
        layout: must be `torch.strided`.
        device: where the window is made.
        requires_grad: whether gradients are asked for.

    Example:
        >>> torch.signal.windows.general_cosine(3, a=[0.46, 0.23, 0.31])
        tensor([0.5400, 1.0000, 0.5400])
    """
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    coefficients = list(a)
    if not coefficients:
        raise ValueError("Coefficients cannot be empty")
    return _window(
        "general_cosine", _cosines(coefficients), M, sym, dtype, layout, device, requires_grad
    )


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: Any = tapegrad.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A raised cosine: alpha - (1 - alpha) cos(x).

    Args:
        M: the number of elements.
        alpha: its mean.
        sym: whether the window is symmetric; otherwise it is periodic.
        dtype: float32 or float64; by default the default dtype.
        layout: must be `torch.strided`.
        device: where the window is made.
        requires_grad: whether gradients are asked for.

    Example:
        >>> torch.signal.windows.general_hamming(3, alpha=0.75)
        tensor([0.5000, 1.0000, 0.5000])
    """
    return _window(
        "general_hamming",
        _cosines([alpha, 1 - alpha]),
        M,
        sym,
        dtype,
        layout,
        device,
        requires_grad,
    )


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: Any = tapegrad.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A Hamming window: a raised cosine with the mean 0.54.

    Args:
        M: the number of elements.
        sym: whether the window is symmetric; otherwise it is periodic.
        dtype: float32 or float64; by default the default dtype.
        layout: must be `torch.strided`.
        device: where the window is made.
        requires_grad: whether gradients are asked for.

    Example:
        >>> torch.signal.windows.hamming(3)
        tensor([0.0800, 1.0000, 0.0800])
    """
    return _window(
        "hamming", _cosines([0.54, 1 - 0.54]), M, sym, dtype, layout, device, requires_grad
    )


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: Any = tapegrad.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A Hann window: a cosine raised until it touches zero.

    Args:
        M: the number of elements.
        sym: whether the window is symmetric; otherwise it is periodic.
        dtype: float32 or float64; by default the default dtype.
        layout: must be `torch.strided`.
        device: where the window is made.
        requires_grad: whether gradients are asked for.

    Example:
        >>> torch.signal.windows.hann(3)
        tensor([0., 1., 0.])
    """
    return _window("hann", _cosines([0.5, 0.5]), M, sym, dtype, layout, device, requires_grad)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: Any = tapegrad.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A Kaiser window: the modified Bessel function of order 0 of half an ellipse.

    Args:
        M: the number of elements.
        beta: the height of the ellipse; the larger, the narrower the window.
        sym: whether the window is symmetric; otherwise it is periodic.
        dtype: float32 or float64; by default the default dtype.
        layout: must be `torch.strided`.
        device: where the window is made.
        requires_grad: whether gradients are asked for.

    Example:
        >>> torch.signal.windows.kaiser(3, beta=1.0)
        tensor([0.7898, 1.0000, 0.7898])
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def values(places: Tensor, period: float) -> Tensor:
        if period == 0:
            return _C.ones_like(places)
        height = 4 * places * (period - places) / period**2
        highest = _C.full((), beta, dtype=places.dtype, device=places.device)
        return (highest * height.sqrt()).i0() / highest.i0()

    return _window("kaiser", values, M, sym, dtype, layout, device, requires_grad)


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: _C.dtype | None = None,
    layout: Any = tapegrad.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The four cosines of Nuttall's window, whose side lobes are low.

    Args:
        M: the number of elements.
        sym: whether the window is symmetric; otherwise it is periodic.
        dtype: float32 or float64; by default the default dtype.
        layout: must be `torch.strided`.
        device: where the window is made.
        requires_grad: whether gradients are asked for.

    Example:
        >>> torch.signal.windows.nuttall(5)
        tensor([3.6280e-04, 2.2698e-01, 1.0000e+00, 2.2698e-01, 3.6280e-04])
    """
    return _window(
        "nuttall",
        _cosines([0.3635819, 0.4891775, 0.1365995, 0.0106411]),
        M,
        sym,
        dtype,
        layout,
        device,
        requires_grad,
    )
