"""Layers that convolve, and their transposes."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.nn import functional as F
from tapegrad.nn import init
from tapegrad.nn.modules.module import Module
from tapegrad.nn.parameter import Parameter

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _spread(value: Any, rank: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Iterable) else (value,) * rank


class _ConvNd(Module):
    """What all of them share: the parameters, how they begin, and what is printed."""

    _rank: int
    _function: Callable[..., Tensor]

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_channels(in_channels, out_channels, groups)
        _check_padding(padding, stride, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = _borders(padding, kernel_size, dilation)
        rows, columns = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        shape = (rows, columns // groups, *kernel_size)
        self.weight = Parameter(_C.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_C.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias evenly within ``1 / sqrt(elements that an output sees)`` of zero."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = math.prod(self.weight.shape[1:])
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Return the sizes, and what is not as by default."""
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}",
            f"stride={self.stride}",
        ]
        if self.padding != (0,) * len(self.padding):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * len(self.dilation):
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * len(self.output_padding):
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def _own(self) -> tuple[Tensor, Tensor | None]:
        own = self._parameters  # Quicker than attributes; a parametrised name is not in it.
        try:
            return own["weight"], own["bias"]  # type: ignore[return-value]
        except KeyError:
            return self.weight, self.bias


def _check_channels(in_channels: int, out_channels: int, groups: int) -> None:
    if groups <= 0:
        raise ValueError(f"groups must be a positive integer, got {groups}")
    for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
        if channels % groups != 0:
            raise ValueError(f"{name} must be divisible by groups, got {channels} and {groups}")


def _check_padding(padding: Any, stride: tuple[int, ...], padding_mode: str) -> None:
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(
                f"Invalid padding string {padding!r}, should be one of 'same', 'valid'"
            )
        if padding == "same" and any(step != 1 for step in stride):
            raise ValueError(
                "padding='same' is not supported for strided convolutions, got "
                f"stride={stride}; give the padding in numbers"
            )
    if padding_mode not in _PADDING_MODES:
        raise ValueError(
            f"padding_mode must be one of {_PADDING_MODES}, but got padding_mode={padding_mode!r}"
        )


def _borders(
    padding: str | tuple[int, ...], kernel_size: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the widths of the borders as `nn.functional.pad` takes them: last dimension first."""
    if padding == "valid":
        return (0, 0) * len(kernel_size)
    if not isinstance(padding, str):
        return tuple(width for width in reversed(padding) for _ in range(2))
    totals = [step * (size - 1) for step, size in zip(dilation, kernel_size, strict=True)]
    return tuple(width for total in reversed(totals) for width in (total // 2, total - total // 2))


class _Convolution(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: str | int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        rank = self._rank
        super().__init__(
            in_channels,
            out_channels,
            _spread(kernel_size, rank),
            _spread(stride, rank),
            padding if isinstance(padding, str) else _spread(padding, rank),
            _spread(dilation, rank),
            False,
            (0,) * rank,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
            padding = 0
        return self._function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution of the input."""
        return self._conv_forward(input, *self._own())


class _Transpose(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}, '
                f"got {padding_mode!r}"
            )
        rank = self._rank
        super().__init__(
            in_channels,
            out_channels,
            _spread(kernel_size, rank),
            _spread(stride, rank),
            _spread(padding, rank),
            _spread(dilation, rank),
            True,
            _spread(output_padding, rank),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return the transposed convolution, of a size that may be chosen among the possible.

        Args:
            input: as in the shapes of the class.
            output_size: the spatial sizes of the result, or all its sizes; None goes by
                ``output_padding``.
        """
        weight, bias = self._own()
        more: Any = self.output_padding
        if output_size is not None:
            more = self._padding_for(input, output_size)
        return self._function(
            input, weight, bias, self.stride, self.padding, more, self.groups, self.dilation
        )

    def _padding_for(self, input: Tensor, output_size: Sequence[int]) -> list[int]:
        """Return the output padding that leads to a size."""
        rank, name = self._rank, type(self).__name__
        leading = 2 if input.dim() == rank + 2 else 1
        wanted = list(output_size)
        if len(wanted) == leading + rank:
            wanted = wanted[leading:]
        if len(wanted) != rank:
            raise ValueError(
                f"{name[:-1]}D: for {input.dim()}D input, output_size must have {rank} or "
                f"{leading + rank} elements (got {len(wanted)})"
            )
        padding: Any = self.padding
        least = [
            (input.shape[leading + d] - 1) * self.stride[d]
            - 2 * padding[d]
            + self.dilation[d] * (self.kernel_size[d] - 1)
            + 1
            for d in range(rank)
        ]
        most = [size + step - 1 for size, step in zip(least, self.stride, strict=True)]
        for size, low, high in zip(wanted, least, most, strict=True):
            if not low <= size <= high:
                raise ValueError(
                    f"{name}: requested an output size of {wanted}, but valid sizes range from "
                    f"{least} to {most} (for an input of {list(input.shape[leading:])})"
                )
        return [size - low for size, low in zip(wanted, least, strict=True)]


class Conv1d(_Convolution):
    """Slides weights along signals of several channels.

    Args:
        in_channels: of the input.
        out_channels: of the output: as many weights are laid.
        kernel_size: of each weight.
        stride: the distance between places where a weight is laid.
        padding: how wide the border around the input is; ``"valid"`` is none, ``"same"`` keeps the
            size, for a stride of 1 alone.
        dilation: the distance between the elements that one weight sees.
        groups: how many parts the channels fall into that do not see each other.
        bias: whether there is a bias.
        padding_mode: what the border holds: ``"zeros"``, or what `torch.nn.functional.pad` calls
            ``"reflect"``, ``"replicate"`` and ``"circular"``.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Shape:
        ``(batch, in_channels, length)`` to ``(batch, out_channels, places)``, the batch optional.

    Example:
        >>> layer = torch.nn.Conv1d(2, 4, 3, padding=1)
        >>> layer(torch.ones(5, 2, 8)).shape
        torch.Size([5, 4, 8])
    """

    _rank = 1
    _function = staticmethod(F.conv1d)


class Conv2d(_Convolution):
    """Slides weights over images of several channels.

    Args:
        in_channels: of the input.
        out_channels: of the output: as many weights are laid.
        kernel_size: of each weight; one number, or one for each dimension, here and below.
        stride: the distance between places where a weight is laid.
        padding: how wide the border around the input is; ``"valid"`` is none, ``"same"`` keeps the
            size, for a stride of 1 alone.
        dilation: the distance between the elements that one weight sees.
        groups: how many parts the channels fall into that do not see each other.
        bias: whether there is a bias.
        padding_mode: what the border holds: ``"zeros"``, or what `torch.nn.functional.pad` calls
            ``"reflect"``, ``"replicate"`` and ``"circular"``.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Shape:
        ``(batch, in_channels, height, width)`` to ``(batch, out_channels, rows, columns)``, the
        batch optional.

    Example:
        >>> layer = torch.nn.Conv2d(3, 16, 3, stride=2, padding=1, padding_mode="reflect")
        >>> layer
        Conv2d(3, 16, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), padding_mode=reflect)
        >>> layer(torch.ones(8, 3, 32, 32)).shape
        torch.Size([8, 16, 16, 16])
    """

    _rank = 2
    _function = staticmethod(F.conv2d)


class Conv3d(_Convolution):
    """Slides weights through volumes of several channels.

    Args:
        in_channels: of the input.
        out_channels: of the output: as many weights are laid.
        kernel_size: of each weight; one number, or one for each dimension, here and below.
        stride: the distance between places where a weight is laid.
        padding: how wide the border around the input is; ``"valid"`` is none, ``"same"`` keeps the
            size, for a stride of 1 alone.
        dilation: the distance between the elements that one weight sees.
        groups: how many parts the channels fall into that do not see each other.
        bias: whether there is a bias.
        padding_mode: what the border holds: ``"zeros"``, or what `torch.nn.functional.pad` calls
            ``"reflect"``, ``"replicate"`` and ``"circular"``.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Shape:
        ``(batch, in_channels, *sizes)`` with three sizes to ``(batch, out_channels, *places)``, the
        batch optional.

    Example:
        >>> layer = torch.nn.Conv3d(1, 2, (1, 3, 3), padding="same")
        >>> layer(torch.ones(1, 4, 5, 6)).shape
        torch.Size([2, 4, 5, 6])
    """

    _rank = 3
    _function = staticmethod(F.conv3d)


class ConvTranspose1d(_Transpose):
    """Lays weights along a longer signal, one for each element, and adds up.

    The linear map is the transpose of `Conv1d`'s; the output is larger by the stride.

    Args:
        in_channels: of the input.
        out_channels: of the output.
        kernel_size: of each weight.
        stride: the distance between the places of neighbouring elements.
        padding: how much is left out around the output.
        output_padding: how much larger the output is at its ends.
        groups: how many parts the channels fall into that do not see each other.
        bias: whether there is a bias.
        dilation: the distance between the elements that one weight is laid on.
        padding_mode: ``"zeros"``.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Shape:
        ``(batch, in_channels, length)`` to ``(batch, out_channels, places)``, the batch optional.

    Example:
        >>> layer = torch.nn.ConvTranspose1d(4, 2, 3, stride=2)
        >>> layer(torch.ones(5, 4, 8)).shape
        torch.Size([5, 2, 17])
    """

    _rank = 1
    _function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_Transpose):
    """Lays weights over a larger image, one for each element, and adds up.

    The linear map is the transpose of `Conv2d`'s; the output is larger by the stride.

    Args:
        in_channels: of the input.
        out_channels: of the output.
        kernel_size: of each weight; one number, or one for each dimension, here and below.
        stride: the distance between the places of neighbouring elements.
        padding: how much is left out around the output.
        output_padding: how much larger the output is at its ends.
        groups: how many parts the channels fall into that do not see each other.
        bias: whether there is a bias.
        dilation: the distance between the elements that one weight is laid on.
        padding_mode: ``"zeros"``.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Shape:
        ``(batch, in_channels, height, width)`` to ``(batch, out_channels, rows, columns)``, the
        batch optional.

    Example:
        >>> down = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
        >>> up = torch.nn.ConvTranspose2d(8, 3, 3, stride=2, padding=1)
        >>> image = torch.ones(1, 3, 12, 12)
        >>> up(down(image)).shape
        torch.Size([1, 3, 11, 11])
        >>> up(down(image), output_size=image.shape).shape
        torch.Size([1, 3, 12, 12])
    """

    _rank = 2
    _function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_Transpose):
    """Lays weights into a larger volume, one for each element, and adds up.

    The linear map is the transpose of `Conv3d`'s; the output is larger by the stride.

    Args:
        in_channels: of the input.
        out_channels: of the output.
        kernel_size: of each weight; one number, or one for each dimension, here and below.
        stride: the distance between the places of neighbouring elements.
        padding: how much is left out around the output.
        output_padding: how much larger the output is at its ends.
        groups: how many parts the channels fall into that do not see each other.
        bias: whether there is a bias.
        dilation: the distance between the elements that one weight is laid on.
        padding_mode: ``"zeros"``.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Shape:
        ``(batch, in_channels, *sizes)`` with three sizes to ``(batch, out_channels, *places)``, the
        batch optional.

    Example:
        >>> layer = torch.nn.ConvTranspose3d(2, 1, 2, stride=2)
        >>> layer(torch.ones(1, 2, 3, 4, 5)).shape
        torch.Size([1, 1, 6, 8, 10])
    """

    _rank = 3
    _function = staticmethod(F.conv_transpose3d)
