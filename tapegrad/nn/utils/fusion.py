"""Batch norm that follows a linear map, taken into its weight and bias for evaluation."""

import copy
from typing import Any, TypeVar

from tapegrad._C import Tensor
from tapegrad.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]

_M = TypeVar("_M")


def fuse_conv_bn_eval(conv: _M, bn: Any, transpose: bool = False) -> _M:
    """Return a copy of a convolution that computes what it and a batch norm compute in turn.

    Args:
        conv: the convolution, in evaluation mode.
        bn: the batch norm behind it, in evaluation mode.
        transpose: whether the convolution is transposed.

    Returns:
        The copy.
    """
    return _fused(conv, bn, 1 if transpose else 0)


def fuse_linear_bn_eval(linear: _M, bn: Any) -> _M:
    """Return a copy of a linear layer that computes what it and a batch norm compute in turn.

    Args:
        linear: the layer, in evaluation mode.
        bn: the batch norm behind it, in evaluation mode.

    Returns:
        The copy.

    Example:
        >>> layer, norm = torch.nn.Linear(2, 3).eval(), torch.nn.BatchNorm1d(3).eval()
        >>> fused = torch.nn.utils.fuse_linear_bn_eval(layer, norm)
        >>> x = torch.ones(1, 2)
        >>> torch.allclose(fused(x), norm(layer(x)))
        True
    """
    features = getattr(linear, "out_features", None)
    if bn.num_features not in (features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"{features} and {bn.num_features}"
        )
    return _fused(linear, bn, 0)


def _fused(module: Any, bn: Any, dim: int) -> Any:
    if module.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("Fusion needs running statistics, got a batch norm without them")
    fused = copy.deepcopy(module)
    fused.weight, fused.bias = _fused_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, dim
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return the weight and bias of a convolution that includes a batch norm.

    Args:
        conv_w: the weight of the convolution.
        conv_b: its bias.
        bn_rm: the running mean.
        bn_rv: the running variance.
        bn_eps: what is added to the variance.
        bn_w: the weight of the batch norm; ones if None.
        bn_b: its bias; zeros if None.
        transpose: whether the convolution is transposed.

    Returns:
        Weight and bias.
    """
    dim = 1 if transpose else 0
    return _fused_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, dim)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """As fuse_conv_bn_weights(), for a linear layer."""
    return _fused_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _fused_weights(
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    eps: float,
    scale: Tensor | None,
    shift: Tensor | None,
    dim: int,
) -> tuple[Parameter, Parameter]:
    factor = (variance + eps).rsqrt()
    factor = factor if scale is None else factor * scale
    centred = -mean if bias is None else bias - mean
    fused_bias = centred * factor
    fused_bias = fused_bias if shift is None else fused_bias + shift
    shape = [1] * weight.dim()
    shape[dim] = -1
    fused_weight = (weight * factor.reshape(shape)).to(weight.dtype)
    trained = bias.requires_grad if bias is not None else weight.requires_grad
    return (
        Parameter(fused_weight.detach(), weight.requires_grad),
        Parameter(fused_bias.to(weight.dtype if bias is None else bias.dtype).detach(), trained),
    )
