"""Convolutions in one, two and three dimensions, and their transposes.

The native function takes its rank from the weight; the functions here say which rank is meant, and
turn padding that is named into numbers.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._ops import runs
from tapegrad.nn.functional._arrays import refuse_arrays
from tapegrad.nn.functional.padding import pad

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
]

_Sizes = int | Sequence[int]

_convolution = _C._convolution


@runs("conv")
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _Sizes = 1,
    padding: str | _Sizes = 0,
    dilation: _Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Slide a weight along a signal of several channels.

    Args:
        input: signals, of shape ``(batch, in, length)`` or ``(in, length)``.
        weight: of shape ``(out, in / groups, kernel)``.
        bias: what is added to each output channel, of shape ``(out,)``.
        stride: the distance between places where the weight is laid.
        padding: how many zeros are put at both ends; ``"valid"`` puts none, ``"same"`` as many as
            keep the length, for a stride of 1 alone (an odd one out goes to the end).
        dilation: the distance between the elements that one weight sees.
        groups: how many parts the channels fall into that do not see each other.

    Returns:
        A tensor of shape ``(batch, out, places)`` or ``(out, places)``.

    Example:
        >>> x = torch.tensor([[1.0, 2.0, 4.0, 8.0]])
        >>> differences = torch.tensor([[[-1.0, 1.0]]])
        >>> torch.nn.functional.conv1d(x, differences)
        tensor([[1., 2., 4.]])
        >>> torch.nn.functional.conv1d(x, differences, padding="same")
        tensor([[ 1.,  2.,  4., -8.]])
    """
    if not (isinstance(input, Tensor) and isinstance(weight, Tensor)):
        refuse_arrays("conv1d", input=input, weight=weight)
    if getattr(weight, "ndim", 3) != 3:
        raise _wrong_rank("conv1d", input, weight, 1)
    if padding.__class__ is str:
        input, padding = _named_padding("conv1d", input, weight, stride, padding, dilation)
    how: Any = stride, padding, dilation, False, 0, groups
    try:
        return _convolution("conv1d", input, weight, bias, *how)
    except (RuntimeError, TypeError) as error:
        return _otherwise(error, "conv1d", input, weight, bias, *how)


@runs("conv")
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _Sizes = 1,
    padding: str | _Sizes = 0,
    dilation: _Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Slide a weight over images of several channels.

    Args:
        input: images, of shape ``(batch, in, height, width)`` or ``(in, height, width)``.
        weight: of shape ``(out, in / groups, kernel height, kernel width)``.
        bias: what is added to each output channel, of shape ``(out,)``.
        stride: the distance between places where the weight is laid; one number, or one for each
            dimension, here and in what follows.
        padding: how many zeros are put around the image; ``"valid"`` puts none, ``"same"`` as many
            as keep the size, for a stride of 1 alone (an odd one out goes to the end).
        dilation: the distance between the elements that one weight sees.
        groups: how many parts the channels fall into that do not see each other.

    Returns:
        A tensor of shape ``(batch, out, rows, columns)`` or ``(out, rows, columns)``.

    Example:
        >>> image = torch.arange(16.0).view(1, 1, 4, 4)
        >>> torch.nn.functional.conv2d(image, torch.ones(1, 1, 2, 2), stride=2)
        tensor([[[[10., 18.],
                  [42., 50.]]]])
    """
    if not (isinstance(input, Tensor) and isinstance(weight, Tensor)):
        refuse_arrays("conv2d", input=input, weight=weight)
    if getattr(weight, "ndim", 4) != 4:
        raise _wrong_rank("conv2d", input, weight, 2)
    if padding.__class__ is str:
        input, padding = _named_padding("conv2d", input, weight, stride, padding, dilation)
    how: Any = stride, padding, dilation, False, 0, groups
    try:
        return _convolution("conv2d", input, weight, bias, *how)
    except (RuntimeError, TypeError) as error:
        return _otherwise(error, "conv2d", input, weight, bias, *how)


@runs("conv")
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _Sizes = 1,
    padding: str | _Sizes = 0,
    dilation: _Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Slide a weight through volumes of several channels.

    Args:
        input: volumes, of shape ``(batch, in, depth, height, width)``, the batch optional.
        weight: of shape ``(out, in / groups, *kernel)``.
        bias: what is added to each output channel, of shape ``(out,)``.
        stride: the distance between places where the weight is laid; one number, or one for each
            dimension, here and in what follows.
        padding: how many zeros are put around the volume; ``"valid"`` puts none, ``"same"`` as many
            as keep the size, for a stride of 1 alone (an odd one out goes to the end).
        dilation: the distance between the elements that one weight sees.
        groups: how many parts the channels fall into that do not see each other.

    Returns:
        A tensor of shape ``(batch, out, *places)``, without the batch if the input has none.

    Example:
        >>> volume, weight = torch.ones(1, 2, 5, 6, 7), torch.ones(4, 2, 3, 3, 3)
        >>> torch.nn.functional.conv3d(volume, weight, stride=(1, 2, 2), padding=1).shape
        torch.Size([1, 4, 5, 3, 4])
    """
    if not (isinstance(input, Tensor) and isinstance(weight, Tensor)):
        refuse_arrays("conv3d", input=input, weight=weight)
    if getattr(weight, "ndim", 5) != 5:
        raise _wrong_rank("conv3d", input, weight, 3)
    if padding.__class__ is str:
        input, padding = _named_padding("conv3d", input, weight, stride, padding, dilation)
    how: Any = stride, padding, dilation, False, 0, groups
    try:
        return _convolution("conv3d", input, weight, bias, *how)
    except (RuntimeError, TypeError) as error:
        return _otherwise(error, "conv3d", input, weight, bias, *how)


@runs("conv_grad_input")
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _Sizes = 1,
    padding: _Sizes = 0,
    output_padding: _Sizes = 0,
    groups: int = 1,
    dilation: _Sizes = 1,
) -> Tensor:
    """Lay a weight, times each element of a signal, along a longer one, and add up.

    The linear map is the transpose of `conv1d`'s with the same weight, stride, padding and so on.

    Args:
        input: signals, of shape ``(batch, in, length)`` or ``(in, length)``.
        weight: of shape ``(in, out / groups, kernel)``.
        bias: what is added to each output channel, of shape ``(out,)``.
        stride: the distance between the places of neighbouring elements.
        padding: how many elements are left out at both ends of the result.
        output_padding: how much longer the result is at its end: with a stride, signals of several
            lengths have convolutions of one length.
        groups: how many parts the channels fall into that do not see each other.
        dilation: the distance between the elements that one weight is laid on.

    Returns:
        A tensor of shape ``(batch, out, longer)`` or ``(out, longer)``.

    Example:
        >>> x, weight = torch.tensor([[1.0, 3.0]]), torch.tensor([[[1.0, 0.5]]])
        >>> torch.nn.functional.conv_transpose1d(x, weight, stride=2)
        tensor([[1.0000, 0.5000, 3.0000, 1.5000]])
    """
    if getattr(weight, "ndim", 3) != 3:
        raise _wrong_rank("conv_transpose1d", input, weight, 1)
    how = stride, padding, dilation, True, output_padding, groups
    try:
        return _convolution("conv_transpose1d", input, weight, bias, *how)
    except (RuntimeError, TypeError) as error:
        return _otherwise(error, "conv_transpose1d", input, weight, bias, *how)


@runs("conv_grad_input")
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _Sizes = 1,
    padding: _Sizes = 0,
    output_padding: _Sizes = 0,
    groups: int = 1,
    dilation: _Sizes = 1,
) -> Tensor:
    """Lay a weight, times each element of an image, over a larger one, and add up.

    The linear map is the transpose of `conv2d`'s with the same weight, stride, padding and so on.

    Args:
        input: images, of shape ``(batch, in, height, width)`` or ``(in, height, width)``.
        weight: of shape ``(in, out / groups, kernel height, kernel width)``.
        bias: what is added to each output channel, of shape ``(out,)``.
        stride: the distance between the places of neighbouring elements; one number, or one for
            each dimension, here and in what follows.
        padding: how much is left out around the result.
        output_padding: how much larger the result is at its ends: with a stride, images of several
            sizes have convolutions of one size.
        groups: how many parts the channels fall into that do not see each other.
        dilation: the distance between the elements that one weight is laid on.

    Returns:
        A tensor of shape ``(batch, out, rows, columns)`` or ``(out, rows, columns)``.

    Example:
        >>> small = torch.tensor([[[[1.0, 2.0]]]])
        >>> torch.nn.functional.conv_transpose2d(small, torch.ones(1, 1, 2, 2), stride=2)
        tensor([[[[1., 1., 2., 2.],
                  [1., 1., 2., 2.]]]])
    """
    if getattr(weight, "ndim", 4) != 4:
        raise _wrong_rank("conv_transpose2d", input, weight, 2)
    how = stride, padding, dilation, True, output_padding, groups
    try:
        return _convolution("conv_transpose2d", input, weight, bias, *how)
    except (RuntimeError, TypeError) as error:
        return _otherwise(error, "conv_transpose2d", input, weight, bias, *how)


@runs("conv_grad_input")
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _Sizes = 1,
    padding: _Sizes = 0,
    output_padding: _Sizes = 0,
    groups: int = 1,
    dilation: _Sizes = 1,
) -> Tensor:
    """Lay a weight, times each element of a volume, into a larger one, and add up.

    The linear map is the transpose of `conv3d`'s with the same weight, stride, padding and so on.

    Args:
        input: volumes, of shape ``(batch, in, depth, height, width)``, the batch optional.
        weight: of shape ``(in, out / groups, *kernel)``.
        bias: what is added to each output channel, of shape ``(out,)``.
        stride: the distance between the places of neighbouring elements; one number, or one for
            each dimension, here and in what follows.
        padding: how much is left out around the result.
        output_padding: how much larger the result is at its ends.
        groups: how many parts the channels fall into that do not see each other.
        dilation: the distance between the elements that one weight is laid on.

    Returns:
        A tensor of shape ``(batch, out, *places)``, without the batch if the input has none.

    Example:
        >>> volume, weight = torch.ones(1, 2, 3, 3, 3), torch.ones(2, 4, 2, 2, 2)
        >>> torch.nn.functional.conv_transpose3d(volume, weight, stride=2).shape
        torch.Size([1, 4, 6, 6, 6])
    """
    if getattr(weight, "ndim", 5) != 5:
        raise _wrong_rank("conv_transpose3d", input, weight, 3)
    how = stride, padding, dilation, True, output_padding, groups
    try:
        return _convolution("conv_transpose3d", input, weight, bias, *how)
    except (RuntimeError, TypeError) as error:
        return _otherwise(error, "conv_transpose3d", input, weight, bias, *how)


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """Convolve in as many dimensions as the weight has beyond its channels, or transpose that.

    Args:
        input: of shape ``(batch, in, *sizes)``.
        weight: of shape ``(out, in / groups, *kernel)``; ``(in, out / groups, *kernel)`` if
            transposed.
        bias: what is added to each output channel, of shape ``(out,)``, or None.
        stride: the distance between places where the weight is laid.
        padding: how many zeros are put around the input, or left out around a transposed result.
        dilation: the distance between the elements that one weight sees.
        transposed: whether this is the transpose, as in `torch.nn.functional.conv_transpose2d`.
        output_padding: how much larger a transposed result is at its ends.
        groups: how many parts the channels fall into that do not see each other.

    Returns:
        A tensor of shape ``(batch, out, *places)``.

    Example:
        >>> x, weight = torch.ones(1, 1, 4), torch.ones(1, 1, 2)
        >>> torch.convolution(x, weight, None, (1,), (0,), (1,), False, (0,), 1)
        tensor([[[2., 2., 2.]]])
    """
    how = stride, padding, dilation, transposed, output_padding, groups
    if isinstance(weight, Tensor) and getattr(input, "ndim", 0) != weight.ndim:
        raise RuntimeError(
            f"convolution: Expected {weight.ndim}-dimensional input for weight of size "
            f"{list(weight.shape)}, but got {input.ndim}-dimensional input of size "
            f"{list(input.shape)} instead; unsqueeze(0) gives it a batch"
        )
    try:
        return _convolution("convolution", input, weight, bias, *how)
    except (RuntimeError, TypeError) as error:
        return _otherwise(error, "convolution", input, weight, bias, *how)


def _wrong_rank(op: str, input: Tensor, weight: Tensor, rank: int) -> RuntimeError:
    return RuntimeError(
        f"{op}: expected a weight of {rank + 2} dimensions, got weight of size "
        f"{list(weight.shape)} with input of size {list(input.shape)}; a weight of "
        f"{weight.ndim} dimensions is for {weight.ndim - 2} spatial ones"
    )


def _named_padding(
    op: str, input: Tensor, weight: Tensor, stride: _Sizes, padding: object, dilation: _Sizes
) -> tuple[Tensor, _Sizes]:
    """Return the input, with the zeros that one side alone gets, and the padding of both sides."""
    if padding == "valid":
        return input, 0
    if padding != "same":
        raise RuntimeError(
            f"{op}: Invalid padding string: {padding!r}; expected 'same', 'valid' or numbers"
        )
    rank = weight.dim() - 2
    if any(step != 1 for step in _spread(op, "stride", stride, rank)):
        raise RuntimeError(
            f"{op}: padding='same' is not supported for strided convolutions, got stride={stride}; "
            "give the padding in numbers"
        )
    steps = _spread(op, "dilation", dilation, rank)
    if min(steps) < 1:
        raise RuntimeError(f"{op}: dilation should be greater than zero, but got {dilation}")
    totals = [step * (size - 1) for step, size in zip(steps, weight.shape[2:], strict=True)]
    if any(total % 2 for total in totals):
        ends = [width for total in reversed(totals) for width in (0, total % 2)]
        input = pad(input, ends)
    return input, [total // 2 for total in totals]


def _spread(op: str, name: str, value: _Sizes, rank: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    if len(values) not in (1, rank):
        raise RuntimeError(
            f"{op}: expected {name} to be a single integer value or a list of {rank} values, "
            f"but got {name}={value}"
        )
    return values * rank if len(values) == 1 else values


def _otherwise(
    error: Exception,
    op: str,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: _Sizes,
    padding: _Sizes,
    dilation: _Sizes,
    transposed: bool,
    output_padding: _Sizes,
    groups: int,
) -> Tensor:
    """Do what the native function has refused, if it is integers; else say who refused."""
    if isinstance(error, TypeError):
        given = str(error).rpartition("Invoked with types: str, ")[2]
        raise TypeError(
            f"{op}: expected tensors input, weight and bias or None, and integers or sequences of "
            f"them, got (input, weight, bias, stride, padding, dilation, transposed, "
            f"output_padding, groups) of types {given}"
        ) from None
    dtypes = {each.dtype for each in (input, weight, bias) if each is not None}
    allowed = _TRANSPOSED_INTEGERS if transposed else _INTEGERS
    if len(dtypes) > 1 or not dtypes <= allowed:
        raise error
    # Shapes are checked, and the result's is found, by the same call on floats.
    floats = (None if bias is None else bias.float(), stride, padding, dilation)
    shape = _convolution(
        op, input.float(), weight.float(), *floats, transposed, output_padding, groups
    ).shape
    rank = weight.dim() - 2
    steps = [_spread(op, "", value, rank) for value in (stride, padding, dilation)]
    run = _integer_transpose if transposed else _integer_convolution
    batched = input if input.dim() == rank + 2 else input.unsqueeze(0)
    result = run(batched, weight, tuple(shape[-rank:]), steps, groups).view(shape)
    return result if bias is None else result + bias.view(-1, *[1] * rank)


_INTEGERS = {_C.uint8, _C.int8, _C.int16, _C.int32, _C.int64}
_TRANSPOSED_INTEGERS = {_C.int64}


def _taps(
    weight: Tensor, sizes: tuple[int, ...], steps: list[list[int]], groups: int
) -> Iterator[tuple[Tensor, tuple[Any, ...]]]:
    """Yield each tap's matrices, one for a group, and which places of a padded image it sees."""
    stride, _, dilation = steps
    matrices = weight.view(groups, weight.shape[0] // groups, *weight.shape[1:])
    for tap in product(*map(range, weight.shape[2:])):
        first = [step * place for step, place in zip(dilation, tap, strict=True)]
        places = (
            slice(start, start + (size - 1) * move + 1, move)
            for start, size, move in zip(first, sizes, stride, strict=True)
        )
        chosen = (Ellipsis, *tap)
        yield matrices[chosen], (Ellipsis, *places)


def _integer_convolution(
    input: Tensor, weight: Tensor, sizes: tuple[int, ...], steps: list[list[int]], groups: int
) -> Tensor:
    image = pad(input, [width for width in reversed(steps[1]) for _ in range(2)])
    result = input.new_zeros(input.shape[0], groups, weight.shape[0] // groups, *sizes)
    for matrix, places in _taps(weight.contiguous(), sizes, steps, groups):
        seen = image[places].reshape(input.shape[0], groups, weight.shape[1], prod(sizes))
        result += _C.matmul(matrix, seen).view(result.shape)
    return result


def _integer_transpose(
    input: Tensor, weight: Tensor, sizes: tuple[int, ...], steps: list[list[int]], groups: int
) -> Tensor:
    whole = [size + 2 * width for size, width in zip(sizes, steps[1], strict=True)]
    result = input.new_zeros(input.shape[0], groups, weight.shape[1], *whole)
    channels = weight.shape[0] // groups
    columns = input.reshape(input.shape[0], groups, channels, prod(input.shape[2:]))
    for matrix, places in _taps(weight.contiguous(), tuple(input.shape[2:]), steps, groups):
        laid = _C.matmul(matrix.transpose(-1, -2), columns)
        result[places] += laid.view(*result.shape[:3], *input.shape[2:])
    borders = zip(sizes, steps[1], strict=True)
    inside = (Ellipsis, *(slice(width, width + size) for size, width in borders))
    return result[inside].flatten(1, 2)


@runs("conv")
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution over time of a tensor that has time first and channels last.

    Args:
        input: of shape ``(time, batch, channels)``.
        weight: of shape ``(width, channels, output channels)``.
        bias: of shape ``(output channels,)``.
        pad: how many zeros to put before and after.

    Example:
        >>> x, weight = torch.ones(4, 1, 2), torch.ones(3, 2, 1)
        >>> torch.conv_tbc(x, weight, torch.zeros(1)).flatten()
        tensor([6., 6.])
    """
    if not isinstance(bias, Tensor):
        raise TypeError(
            f"conv_tbc(): argument 'bias' (position 3) must be Tensor, not {type(bias).__name__}"
        )
    if input.dim() != 3:
        raise RuntimeError("conv_tbc: Input must have 3 dims: time, batch, in_channel")
    if weight.dim() != 3:
        raise RuntimeError(
            "conv_tbc: Weight tensor must have 3 dims: kernel_width, in_channels, out_channels."
        )
    if bias.dim() != 1:
        raise RuntimeError("conv_tbc: Bias must be 1-D")
    if input.shape[2] != weight.shape[1]:
        raise RuntimeError(
            "conv_tbc: Input dim 2 (input channels) is not == dim 1 in the weight tensor"
        )
    if weight.shape[2] != bias.shape[0]:
        raise RuntimeError(
            "conv_tbc: Bias size must equal dim 2 in the weight tensor (output channels)."
        )
    y = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return y.permute(2, 0, 1).contiguous()
