"""Gradients of convolutions by their inputs and by their weights, as functions."""

from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd import enable_grad
from tapegrad.autograd import grad as _gradients
from tapegrad.nn.functional import conv1d, conv2d, conv3d

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]

_CONVOLUTIONS = {1: conv1d, 2: conv2d, 3: conv3d}
_Sizes = int | Sequence[int]


def _by(wanted: str, dims: int, input: Tensor, weight: Tensor, g: Tensor, options: Any) -> Tensor:
    # The convolution is linear in what is asked for, whose values therefore do not matter.
    recorded = _C.is_grad_enabled() and (
        g.requires_grad or input.requires_grad or weight.requires_grad
    )
    with enable_grad():
        leaf = input if wanted == "input" else weight
        leaf = leaf.detach().requires_grad_()
        pair = (leaf, weight) if wanted == "input" else (input, leaf)
        result: Tensor = _CONVOLUTIONS[dims](*pair, None, *options)
        (found,) = _gradients(result, leaf, g, create_graph=recorded)
    return found


def _input(dims: int, size: Any, weight: Tensor, g: Tensor, options: Any) -> Tensor:
    empty = _C.zeros(tuple(size), dtype=g.dtype, device=g.device)
    return _by("input", dims, empty, weight, g, options)


def _weight(dims: int, input: Tensor, size: Any, g: Tensor, options: Any) -> Tensor:
    empty = _C.zeros(tuple(size), dtype=g.dtype, device=g.device)
    return _by("weight", dims, input, empty, g, options)


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: _Sizes = 1,
    padding: _Sizes = 0,
    dilation: _Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv1d` by its input.

    Args:
        input_size: the sizes of the input.
        weight: the weight.
        grad_output: the gradient that comes in.
        stride: as in the convolution.
        padding: as in the convolution.
        dilation: as in the convolution.
        groups: as in the convolution.

    Example:
        >>> g = torch.ones(1, 1, 2)
        >>> torch.nn.grad.conv1d_input((1, 1, 3), torch.ones(1, 1, 2), g)
        tensor([[[1., 2., 1.]]])
    """
    return _input(1, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: _Sizes = 1,
    padding: _Sizes = 0,
    dilation: _Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv2d` by its input; arguments as those of `conv1d_input`."""
    return _input(2, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: _Sizes = 1,
    padding: _Sizes = 0,
    dilation: _Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv3d` by its input; arguments as those of `conv1d_input`."""
    return _input(3, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: _Sizes = 1,
    padding: _Sizes = 0,
    dilation: _Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv1d` by its weight.

    Args:
        input: the input.
        weight_size: the sizes of the weight.
        grad_output: the gradient that comes in.
        stride: as in the convolution.
        padding: as in the convolution.
        dilation: as in the convolution.
        groups: as in the convolution.

    Example:
        >>> g = torch.ones(1, 1, 2)
        >>> torch.nn.grad.conv1d_weight(torch.ones(1, 1, 3), (1, 1, 2), g)
        tensor([[[2., 2.]]])
    """
    return _weight(1, input, weight_size, grad_output, (stride, padding, dilation, groups))


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: _Sizes = 1,
    padding: _Sizes = 0,
    dilation: _Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv2d` by its weight; arguments as those of `conv1d_weight`."""
    return _weight(2, input, weight_size, grad_output, (stride, padding, dilation, groups))


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: _Sizes = 1,
    padding: _Sizes = 0,
    dilation: _Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `conv3d` by its weight; arguments as those of `conv1d_weight`."""
    return _weight(3, input, weight_size, grad_output, (stride, padding, dilation, groups))
