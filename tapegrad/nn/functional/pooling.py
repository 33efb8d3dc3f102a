"""Maxima, averages and norms over windows of the last dimensions, and what undoes them."""

import math
from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor, _pooling
from tapegrad._casts import casts
from tapegrad._ops import runs
from tapegrad.autograd.grad_mode import no_grad

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

_Size = int | Sequence[int]
_OpenSize = int | None | Sequence[int | None]  # None keeps a size


@runs("max_pool")
def max_pool1d(
    input: Tensor,
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    dilation: _Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window that moves over the last dimension.

    Padding is never the largest. Of equal elements the first counts; a NaN counts as the largest.

    Args:
        input: a tensor of shape ``(N, C, L)``, or without the batch ``N``.
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        padding: how far windows begin outside the input, at most half their size.
        dilation: the distance between the elements of a window.
        ceil_mode: whether a last window may reach outside.
        return_indices: whether to return places, too, as `max_unpool1d` takes them: numbers of
            elements within the input's last dimension.

    Returns:
        The largest elements, or a tuple of them and their places.

    Example:
        >>> torch.nn.functional.max_pool1d(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
        tensor([[3., 2.]])
    """
    return _pooling.max_pool1d(
        input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


@runs("max_pool")
def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    dilation: _Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return what `max_pool1d` returns with ``return_indices=True``."""
    return max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


@runs("max_pool")
def max_pool2d(
    input: Tensor,
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    dilation: _Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window that moves over the last two dimensions.

    Padding is never the largest. Of equal elements the first counts; a NaN counts as the largest.

    Args:
        input: a tensor of shape ``(N, C, H, W)``, or without the batch ``N``.
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        padding: how far windows begin outside the input, at most half their size.
        dilation: the distance between the elements of a window.
        ceil_mode: whether a last window may reach outside.
        return_indices: whether to return places, too, as `max_unpool2d` takes them: numbers of
            elements within the input's last 2 dimensions.

    Returns:
        The largest elements, or a tuple of them and their places.

    Example:
        >>> x = torch.arange(16.0).view(1, 4, 4)
        >>> torch.nn.functional.max_pool2d(x, 2)
        tensor([[[ 5.,  7.],
                 [13., 15.]]])
    """
    return _pooling.max_pool2d(
        input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
    )


@runs("max_pool")
def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    dilation: _Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return what `max_pool2d` returns with ``return_indices=True``."""
    return max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


@runs("max_pool")
def max_pool3d(
    input: Tensor,
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    dilation: _Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window that moves over the last three dimensions.

    Padding is never the largest. Of equal elements the first counts; a NaN counts as the largest.

    Args:
        input: a tensor of shape ``(N, C, D, H, W)``, or without the batch ``N``.
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        padding: how far windows begin outside the input, at most half their size.
        dilation: the distance between the elements of a window.
        ceil_mode: whether a last window may reach outside.
        return_indices: whether to return places, too, as `max_unpool3d` takes them: numbers of
            elements within the input's last 3 dimensions.

    Returns:
        The largest elements, or a tuple of them and their places.

    Example:
        >>> torch.nn.functional.max_pool3d(torch.arange(8.0).view(1, 2, 2, 2), 2)
        tensor([[[[7.]]]])
    """
    pool = _pooling.max_pool3d if return_indices else _max_pool3d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


# With places it is another function to PyTorch, which autocast does not know.
_max_pool3d = casts(cpu="float32", of="max_pool3d")(_pooling.max_pool3d)


@runs("max_pool")
def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    dilation: _Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return what `max_pool3d` returns with ``return_indices=True``."""
    return max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


@runs("avg_pool")
def avg_pool1d(
    input: Tensor,
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window that moves over the last dimension.

    Args:
        input: a tensor of shape ``(N, C, L)``, or without the batch ``N``.
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        padding: how far windows begin outside the input, at most half their size.
        ceil_mode: whether a last window may reach outside.
        count_include_pad: whether padding counts as elements of value 0.

    Returns:
        The means.

    Example:
        >>> torch.nn.functional.avg_pool1d(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
        tensor([[2., 1.]])
    """
    return _pooling.avg_pool1d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, None
    )


@runs("avg_pool")
def avg_pool2d(
    input: Tensor,
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window that moves over the last two dimensions.

    Args:
        input: a tensor of shape ``(N, C, H, W)``, or without the batch ``N``.
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        padding: how far windows begin outside the input, at most half their size.
        ceil_mode: whether a last window may reach outside.
        count_include_pad: whether padding counts as elements of value 0.
        divisor_override: what sums are divided by, instead of the number of elements.

    Returns:
        The means.

    Example:
        >>> x = torch.arange(16.0).view(1, 4, 4)
        >>> torch.nn.functional.avg_pool2d(x, 2)
        tensor([[[ 2.5000,  4.5000],
                 [10.5000, 12.5000]]])
    """
    return _pooling.avg_pool2d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


@runs("avg_pool")
@casts(cpu="float32")
def avg_pool3d(
    input: Tensor,
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window that moves over the last three dimensions.

    Args:
        input: a tensor of shape ``(N, C, D, H, W)``, or without the batch ``N``.
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        padding: how far windows begin outside the input, at most half their size.
        ceil_mode: whether a last window may reach outside.
        count_include_pad: whether padding counts as elements of value 0.
        divisor_override: what sums are divided by, instead of the number of elements.

    Returns:
        The means.

    Example:
        >>> torch.nn.functional.avg_pool3d(torch.arange(8.0).view(1, 2, 2, 2), 2)
        tensor([[[[3.5000]]]])
    """
    return _pooling.avg_pool3d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _open_sizes(name: str, output_size: _OpenSize, input: Tensor) -> _Size:
    """Return sizes with -1 for None, which keeps a size."""
    given = len(output_size) if isinstance(output_size, list | tuple) else 0
    if given and isinstance(input, Tensor) and input.ndim <= given:
        raise ValueError(
            f"{name}: Input dimension should be at least {given + 1}, got {input.ndim}"
        )
    if output_size is None or isinstance(output_size, int):
        return -1 if output_size is None else _size(name, output_size)
    return [-1 if size is None else _size(name, size) for size in output_size]


def _size(name: str, output_size: Any) -> Any:
    """Return a size; the native functions read -1 as None."""
    given = output_size if isinstance(output_size, list | tuple) else (output_size,)
    if any(isinstance(size, int) and size < 0 for size in given):
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0, got {output_size}"
        )
    return output_size


@runs("max_pool")
def adaptive_max_pool1d(input: Tensor, output_size: _Size, return_indices: bool = False) -> Any:
    """Cut the last dimension into parts and return the largest element of each.

    Args:
        input: a tensor of shape ``(N, C, L)``, or without the batch ``N``.
        output_size: into how many parts, one number or one for each dimension.
        return_indices: whether to return places, too, as `max_pool1d` does.

    Returns:
        The largest elements, or a tuple of them and their places.
    """
    return _pooling.adaptive_max_pool1d(
        input, _size("adaptive_max_pool1d", output_size), return_indices
    )


@runs("max_pool")
def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: _Size, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return what `adaptive_max_pool1d` returns with ``return_indices=True``."""
    return adaptive_max_pool1d(input, output_size, True)


@runs("avg_pool")
def adaptive_avg_pool1d(input: Tensor, output_size: _Size) -> Tensor:
    """Cut the last dimension into parts and return the mean of each.

    Args:
        input: a tensor of shape ``(N, C, L)``, or without the batch ``N``.
        output_size: into how many parts, one number or one for each dimension.

    Returns:
        The means.
    """
    return _pooling.adaptive_avg_pool1d(input, _size("adaptive_avg_pool1d", output_size))


@runs("max_pool")
def adaptive_max_pool2d(input: Tensor, output_size: _OpenSize, return_indices: bool = False) -> Any:
    """Cut the last two dimensions into parts and return the largest element of each.

    Args:
        input: a tensor of shape ``(N, C, H, W)``, or without the batch ``N``.
        output_size: into how many parts, one number or one for each dimension; None keeps a size.
        return_indices: whether to return places, too, as `max_pool2d` does.

    Returns:
        The largest elements, or a tuple of them and their places.
    """
    return _pooling.adaptive_max_pool2d(
        input, _open_sizes("adaptive_max_pool2d", output_size, input), return_indices
    )


@runs("max_pool")
def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: _OpenSize, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return what `adaptive_max_pool2d` returns with ``return_indices=True``."""
    return adaptive_max_pool2d(input, output_size, True)


@runs("avg_pool")
def adaptive_avg_pool2d(input: Tensor, output_size: _OpenSize) -> Tensor:
    """Cut the last two dimensions into parts and return the mean of each.

    Args:
        input: a tensor of shape ``(N, C, H, W)``, or without the batch ``N``.
        output_size: into how many parts, one number or one for each dimension; None keeps a size.

    Returns:
        The means.
    """
    return _pooling.adaptive_avg_pool2d(
        input, _open_sizes("adaptive_avg_pool2d", output_size, input)
    )


@runs("max_pool")
@casts(cpu="float32")
def adaptive_max_pool3d(input: Tensor, output_size: _OpenSize, return_indices: bool = False) -> Any:
    """Cut the last three dimensions into parts and return the largest element of each.

    Args:
        input: a tensor of shape ``(N, C, D, H, W)``, or without the batch ``N``.
        output_size: into how many parts, one number or one for each dimension; None keeps a size.
        return_indices: whether to return places, too, as `max_pool3d` does.

    Returns:
        The largest elements, or a tuple of them and their places.
    """
    return _pooling.adaptive_max_pool3d(
        input, _open_sizes("adaptive_max_pool3d", output_size, input), return_indices
    )


@runs("max_pool")
def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: _OpenSize, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return what `adaptive_max_pool3d` returns with ``return_indices=True``."""
    return adaptive_max_pool3d(input, output_size, True)


@runs("avg_pool")
@casts(cpu="float32")
def adaptive_avg_pool3d(input: Tensor, output_size: _OpenSize) -> Tensor:
    """Cut the last three dimensions into parts and return the mean of each.

    Args:
        input: a tensor of shape ``(N, C, D, H, W)``, or without the batch ``N``.
        output_size: into how many parts, one number or one for each dimension; None keeps a size.

    Returns:
        The means.
    """
    return _pooling.adaptive_avg_pool3d(
        input, _open_sizes("adaptive_avg_pool3d", output_size, input)
    )


def _lp_pool(averages: Tensor, norm_type: float, count: float) -> Tensor:
    """Return norms from the averages of powers over windows of so many elements."""
    return (averages.sign() * averages.abs().relu() * count).pow(1.0 / norm_type)


def _count(kernel_size: _Size, rank: int) -> int:
    return kernel_size**rank if isinstance(kernel_size, int) else math.prod(kernel_size)


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: _Size,
    stride: _Size | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the norm of each window that moves over the last dimension.

    Args:
        input: a tensor of shape ``(N, C, L)``, or without the batch ``N``.
        norm_type: the p of ``(sum of x**p)**(1/p)``, without absolute values.
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        ceil_mode: whether a last window may reach outside.

    Returns:
        The norms.
    """
    averages = avg_pool1d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return _lp_pool(averages, norm_type, _count(kernel_size, 1))


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: _Size,
    stride: _Size | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the norm of each window that moves over the last two dimensions.

    Args:
        input: a tensor of shape ``(N, C, H, W)``, or without the batch ``N``.
        norm_type: the p of ``(sum of x**p)**(1/p)``, without absolute values.
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        ceil_mode: whether a last window may reach outside.

    Returns:
        The norms.
    """
    averages = avg_pool2d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return _lp_pool(averages, norm_type, _count(kernel_size, 2))


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: _Size,
    stride: _Size | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the norm of each window that moves over the last three dimensions.

    Args:
        input: a tensor of shape ``(N, C, D, H, W)``, or without the batch ``N``.
        norm_type: the p of ``(sum of x**p)**(1/p)``, without absolute values.
        kernel_size: the size of the windows, one number or one for each dimension.
        stride: how far windows move; their size if None.
        ceil_mode: whether a last window may reach outside.

    Returns:
        The norms.
    """
    averages = avg_pool3d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return _lp_pool(averages, norm_type, _count(kernel_size, 3))


def _each(value: _Size, rank: int) -> list[int]:
    return [value] * rank if isinstance(value, int) else list(value)


def _unpooled_sizes(
    input: Tensor,
    rank: int,
    kernel_size: _Size,
    stride: _Size | None,
    padding: _Size,
    output_size: Sequence[int] | None,
) -> list[int]:
    """Return the sizes before pooling: those given, if pooling leads from them to these."""
    kernels, paddings = _each(kernel_size, rank), _each(padding, rank)
    strides = kernels if stride is None or stride == () else _each(stride, rank)
    own = input.shape[len(input.shape) - rank :]
    default = [(own[d] - 1) * strides[d] + kernels[d] - 2 * paddings[d] for d in range(len(own))]
    if output_size is None:
        return default
    sizes = list(output_size)
    if len(sizes) == rank + 2:
        sizes = sizes[2:]
    if len(sizes) != rank:
        raise ValueError(
            f"max_unpool{rank}d: output_size should be a sequence containing {rank} or {rank + 2} "
            f"elements, but it has a length of '{len(sizes)}'"
        )
    for d, size in enumerate(sizes):
        least, most = default[d] - strides[d], default[d] + strides[d]
        if not least < size < most:
            raise ValueError(
                f"max_unpool{rank}d: invalid output_size {sizes} (dim {d} must be between {least} "
                f"and {most})"
            )
    return sizes


@casts(cpu="float32")
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put the results of `max_pool1d` back to where they came from, among zeros.

    Args:
        input: the largest elements.
        indices: their places.
        kernel_size: what `max_pool1d` got.
        stride: what `max_pool1d` got.
        padding: what `max_pool1d` got.
        output_size: the sizes before pooling, where they do not follow from the others.

    Returns:
        A tensor of the sizes before pooling.

    Example:
        >>> x = torch.tensor([[1.0, 3.0, 2.0, 0.0]])
        >>> y, places = torch.nn.functional.max_pool1d(x, 2, return_indices=True)
        >>> torch.nn.functional.max_unpool1d(y, places, 2)
        tensor([[0., 3., 2., 0.]])
    """
    sizes = _unpooled_sizes(input, 1, kernel_size, stride, padding, output_size)
    return _pooling.max_unpool1d(input, indices, sizes)


@casts(cpu="float32")
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put the results of `max_pool2d` back to where they came from, among zeros.

    Args:
        input: the largest elements.
        indices: their places.
        kernel_size: what `max_pool2d` got.
        stride: what `max_pool2d` got.
        padding: what `max_pool2d` got.
        output_size: the sizes before pooling, where they do not follow from the others.

    Returns:
        A tensor of the sizes before pooling.
    """
    sizes = _unpooled_sizes(input, 2, kernel_size, stride, padding, output_size)
    return _pooling.max_unpool2d(input, indices, sizes)


@casts(cpu="float32")
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put the results of `max_pool3d` back to where they came from, among zeros.

    Args:
        input: the largest elements.
        indices: their places.
        kernel_size: what `max_pool3d` got.
        stride: what `max_pool3d` got.
        padding: what `max_pool3d` got.
        output_size: the sizes before pooling, where they do not follow from the others.

    Returns:
        A tensor of the sizes before pooling.
    """
    sizes = _unpooled_sizes(input, 3, kernel_size, stride, padding, output_size)
    return _pooling.max_unpool3d(input, indices, sizes)


def _starts(samples: Tensor, size: int, out: int, kernel: int) -> Tensor:
    """Return where windows begin along a dimension, for each plane, from a random number each."""
    if out == 1:
        return samples.new_full((samples.numel(), 1), size - kernel, dtype=_C.int64)
    alpha = (size - kernel) / (out - 1)
    u = samples.reshape(-1, 1)
    steps = _C.arange(out - 1, dtype=u.dtype, device=u.device)
    starts = ((steps + u) * alpha).to(_C.int64) - (u * alpha).to(_C.int64)
    last = starts.new_full((starts.shape[0], 1), size - kernel)
    return _C.cat((starts, last), 1)


def _fractional_sizes(
    name: str, input: Tensor, rank: int, output_size: Any, output_ratio: Any
) -> list[int]:
    if output_size is not None:
        return _each(output_size, rank)
    if output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    ratios = [output_ratio] * rank if isinstance(output_ratio, int | float) else output_ratio
    return [int(size * ratio) for size, ratio in zip(input.shape[-rank:], ratios, strict=True)]


def _fractional_max_pool(
    rank: int,
    input: Tensor,
    kernel_size: _Size,
    output_size: Any,
    output_ratio: Any,
    samples: Tensor | None,
) -> tuple[Tensor, Tensor]:
    name = f"fractional_max_pool{rank}d"
    if input.ndim not in (rank + 1, rank + 2) or 0 in input.shape[1:]:
        raise RuntimeError(
            f"{name}: Expected {rank + 1}D or {rank + 2}D tensor, but got {list(input.shape)}"
        )
    sizes, kernels = input.shape[-rank:], _each(kernel_size, rank)
    outs = _fractional_sizes(name, input, rank, output_size, output_ratio)
    for size, out, kernel in zip(sizes, outs, kernels, strict=True):
        if out < 1 or kernel < 1 or out + kernel - 1 > size:
            raise RuntimeError(
                f"{name}: pool size {kernel} and output size {out} do not fit into an input of "
                f"size {size}"
            )
    lead = input.shape[:-rank]
    if samples is None:
        shape = (1, *lead, rank) if len(lead) == 1 else (*lead, rank)
        samples = _C.rand(shape, dtype=input.dtype, device=input.device)
    with no_grad():
        # PyTorch's order of the random numbers: the width first in two dimensions, last in three.
        planes = math.prod(lead)
        numbers = samples.reshape(-1, rank)[:planes]  # without a batch, those of the first one
        columns = [1, 0] if rank == 2 else list(range(rank))
        places = numbers.new_zeros((planes, *[1] * (2 * rank)), dtype=_C.int64)
        for d in range(rank):
            starts = _starts(numbers[:, columns[d]], sizes[d], outs[d], kernels[d])
            spread = [planes, *[1] * (2 * rank)]
            spread[1 + d], spread[1 + rank + d] = outs[d], kernels[d]
            window = starts.unsqueeze(-1) + _C.arange(kernels[d], device=starts.device)
            places = places * sizes[d] + window.view(spread)
        places = places.reshape(planes, math.prod(outs), math.prod(kernels))
        values = input.detach().reshape(planes, 1, math.prod(sizes))
        values = values.expand(-1, places.shape[1], -1)
        best = values.gather(2, places).max(2)[1]
        indices = places.gather(2, best.unsqueeze(2)).view((*lead, *outs))
    return _pooling.plane_gather(input, indices, rank), indices


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: _Size,
    output_size: _Size | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return what `fractional_max_pool2d` returns with ``return_indices=True``."""
    return _fractional_max_pool(2, input, kernel_size, output_size, output_ratio, _random_samples)


@casts(cpu="float32")
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: _Size,
    output_size: _Size | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Return the largest element of each window, where windows begin at random distances.

    Args:
        input: a tensor of shape ``(N, C, H, W)``, or without the batch ``N``.
        kernel_size: the size of the windows, one number or one for each dimension.
        output_size: how many windows, one number or one for each dimension.
        output_ratio: the same as a share of the input's size, if there is no `output_size`.
        return_indices: whether to return places, too, as `max_pool2d` does.

    Returns:
        The largest elements, or a tuple of them and their places.
    """
    both = _fractional_max_pool(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if return_indices else both[0]


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: _Size,
    output_size: _Size | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return what `fractional_max_pool3d` returns with ``return_indices=True``."""
    return _fractional_max_pool(3, input, kernel_size, output_size, output_ratio, _random_samples)


@casts(cpu="float32")
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: _Size,
    output_size: _Size | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Return the largest element of each window, where windows begin at random distances.

    Args:
        input: a tensor of shape ``(N, C, D, H, W)``, or without the batch ``N``.
        kernel_size: the size of the windows, one number or one for each dimension.
        output_size: how many windows, one number or one for each dimension.
        output_ratio: the same as a share of the input's size, if there is no `output_size`.
        return_indices: whether to return places, too, as `max_pool3d` does.

    Returns:
        The largest elements, or a tuple of them and their places.
    """
    both = _fractional_max_pool(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if return_indices else both[0]
