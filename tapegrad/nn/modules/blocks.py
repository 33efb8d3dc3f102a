"""Modules that rearrange images."""

from collections.abc import Sequence

from tapegrad._C import Tensor
from tapegrad.nn import functional as F
from tapegrad.nn.modules.module import Module

__all__ = ["ChannelShuffle", "Fold", "PixelShuffle", "PixelUnshuffle", "Unfold"]

_Pair = int | Sequence[int]


class PixelShuffle(Module):
    """Turns every r * r channels into one that is r times as high and as wide.

    Args:
        upscale_factor: r.

    Example:
        >>> torch.nn.PixelShuffle(2)(torch.ones(1, 8, 3, 3)).shape
        torch.Size([1, 2, 6, 6])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return the larger image."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """Return the factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Undoes PixelShuffle: moves every r by r pixels to r * r channels.

    Args:
        downscale_factor: r.

    Example:
        >>> torch.nn.PixelUnshuffle(2)(torch.ones(1, 2, 6, 6)).shape
        torch.Size([1, 8, 3, 3])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return the smaller image."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """Return the factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Deals the channels of each group out in turns.

    Args:
        groups: how many groups the channels are in.

    Example:
        >>> torch.nn.ChannelShuffle(2)(torch.arange(4).reshape(1, 4, 1)).flatten()
        tensor([0, 2, 1, 3])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Return the channels in their new order."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Return the number of groups."""
        return f"groups={self.groups}"


class Unfold(Module):
    """Returns the blocks under a sliding kernel as columns.

    Args:
        kernel_size: height and width of the kernel, or one for both; so are the others.
        dilation: the distance between the elements of a block.
        padding: rows and columns of zeros around the input.
        stride: the distance between blocks.

    Example:
        >>> torch.nn.Unfold((2, 3))(torch.ones(2, 5, 3, 4)).shape
        torch.Size([2, 30, 4])
    """

    def __init__(
        self, kernel_size: _Pair, dilation: _Pair = 1, padding: _Pair = 0, stride: _Pair = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Return the columns."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Fold(Module):
    """Adds columns up to an image, each at its block: the transpose of Unfold.

    Args:
        output_size: height and width of the image, or one for both.
        kernel_size: as of Unfold, like the others.
        dilation: the distance between the elements of a block.
        padding: rows and columns around the image that are dropped.
        stride: the distance between blocks.

    Example:
        >>> torch.nn.Fold((4, 5), 2)(torch.ones(1, 12, 12)).shape
        torch.Size([1, 3, 4, 5])
    """

    def __init__(
        self,
        output_size: _Pair,
        kernel_size: _Pair,
        dilation: _Pair = 1,
        padding: _Pair = 0,
        stride: _Pair = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Return the image."""
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )
