"""Tensors made larger or smaller along their last dimensions.

Every mode is separable: one dimension after the other, each result element is a sum of a few input
elements, the taps, times weights. Per dimension that is an `index_select` and a product for every
tap, whose derivatives are ops again. Coordinates are computed in the precision that PyTorch
computes them in, because a `floor` that falls to the other side picks another element.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad.nn.functional._formats import channels_to_end, channels_to_front

__all__ = ["interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]

_DIMS = {"linear": 3, "bilinear": 4, "bicubic": 4, "lanczos": 4, "trilinear": 5}
_KINDS = {"linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}
_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"
_FLOATING = (_C.float32, _C.float64, _C.float16, _C.bfloat16)

# The index and the weight of one tap, for every result element.
_Tap = tuple[Tensor, Tensor]


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Make a tensor larger or smaller along all dimensions behind the first two.

    Args:
        input: a tensor of shape ``(batch, channels, ...)`` with one to three more dimensions.
        size: the sizes of these dimensions in the result, or one for all.
        scale_factor: instead of size, what the sizes are multiplied by.
        mode: ``"nearest"``, ``"nearest-exact"``, ``"linear"`` (3-D inputs), ``"bilinear"``,
            ``"bicubic"``, ``"lanczos"`` (4-D), ``"trilinear"`` (5-D) or ``"area"``.
        align_corners: whether the centres of the corner elements, not their outer corners, keep
            their places; for the modes that interpolate.
        recompute_scale_factor: whether the scale is that of the rounded sizes.
        antialias: whether a smaller result is averaged over the elements it stands for; for
            bilinear, bicubic and lanczos.

    Returns:
        A tensor of shape ``(batch, channels, *size)``.

    Example:
        >>> x = torch.tensor([[[1.0, 3.0]]])
        >>> torch.nn.functional.interpolate(x, scale_factor=2)
        tensor([[[1., 1., 3., 3.]]])
        >>> torch.nn.functional.interpolate(x, 3, mode="linear", align_corners=True)
        tensor([[[1., 2., 3.]]])
    """
    _check_options(input, mode, align_corners, antialias)
    sizes, scales = _sizes_and_scales(input, size, scale_factor, mode, recompute_scale_factor)
    _check_sizes(input, sizes, 0 if mode == "area" else 1)
    is_byte = input.dtype == _C.uint8 and mode != "area"
    if not is_byte and input.dtype not in _FLOATING:
        raise NotImplementedError(
            f'interpolate: "{mode}" not implemented for {input.dtype}; call .float() first'
        )
    # As in PyTorch, the pooling of volumes that is mode "area" has no other format.
    is_last = _C._is_channels_last(input) and not (mode == "area" and input.dim() == 5)
    x = channels_to_end(input) if is_last else input
    first = 1 if is_last else 2  # of the spatial dimensions
    if mode == "area":
        result = (_cast_area if input.dim() == 5 else _area)(x, first, sizes)
    else:
        result = _upsampled(x, first, sizes, scales, mode, bool(align_corners), antialias)
    return channels_to_front(result) if is_last else result


def _widened(input: Tensor) -> Tensor:
    return input if input.dtype in (_C.float32, _C.float64) else input.float()


@casts(cuda="float32", of="interpolate")
def _upsampled(
    input: Tensor,
    first: int,
    sizes: list[int],
    scales: list[float | None],
    mode: str,
    align_corners: bool,
    antialias: bool,
) -> Tensor:
    if mode.startswith("nearest"):
        return _nearest(input, first, sizes, scales, mode == "nearest-exact")
    result = _smooth(_widened(input), first, sizes, scales, mode, align_corners, antialias)
    if input.dtype == _C.uint8:
        result = result.round().clamp(0, 255)
    return result.to(input.dtype)


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """As interpolate(), which took its place."""
    _warn_of("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """As interpolate() with mode="nearest", which took its place."""
    _warn_of("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """As interpolate() with mode="bilinear" and align_corners, which took its place."""
    _warn_of("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _warn_of(name: str) -> None:
    import warnings

    warnings.warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=3,
    )


# ---- arguments


def _check_options(input: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    known = mode in ("nearest", "nearest-exact", "area") or mode in _DIMS
    if mode in ("nearest", "nearest-exact", "area") and align_corners is not None:
        raise ValueError(
            "interpolate: align_corners option can only be set with the interpolating modes: "
            "linear | bilinear | bicubic | trilinear"
        )
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.dim() == 4):
        raise ValueError(
            "interpolate: Anti-alias option is restricted to bilinear, bicubic, and lanczos modes "
            "and requires a 4-D tensor as input"
        )
    if known and mode in ("linear", "bilinear", "trilinear") and input.dim() in (3, 4, 5):
        if input.dim() != _DIMS[mode]:
            raise NotImplementedError(
                f"interpolate: Got {input.dim()}D input, but {mode} mode needs {_DIMS[mode]}D input"
            )
    elif not known or input.dim() not in (3, 4, 5) or _DIMS.get(mode, input.dim()) != input.dim():
        raise NotImplementedError(
            "interpolate: Input Error: Only 3D, 4D and 5D input Tensors supported (got "
            f"{input.dim()}D) for the modes: {_MODES} (got {mode})"
        )
    if mode == "lanczos" and not antialias:
        raise ValueError("interpolate: Lanczos mode requires antialias=True")
    if mode == "lanczos" and align_corners:
        raise ValueError("interpolate: Lanczos mode does not support align_corners=True")


def _sizes_and_scales(
    input: Tensor, size: Any, scale_factor: Any, mode: str, recompute: bool | None
) -> tuple[list[int], list[float | None]]:
    """Return the sizes of the result, and the given scales or None for those of the sizes."""
    dims = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("interpolate: only one of size or scale_factor should be defined")
    if size is not None:
        if recompute:
            raise ValueError(
                "interpolate: recompute_scale_factor is not meaningful with an explicit size."
            )
        sizes = _for_each_dim("output size", "o", size, input)
        if not all(isinstance(one, int) for one in sizes):
            raise TypeError(
                "interpolate: expected size to be one of int or Tuple[int] or Tuple[int, int] or "
                f"Tuple[int, int, int], but got size with types {[type(one) for one in sizes]}"
            )
        return sizes, [None] * dims
    if scale_factor is None:
        raise ValueError("interpolate: either size or scale_factor should be defined")
    factors = _for_each_dim("scale_factor", "s", scale_factor, input)
    if not all(isinstance(factor, (int, float)) for factor in factors):
        raise TypeError(f"interpolate: expected scale_factor to be a number, got {scale_factor!r}")
    pairs = zip(input.shape[2:], factors, strict=True)
    sizes = [math.floor(float(length * factor)) for length, factor in pairs]
    if recompute or mode == "area":
        return sizes, [None] * dims
    return sizes, [float(factor) for factor in factors]


def _for_each_dim(name: str, letter: str, value: Any, input: Tensor) -> list[Any]:
    dims = input.dim() - 2
    if not isinstance(value, (list, tuple)):
        return [value] * dims
    if len(value) != dims:
        shape = "of" if name == "output size" else "of shape"
        raise ValueError(
            f"interpolate: Input and {name.split()[0]} must have the same number of spatial "
            f"dimensions, but got input with spatial dimensions of {list(input.shape[2:])} and "
            f"{name} {shape} {value}. Please provide input tensor in (N, C, d1, d2, ...,dK) format "
            f"and {name} in ({letter}1, {letter}2, ...,{letter}K) format."
        )
    return list(value)


def _check_sizes(input: Tensor, sizes: list[int], least: int) -> None:
    if min(sizes) < least or 0 in input.shape[2:]:
        raise RuntimeError(
            "interpolate: Input and output sizes should be greater than 0, but got input "
            f"{list(input.shape[2:])} output {sizes}"
        )
    if input.shape[1] == 0:
        raise RuntimeError(
            f"interpolate: Non-empty {input.dim()}D data tensor expected but got a tensor with "
            f"sizes {list(input.shape)}"
        )


# ---- modes


def _order(input: Tensor, first: int, sizes: list[int]) -> list[int]:
    """Shrink before growing: fewest elements on the way, fewest of all along the last dimension."""

    def key(dim: int) -> tuple[float, int]:
        ratio = sizes[dim - first] / input.shape[dim]
        return ratio, dim if ratio < 1 else -dim

    return sorted(range(first, first + len(sizes)), key=key)


def _nearest(
    input: Tensor, first: int, sizes: list[int], scales: list[float | None], is_exact: bool
) -> Tensor:
    # Gradients of 16-bit floats add up in float32 and are rounded once.
    is_rounded = input.dtype in (_C.float16, _C.bfloat16) and input.requires_grad
    result = start = input.float() if is_rounded else input
    for dim in _order(input, first, sizes):
        length, wanted, scale = input.shape[dim], sizes[dim - first], scales[dim - first]
        if length == wanted and scale is None:
            continue
        if wanted == 2 * length and scale is None:  # Exact whatever the rounding of the step.
            index = _C.arange(wanted, device=input.device) // 2
        else:
            places = _C.arange(wanted, dtype=_C.float32, device=input.device)
            index = (places + 0.5 if is_exact else places) * _step(length, wanted, scale)
            index = index.floor().long().clamp(max=length - 1)
        result = result.index_select(dim, index)
    if result is start:
        return input.clone()
    return result.to(input.dtype)


def _step(length: int, wanted: int, scale: float | None) -> float:
    return 1.0 / scale if scale else length / wanted


@casts()
def _area(input: Tensor, first: int, sizes: list[int]) -> Tensor:
    return _averaged(_widened(input), first, sizes).to(input.dtype)


# In three dimensions it is this function, which autocast knows on the CPU.
_cast_area = casts(cpu="float32", of="adaptive_avg_pool3d")(_area)


def _averaged(input: Tensor, first: int, sizes: list[int]) -> Tensor:
    """Average the elements that a result element touches, as adaptive pooling does."""
    result = input
    for dim in _order(input, first, sizes):
        length, wanted = input.shape[dim], sizes[dim - first]
        if length == wanted:
            continue
        if wanted == 0:
            result = result.narrow(dim, 0, 0)
            continue
        if length % wanted == 0:
            result = result.unflatten(dim, (wanted, length // wanted)).mean(dim + 1)
            continue
        places = _C.arange(wanted, device=input.device)
        starts = places * length // wanted
        ends = -((places + 1) * length // -wanted)
        counts = (ends - starts).to(input.dtype)
        most = int((ends - starts).max())
        least = int((ends - starts).min())
        total: Tensor | None = None
        for offset in range(most):
            values = result.index_select(dim, (starts + offset).clamp(max=length - 1))
            if offset >= least:  # Not a weight of 0, which would make infinity nan.
                is_inside = _along(starts + offset < ends, dim, input)
                values = values.masked_fill(is_inside.logical_not(), 0)
            total = values if total is None else total + values
        assert total is not None
        result = total / _along(counts, dim, input)
    return result if result is not input else input.clone()


def _along(values: Tensor, dim: int, input: Tensor) -> Tensor:
    """Shape one value per element of a dimension for products with the whole input."""
    return values.reshape(-1, *(1,) * (input.dim() - 1 - dim))


def _smooth(
    input: Tensor,
    first: int,
    sizes: list[int],
    scales: list[float | None],
    mode: str,
    align_corners: bool,
    antialias: bool,
) -> Tensor:
    result = input
    for dim in _order(input, first, sizes):
        length, wanted, scale = input.shape[dim], sizes[dim - first], scales[dim - first]
        # As in PyTorch: only plain cubics heed a scale that does not change the size.
        if length == wanted and (antialias or mode != "bicubic" or scale in (None, 1)):
            continue
        if align_corners:
            step = (length - 1) / (wanted - 1) if wanted > 1 else 0.0
        else:
            step = _step(length, wanted, scale)
        if antialias:
            taps = _filtered_taps(input, length, wanted, step, mode)
        else:
            kind = _linear_taps if _KINDS[mode] == "linear" else _cubic_taps
            taps = kind(_coordinates(input, wanted, step, align_corners), length)
        result = _weighted(result, dim, taps)
    return result if result is not input else input.clone()


def _weighted(input: Tensor, dim: int, taps: list[_Tap]) -> Tensor:
    total: Tensor | None = None
    for index, weight in taps:
        values = input.index_select(dim, index)
        weight = _along(weight, dim, input)
        total = values * weight if total is None else _C.addcmul(total, values, weight)
    assert total is not None
    return total


def _coordinates(input: Tensor, wanted: int, step: float, align_corners: bool) -> Tensor:
    places = _C.arange(wanted, dtype=input.dtype, device=input.device)
    return places * step if align_corners else (places + 0.5) * step - 0.5


def _linear_taps(coordinates: Tensor, length: int) -> list[_Tap]:
    coordinates = coordinates.clamp(min=0)
    floors = coordinates.floor().clamp(max=length - 1)
    weights = (coordinates - floors).clamp(0, 1)
    lower = floors.long()
    return [(lower, 1 - weights), ((lower + 1).clamp(max=length - 1), weights)]


def _cubic_taps(coordinates: Tensor, length: int) -> list[_Tap]:
    floors = coordinates.floor()
    lower = floors.long()
    weights = cubic_weights(coordinates - floors)
    return [
        ((lower + offset).clamp(0, length - 1), weight)
        for offset, weight in zip((-1, 0, 1, 2), weights, strict=True)
    ]


def cubic_weights(t: Tensor, a: float = -0.75) -> list[Tensor]:
    """Return the weights of the four elements around a place t of the way from the second."""
    far, near = t + 1, 2 - t
    u = 1 - t
    return [
        ((a * far - 5 * a) * far + 8 * a) * far - 4 * a,
        ((a + 2) * t - (a + 3)) * t * t + 1,
        ((a + 2) * u - (a + 3)) * u * u + 1,
        ((a * near - 5 * a) * near + 8 * a) * near - 4 * a,
    ]


# ---- filters that grow with the step


def _triangle(x: Tensor) -> Tensor:
    return (1 - x.abs()).clamp(min=0)


def _cubic(x: Tensor) -> Tensor:
    a, x = -0.5, x.abs()
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = (((x - 5) * x + 8) * x - 4) * a
    return _C.where(x < 1, inner, _C.where(x < 2, outer, _C.zeros_like(x)))


def _lanczos(x: Tensor) -> Tensor:
    return _C.where(x.abs() < 3, x.sinc() * (x / 3).sinc(), _C.zeros_like(x))


_FILTERS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "bilinear": (_triangle, 2),
    "bicubic": (_cubic, 4),
    "lanczos": (_lanczos, 6),
}


def _filtered_taps(input: Tensor, length: int, wanted: int, step: float, mode: str) -> list[_Tap]:
    function, width = _FILTERS[mode]
    support = width / 2 * max(step, 1.0)
    centers = (_C.arange(wanted, dtype=_C.float64, device=input.device) + 0.5) * step
    starts = (centers - support + 0.5).long().clamp(min=0)
    ends = (centers + support + 0.5).long().clamp(max=length)
    most = int((ends - starts).max())
    index = starts.unsqueeze(1) + _C.arange(most, device=input.device)
    distances = (index - centers.unsqueeze(1) + 0.5) / max(step, 1.0)
    weights = function(distances) * (index < ends.unsqueeze(1))
    weights = (weights / weights.sum(1, keepdim=True)).to(input.dtype)
    # A tap behind the end of its filter repeats the last element of the filter, with weight 0.
    index = _C.minimum(index, (ends - 1).unsqueeze(1))
    return list(zip(index.unbind(1), weights.unbind(1), strict=True))
