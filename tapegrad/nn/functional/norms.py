"""Normalisation by means and variances: over layers, groups, batches, instances.

Statistics of half precision inputs are computed in float32, as is the result before it is rounded.
"""

import math
from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad._ops import runs
from tapegrad._types import finfo
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.nn.functional._arrays import refuse_arrays

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "rms_norm",
]

_HALVES = (_C.float16, _C.bfloat16)


@casts(cuda="float32")
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Shift and scale the last dimensions to mean 0 and variance 1.

    Args:
        input: a tensor whose last dimensions have the sizes `normalized_shape`.
        normalized_shape: the sizes of the dimensions to normalise over.
        weight: multiplied afterwards, of these sizes.
        bias: added afterwards, of these sizes.
        eps: added to the variance.

    Returns:
        A tensor of the input's shape.

    Example:
        >>> torch.nn.functional.layer_norm(torch.tensor([[1.0, 3.0]]), (2,))
        tensor([[-1.0000,  1.0000]])
    """
    if not isinstance(input, Tensor):
        refuse_arrays("layer_norm", input=input)
    dims = _normalized_dims("layer_norm", input, normalized_shape, weight, bias)
    x, weight, bias = _of_one_dtype(input, weight, bias)
    try:
        result = _C._layer_norm(x, dims, weight, bias, eps, True)
    except TypeError:
        if getattr(input, "is_nested", False):
            nested: Any = input
            return nested.layer_norm(normalized_shape, weight, bias, eps)
        raise
    return result if x is input else result.to(input.dtype)


@casts(cuda="float32")
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Scale the last dimensions to mean square 1.

    Args:
        input: a tensor whose last dimensions have the sizes `normalized_shape`.
        normalized_shape: the sizes of the dimensions to normalise over.
        weight: multiplied afterwards, of these sizes.
        eps: added to the mean square; None takes the rounding error of the dtype that is computed
            in, which for half precision is float32.

    Returns:
        A tensor of the input's shape.

    Example:
        >>> torch.nn.functional.rms_norm(torch.tensor([3.0, 4.0]), (2,))
        tensor([0.8485, 1.1314])
    """
    dims = _normalized_dims("rms_norm", input, normalized_shape, weight, None)
    x, weight = _of_one_dtype(input, weight)
    if eps is None:
        if not x.dtype.is_floating_point:
            raise NotImplementedError(f"rms_norm: expected a floating dtype, got {x.dtype}")
        eps = finfo(_C.float32 if x.dtype in _HALVES else x.dtype).eps
    result = _C._layer_norm(_C._in_usual_order(x), dims, weight, None, eps, False)
    return _C._in_format_of(result, input).to(input.dtype)


@runs("layer_norm")
@casts(cuda="float32")
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Shift and scale groups of channels of each sample to mean 0 and variance 1.

    Args:
        input: a tensor of shape ``(N, C, ...)``.
        num_groups: the number of groups that the C channels are divided into.
        weight: multiplied afterwards, of shape ``(C,)``.
        bias: added afterwards, of shape ``(C,)``.
        eps: added to the variance.

    Returns:
        A tensor of the input's shape.
    """
    if not isinstance(input, Tensor):
        refuse_arrays("group_norm", input=input)
    if input.dim() < 2:
        raise RuntimeError(
            f"group_norm: Expected at least 2 dimensions for input tensor but got {input.dim()}"
        )
    samples, channels = input.shape[0], input.shape[1]
    if num_groups <= 0 or channels % num_groups:
        raise RuntimeError(
            "group_norm: Expected number of channels in input to be divisible by num_groups, but "
            f"got input of shape {list(input.shape)} and num_groups={num_groups}"
        )
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and tuple(tensor.shape) != (channels,):
            raise RuntimeError(
                f"group_norm: Expected {name} to be a vector of size equal to the number of "
                f"channels in input, but got {name} of shape {list(tensor.shape)} and input of "
                f"shape {list(input.shape)}"
            )
    per_group = [samples * channels // num_groups, num_groups, *input.shape[2:]]
    _expect_several_values(per_group)
    (x,) = _widened(input)
    grouped = _C._in_usual_order(x).reshape(
        samples, num_groups, math.prod(input.shape[1:]) // num_groups
    )
    result = _C._layer_norm(grouped, 1, None, None, eps, True).reshape(input.shape)
    return _channel_affine(_C._in_format_of(result, input), weight, bias).to(input.dtype)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Shift and scale every channel, over the batch, to mean 0 and variance 1.

    Args:
        input: a tensor of shape ``(N, C, ...)``.
        running_mean: the mean of earlier batches, used when not training and updated when training.
        running_var: the variance of earlier batches, likewise.
        weight: multiplied afterwards, of shape ``(C,)``.
        bias: added afterwards, of shape ``(C,)``.
        training: whether the statistics are those of this batch.
        momentum: the part of this batch in the running statistics.
        eps: added to the variance.

    Returns:
        A tensor of the input's shape.

    Example:
        >>> mean, variance = torch.zeros(1), torch.ones(1)
        >>> x = torch.tensor([[1.0], [3.0]])
        >>> torch.nn.functional.batch_norm(x, mean, variance, training=True)
        tensor([[-1.0000],
                [ 1.0000]])
        >>> mean
        tensor([0.2000])
    """
    if not isinstance(input, Tensor):
        refuse_arrays("batch_norm", input=input)
    if input.dim() < 2:
        raise RuntimeError(
            f"batch_norm: expected an input of shape (N, C, ...), got {list(input.shape)}"
        )
    if training:
        _expect_several_values(input.shape)
    elif running_mean is None or running_var is None:
        raise RuntimeError(
            "batch_norm: running_mean and running_var must be defined in evaluation mode"
        )
    _expect_channels(input, running_mean, running_var, weight, bias)
    if input.is_cuda and input.dtype in _HALVES:  # kernels take it as it is
        x = input
        weight, bias = (t if t is None else t.float() for t in (weight, bias))
    else:
        x, weight, bias = _widened(input, weight, bias)
    if not training:
        assert running_mean is not None and running_var is not None
        wide = _C.float32 if x.dtype in _HALVES else x.dtype
        mean, variance = running_mean.to(wide), running_var.to(wide)
        return _C._batch_norm(x, mean, variance, weight, bias, eps)[0].to(input.dtype)
    result, mean, variance = _C._batch_norm(x, None, None, weight, bias, eps)
    count = input.numel() // max(input.shape[1], 1)
    if count > 0:
        _update_running(running_mean, mean, momentum)
    if count > 1:
        _update_running(running_var, variance * (count / (count - 1)), momentum)
    return result.to(input.dtype)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Shift and scale every channel of every sample to mean 0 and variance 1.

    Args:
        input: a tensor of shape ``(N, C, ...)``.
        running_mean: the mean of earlier samples, updated when `use_input_stats`, used otherwise.
        running_var: the variance of earlier samples, likewise.
        weight: multiplied afterwards, of shape ``(C,)``.
        bias: added afterwards, of shape ``(C,)``.
        use_input_stats: whether the statistics are those of this input.
        momentum: the part of this input in the running statistics.
        eps: added to the variance.

    Returns:
        A tensor of the input's shape.
    """
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "instance_norm: Expected running_mean and running_var to be defined when "
                "use_input_stats is false"
            )
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    spatial = math.prod(input.shape[2:])
    if spatial == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.shape}"
        )
    _expect_channels(input, running_mean, running_var, weight, bias)
    (x,) = _widened(input)
    channels = input.shape[:2]
    each = x.reshape(1, math.prod(channels), *input.shape[2:])
    result, mean, variance = _C._batch_norm(each, None, None, None, None, eps)
    _update_running(running_mean, mean.reshape(channels).mean(0), momentum)
    unbiased = variance.reshape(channels).mean(0) * (spatial / (spatial - 1))
    _update_running(running_var, unbiased, momentum)
    return _channel_affine(result.reshape(input.shape), weight, bias).to(input.dtype)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divide every channel by a power of the mean square of its neighbours.

    Args:
        input: a tensor of shape ``(N, C, ...)`` with at least three dimensions.
        size: the number of neighbouring channels.
        alpha: multiplied with the mean square.
        beta: the power.
        k: added before the power is taken.

    Returns:
        A tensor of the input's shape.
    """
    if input.dim() < 3:
        raise ValueError(
            "local_response_norm: Expected 3D or higher dimensionality input (got "
            f"{input.dim()} dimensions)"
        )
    if input.numel() == 0:
        return input
    before, after = size // 2, (size - 1) // 2
    square = input.square()
    ends = [input.new_zeros([input.shape[0], n, *input.shape[2:]]) for n in (before, after)]
    windows = _C.cat([ends[0], square, ends[1]], 1).unfold(1, size, 1)
    if input.dtype == _C.int64:
        mean = windows.sum(-1) // size  # an average of integers is one, as everywhere in pooling
    elif input.is_floating_point():
        mean = windows.mean(-1)
    else:
        raise NotImplementedError(
            f"local_response_norm: expected a floating dtype or int64, got {input.dtype}; call "
            ".float() first"
        )
    return input / (mean * alpha + k).pow(beta)


def _widened(input: Tensor, *affine: Tensor | None) -> list[Any]:
    """The input in the dtype that kernels compute in, and the others in the same."""
    x = input.float() if input.dtype in _HALVES else input
    return [x, *(t if t is None or t.dtype == x.dtype else t.to(x.dtype) for t in affine)]


def _of_one_dtype(input: Tensor, *affine: Tensor | None) -> list[Any]:
    """All as they are where they are of one dtype, else in the dtype that kernels compute in."""
    if all(t is None or t.dtype == input.dtype for t in affine):
        return [input, *affine]
    return _widened(input, *affine)


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if weight is not None:
        x = x * weight
    return x if bias is None else x + bias


def _channel_affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    shape = [-1, *[1] * (x.dim() - 2)]
    weight = None if weight is None else weight.reshape(shape)
    return _affine(x, weight, None if bias is None else bias.reshape(shape))


def _normalized_dims(
    name: str, input: Tensor, normalized_shape: Sequence[int], *tensors: Tensor | None
) -> int:
    sizes = tuple(normalized_shape)
    if not sizes:
        raise RuntimeError(
            f"{name}: Expected normalized_shape to be at least 1-dimensional, got {list(sizes)}"
        )
    for kind, tensor in zip(("weight", "bias"), tensors, strict=True):
        if tensor is not None and tuple(tensor.shape) != sizes:
            raise RuntimeError(
                f"{name}: Expected {kind} to be of same shape as normalized_shape, but got {kind} "
                f"of shape {list(tensor.shape)} and normalized_shape = {list(sizes)}"
            )
    if tuple(input.shape[input.dim() - len(sizes) :]) != sizes or input.dim() < len(sizes):
        wanted = ", ".join(map(str, sizes))
        raise RuntimeError(
            f"{name}: Given normalized_shape={list(sizes)}, expected input with shape "
            f"[*, {wanted}], but got input of size{list(input.shape)}"
        )
    return len(sizes)


def _expect_several_values(shape: Any) -> None:
    count = shape[0]
    for size in shape[2:]:
        count *= size
    if count == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {_size(shape)}"
        )


def _size(shape: Any) -> str:
    return f"torch.Size({list(shape)})"


def _expect_channels(input: Tensor, *tensors: Tensor | None) -> None:
    names = ("running_mean", "running_var", "weight", "bias")
    for name, tensor in zip(names, tensors, strict=True):
        if tensor is not None and tensor.numel() != input.shape[1]:
            raise RuntimeError(
                f"{name} should contain {input.shape[1]} elements not {tensor.numel()}"
            )


def _update_running(running: Tensor | None, value: Tensor, momentum: float) -> None:
    if running is not None:
        with no_grad():
            running.lerp_(value.detach().to(running.dtype), momentum)
