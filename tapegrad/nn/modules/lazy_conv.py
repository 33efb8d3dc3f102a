"""Convolutions that learn how many channels they have from the first input."""

from collections.abc import Sequence
from typing import Any

from tapegrad._C import Tensor
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from tapegrad.nn.modules.lazy import LazyModuleMixin
from tapegrad.nn.parameter import UninitializedParameter

__all__ = [
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

_Sizes = int | Sequence[int]


class _LazyLayer(LazyModuleMixin):
    weight: Any
    bias: Any
    in_channels: int
    out_channels: int
    groups: int
    transposed: bool
    kernel_size: tuple[int, ...]
    _rank: int

    def _begin(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters, once they have shapes."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *rest: Any, **named: Any) -> None:
        """Take in_channels from the input."""
        channels = self._channels_of(input)
        if self.has_uninitialized_params():
            if channels % self.groups != 0:
                raise ValueError(
                    f"in_channels must be divisible by groups, got {channels} and {self.groups}"
                )
            rows, columns = channels, self.out_channels
            if not self.transposed:
                rows, columns = columns, rows
            self.in_channels = channels
            with no_grad():
                self.weight.materialize((rows, columns // self.groups, *self.kernel_size))
                if self.bias is not None:
                    self.bias.materialize((self.out_channels,))
                self.reset_parameters()
        if self.in_channels == 0:  # Loaded before the first forward.
            self.in_channels = channels

    def _channels_of(self, input: Tensor) -> int:
        whole = self._rank + 2
        if input.dim() not in (whole - 1, whole):
            raise RuntimeError(
                f"{type(self).__name__}: Expected {whole - 1}D (unbatched) or {whole}D (batched) "
                f"input, but got input of size: {list(input.shape)}"
            )
        return input.shape[-self._rank - 1]


class _LazyConvolution(_LazyLayer):
    def __init__(
        self,
        out_channels: int,
        kernel_size: _Sizes,
        stride: _Sizes = 1,
        padding: str | _Sizes = 0,
        dilation: _Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        how = (kernel_size, stride, padding, dilation, groups, False, padding_mode)
        super().__init__(0, 0, *how, device, dtype)
        self._begin(out_channels, bias, device, dtype)


class _LazyTranspose(_LazyLayer):
    def __init__(
        self,
        out_channels: int,
        kernel_size: _Sizes,
        stride: _Sizes = 1,
        padding: _Sizes = 0,
        output_padding: _Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: _Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        how = (kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        super().__init__(0, 0, *how, device, dtype)
        self._begin(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConvolution, Conv1d):
    """A Conv1d whose in_channels are those of its first input.

    Takes the arguments of `Conv1d` without in_channels.

    Example:
        >>> layer = torch.nn.LazyConv1d(4, 3)
        >>> _ = layer(torch.ones(2, 5, 8))
        >>> layer
        Conv1d(5, 4, kernel_size=(3,), stride=(1,))
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvolution, Conv2d):
    """As LazyConv1d, in two dimensions."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvolution, Conv3d):
    """As LazyConv1d, in three dimensions."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTranspose, ConvTranspose1d):
    """A ConvTranspose1d whose in_channels are those of its first input.

    Takes the arguments of `ConvTranspose1d` without in_channels.

    Example:
        >>> layer = torch.nn.LazyConvTranspose1d(4, 3, stride=2)
        >>> layer(torch.ones(2, 5, 8)).shape
        torch.Size([2, 4, 17])
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTranspose, ConvTranspose2d):
    """As LazyConvTranspose1d, in two dimensions."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTranspose, ConvTranspose3d):
    """As LazyConvTranspose1d, in three dimensions."""

    cls_to_become = ConvTranspose3d
