"""Images sampled at places that a grid names, and grids of affine maps."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad.autograd.function import Function
from tapegrad.nn.functional.interpolation import cubic_weights

__all__ = ["affine_grid", "grid_sample"]

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")

# Index and weight, along one dimension, of one element that a place takes part of.
_Tap = tuple[Tensor, Tensor]


@casts(cpu="float32", cuda="widest")
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Return the values of an image at the places of a grid.

    Args:
        input: a tensor of shape ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        grid: the places ``(x, y)`` or ``(x, y, z)``, from -1 to 1 across the input; a tensor of
            shape ``(N, H out, W out, 2)`` or ``(N, D out, H out, W out, 3)``.
        mode: ``"bilinear"`` (trilinear for 5-D inputs), ``"nearest"`` or, for 4-D inputs,
            ``"bicubic"``.
        padding_mode: what is outside: ``"zeros"``, the ``"border"``, or a ``"reflection"``.
        align_corners: whether -1 and 1 are the centres of the outermost elements, not their edges.

    Returns:
        A tensor of shape ``(N, C, H out, W out)`` or ``(N, C, D out, H out, W out)``.

    Example:
        >>> x = torch.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
        >>> grid = torch.tensor([[[[0.0, 0.0], [1.0, -1.0]]]])
        >>> torch.nn.functional.grid_sample(x, grid, align_corners=True)
        tensor([[[[1.5000, 1.0000]]]])
    """
    _check_sample(input, grid, mode, padding_mode)
    if align_corners is None:
        _warn_of_default()
    if input.dtype in (_C.float16, _C.bfloat16):
        wide = grid_sample(input.float(), grid.float(), mode, padding_mode, bool(align_corners))
        return wide.to(input.dtype)
    batch, channels = input.shape[:2]
    sizes = list(input.shape[2:])
    flat_grid = grid.flatten(1, -2)
    taps = []
    for place, size in enumerate(sizes):
        coordinates = flat_grid.select(-1, len(sizes) - 1 - place)
        if align_corners:
            coordinates = (coordinates + 1) / 2 * (size - 1)
        else:
            coordinates = ((coordinates + 1) * size - 1) / 2
        taps.append(_taps(coordinates, size, mode, padding_mode, bool(align_corners)))
    result = _combined(input.flatten(2), taps, sizes)
    if mode == "nearest" and grid.requires_grad:
        result = _WithoutGradient.apply(result, grid)
    return result.reshape(batch, channels, *grid.shape[1:-1])


def _check_sample(input: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    if mode not in _MODES:
        raise ValueError(
            "grid_sample: expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: "
            f"'{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            "grid_sample: expected padding_mode to be 'zeros', 'border', or 'reflection', but "
            f"got: '{padding_mode}'"
        )
    shapes = f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
    if grid.dim() == 0 or input.dim() == 0 or input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            f"grid_sample: expected grid and input to have same batch size, but got {shapes}"
        )
    if grid.shape[-1] != input.dim() - 2:
        raise RuntimeError(
            f"grid_sample: expected grid to have size {input.dim() - 2} in last dimension, but "
            f"got grid with sizes {list(grid.shape)}"
        )
    if input.dim() not in (4, 5) or input.dim() != grid.dim():
        raise RuntimeError(
            "grid_sample: expected 4D or 5D input and grid with same number of dimensions, but "
            f"got {shapes}"
        )
    if 0 in input.shape[2:]:
        raise RuntimeError(
            "grid_sample: expected input to have non-empty spatial dimensions, but input has "
            f"sizes {list(input.shape)}"
        )
    if mode == "bicubic" and input.dim() == 5:
        raise RuntimeError("grid_sample: bicubic interpolation only supports 4D input")
    if input.dtype != grid.dtype:
        raise RuntimeError(
            "grid_sample: expected input and grid to have the same dtype, but input has "
            f"{input.dtype} and grid has {grid.dtype}"
        )
    if not input.is_floating_point():
        raise NotImplementedError(
            f'grid_sample: "grid_sample" not implemented for {input.dtype}; call .float() first'
        )


def _warn_of_default() -> None:
    import warnings

    warnings.warn(
        "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
        "1.3.0. Please specify align_corners=True if the old behavior is desired.",
        stacklevel=4,  # `casts` has a frame of its own
    )


def _combined(input: Tensor, taps: list[list[_Tap]], sizes: list[int]) -> Tensor:
    """Add up all combinations of the taps of the dimensions, times the products of weights."""
    batch, channels = input.shape[:2]
    total: Tensor | None = None
    for corner in product(*taps):
        index, weight = corner[0]
        for size, (other, other_weight) in zip(sizes[1:], corner[1:], strict=True):
            index = index * size + other
            weight = weight * other_weight
        values = input.gather(2, index.unsqueeze(1).expand(batch, channels, index.shape[1]))
        weight = weight.unsqueeze(1)
        total = values * weight if total is None else _C.addcmul(total, values, weight)
    assert total is not None
    return total


def _taps(
    coordinates: Tensor, size: int, mode: str, padding_mode: str, align_corners: bool
) -> list[_Tap]:
    if mode == "bicubic":  # Its neighbours, not its places, are brought inside.
        floors = coordinates.detach().floor()
        weights = cubic_weights(coordinates - floors)
        return [
            _tap(
                _inside(floors + offset, size, padding_mode, align_corners),
                weight,
                size,
                padding_mode,
            )
            for offset, weight in zip((-1, 0, 1, 2), weights, strict=True)
        ]
    coordinates = _inside(coordinates, size, padding_mode, align_corners)
    if mode == "nearest":
        nearest = coordinates.detach().round()
        return [_tap(nearest, _C.ones_like(nearest), size, padding_mode)]
    floors = coordinates.detach().floor()
    upper = coordinates - floors
    return [
        _tap(floors, 1 - upper, size, padding_mode),
        _tap(floors + 1, upper, size, padding_mode),
    ]


def _tap(place: Tensor, weight: Tensor, size: int, padding_mode: str) -> _Tap:
    """Return an index that is inside, and the weight, 0 for a place that was outside."""
    index = _C.where(place > 0, place, _C.zeros_like(place)).clamp(max=size - 1).long()
    # The upper neighbour of the last element is outside in all modes; what is nan stays nan.
    is_outside = (place < 0) | (place >= size)
    return index, weight.masked_fill(is_outside, 0)


def _inside(x: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Bring coordinates to the range of an image; nan becomes 0."""
    if padding_mode == "zeros":
        return x
    if padding_mode == "reflection" and not (align_corners and size == 1):
        x = _reflected(x, size, align_corners)
    # The ends have no gradient, as what is outside has none.
    is_between = (x > 0) & (x < size - 1)
    bounded = _C.where(x > 0, x, _C.zeros_like(x)).clamp(max=size - 1)
    return _C.where(is_between, x, bounded.detach())


def _reflected(x: Tensor, size: int, align_corners: bool) -> Tensor:
    """Reflect coordinates at the centres or the edges of the outermost elements, until inside."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    distance = (x - low).abs()
    flips = (distance.detach() / span).floor()
    rest = distance - flips * span
    is_even = flips - 2 * (flips / 2).floor() == 0
    return _C.where(is_even, rest, span - rest) + low


class _WithoutGradient(Function):
    """Ties a result to the grid it does not vary with: the gradient is zeros, not absent."""

    @staticmethod
    def forward(ctx: Any, result: Tensor, grid: Tensor) -> Tensor:
        ctx.shape = grid.shape
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        return grad, grad.new_zeros(ctx.shape)


@casts(cpu="lower", cuda="lower")
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return the grid, for grid_sample(), that maps places of the result by affine maps.

    Args:
        theta: the maps, of shape ``(N, 2, 3)`` or ``(N, 3, 4)``.
        size: the shape of the result, ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        align_corners: as of grid_sample().

    Returns:
        A tensor of shape ``(N, H, W, 2)`` or ``(N, D, H, W, 3)``.

    Example:
        >>> theta = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> torch.nn.functional.affine_grid(theta, (1, 1, 1, 2), align_corners=False)
        tensor([[[[-0.5000,  0.0000],
                  [ 0.5000,  0.0000]]]])
    """
    if align_corners is None:
        _warn_of_default()
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(
            f"affine_grid: Expected theta to have floating point type, but got {theta.dtype}"
        )
    sizes = list(size)
    if len(sizes) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    dims = len(sizes) - 2
    if theta.dim() != 3 or tuple(theta.shape[1:]) != (dims, dims + 1):
        raise ValueError(
            f"affine_grid: Expected a batch of {dims}D affine matrices of shape "
            f"Nx{dims}x{dims + 1} for size {size}. Got {theta.shape}."
        )
    if min(sizes) <= 0:
        raise ValueError(f"affine_grid: Expected non-zero, positive output size. Got {size}")
    if theta.shape[0] != sizes[0]:
        raise RuntimeError(
            f"affine_grid: expected as many maps as samples, got {theta.shape[0]} maps for size "
            f"{size}"
        )
    if align_corners and min(sizes[2:]) == 1:
        _warn_of_units()
    return _mapped(theta, sizes, align_corners)


def _warn_of_units() -> None:
    import warnings

    warnings.warn(
        "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
        "align_corners=True. This is not an intended use case of affine_grid.",
        stacklevel=4,  # `casts` has a frame of its own
    )


def _mapped(theta: Tensor, sizes: list[int], align_corners: bool) -> Tensor:
    """Map the places of all elements; a place is a sum over dimensions, so each is mapped alone."""
    dims = len(sizes) - 2
    result: Tensor | None = None
    for place, size in enumerate(sizes[2:]):
        if size > 1:
            steps = _C.linspace(-1, 1, size, dtype=theta.dtype, device=theta.device)
            steps = steps if align_corners else steps * ((size - 1) / size)
        else:
            steps = theta.new_zeros((1,))
        column = theta.select(2, dims - 1 - place).reshape(-1, *(1,) * dims, dims)
        part = steps.reshape(size, *(1,) * (dims - place)) * column
        result = part if result is None else result + part
    assert result is not None
    return result + theta.select(2, dims).reshape(-1, *(1,) * dims, dims)
