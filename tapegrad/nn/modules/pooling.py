"""Modules that pool: maxima, averages and norms over windows, and what undoes maxima."""

from collections.abc import Sequence
from typing import Any

from tapegrad._C import Tensor
from tapegrad.nn import functional as F
from tapegrad.nn.modules.module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]

_Size = int | Sequence[int]
_OpenSize = int | None | Sequence[int | None]


class _MaxPool(Module):
    """What the modules of maxima share."""

    def __init__(
        self,
        kernel_size: _Size,
        stride: _Size | None = None,
        padding: _Size = 0,
        dilation: _Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        """Return the windows."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest element of each window that moves over the last dimension.

    Args:
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        padding: how far windows begin outside the input, at most half their size.
        dilation: the distance between the elements of a window.
        return_indices: whether to return places, too, for `MaxUnpool1d`.
        ceil_mode: whether a last window may reach outside.

    Shape:
        ``(N, C, L)``, or without the batch ``N``.

    Example:
        >>> torch.nn.MaxPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
        tensor([[3., 2.]])
    """

    def forward(self, input: Tensor) -> Any:
        """Return the largest elements, or a tuple of them and their places."""
        return F.max_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )


class MaxPool2d(_MaxPool):
    """The largest element of each window that moves over the last two dimensions.

    Args:
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        padding: how far windows begin outside the input, at most half their size.
        dilation: the distance between the elements of a window.
        return_indices: whether to return places, too, for `MaxUnpool2d`.
        ceil_mode: whether a last window may reach outside.

    Shape:
        ``(N, C, H, W)``, or without the batch ``N``.

    Example:
        >>> torch.nn.MaxPool2d(2)(torch.arange(16.0).view(1, 4, 4))
        tensor([[[ 5.,  7.],
                 [13., 15.]]])
    """

    def forward(self, input: Tensor) -> Any:
        """Return the largest elements, or a tuple of them and their places."""
        return F.max_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )


class MaxPool3d(_MaxPool):
    """The largest element of each window that moves over the last three dimensions.

    Args:
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        padding: how far windows begin outside the input, at most half their size.
        dilation: the distance between the elements of a window.
        return_indices: whether to return places, too, for `MaxUnpool3d`.
        ceil_mode: whether a last window may reach outside.

    Shape:
        ``(N, C, D, H, W)``, or without the batch ``N``.

    Example:
        >>> torch.nn.MaxPool3d(2)(torch.arange(8.0).view(1, 2, 2, 2))
        tensor([[[[7.]]]])
    """

    def forward(self, input: Tensor) -> Any:
        """Return the largest elements, or a tuple of them and their places."""
        return F.max_pool3d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )


def _tuple(value: _Size) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


class _MaxUnpool(Module):
    """What the modules that undo maxima share."""

    _rank = 0

    def __init__(self, kernel_size: _Size, stride: _Size | None = None, padding: _Size = 0) -> None:
        super().__init__()
        self.kernel_size = self._each(kernel_size)
        self.stride = self._each(kernel_size if stride is None else stride)
        self.padding = self._each(padding)

    def _each(self, value: _Size) -> tuple[int, ...]:
        return (value,) * self._rank if isinstance(value, int) else tuple(value)

    def extra_repr(self) -> str:
        """Return the windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Puts the results of `MaxPool1d` back to where they came from, among zeros.

    Args:
        kernel_size: what `MaxPool1d` got.
        stride: what `MaxPool1d` got.
        padding: what `MaxPool1d` got.
    """

    _rank = 1

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """Return a tensor of the sizes before pooling."""
        return F.max_unpool1d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool2d(_MaxUnpool):
    """Puts the results of `MaxPool2d` back to where they came from, among zeros.

    Args:
        kernel_size: what `MaxPool2d` got.
        stride: what `MaxPool2d` got.
        padding: what `MaxPool2d` got.
    """

    _rank = 2

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """Return a tensor of the sizes before pooling."""
        return F.max_unpool2d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool3d(_MaxUnpool):
    """Puts the results of `MaxPool3d` back to where they came from, among zeros.

    Args:
        kernel_size: what `MaxPool3d` got.
        stride: what `MaxPool3d` got.
        padding: what `MaxPool3d` got.
    """

    _rank = 3

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """Return a tensor of the sizes before pooling."""
        return F.max_unpool3d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class _AvgPool(Module):
    """What the modules of averages share."""

    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        """Return the windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The mean of each window that moves over the last dimension.

    Args:
        kernel_size: the size of the windows.
        stride: how far windows move; their size if None.
        padding: how far windows begin outside the input, at most half their size.
        ceil_mode: whether a last window may reach outside.
        count_include_pad: whether padding counts as elements of value 0.

    Example:
        >>> torch.nn.AvgPool1d(2)(torch.tensor([[1.0, 3.0, 2.0, 0.0]]))
        tensor([[2., 1.]])
    """

    def __init__(
        self,
        kernel_size: _Size,
        stride: _Size | None = None,
        padding: _Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _tuple(kernel_size)
        self.stride = _tuple(stride if stride is not None else kernel_size)
        self.padding = _tuple(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class _AvgPoolNd(_AvgPool):
    def __init__(
        self,
        kernel_size: _Size,
        stride: _Size | None = None,
        padding: _Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override


class AvgPool2d(_AvgPoolNd):
    """The mean of each window that moves over the last two dimensions.

    Args:
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        padding: how far windows begin outside the input, at most half their size.
        ceil_mode: whether a last window may reach outside.
        count_include_pad: whether padding counts as elements of value 0.
        divisor_override: what sums are divided by, instead of the number of elements.

    Shape:
        ``(N, C, H, W)``, or without the batch ``N``.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return F.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool3d(_AvgPoolNd):
    """The mean of each window that moves over the last three dimensions.

    Args:
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        padding: how far windows begin outside the input, at most half their size.
        ceil_mode: whether a last window may reach outside.
        count_include_pad: whether padding counts as elements of value 0.
        divisor_override: what sums are divided by, instead of the number of elements.

    Shape:
        ``(N, C, D, H, W)``, or without the batch ``N``.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return F.avg_pool3d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class _AdaptiveAvgPool(Module):
    def __init__(self, output_size: _OpenSize) -> None:
        super().__init__()
        self.output_size: Any = output_size

    def extra_repr(self) -> str:
        """Return the size of the output."""
        return f"output_size={self.output_size}"


class _AdaptiveMaxPool(_AdaptiveAvgPool):
    def __init__(self, output_size: _OpenSize, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """The means of parts into which the last dimension is cut.

    Args:
        output_size: how many parts, one number or one for each dimension.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest elements of parts into which the last dimension is cut.

    Args:
        output_size: how many parts, one number or one for each dimension.
        return_indices: whether to return places, too.
    """

    def forward(self, input: Tensor) -> Any:
        """Return the largest elements, or a tuple of them and their places."""
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The means of parts into which the last two dimensions are cut.

    Args:
        output_size: how many parts, one number or one for each dimension; None keeps a size.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest elements of parts into which the last two dimensions are cut.

    Args:
        output_size: how many parts, one number or one for each dimension; None keeps a size.
        return_indices: whether to return places, too.
    """

    def forward(self, input: Tensor) -> Any:
        """Return the largest elements, or a tuple of them and their places."""
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The means of parts into which the last three dimensions are cut.

    Args:
        output_size: how many parts, one number or one for each dimension; None keeps a size.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return F.adaptive_avg_pool3d(input, self.output_size)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest elements of parts into which the last three dimensions are cut.

    Args:
        output_size: how many parts, one number or one for each dimension; None keeps a size.
        return_indices: whether to return places, too.
    """

    def forward(self, input: Tensor) -> Any:
        """Return the largest elements, or a tuple of them and their places."""
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _LPPool(Module):
    def __init__(
        self,
        norm_type: float,
        kernel_size: _Size,
        stride: _Size | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        """Return the norm and the windows."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The norm of each window that moves over the last dimension.

    Args:
        norm_type: the p of ``(sum of x**p)**(1/p)``, without absolute values.
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        ceil_mode: whether a last window may reach outside.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the norms."""
        return F.lp_pool1d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPool):
    """The norm of each window that moves over the last two dimensions.

    Args:
        norm_type: the p of ``(sum of x**p)**(1/p)``, without absolute values.
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        ceil_mode: whether a last window may reach outside.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the norms."""
        return F.lp_pool2d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPool):
    """The norm of each window that moves over the last three dimensions.

    Args:
        norm_type: the p of ``(sum of x**p)**(1/p)``, without absolute values.
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        ceil_mode: whether a last window may reach outside.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the norms."""
        return F.lp_pool3d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class _FractionalMaxPool(Module):
    _rank = 0

    def __init__(
        self,
        kernel_size: _Size,
        output_size: _Size | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"{name}: "
                + (
                    f"{name} requires specifying either an output size, or a pooling ratio"
                    if output_size is None
                    else "only one of output_size and output_ratio may be specified"
                )
            )
        ratios: Any = output_ratio
        if ratios is not None:
            ratios = (ratios,) * self._rank if isinstance(ratios, int | float) else tuple(ratios)
            if not all(0 < ratio < 1 for ratio in ratios):
                raise ValueError(
                    f"{name}: output_ratio must be between 0 and 1 (got {output_ratio})"
                )
        self.kernel_size = self._each(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else self._each(output_size)
        self.output_ratio = ratios

    def _each(self, value: _Size) -> tuple[int, ...]:
        return (value,) * self._rank if isinstance(value, int) else tuple(value)


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest element of each window, where windows begin at random distances.

    Args:
        kernel_size: the size of the windows, one number or one for each dimension.
        output_size: how many windows, one number or one for each dimension.
        output_ratio: the same as a share of the input's size, if there is no `output_size`.
        return_indices: whether to return places, too.
    """

    _rank = 2

    def forward(self, input: Tensor) -> Any:
        """Return the largest elements, or a tuple of them and their places."""
        return F.fractional_max_pool2d(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest element of each window, where windows begin at random distances.

    Args:
        kernel_size: the size of the windows, one number or one for each dimension.
        output_size: how many windows, one number or one for each dimension.
        output_ratio: the same as a share of the input's size, if there is no `output_size`.
        return_indices: whether to return places, too.
    """

    _rank = 3

    def forward(self, input: Tensor) -> Any:
        """Return the largest elements, or a tuple of them and their places."""
        return F.fractional_max_pool3d(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )
