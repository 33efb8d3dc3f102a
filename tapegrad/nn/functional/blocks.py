"""Images rearranged: channels to pixels and back, sliding blocks to columns and back."""

from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import contiguous_format
from tapegrad.autograd.function import Function
from tapegrad.nn.functional._formats import channels_to_end, channels_to_front
from tapegrad.nn.functional.padding import pad

__all__ = [
    "channel_shuffle",
    "fold",
    "native_channel_shuffle",
    "pixel_shuffle",
    "pixel_unshuffle",
    "unfold",
]

_Pair = int | Sequence[int]


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Turn every r * r channels into one that is r times as high and as wide.

    Args:
        input: a tensor of shape ``(..., C * r * r, H, W)``.
        upscale_factor: r.

    Returns:
        A tensor of shape ``(..., C, H * r, W * r)``.

    Example:
        >>> torch.nn.functional.pixel_shuffle(torch.arange(4).reshape(4, 1, 1), 2)
        tensor([[[0, 1],
                 [2, 3]]])
    """
    r = _expect_image("pixel_shuffle", "upscale_factor", input, upscale_factor)
    channels, height, width = input.shape[-3:]
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    leading, c = input.shape[:-3], channels // (r * r)
    if input.dim() == 4 and _C._is_channels_last(input):
        parts = channels_to_end(input).reshape(leading[0], height, width, c, r, r)
        result = _copied(parts.permute(0, 1, 4, 2, 5, 3))
        return channels_to_front(result.reshape(leading[0], height * r, width * r, c))
    parts = input.reshape(*leading, c, r, r, height, width)
    first = len(leading)
    order = (*range(first), first, first + 3, first + 1, first + 4, first + 2)
    result = _copied(parts.permute(order)).reshape(*leading, c, height * r, width * r)
    return _C._in_format_of(result, input)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Undo pixel_shuffle(): move every r by r pixels to r * r channels.

    Args:
        input: a tensor of shape ``(..., C, H * r, W * r)``.
        downscale_factor: r.

    Returns:
        A tensor of shape ``(..., C * r * r, H, W)``.

    Example:
        >>> torch.nn.functional.pixel_unshuffle(torch.tensor([[[0, 1], [2, 3]]]), 2).flatten()
        tensor([0, 1, 2, 3])
    """
    r = _expect_image("pixel_unshuffle", "downscale_factor", input, downscale_factor)
    channels, height, width = input.shape[-3:]
    for name, place, size in (("height", -2, height), ("width", -1, width)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({place})={size} is not divisible by {r}"
            )
    leading = input.shape[:-3]
    if input.dim() == 4 and _C._is_channels_last(input):
        image = (leading[0], height // r, r, width // r, r, channels)
        result = _copied(channels_to_end(input).reshape(image).permute(0, 1, 3, 5, 2, 4))
        return channels_to_front(result.flatten(3))
    parts = input.reshape(*leading, channels, height // r, r, width // r, r)
    first = len(leading)
    order = (*range(first), first, first + 2, first + 4, first + 1, first + 3)
    shape = (*leading, channels * r * r, height // r, width // r)
    return _C._in_format_of(_copied(parts.permute(order)).reshape(shape), input)


def _copied(view: Tensor) -> Tensor:
    """Return a contiguous copy, also where the view is contiguous by chance: results are fresh."""
    return view.clone(memory_format=contiguous_format)


def _expect_image(name: str, factor: str, input: Tensor, value: int) -> int:
    if input.dim() < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with "
            f"{input.dim()} dimension(s)"
        )
    if value <= 0:
        raise RuntimeError(f"{name} expects a positive {factor}, but got {value}")
    return value


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Deal the channels of each group out in turns.

    Args:
        input: a tensor of shape ``(N, C, ...)``.
        groups: how many groups the channels are in.

    Returns:
        A tensor of the same shape: the first channels of all groups, then the second ones, ...

    Example:
        >>> x = torch.arange(6).reshape(1, 6, 1)
        >>> torch.nn.functional.channel_shuffle(x, 2).flatten()
        tensor([0, 3, 1, 4, 2, 5])
    """
    if input.dim() < 3:
        raise RuntimeError(
            "channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{list(input.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            "channel_shuffle: Number of groups to divide channels in must be positive. Value of "
            f"groups:{groups}"
        )
    channels = input.shape[1]
    if channels % groups:
        raise RuntimeError(
            "channel_shuffle: Number of channels must be divisible by groups. Got "
            f"{channels} channels and {groups} groups."
        )
    split = (groups, channels // groups)
    if _C._is_channels_last(input):
        parts = channels_to_end(input).unflatten(-1, split)
        return channels_to_front(_copied(parts.transpose(-1, -2)).flatten(-2))
    return _copied(input.unflatten(1, split).transpose(1, 2)).reshape(input.shape)


native_channel_shuffle = channel_shuffle


def unfold(
    input: Tensor, kernel_size: _Pair, dilation: _Pair = 1, padding: _Pair = 0, stride: _Pair = 1
) -> Tensor:
    """Return the blocks under a sliding kernel as columns.

    Args:
        input: a tensor of shape ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: height and width of the kernel, or one for both; so are the others.
        dilation: the distance between the elements of a block.
        padding: rows and columns of zeros around the input.
        stride: the distance between blocks.

    Returns:
        A tensor of shape ``(N, C * kernel height * kernel width, blocks)``.

    Example:
        >>> x = torch.arange(6.0).reshape(1, 1, 2, 3)
        >>> torch.nn.functional.unfold(x, 2)
        tensor([[[0., 1.],
                 [1., 2.],
                 [3., 4.],
                 [4., 5.]]])
    """
    kernel, dilations, paddings, strides = _pairs(kernel_size, dilation, padding, stride)
    if input.dim() < 3:
        raise IndexError(
            "unfold: Dimension out of range: expected (N, C, H, W) or (C, H, W), got "
            f"{input.dim()}-D"
        )
    if input.dim() > 4 or 0 in input.shape[-3:]:
        raise RuntimeError(
            "unfold: Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other "
            f"non-zero dimensions for input, but got: {list(input.shape)}"
        )
    _expect_dtype("unfold", input)
    size = tuple(input.shape[-2:])
    counts = _block_counts(size, kernel, dilations, paddings, strides)
    if min(counts) < 1:
        raise RuntimeError(
            f"unfold: Given input with spatial size {size}, kernel_size={kernel}, "
            f"dilation={dilations}, padding={paddings}, calculated shape of the array of sliding "
            f"blocks as {counts}, but its components must be at least one."
        )
    batch = input if input.dim() == 4 else input.unsqueeze(0)
    geometry = (kernel, dilations, paddings, strides, counts)
    result = _Unfold.apply(batch, geometry) if batch.requires_grad else _unfolded(batch, geometry)
    return result if input.dim() == 4 else result.squeeze(0)


def fold(
    input: Tensor,
    output_size: _Pair,
    kernel_size: _Pair,
    dilation: _Pair = 1,
    padding: _Pair = 0,
    stride: _Pair = 1,
) -> Tensor:
    """Add columns up to an image, each at its block: the transpose of unfold().

    Args:
        input: a tensor of shape ``(N, C * kernel height * kernel width, blocks)``, or without N.
        output_size: height and width of the image.
        kernel_size: as of unfold(), like the others.
        dilation: the distance between the elements of a block.
        padding: rows and columns around the image that are dropped.
        stride: the distance between blocks.

    Returns:
        A tensor of shape ``(N, C, H, W)``.

    Example:
        >>> torch.nn.functional.fold(torch.ones(1, 4, 2), (2, 3), 2)
        tensor([[[[1., 2., 1.],
                  [1., 2., 1.]]]])
    """
    kernel, dilations, paddings, strides = _pairs(kernel_size, dilation, padding, stride)
    size = _pair("output_size", output_size)
    if input.dim() not in (2, 3) or 0 in input.shape[-2:]:
        raise RuntimeError(
            "fold: Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(input.shape)}"
        )
    _expect_dtype("fold", input)
    if input.shape[-2] % (kernel[0] * kernel[1]):
        raise RuntimeError(
            "fold: Expected size of input's dimension 1 to be divisible by the product of "
            f"kernel_size, but got input.size(1)={input.shape[-2]} and kernel_size={kernel}."
        )
    counts = _block_counts(size, kernel, dilations, paddings, strides)
    if min(counts) < 1 or counts[0] * counts[1] != input.shape[-1]:
        raise RuntimeError(
            f"fold: Given output_size={size}, kernel_size={kernel}, dilation={dilations}, "
            f"padding={paddings}, stride={strides}, expected size of input's dimension 2 to match "
            f"the calculated number of sliding blocks {counts[0]} * {counts[1]} = "
            f"{counts[0] * counts[1]}, but got input.size(2)={input.shape[-1]}."
        )
    batch = input if input.dim() == 3 else input.unsqueeze(0)
    geometry = (kernel, dilations, paddings, strides, counts)
    result = (
        _Fold.apply(batch, size, geometry)
        if batch.requires_grad
        else _folded(batch, size, geometry)
    )
    return result if input.dim() == 3 else result.squeeze(0)


def _pair(name: str, value: _Pair) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    if len(value) != 2:
        raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(value)}")
    return value[0], value[1]


def _pairs(
    kernel_size: _Pair, dilation: _Pair, padding: _Pair, stride: _Pair
) -> list[tuple[int, int]]:
    named = (
        ("kernel_size", "kernel size", kernel_size, 1),
        ("dilation", "dilation", dilation, 1),
        ("padding", "padding", padding, 0),
        ("stride", "stride", stride, 1),
    )
    found = []
    for name, words, value, least in named:
        pair = _pair(name, value)
        if min(pair) < least:
            expected = "greater than zero" if least else "non-negative"
            raise RuntimeError(f"{words} should be {expected}, but got {pair}")
        found.append(pair)
    return found


def _block_counts(size: Any, kernel: Any, dilations: Any, paddings: Any, strides: Any) -> Any:
    return tuple(
        (size[d] + 2 * paddings[d] - dilations[d] * (kernel[d] - 1) - 1) // strides[d] + 1
        for d in (0, 1)
    )


def _expect_dtype(name: str, input: Tensor) -> None:
    if not (input.is_floating_point() or input.is_complex() or input.dtype == _C.bool):
        raise NotImplementedError(
            f'{name}: "{name}" not implemented for {input.dtype}; call .float() first'
        )


def _unfolded(input: Tensor, geometry: Any) -> Tensor:
    kernel, dilations, (rows, columns), strides, counts = geometry
    if rows or columns:
        input = pad(input, (columns, columns, rows, rows))
    blocks = input
    for d in (0, 1):
        reach = dilations[d] * (kernel[d] - 1) + 1
        blocks = blocks.unfold(2 + d, reach, strides[d])
        if dilations[d] > 1:
            blocks = blocks[..., :: dilations[d]]
    batch, channels = input.shape[:2]
    return _copied(blocks.permute(0, 1, 4, 5, 2, 3)).reshape(
        batch, channels * kernel[0] * kernel[1], counts[0] * counts[1]
    )


def _folded(input: Tensor, size: Any, geometry: Any) -> Tensor:
    kernel, dilations, (rows, columns), strides, counts = geometry
    batch = input.shape[0]
    channels = input.shape[1] // (kernel[0] * kernel[1])
    blocks = input.reshape(batch, channels, *kernel, *counts)
    result = input.new_zeros((batch, channels, size[0] + 2 * rows, size[1] + 2 * columns))
    for i in range(kernel[0]):
        top = i * dilations[0]
        below = top + strides[0] * (counts[0] - 1) + 1
        for j in range(kernel[1]):
            left = j * dilations[1]
            beyond = left + strides[1] * (counts[1] - 1) + 1
            window = result[:, :, top : below : strides[0], left : beyond : strides[1]]
            window.add_(blocks[:, :, i, j])
    if rows or columns:
        result = result[:, :, rows : rows + size[0], columns : columns + size[1]].contiguous()
    return result


class _Unfold(Function):
    """Its backward is fold(), whose backward it is: neither records its steps."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, geometry: Any) -> Tensor:
        ctx.size, ctx.geometry = tuple(input.shape[2:]), geometry
        return _unfolded(input, geometry)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, None]:
        return _Fold.apply(grad, ctx.size, ctx.geometry), None


class _Fold(Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor, size: Any, geometry: Any) -> Tensor:
        ctx.geometry = geometry
        return _folded(input, size, geometry)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, None, None]:
        return _Unfold.apply(grad, ctx.geometry), None, None
