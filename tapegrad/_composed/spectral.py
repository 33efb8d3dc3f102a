"""Short-time Fourier transforms, and the windows that stand in the package itself."""

import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad._composed.registry import function, method
from tapegrad._types import strided

__all__ = [
    "bartlett_window",
    "blackman_window",
    "hamming_window",
    "hann_window",
    "istft",
    "kaiser_window",
    "stft",
]

# ---- windows


_TWO_PI = 2 * math.pi


def _window(
    name: str,
    window_length: int,
    periodic: bool,
    values: Callable[[Tensor, float], Tensor],
    dtype: Any,
    layout: Any,
    device: Any,
    pin_memory: bool | None,
    requires_grad: bool,
) -> Tensor:
    """Return a window: a function of the places 0, 1, ... and of the period, in float64."""
    if isinstance(window_length, bool) or not hasattr(window_length, "__index__"):
        given = type(window_length).__name__
        raise TypeError(f"{name}: expected window_length to be an int, got {given}")
    length = operator.index(window_length)
    dtype = _C.get_default_dtype() if dtype is None else dtype
    if layout is not None and layout is not strided:
        raise RuntimeError(f"{name} is not implemented for sparse types, got: {layout}")
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    if dtype.is_complex:
        raise NotImplementedError(f"{name}: not implemented for '{dtype}'; call .to() afterwards")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got {window_length=}")
    places = _C.arange(length, dtype=_C.float64, device=device)
    ones = _C.ones_like(places)
    window = ones if length < 2 else values(places, length if periodic else length - 1)
    window = window.to(dtype)
    if pin_memory:
        window = window.pin_memory()
    return window.requires_grad_() if requires_grad else window


@function
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: _C.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = False,
    requires_grad: bool = False,
) -> Tensor:
    """A Bartlett window: a triangle that begins at zero.

    Args:
        window_length: the number of elements.
        periodic: whether the window is for spectra: the first elements of the symmetric one that
            has one more. Otherwise it is symmetric itself.
        dtype: a floating dtype; by default the default dtype.
        layout: must be `torch.strided`.
        device: where the window is made.
        pin_memory: whether its memory is pinned, for copies to a device.
        requires_grad: whether gradients are asked for.

    Returns:
        The window, a tensor of one dimension.

    Example:
        >>> torch.bartlett_window(4)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """

    def values(places: Tensor, period: float) -> Tensor:
        return 1 - (places * (2 / period) - 1).abs()

    options = (dtype, layout, device, pin_memory, requires_grad)
    return _window("bartlett_window", window_length, periodic, values, *options)


@function
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: _C.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = False,
    requires_grad: bool = False,
) -> Tensor:
    """A Blackman window: a sum of three cosines.

    Args:
        window_length: the number of elements.
        periodic: whether the window is for spectra: the first elements of the symmetric one that
            has one more. Otherwise it is symmetric itself.
        dtype: a floating dtype; by default the default dtype.
        layout: must be `torch.strided`.
        device: where the window is made.
        pin_memory: whether its memory is pinned, for copies to a device.
        requires_grad: whether gradients are asked for.

    Returns:
        The window, a tensor of one dimension.

    Example:
        >>> torch.blackman_window(4)[1:]
        tensor([0.3400, 1.0000, 0.3400])
    """

    def values(places: Tensor, period: float) -> Tensor:
        x = places * (_TWO_PI / period)
        return 0.42 - 0.5 * x.cos() + 0.08 * (2 * x).cos()

    options = (dtype, layout, device, pin_memory, requires_grad)
    return _window("blackman_window", window_length, periodic, values, *options)


@function
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: _C.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = False,
    requires_grad: bool = False,
) -> Tensor:
    """A Hamming window: alpha - beta * cos(x).

    Args:
        window_length: the number of elements.
        periodic: whether the window is for spectra: the first elements of the symmetric one that
            has one more. Otherwise it is symmetric itself.
        alpha: the mean.
        beta: the height of the cosine.
        dtype: a floating dtype; by default the default dtype.
        layout: must be `torch.strided`.
        device: where the window is made.
        pin_memory: whether its memory is pinned, for copies to a device.
        requires_grad: whether gradients are asked for.

    Returns:
        The window, a tensor of one dimension.

    Example:
        >>> torch.hamming_window(4)
        tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """

    def values(places: Tensor, period: float) -> Tensor:
        return alpha - beta * (places * (_TWO_PI / period)).cos()

    options = (dtype, layout, device, pin_memory, requires_grad)
    return _window("hamming_window", window_length, periodic, values, *options)


@function
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: _C.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = False,
    requires_grad: bool = False,
) -> Tensor:
    """A Hann window: a cosine raised until it touches zero.

    Args:
        window_length: the number of elements.
        periodic: whether the window is for spectra: the first elements of the symmetric one that
            has one more. Otherwise it is symmetric itself.
        dtype: a floating dtype; by default the default dtype.
        layout: must be `torch.strided`.
        device: where the window is made.
        pin_memory: whether its memory is pinned, for copies to a device.
        requires_grad: whether gradients are asked for.

    Returns:
        The window, a tensor of one dimension.

    Example:
        >>> torch.hann_window(4)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """

    def values(places: Tensor, period: float) -> Tensor:
        return 0.5 - 0.5 * (places * (_TWO_PI / period)).cos()

    options = (dtype, layout, device, pin_memory, requires_grad)
    return _window("hann_window", window_length, periodic, values, *options)


@function
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: _C.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = False,
    requires_grad: bool = False,
) -> Tensor:
    """A Kaiser window: the modified Bessel function of order 0 of half an ellipse.

    Args:
        window_length: the number of elements.
        periodic: whether the window is for spectra: the first elements of the symmetric one that
            has one more. Otherwise it is symmetric itself.
        beta: the height of the ellipse; the larger, the narrower the window.
        dtype: a floating dtype; by default the default dtype.
        layout: must be `torch.strided`.
        device: where the window is made.
        pin_memory: whether its memory is pinned, for copies to a device.
        requires_grad: whether gradients are asked for.

    Returns:
        The window, a tensor of one dimension.

    Example:
        >>> torch.kaiser_window(4, beta=1.0)
        tensor([0.7898, 0.9450, 1.0000, 0.9450])
    """

    def values(places: Tensor, period: float) -> Tensor:
        height = 4 * places * (period - places) / period**2
        highest = _C.full((), beta, dtype=places.dtype, device=places.device)
        return (highest * height.sqrt()).i0() / highest.i0()

    options = (dtype, layout, device, pin_memory, requires_grad)
    return _window("kaiser_window", window_length, periodic, values, *options)


# ---- short-time transforms


def _check_signal(name: str, input: Any, window: Any) -> None:
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}: expected input to be a Tensor, got {type(input).__name__}")
    if window is not None and not isinstance(window, Tensor):
        raise TypeError(f"{name}: expected window to be a Tensor, got {type(window).__name__}")


def _warn_of_no_window(name: str, remedy: str) -> None:
    warnings.warn(
        f"{name}: A window was not provided. A rectangular window will be applied. {remedy} To "
        "suppress this warning, pass window=torch.ones(win_length).",
        UserWarning,
        stacklevel=3,
    )


def _padded(window: Tensor, n_fft: int) -> Tensor:
    """Return the window in the middle of n_fft elements."""
    left = (n_fft - window.shape[0]) // 2
    return _pad(window, (left, n_fft - window.shape[0] - left))


def _pad(input: Tensor, widths: tuple[int, int], mode: str = "constant") -> Tensor:
    from tapegrad.nn.functional import pad

    if mode == "constant":
        return pad(input, widths)
    # These modes want a batch and channels.
    return pad(input.reshape(1, -1, input.shape[-1]), widths, mode).reshape(*input.shape[:-1], -1)


def _check_choices(
    is_complex: bool, center: bool, return_complex: bool | None, align_to_window: bool | None
) -> None:
    if center and align_to_window is not None:
        raise RuntimeError("stft: align_to_window should only be set when center = False")
    if return_complex is None and not is_complex:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further "
            "require that return_complex=True in a future PyTorch release."
        )
    if return_complex is False:
        warnings.warn(
            "stft with return_complex=False is deprecated; call torch.view_as_real on the complex "
            "result instead",
            UserWarning,
            stacklevel=4,
        )


def _check_frames(length: int, n_fft: int, hop: int, width: int, window: Tensor | None) -> None:
    if not 0 < n_fft <= length:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {length}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < width <= n_fft:
        raise RuntimeError(f"stft: expected 0 < win_length <= n_fft, but got win_length={width}")
    if window is not None and tuple(window.shape) != (width,):
        raise RuntimeError(
            f"stft: expected a 1D window tensor of size equal to win_length={width}, but got "
            f"window with size {list(window.shape)}"
        )


@function
@method
@casts(cpu="float32")
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The short-time Fourier transform: that of overlapping frames of a signal.

    Args:
        input: a signal, or a batch of them.
        n_fft: the length of a frame.
        hop_length: the distance between frames; by default a quarter of n_fft.
        win_length: the length of the window, which is put in the middle of the frame; by default
            n_fft.
        window: what frames are multiplied with; by default ones.
        center: whether the signal is padded on both sides, so that frame t is centered at
            t * hop_length.
        pad_mode: with what, as of `torch.nn.functional.pad`.
        normalized: whether the result is divided by the root of n_fft.
        onesided: whether only the first half of each spectrum is returned: the others are its
            conjugates. By default if signal and window are real.
        return_complex: whether the result is complex. Of real signals it has to be said; False,
            which is deprecated, gives real and imaginary parts in a last dimension.
        align_to_window: without `center`, whether the first frame begins with the window, not with
            the zeros around it.

    Returns:
        A tensor of shape ``(batch, frequencies, frames)``, without a batch where there was none.

    Example:
        >>> signal = torch.sin(torch.arange(16) * (torch.pi / 2))
        >>> spectra = torch.stft(signal, 4, window=torch.hann_window(4), return_complex=True)
        >>> spectra.shape, spectra.abs().mean(1)
        (torch.Size([3, 17]), tensor([0.5294, 0.9412, 0.5294]))
    """
    _check_signal("stft", input, window)
    is_complex = input.dtype.is_complex or (window is not None and window.dtype.is_complex)
    _check_choices(is_complex, center, return_complex, align_to_window)
    if window is None:
        _warn_of_no_window("stft", "It leaks power from each frequency to the others.")
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise RuntimeError(
            f"stft: expected a tensor of floating point or complex values, got {input.dtype}"
        )
    if input.dim() not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, got {input.dim()}D")
    if center:
        input = _pad(input, (n_fft // 2, n_fft // 2), pad_mode)
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    _check_frames(input.shape[-1], n_fft, hop, width, window)
    if onesided and is_complex:
        raise RuntimeError("stft: Cannot have onesided output if window or input is complex")
    if align_to_window:
        left = (n_fft - width) // 2
        input = _pad(input, (left, n_fft - width - left))
    frames = input.unfold(-1, n_fft, hop)
    if window is not None or width < n_fft:
        ones = _C.ones(width, dtype=input.dtype, device=input.device)
        frames = frames * _padded(ones if window is None else window, n_fft)
    norm = "ortho" if normalized else None
    is_half = not is_complex if onesided is None else onesided
    spectra = (_C._fft_rfft if is_half else _C._fft_fft)(frames, None, -1, norm)
    result = spectra.transpose(-2, -1)
    return _C.view_as_real(result) if return_complex is False else result


def _added_up(frames: Tensor, hop: int) -> Tensor:
    """Add overlapping frames, `hop` apart, to signals."""
    count, length = frames.shape[-2:]
    parts = -(-length // hop)
    frames = _pad(frames, (0, parts * hop - length))
    rows: Any = None
    for part in range(parts):  # those of each frame that meet the same part of others
        piece = frames[..., part * hop : (part + 1) * hop].transpose(-2, -1)
        shifted = _pad(piece, (part, parts - 1 - part))
        rows = shifted if rows is None else rows + shifted
    signal: Tensor = rows.transpose(-2, -1).flatten(-2)
    return signal[..., : (count - 1) * hop + length]


def _check_spectra(
    input: Tensor, n_fft: int, hop: int, width: int, window: Tensor | None, onesided: bool
) -> None:
    if not input.dtype.is_complex:
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    if input.dim() not in (2, 3):
        raise RuntimeError(f"istft: expected a tensor with 2 or 3 dimensions, got {input.dim()}")
    if input.numel() == 0:
        raise RuntimeError("istft: input tensor cannot be empty.")
    wanted = n_fft // 2 + 1 if onesided else n_fft
    if input.shape[-2] != wanted:
        formula = "n_fft / 2 + 1" if onesided else "n_fft"
        raise RuntimeError(
            f"istft: expected the frequency dimension of the input tensor to match {formula} when "
            f"onesided={onesided}, but got {input.shape[-2]}"
        )
    if not 0 < hop <= width:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, got hop_length={hop}")
    if not 0 < width <= n_fft:
        raise RuntimeError(f"istft: expected 0 < win_length <= n_fft, got win_length={width}")
    if window is not None and tuple(window.shape) != (width,):
        raise RuntimeError(
            "istft: Invalid window shape. window has to be 1D and length of `win_length`, got "
            f"{list(window.shape)}"
        )


def _frames_of(
    input: Tensor, n_fft: int, normalized: bool, is_half: bool, return_complex: bool
) -> Tensor:
    """Transform spectra back."""
    spectra = input.transpose(-2, -1)
    norm = "ortho" if normalized else None
    if return_complex:
        return _C._fft_ifft(spectra, None, -1, norm)
    half = spectra if is_half else spectra[..., : n_fft // 2 + 1]
    return _C._fft_irfft(half, n_fft, -1, norm)


@function
@method
@casts()
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal that has this short-time Fourier transform, or comes closest to having it.

    Frames are transformed back, multiplied with the window and added up, and the sum is divided by
    that of the squared windows, which must not vanish anywhere.

    Args:
        input: what `stft` returned.
        n_fft: the length of a frame.
        hop_length: the distance between frames; by default a quarter of n_fft.
        win_length: the length of the window; by default n_fft.
        window: the window; by default ones.
        center: whether the signal was padded on both sides.
        normalized: whether the transform was divided by the root of n_fft.
        onesided: whether the input is the first half of each spectrum; by default told by its size.
        length: how much of the signal is returned: by default all that is known.
        return_complex: whether the signal was complex.

    Returns:
        A signal, or a batch of them.

    Example:
        >>> signal, window = torch.arange(8.0), torch.hann_window(4)
        >>> spectra = torch.stft(signal, 4, window=window, return_complex=True)
        >>> torch.istft(spectra, 4, window=window, length=8).round()
        tensor([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    _check_signal("istft", input, window)
    if window is None:
        _warn_of_no_window("istft", "The inverse is lossless only with the window of stft.")
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    rows = input.shape[-2] if input.dim() > 1 else 0
    is_half = rows != n_fft if onesided is None else onesided
    _check_spectra(input, n_fft, hop, width, window, is_half)
    if return_complex and is_half:
        raise RuntimeError("istft: Cannot have onesided output if window or input is complex")
    if not return_complex and window is not None and window.dtype.is_complex:
        raise RuntimeError("istft: Complex windows are incompatible with return_complex=False")
    frames = _frames_of(input, n_fft, normalized, is_half, return_complex)
    if window is None:
        window = _C.ones(width, dtype=frames.real.dtype, device=input.device)
    window = _padded(window.to(_C.promote_types(window.dtype, frames.real.dtype)), n_fft)
    signal = _added_up(frames * window, hop)
    weight = _added_up((window * window).expand(frames.shape[-2], n_fft), hop)
    known = signal.shape[-1]
    start = n_fft // 2 if center else 0
    end = (known - start if center else known) if length is None else start + length
    weight = weight[start:end]
    _check_weight(weight)
    signal = signal[..., start:end] / weight
    return signal if end <= known else _with_tail(signal, end - known)


def _check_weight(weight: Tensor) -> None:
    is_known = weight.device.type != "meta"
    if weight.numel() == 0 or (is_known and weight[weight.detach().abs() <= 1e-11].numel()):
        raise RuntimeError(
            "istft: window overlap add min: 1: the windows leave places that no frame tells of; "
            "pass center=True, a smaller hop_length, or a window without zeros"
        )


def _with_tail(signal: Tensor, missing: int) -> Tensor:
    warnings.warn(
        "istft: The length of signal is shorter than the length parameter. Result is being padded "
        "with zeros in the tail. Please check your center and hop_length settings.",
        UserWarning,
        stacklevel=4,
    )
    return _pad(signal, (0, missing))
